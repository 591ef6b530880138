//! Comparison of two versions of a page by cache lines, and masks of lines.
//!
//! Invariant: a bit is set exactly if one of the 64 bytes of its line differs.

use nand::{Payload, UNIT};
use ssd::wlog::LINE;

/// A bit for each of the 64 lines in which the two pages differ; the first line is the lowest bit.
///
/// Words of a line are compared and collected without a branch, so that the
/// compiler takes the widest registers of the machine for it.
//= bytefs 4.6
#[must_use]
pub fn changed_lines(old: &[u8; UNIT], new: &[u8; UNIT]) -> u64 {
    let (old, _) = old.as_chunks::<LINE>();
    let (new, _) = new.as_chunks::<LINE>();
    let mut mask = 0;
    for (at, (old, new)) in old.iter().zip(new).enumerate() {
        mask |= u64::from(differ(old, new)) << at;
    }
    mask
}

#[inline]
fn differ(old: &[u8; LINE], new: &[u8; LINE]) -> bool {
    let (old, _) = old.as_chunks::<8>();
    let (new, _) = new.as_chunks::<8>();
    let words = old.iter().zip(new);
    let bits = words.map(|(old, new)| u64::from_ne_bytes(*old) ^ u64::from_ne_bytes(*new));
    bits.fold(0, |all, bits| all | bits) != 0
}

/// [`changed_lines`] of two payloads; `None` if a payload was lost.
pub(super) fn changed(old: &Payload, new: &Payload) -> Option<u64> {
    match (old, new) {
        (Payload::Lost, _) | (_, Payload::Lost) => None,
        (Payload::Bytes(old), Payload::Bytes(new)) => Some(changed_lines(old, new)),
        (Payload::Bytes(old), new) => Some(changed_lines(old, &new.to_bytes())),
        (old, Payload::Bytes(new)) => Some(changed_lines(&old.to_bytes(), new)),
        // A payload of a repeated pattern of eight bytes has equal lines.
        (old, new) => Some(u64::MAX * u64::from(pattern(old) != pattern(new))),
    }
}

const fn pattern(payload: &Payload) -> u64 {
    match payload {
        Payload::Fill(pattern) => *pattern,
        _ => 0,
    }
}

/// A mask of the lowest `lines` bits; all bits from 64 on.
pub(super) const fn low(lines: u64) -> u64 {
    if lines >= 64 {
        u64::MAX
    } else {
        (1 << lines) - 1
    }
}

/// Mask of the lines that hold bytes `from..to` of a block.
pub(super) const fn lines_of(from: usize, to: usize) -> u64 {
    low(to.div_ceil(LINE) as u64) & !low((from / LINE) as u64)
}

/// Runs of adjacent lines in `mask`: first line, and number of lines.
pub(super) fn runs(mut mask: u64) -> impl Iterator<Item = (usize, usize)> {
    std::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let first = mask.trailing_zeros();
        let len = (mask >> first).trailing_ones();
        mask &= !(low(u64::from(len)) << first);
        Some((first as usize, len as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn slow(old: &[u8; UNIT], new: &[u8; UNIT]) -> u64 {
        let differs =
            |line: &usize| (0..LINE).any(|b| old[line * LINE + b] != new[line * LINE + b]);
        (0..64).filter(differs).map(|line| 1 << line).sum()
    }

    #[test]
    fn changed_lines_of_random_pages_agree_with_a_bytewise_comparison() {
        let mut rng = sim::Seed(5).stream("pages");
        for _ in 0..2_000 {
            let mut old = [0; UNIT];
            old.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
            let mut new = old;
            for _ in 0..rng.below(70) {
                new[rng.below(UNIT as u64) as usize] ^= 1 << rng.below(8);
            }
            let expected = slow(&old, &new);
            assert_eq!(changed_lines(&old, &new), expected);
            let bytes = |page| Payload::Bytes(Arc::new(page));
            assert_eq!(changed(&bytes(old), &bytes(new)), Some(expected));
        }
    }

    #[test]
    fn change_of_any_byte_sets_the_bit_of_its_line_only() {
        let old = [0; UNIT];
        for at in 0..UNIT {
            let mut new = old;
            new[at] = 0x80;
            assert_eq!(changed_lines(&old, &new), 1 << (at / LINE));
        }
    }

    #[test]
    fn patterns_compared_with_bytes_agree_with_their_contents() {
        let zeros = Payload::Bytes(Arc::new([0; UNIT]));
        for (old, new, mask) in [
            (&Payload::Zero, &Payload::Fill(0), Some(0)),
            (&Payload::Fill(1), &Payload::Zero, Some(u64::MAX)),
            (&zeros, &Payload::Zero, Some(0)),
            (&Payload::Fill(1 << 60), &zeros, Some(u64::MAX)),
            (&Payload::Lost, &zeros, None),
        ] {
            assert_eq!(changed(old, new), mask);
            assert_eq!(changed(new, old), mask);
        }
    }

    #[test]
    fn runs_of_a_mask_cover_each_line_once() {
        let mut rng = sim::Seed(5).stream("masks");
        for _ in 0..10_000 {
            let mask = rng.next_u64() | rng.next_u64() & rng.next_u64();
            let mut covered = 0;
            let mut end = None;
            for (first, len) in runs(mask) {
                assert!(end.is_none_or(|end| first > end), "neighbours are one run");
                covered |= low(len as u64) << first;
                end = Some(first + len);
            }
            assert_eq!(covered, mask);
        }
        assert_eq!(runs(u64::MAX).collect::<Vec<_>>(), [(0, 64)]);
        assert_eq!(lines_of(63, 65), 0b11);
        assert_eq!(lines_of(64, 128), 0b10);
        assert_eq!(lines_of(0, UNIT), u64::MAX);
    }
}
