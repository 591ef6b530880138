//! Permutations and hashes that need no memory.

use sim::Rng;

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A permutation of 0 to `len`: a Feistel network over the next power of two, iterated until the
/// result is below `len`.
#[derive(Clone, Debug)]
pub(super) struct Shuffle {
    len: u32,
    /// Bits of the lower half.
    low: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; 4],
}

impl Shuffle {
    pub(super) fn new(len: u32, rng: &mut Rng) -> Self {
        let bits = u32::BITS - len.saturating_sub(1).leading_zeros();
        let low = bits / 2;
        Self {
            len,
            low,
            low_mask: (1 << low) - 1,
            high_mask: (1 << (bits - low)) - 1,
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// Another permutation of the same numbers.
    #[inline]
    pub(super) fn varied(&self, by: u32) -> Self {
        let by = u64::from(by).wrapping_mul(ODD);
        Self {
            keys: self.keys.map(|key| key ^ by),
            ..*self
        }
    }

    /// The number that `index` is taken to.
    #[inline]
    pub(super) fn at(&self, index: u32) -> u32 {
        let [a, b, c, d] = self.keys;
        self.walk(index, [a, b, c, d], true)
    }

    /// The index that is taken to `number`.
    #[inline]
    pub(super) fn inverse(&self, number: u32) -> u32 {
        let [a, b, c, d] = self.keys;
        self.walk(number, [d, c, b, a], false)
    }

    /// Applies the rounds with `keys`. A round changes one half by the other, so the same rounds in
    /// reverse order undo it. The forward direction begins with the higher half.
    #[inline]
    fn walk(&self, from: u32, keys: [u64; 4], begins_high: bool) -> u32 {
        let mut value = u64::from(from);
        loop {
            let (mut high, mut low) = (value >> self.low, value & self.low_mask);
            let round = |half: u64, key: u64| (half ^ key).wrapping_mul(ODD) >> 40;
            for pair in [[keys[0], keys[1]], [keys[2], keys[3]]] {
                if begins_high {
                    high ^= round(low, pair[0]) & self.high_mask;
                    low ^= round(high, pair[1]) & self.low_mask;
                } else {
                    low ^= round(high, pair[0]) & self.low_mask;
                    high ^= round(low, pair[1]) & self.high_mask;
                }
            }
            value = high << self.low | low;
            if value < u64::from(self.len) {
                return value as u32;
            }
        }
    }
}

/// A hash of `value` under `key`: the output function of SplitMix64.
#[inline]
pub(super) fn mixed(key: u64, value: u64) -> u64 {
    let mut mixed = (value ^ key).wrapping_mul(ODD);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn shuffle_is_a_permutation_with_an_inverse() {
        for len in [1, 2, 3, 5, 383, 1000, 4096, 5000] {
            let shuffle = Shuffle::new(len, &mut Seed(3).stream("shuffle"));
            for shuffle in [shuffle.clone(), shuffle.varied(7)] {
                let mut seen: Vec<u32> = (0..len).map(|i| shuffle.at(i)).collect();
                assert!((0..len).all(|i| shuffle.inverse(seen[i as usize]) == i));
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..len), "{len}");
            }
        }
    }

    #[test]
    fn varied_shuffles_choose_their_lowest_numbers_evenly() {
        let (len, valid, lines) = (383, 300, 4_000);
        let shuffle = Shuffle::new(len, &mut Seed(3).stream("shuffle"));
        let mut chosen = vec![0_u32; len as usize];
        for line in 0..lines {
            let shuffle = shuffle.varied(line);
            for number in 0..valid {
                chosen[shuffle.inverse(number) as usize] += 1;
            }
        }
        // The standard deviation of a binomial count is 26 about a mean of 3,133.
        let (least, most) = (chosen.iter().min().unwrap(), chosen.iter().max().unwrap());
        assert!(*least > 3_000 && *most < 3_270, "{least} to {most}");
    }
}
