//! The bits of a group as words, and searches in them.

use crate::BLOCK;

/// Bits of a block.
pub(crate) const BITS: u32 = BLOCK as u32 * 8;
const WORDS: usize = BLOCK / 8;

/// One bit per block of a group: set where the allocator must not hand the block out.
pub(crate) struct Busy(Box<[u64; WORDS]>);

/// A run of free blocks in a group: the first block, and the length.
pub(crate) type Free = (u32, u32);

impl Busy {
    /// Copies `bitmap` and sets all bits from `len` on: the group has `len` blocks.
    pub(crate) fn of(bitmap: &[u8; BLOCK], len: u32) -> Self {
        let mut words = Box::new([0; WORDS]);
        for (word, bytes) in words.iter_mut().zip(bitmap.chunks_exact(8)) {
            *word = u64::from_le_bytes(crate::format::Value::load(bytes));
        }
        let mut busy = Self(words);
        busy.set(len, BITS - len);
        busy
    }

    /// Number of clear bits (free blocks).
    pub(crate) fn free(&self) -> u32 {
        self.0.iter().map(|word| word.count_zeros()).sum()
    }

    pub(crate) fn set(&mut self, from: u32, len: u32) {
        for_words(from, len, |word, mask| self.0[word] |= mask);
    }

    pub(crate) fn clear(&mut self, from: u32, len: u32) {
        for_words(from, len, |word, mask| self.0[word] &= !mask);
    }

    /// The first free block from `from` on.
    fn next_free(&self, from: u32) -> Option<u32> {
        let mut word = (from / 64) as usize;
        let first = !self.0.get(word)? & (!0 << (from % 64));
        let mut free = first;
        while free == 0 {
            word += 1;
            free = !*self.0.get(word)?;
        }
        Some(word as u32 * 64 + free.trailing_zeros())
    }

    /// Length of the free run that begins at `from`, at most `most`; 0 if `from` is busy.
    pub(crate) fn free_at(&self, from: u32, most: u32) -> u32 {
        let (mut at, end) = (from, BITS.min(from.saturating_add(most)));
        while at < end {
            let word = self.0[(at / 64) as usize] >> (at % 64);
            let here = word.trailing_zeros().min(64 - at % 64);
            at += here;
            if at % 64 != 0 || here == 0 {
                break;
            }
        }
        at.min(end) - from
    }

    /// The first free run of at least `want` blocks from `from` on, cut to `want`; if there is
    /// none, the longest shorter run from `from` on.
    pub(crate) fn find(&self, from: u32, want: u32) -> Option<Free> {
        let mut best: Option<Free> = None;
        let mut at = from;
        while let Some(start) = self.next_free(at) {
            let len = self.free_at(start, want);
            if len >= want {
                return Some((start, want));
            }
            if best.is_none_or(|(_, longest)| len > longest) {
                best = Some((start, len));
            }
            at = start + len;
        }
        best
    }
}

fn for_words(from: u32, len: u32, mut each: impl FnMut(usize, u64)) {
    let (mut at, end) = (from, from + len);
    while at < end {
        let bit = at % 64;
        let here = (64 - bit).min(end - at);
        let mask = if here == 64 {
            !0
        } else {
            ((1 << here) - 1) << bit
        };
        each((at / 64) as usize, mask);
        at += here;
    }
}

/// Sets or clears the bits of a run in a copy of the bytes of `bitmap` that hold them. Returns
/// the index of the first byte and the copy; `None` if a bit has the new value already.
pub(crate) fn changed(
    bitmap: &[u8; BLOCK],
    from: u32,
    len: u32,
    set: bool,
) -> Option<(usize, Vec<u8>)> {
    let (first, last) = ((from / 8) as usize, ((from + len - 1) / 8) as usize);
    let mut bytes = bitmap[first..=last].to_vec();
    let mut bit = from;
    while bit < from + len {
        let at = (bit / 8) as usize - first;
        let here = (8 - bit % 8).min(from + len - bit);
        let mask = (((1_u16 << here) - 1) << (bit % 8)) as u8;
        let wrong = if set {
            bytes[at] & mask
        } else {
            !bytes[at] & mask
        };
        if wrong != 0 {
            return None;
        }
        bytes[at] ^= mask;
        bit += here;
    }
    Some((first, bytes))
}

/// The first clear bit from `from` on, below `end`.
pub(crate) fn first_clear(bitmap: &[u8; BLOCK], from: u32, end: u32) -> Option<u32> {
    let mut at = from;
    while at < end {
        let byte = bitmap[(at / 8) as usize] >> (at % 8);
        let here = byte.trailing_ones();
        if at % 8 + here < 8 {
            let found = at + here;
            return (found < end).then_some(found);
        }
        at = (at / 8 + 1) * 8;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slow(bits: &[bool], from: usize, want: usize) -> Option<Free> {
        let mut best: Option<Free> = None;
        let mut at = from;
        while at < bits.len() {
            let len = bits[at..].iter().take(want).take_while(|b| !**b).count();
            if len == want {
                return Some((at as u32, want as u32));
            }
            if len > 0 && best.is_none_or(|(_, l)| len as u32 > l) {
                best = Some((at as u32, len as u32));
            }
            at += len.max(1);
        }
        best
    }

    #[test]
    fn searches_in_random_bitmaps_agree_with_linear_ones() {
        let mut rng = sim::Seed(4).stream("bits");
        for _ in 0..300 {
            let mut bitmap = [0; BLOCK];
            for byte in &mut bitmap {
                *byte = (rng.next_u64() & rng.next_u64()) as u8;
            }
            let len = 1 + rng.below(u64::from(BITS)) as u32;
            let busy = Busy::of(&bitmap, len);
            let bit = |n: usize| n >= len as usize || bitmap[n / 8] & (1 << (n % 8)) != 0;
            let bits: Vec<_> = (0..BITS as usize).map(bit).collect();
            let (from, want) = (rng.below(u64::from(BITS)), 1 + rng.below(20));
            let expected = slow(&bits, from as usize, want as usize);
            assert_eq!(busy.find(from as u32, want as u32), expected);
            assert_eq!(busy.free() as usize, bits.iter().filter(|b| !**b).count());
            let clear = (from as u32..len).find(|n| !bits[*n as usize]);
            assert_eq!(first_clear(&bitmap, from as u32, len), clear);
        }
    }

    #[test]
    fn change_of_a_bit_to_its_own_value_is_refused() {
        let mut bitmap = [0; BLOCK];
        let (at, bytes) = changed(&bitmap, 5, 20, true).unwrap();
        bitmap[at..at + bytes.len()].copy_from_slice(&bytes);
        assert!(changed(&bitmap, 24, 1, true).is_none());
        assert!(changed(&bitmap, 25, 1, true).is_some());
        let (at, bytes) = changed(&bitmap, 5, 20, false).unwrap();
        bitmap[at..at + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(bitmap, [0; BLOCK]);
    }
}
