//! Zipf's distribution over many ranks, in integers.
//!
//! Rank r is drawn with probability proportional to r⁻ᶿ. The first
//! [`EXACT`] ranks have their exact weight; beyond them ranks share the weight
//! of the middle of a step whose width is a 64th of its start, so that the
//! whole table has some 45 steps per doubling and the error of any one rank is
//! below 2 %. Hot ranks are scattered over the space by a [`Shuffle`].

use crate::Rng;
use crate::fixed::{LOG_ONE, exp2_negative, log2};
use crate::shuffle::Shuffle;

/// Number of top ranks that have a step of their own.
const EXACT: u64 = 128;

/// An exponent θ of the distribution, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theta(pub u64);

/// A generator of items with Zipf's popularity.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// First rank of each step, from 1, and one past the last.
    starts: Vec<u64>,
    /// Cumulative weight up to and including each step.
    cumulative: Vec<u64>,
    scatter: Shuffle,
}

impl Zipf {
    /// Prepares draws of items below `items`, which is at least 1, with exponent `theta`;
    /// `rng` scatters the hot items.
    pub fn new(items: u64, theta: Theta, rng: &mut Rng) -> Self {
        let starts = steps(items);
        let mut sum = 0_u128;
        let sums = starts.windows(2).map(|step| {
            sum += weight(step[0], step[1], theta);
            sum
        });
        let sums: Vec<u128> = sums.collect();
        // A draw has 64 bits, so the sums are shortened to 63.
        let shift = (128 - sum.leading_zeros()).saturating_sub(63);
        Self {
            starts,
            cumulative: sums.into_iter().map(|s| (s >> shift) as u64).collect(),
            scatter: Shuffle::new(items, rng),
        }
    }

    /// Draws an item, from 0; hot items lie anywhere in the space.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        self.scatter.at(self.rank(rng) - 1)
    }

    /// Draws a rank, from 1; rank 1 is the most popular.
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        let total = self.cumulative[self.cumulative.len() - 1];
        let drawn = rng.below(total);
        let step = self.cumulative.partition_point(|&sum| sum <= drawn);
        let (start, end) = (self.starts[step], self.starts[step + 1]);
        start + rng.below(end - start)
    }
}

fn steps(items: u64) -> Vec<u64> {
    let mut starts = vec![1];
    let mut start = 1;
    while start <= items {
        let width = if start <= EXACT { 1 } else { start / 64 };
        start = (start + width).min(items + 1);
        starts.push(start);
    }
    starts
}

/// The weight of ranks `start..end`, as if all had the weight of the middle rank.
fn weight(start: u64, end: u64, theta: Theta) -> u128 {
    let log_of_middle = log2(start + end - 1) - LOG_ONE;
    let exponent = u128::from(log_of_middle) * u128::from(theta.0) / 1_000_000;
    u128::from(exp2_negative(exponent as u64)) * u128::from(end - start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn frequencies_follow_the_law() {
        let mut rng = Seed(1).stream("zipf");
        let zipf = Zipf::new(10_000, Theta(990_000), &mut rng);
        let mut seen = vec![0_u64; 10_001];
        for _ in 0..1_000_000 {
            seen[zipf.rank(&mut rng) as usize] += 1;
        }
        let norm: f64 = (1..=10_000).map(|r| f64::from(r).powf(-0.99)).sum();
        for (from, to) in [
            (1, 1),
            (2, 2),
            (10, 10),
            (100, 199),
            (1000, 1999),
            (5000, 10_000),
        ] {
            let count: u64 = seen[from..=to].iter().sum();
            let mass: f64 = (from..=to).map(|r| (r as f64).powf(-0.99)).sum();
            let expected = 1e6 * mass / norm;
            // 0.5 % of the model and five standard deviations of the draw.
            let slack = expected * 0.005 + 5.0 * expected.sqrt();
            assert!(
                (count as f64 - expected).abs() < slack,
                "{from}..{to}: {count} {expected}"
            );
        }
    }

    #[test]
    fn the_largest_and_the_smallest_space_work() {
        let mut rng = Seed(1).stream("zipf");
        let huge = Zipf::new(1 << 50, Theta(3_000_000), &mut rng);
        assert!(huge.starts.len() < 4_000);
        assert!((0..1000).all(|_| huge.draw(&mut rng) < 1 << 50));
        let one = Zipf::new(1, Theta(500_000), &mut rng);
        assert_eq!(one.draw(&mut rng), 0);
    }
}
