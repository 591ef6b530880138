//! Chance as an argument: named streams of random numbers split from one seed.
//!
//! A stream depends on the seed and its own name and on nothing else, so a new
//! draw in one place shifts no other. All draws are integers. The generator is
//! xoshiro256++ (Blackman and Vigna 2021), seeded by `SplitMix64`, and is part
//! of the contract: the same seed gives the same run on every machine and in
//! every version.

/// The seed of a run, from which all of its random streams are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The random stream `name`; equal seeds and names give equal streams.
    #[must_use]
    pub fn stream(self, name: &str) -> Rng {
        // FNV-1a over the name, offset by the seed: cheap, stable, well spread
        // once SplitMix64 has stirred it.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        let mut state = hash ^ self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Rng {
            state: std::array::from_fn(|_| split_mix(&mut state)),
        }
    }

    /// An independent seed for part `index` of a larger experiment.
    #[must_use]
    pub fn child(self, index: u64) -> Self {
        let mut state = self.0 ^ index.wrapping_mul(0xd134_2543_de82_ef95);
        Self(split_mix(&mut state))
    }
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// Mixes the bits of `z` with the finalizer of `SplitMix64` (Steele, Lea and Flood 2014).
/// The function is a bijection, and every bit of its result depends on all bits of `z`.
/// Its values are part of the contract, as the draws are.
#[must_use]
#[inline]
pub const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// One stream of random numbers, from [`Seed::stream`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Draws 64 random bits and advances the generator by one step.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Draws a number below `bound`, uniform up to a bias of `bound`/2⁶⁴ (Lemire's
    /// multiplication without the rejection, so that every draw costs one step of
    /// the generator).
    ///
    /// # Panics
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a draw needs something to draw from");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws whether an event of probability `numerator`/`denominator` happens.
    ///
    /// # Panics
    /// If `denominator` is 0.
    #[inline]
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_xoshiro256_plus_plus() {
        // First outputs for the state 1, 2, 3, 4, from the authors' C code.
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let drawn: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn a_stream_depends_on_seed_and_name_only() {
        let first = |seed, name| Seed(seed).stream(name).next_u64();
        assert_eq!(first(1, "gc"), first(1, "gc"));
        assert_ne!(first(1, "gc"), first(1, "wear"));
        assert_ne!(first(1, "gc"), first(2, "gc"));
    }

    #[test]
    fn draws_cover_their_range_evenly() {
        let mut rng = Seed(7).stream("draws");
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[rng.below(10) as usize] += 1;
        }
        // Five standard deviations of a binomial with n = 100,000, p = 0.1.
        assert!(seen.iter().all(|&n| n.abs_diff(10_000) < 475), "{seen:?}");
    }
}
