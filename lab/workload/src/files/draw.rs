//! Random amounts of a workload: sizes of files and of requests, widths and depths of directories.
//!
//! Invariant: all arithmetic is on integers, so that a draw is equal on every machine.
//!
//! A gamma distribution whose shape is a multiple of a half is a sum: each whole of the shape adds
//! an exponential, and a half adds an exponential times a share with an arcsine distribution, drawn
//! from the ratio of squares of a point in the unit disc.

use sim::Rng;
use sim::fixed::exponential;

/// Upper bound on the bytes that a description may name: 8 EiB less one.
const MOST: u64 = i64::MAX as u64;

/// An amount, fixed or drawn from a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// Always this number.
    Fixed(u64),
    /// From a gamma distribution.
    Gamma {
        /// Mean of the draws.
        mean: u64,
        /// Shape in halves, at least 1: filebench's shape 1.5 is 3.
        halves: u32,
        /// Least value, which is added to each draw and counts towards the mean.
        least: u64,
    },
    /// Each number of a range with equal probability.
    Uniform {
        /// Smallest number.
        least: u64,
        /// Largest number.
        most: u64,
    },
    /// From an exponential distribution.
    Exponential {
        /// Mean of the draws.
        mean: u64,
    },
}

impl Amount {
    /// The gamma distribution that filebench's scripts use: shape 1.5.
    #[must_use]
    pub const fn gamma(mean: u64) -> Self {
        Self::Gamma {
            mean,
            halves: 3,
            least: 0,
        }
    }

    /// Draws one number.
    pub fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::Fixed(number) => number,
            Self::Gamma {
                mean,
                halves,
                least,
            } => {
                let rest = gamma(rng, mean.saturating_sub(least), halves);
                least.saturating_add(rest).min(MOST)
            }
            Self::Uniform { least, most } => {
                let span = most.saturating_sub(least).saturating_add(1);
                least + rng.below(span)
            }
            Self::Exponential { mean } => exponential(rng.next_u64(), mean).min(MOST),
        }
    }

    /// Mean of the draws, rounded down.
    #[must_use]
    pub const fn mean(self) -> u64 {
        match self {
            Self::Fixed(number) => number,
            Self::Gamma { mean, .. } | Self::Exponential { mean } => mean,
            Self::Uniform { least, most } => least + most.saturating_sub(least) / 2,
        }
    }
}

/// Draws from a gamma distribution with this mean and a shape of `halves`/2.
pub(super) fn gamma(rng: &mut Rng, mean: u64, halves: u32) -> u64 {
    // The scale is the mean over the shape, kept with 20 bits more.
    let scale = (u128::from(mean) << 21) / u128::from(halves.max(1));
    let scale = u64::try_from(scale).unwrap_or(u64::MAX);
    let mut sum = 0_u128;
    for _ in 0..halves / 2 {
        sum += u128::from(exponential(rng.next_u64(), scale));
    }
    if halves % 2 == 1 {
        let whole = u128::from(exponential(rng.next_u64(), scale));
        sum += (whole * arcsine(rng)) >> 32;
    }
    u64::try_from(sum >> 20).unwrap_or(u64::MAX)
}

/// Draws a share from the arcsine distribution, with 32 bits after the point.
fn arcsine(rng: &mut Rng) -> u128 {
    const ONE: u64 = 1 << 31;
    loop {
        let bits = rng.next_u64();
        let (x, y) = (bits >> 33, bits & (ONE - 1));
        let (xx, yy) = (x * x, y * y);
        if xx + yy < ONE * ONE && xx + yy > 0 {
            return (u128::from(xx) << 32) / u128::from(xx + yy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    /// Mean and variance of 200,000 draws.
    fn moments(amount: Amount) -> (f64, f64) {
        let mut rng = Seed(5).stream("draw");
        let draws: Vec<f64> = (0..200_000).map(|_| amount.draw(&mut rng) as f64).collect();
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / n;
        (mean, variance)
    }

    #[test]
    fn gamma_draws_have_their_mean_and_variance() {
        for halves in [1, 2, 3, 7] {
            let mean = 16_384.0;
            let (m, v) = moments(Amount::Gamma {
                mean: 16_384,
                halves,
                least: 0,
            });
            let shape = f64::from(halves) / 2.0;
            let variance = mean * mean / shape;
            // Five standard errors; the fourth moment of a gamma is 3 + 6/shape.
            let error = 5.0 * (variance / 200_000.0).sqrt();
            assert!((m - mean).abs() < error, "{halves}: {m}");
            let spread = 5.0 * ((2.0 + 6.0 / shape) / 200_000.0).sqrt();
            assert!((v / variance - 1.0).abs() < spread, "{halves}: {v}");
        }
    }

    #[test]
    fn uniform_exponential_and_bounded_draws_stay_in_range() {
        let mut rng = Seed(5).stream("draw");
        let uniform = Amount::Uniform { least: 3, most: 5 };
        let mut seen = [0; 6];
        (0..3_000).for_each(|_| seen[uniform.draw(&mut rng) as usize] += 1);
        assert!(seen[..3] == [0; 3] && seen[3..].iter().all(|&n| n > 800));
        let (mean, _) = moments(Amount::Exponential { mean: 1_000 });
        assert!((mean - 1_000.0).abs() < 12.0, "{mean}");
        let least = Amount::Gamma {
            mean: 10,
            halves: 3,
            least: 4,
        };
        assert!((0..1_000).all(|_| least.draw(&mut rng) >= 4));
        let huge = Amount::Gamma {
            mean: u64::MAX,
            halves: 1,
            least: 0,
        };
        assert!((0..1_000).all(|_| huge.draw(&mut rng) <= MOST));
        assert_eq!(Amount::Fixed(7).draw(&mut rng), 7);
        assert_eq!(
            Amount::Uniform {
                least: 0,
                most: u64::MAX
            }
            .mean(),
            u64::MAX / 2
        );
    }
}
