//! Random amounts of a workload: sizes of files and of requests, widths and depths of directories.
//!
//! Invariant: all arithmetic is on integers, so that a draw is equal on every machine.
//!
//! A gamma distribution whose shape is a multiple of a half is a sum: each whole of the shape adds
//! an exponential, and a half adds an exponential times a share with an arcsine distribution, drawn
//! from the ratio of squares of a point in the unit disc.
//!
//! A normal deviate is drawn by Marsaglia's polar method, from such a point too.

use sim::Rng;
use sim::fixed::{LOG_ONE, exp2_negative, exponential, log2};

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

/// log₂ e and ln 2 with 32 bits after the point.
const LOG2_E: i128 = 6196328019;
const LN_2: u128 = 2977044472;

/// A draw from the lognormal distribution whose logarithm has the mean `mu` and the standard
/// deviation `sigma`, both in thousandths; rounded down.
pub(super) fn lognormal(rng: &mut Rng, mu: u64, sigma: u64) -> u64 {
    let ln = i128::from(mu) * i128::from(LOG_ONE) + i128::from(sigma) * normal(rng);
    power_of_two(((ln / 1_000) * LOG2_E) >> 32)
}

/// A draw from the Pareto distribution of numbers from `least` on, whose exponent is `exponent`
/// hundredths; rounded down.
pub(super) fn pareto(rng: &mut Rng, least: u64, exponent: u64) -> u64 {
    let log = 64 * LOG_ONE - log2(rng.next_u64().max(1));
    let log = i128::from(log) * 100 / i128::from(exponent.max(1));
    power_of_two(i128::from(log2(least.max(1))) + log)
}

/// Draws from the standard normal distribution, with 32 bits after the point.
fn normal(rng: &mut Rng) -> i128 {
    loop {
        let bits = rng.next_u64();
        let [x, y] =
            [bits >> 32, bits & u64::from(u32::MAX)].map(|half| i128::from(half) - (1 << 31));
        let square = (x * x + y * y) as u128;
        // A smaller square is less likely than one draw in 2^31, and would overflow.
        if (1 << 30..1 << 62).contains(&square) {
            let log = 62 * LOG_ONE - log2(square as u64);
            let ln = (u128::from(log) * LN_2) >> 32;
            let root = (((ln << 63) / square) << 32).isqrt();
            return (x * root as i128) >> 31;
        }
    }
}

/// 2 to the power of `log`, which has 32 bits after the point; rounded down, and at most [`MOST`].
fn power_of_two(log: i128) -> u64 {
    let (whole, part) = (log >> 32, (log & i128::from(LOG_ONE - 1)) as u64);
    match whole {
        ..0 => 0,
        0..62 => ((u128::from(exp2_negative(LOG_ONE - part)) << (whole + 1)) >> 62) as u64,
        _ => MOST,
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
    fn normal_draws_have_the_moments_of_the_distribution() {
        let mut rng = Seed(5).stream("draw");
        let one = (1_u64 << 32) as f64;
        let draws: Vec<f64> = (0..200_000)
            .map(|_| normal(&mut rng) as f64 / one)
            .collect();
        let moment = |n: i32| draws.iter().map(|d| d.powi(n)).sum::<f64>() / draws.len() as f64;
        // Five standard errors each.
        let moments = [
            (1, 0.0, 0.012),
            (2, 1.0, 0.016),
            (3, 0.0, 0.044),
            (4, 3.0, 0.11),
        ];
        for (n, expected, error) in moments {
            assert!((moment(n) - expected).abs() < error, "{n}: {}", moment(n));
        }
    }

    #[test]
    fn pareto_draws_have_the_tail_of_the_distribution() {
        let mut rng = Seed(5).stream("draw");
        let draws: Vec<u64> = (0..200_000).map(|_| pareto(&mut rng, 1_000, 91)).collect();
        assert!(draws.iter().all(|&draw| draw >= 999));
        for factor in [2_u64, 10, 100] {
            let expected = (factor as f64).powf(-0.91);
            let above = draws.iter().filter(|&&d| d >= factor * 1_000).count();
            let found = above as f64 / draws.len() as f64;
            assert!(
                (found - expected).abs() < 0.005,
                "{factor}: {found} for {expected}"
            );
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
