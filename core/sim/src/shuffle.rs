//! A permutation of 0..n that needs no table.
//!
//! Four rounds of a Feistel network over the next even number of bits, repeated
//! until the result is below n (cycle walking, Black and Rogaway 2002). The network
//! permutes at most 4n values, so the walk is short on average and always ends.

use crate::{Rng, mix};

/// A permutation of the numbers below `n`.
#[derive(Clone, Debug)]
pub struct Shuffle {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    /// A permutation of the numbers below `n`, with keys drawn from `rng`.
    pub fn new(n: u64, rng: &mut Rng) -> Self {
        let bits = u64::BITS - n.saturating_sub(1).leading_zeros();
        Self {
            n,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// The image of `i`, which must be below n.
    #[must_use]
    #[inline]
    pub fn at(&self, i: u64) -> u64 {
        debug_assert!(i < self.n, "a permutation maps what it has");
        let mut place = self.step(i);
        while place >= self.n {
            place = self.step(place);
        }
        place
    }

    fn step(&self, i: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (i >> self.half_bits, i & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn shuffle_yields_every_number_once() {
        for n in [1, 2, 3, 5, 64, 1000, 4097] {
            let shuffle = Shuffle::new(n, &mut Seed(n).stream("shuffle"));
            let mut all: Vec<u64> = (0..n).map(|i| shuffle.at(i)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..n), "{n}");
        }
    }
}
