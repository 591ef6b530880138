//! Hashes of names in indexed directories.
//!
//! New directories use half-MD4; a directory with another hash keeps it. A hash has a major part,
//! whose bit 0 is free for the index, and a minor part, which orders names with equal major parts.
//!
//! Invariant: no name hashes to the largest even number, which marks the end of a directory.

/// The hash of the first versions of the index (`DX_HASH_LEGACY`); its minor part is 0.
const LEGACY: u8 = 0;
/// Half-MD4, the hash of new directories.
pub(crate) const HALF_MD4: u8 = 1;
/// The hash by the tiny encryption algorithm (`DX_HASH_TEA`).
const TEA: u8 = 2;
/// Distance from a version that takes bytes as signed to the same hash with unsigned bytes.
pub(crate) const UNSIGNED: u8 = 3;

/// Marks the end of a directory.
const END: u32 = 0xFFFF_FFFE;

/// The hash function of a directory: version and seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hasher {
    /// Hash and signedness: `LEGACY`, `HALF_MD4` or `TEA`, plus [`UNSIGNED`] for unsigned bytes.
    pub(crate) version: u8,
    /// Seed from the superblock; all zeros stand for the default seed of MD4.
    pub(crate) seed: [u32; 4],
}

impl Hasher {
    /// The hasher of `version`; `None` above 5.
    pub(crate) fn of(version: u8, seed: [u32; 4]) -> Option<Self> {
        (version <= TEA + UNSIGNED).then_some(Self { version, seed })
    }

    /// Major and minor hash of `name`.
    //= ext4-layout 5.4
    pub(crate) fn hash(&self, name: &[u8]) -> (u32, u32) {
        let signed = self.version < UNSIGNED;
        let (major, minor) = match self.version % UNSIGNED {
            LEGACY => (legacy(name, signed), 0),
            HALF_MD4 => {
                let state = self.blocks::<8>(name, 32, signed, half_md4);
                (state[1], state[2])
            }
            _ => {
                let state = self.blocks::<4>(name, 16, signed, tea);
                (state[0], state[1])
            }
        };
        let major = major & !1;
        (if major == END { END - 2 } else { major }, minor)
    }

    fn blocks<const N: usize>(
        &self,
        name: &[u8],
        step: usize,
        signed: bool,
        mix: impl Fn(&mut [u32; 4], &[u32; N]),
    ) -> [u32; 4] {
        let seeded = self.seed.iter().any(|&word| word != 0);
        let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
        if seeded {
            state = self.seed;
        }
        let mut rest = name;
        loop {
            mix(&mut state, &words(rest, signed));
            if rest.len() <= step {
                return state;
            }
            rest = &rest[step..];
        }
    }
}

fn byte(value: u8, signed: bool) -> u32 {
    if signed {
        value as i8 as u32
    } else {
        u32::from(value)
    }
}

/// The first `4 * N` bytes of a name as `N` words, padded with the name's length.
fn words<const N: usize>(name: &[u8], signed: bool) -> [u32; N] {
    let len = name.len() as u32;
    let pad = len | len << 8;
    let pad = pad | pad << 16;
    let mut words = [pad; N];
    let name = &name[..name.len().min(N * 4)];
    for (word, part) in words.iter_mut().zip(name.chunks(4)) {
        let add = |word: u32, &b: &u8| byte(b, signed).wrapping_add(word << 8);
        *word = part.iter().fold(pad, add);
    }
    words
}

fn legacy(name: &[u8], signed: bool) -> u32 {
    let (mut hash, mut last) = (0x12A3_FE2D_u32, 0x37AB_E8F9_u32);
    for &value in name {
        let product = byte(value, signed).wrapping_mul(7_152_373);
        let mut next = last.wrapping_add(hash ^ product);
        if next & 0x8000_0000 != 0 {
            next = next.wrapping_sub(0x7FFF_FFFF);
        }
        last = hash;
        hash = next;
    }
    hash << 1
}

fn tea(state: &mut [u32; 4], input: &[u32; 4]) {
    let (mut a, mut b, mut sum) = (state[0], state[1], 0_u32);
    for _ in 0..16 {
        sum = sum.wrapping_add(0x9E37_79B9);
        let mix = |x: u32, p: u32, q: u32| {
            (x << 4).wrapping_add(p) ^ x.wrapping_add(sum) ^ (x >> 5).wrapping_add(q)
        };
        a = a.wrapping_add(mix(b, input[0], input[1]));
        b = b.wrapping_add(mix(a, input[2], input[3]));
    }
    state[0] = state[0].wrapping_add(a);
    state[1] = state[1].wrapping_add(b);
}

/// The three rounds of MD4 with half of the steps: 8 words of input instead of 16.
fn half_md4(state: &mut [u32; 4], input: &[u32; 8]) {
    type Mix = fn(u32, u32, u32) -> u32;
    const ROUNDS: [(Mix, u32, [usize; 8], [u32; 4]); 3] = [
        (
            |x, y, z| z ^ (x & (y ^ z)),
            0,
            [0, 1, 2, 3, 4, 5, 6, 7],
            [3, 7, 11, 19],
        ),
        (
            |x, y, z| (x & y).wrapping_add((x ^ y) & z),
            0x5A82_7999,
            [1, 3, 5, 7, 0, 2, 4, 6],
            [3, 5, 9, 13],
        ),
        (
            |x, y, z| x ^ y ^ z,
            0x6ED9_EBA1,
            [3, 7, 2, 6, 1, 5, 0, 4],
            [3, 9, 11, 15],
        ),
    ];
    let [mut a, mut b, mut c, mut d] = *state;
    for (mix, add, order, shifts) in ROUNDS {
        for (step, &index) in order.iter().enumerate() {
            let sum = a.wrapping_add(mix(b, c, d));
            let sum = sum.wrapping_add(input[index]).wrapping_add(add);
            (a, b, c, d) = (d, sum.rotate_left(shifts[step % 4]), b, c);
        }
    }
    for (word, value) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hashes are output of `debugfs -R "dx_hash -h VERSION -s SEED NAME"`.
    #[test]
    fn hashes_of_known_names_match_debugfs() {
        let long = "a-name-that-is-longer-than-thirty-two-bytes-x";
        let known = [
            (0, 0, "foo", (0x9f57_ef58, 0)),
            (1, 0, "foo", (0x74c6_57ac, 0x85a8_d812)),
            (2, 0, "foo", (0x901b_3376, 0x4878_f6ae)),
            (0, 0x0101_0101, long, (0x3f40_f706, 0)),
            (1, 0x0101_0101, long, (0xb1ab_fd48, 0x53af_a5df)),
            (2, 0x0101_0101, long, (0xc74b_bd9a, 0xa80c_6219)),
        ];
        for (version, seed, name, hashes) in known {
            let hasher = Hasher::of(version, [seed; 4]).unwrap();
            assert_eq!(hasher.hash(name.as_bytes()), hashes, "{version} {name}");
        }
    }

    #[test]
    fn hashes_of_bytes_above_127_differ_by_signedness() {
        let hash = |version| Hasher::of(version, [1; 4]).unwrap().hash(b"\xC3\xA9");
        assert_ne!(hash(HALF_MD4), hash(HALF_MD4 + UNSIGNED));
        assert_eq!(Hasher::of(6, [0; 4]), None);
    }
}
