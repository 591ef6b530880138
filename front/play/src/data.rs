//! Buffers and patterns for the data of reads and writes.

/// Size in bytes of the pieces in which longer writes are played.
const MOST: usize = 16 << 20;
/// Memory alignment in bytes that direct I/O needs on any device in use.
const ALIGN: usize = 4096;

/// Data buffer of one thread, aligned for direct I/O.
#[derive(Debug, Default)]
pub(crate) struct Data(Vec<u8>);

impl Data {
    /// Returns a buffer of `len` bytes, at most the size of a piece.
    pub(crate) fn room(&mut self, len: u64) -> &mut [u8] {
        let len = usize::try_from(len).unwrap_or(MOST).min(MOST);
        if self.0.len() < len + ALIGN {
            self.0.resize(len + ALIGN, 0);
        }
        let skip = self.0.as_ptr().align_offset(ALIGN).min(ALIGN);
        &mut self.0[skip..skip + len]
    }

    /// Returns `len` bytes of `pattern`, at most the size of a piece.
    pub(crate) fn filled(&mut self, pattern: u64, len: u64) -> &[u8] {
        let room = self.room(len);
        let pattern = pattern.to_le_bytes();
        let mut words = room.chunks_exact_mut(8);
        words
            .by_ref()
            .for_each(|word| word.copy_from_slice(&pattern));
        let rest = words.into_remainder();
        rest.copy_from_slice(&pattern[..rest.len()]);
        room
    }
}

/// Eight-byte pattern of a thread's `version`-th write, at `at` of the open file `fd`. Patterns of
/// different writes differ, as data of programs do.
pub(crate) const fn pattern(fd: u32, at: u64, version: u64) -> u64 {
    // The finalizer of SplitMix64: a bijection that mixes every bit.
    let mut x = version ^ at.rotate_left(20) ^ (fd as u64).rotate_left(44);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_repeat_their_pattern_and_are_aligned() {
        let mut data = Data::default();
        for len in [0, 1, 8, 20, 4096, 100_000] {
            let bytes = data.filled(0x0102_0304_0506_0708, len);
            assert_eq!(bytes.len() as u64, len);
            assert_eq!(bytes.as_ptr().align_offset(ALIGN), 0);
            let right = |(i, &byte): (usize, &u8)| byte == 8 - (i % 8) as u8;
            assert!(bytes.iter().enumerate().all(right));
        }
        assert_eq!(data.room(u64::MAX).len(), MOST);
    }

    #[test]
    fn patterns_differ() {
        let all = [
            pattern(0, 0, 1),
            pattern(0, 8, 1),
            pattern(1, 0, 1),
            pattern(0, 0, 2),
        ];
        for (i, one) in all.iter().enumerate() {
            assert!(!all[..i].contains(one));
        }
    }
}
