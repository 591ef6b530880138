//! What a sector holds: real bytes, or a pattern that costs nothing.

use std::sync::Arc;

/// Bytes of one sector of flash, the smallest piece that is read: 4096.
pub const UNIT: usize = 4096;

/// Bytes of the smallest part of a sector that can be lost: a cache line, of which
/// the 512 bytes that a host writes are eight.
pub const PART: usize = 64;

const _: () = assert!(PART * u64::BITS as usize == UNIT);

/// A sector of which a part is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partly {
    /// The bytes, zeros where they are lost.
    pub bytes: [u8; UNIT],
    /// Which are lost: a bit each for 64 bytes, from the first on. Some, but not all.
    pub lost: u64,
}

/// Contents of one sector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Nothing was kept: reads give zeros.
    #[default]
    Zero,
    /// The eight bytes of this number, little endian, over and over.
    Fill(u64),
    /// These bytes.
    Bytes(Arc<[u8; UNIT]>),
    /// The data could not be read when they were moved: reads fail.
    Lost,
    /// Parts of them could not, and the others were written since.
    Partly(Arc<Partly>),
}

impl Payload {
    /// These bytes, copied once.
    ///
    /// # Panics
    /// If they are not those of a sector.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let bytes: Arc<[u8]> = Arc::from(bytes);
        Self::Bytes(bytes.try_into().expect("the bytes of a sector"))
    }

    /// These bytes, but for those that are lost: a bit each for 64 bytes.
    #[must_use]
    pub fn with_lost(mut bytes: [u8; UNIT], lost: u64) -> Self {
        match lost {
            0 => Self::Bytes(Arc::new(bytes)),
            u64::MAX => Self::Lost,
            _ => {
                let parts = bytes.chunks_exact_mut(PART).enumerate();
                let parts = parts.filter(|(part, _)| lost >> part & 1 == 1);
                parts.for_each(|(_, part)| part.fill(0));
                Self::Partly(Arc::new(Partly { bytes, lost }))
            }
        }
    }

    /// What of it is lost: a bit each for 64 bytes, from the first on.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match self {
            Self::Lost => u64::MAX,
            Self::Partly(partly) => partly.lost,
            _ => 0,
        }
    }

    /// The first byte that is lost of those from `from` to before `to`.
    #[must_use]
    pub fn first_lost(&self, from: usize, to: usize) -> Option<usize> {
        let lost = |&at: &usize| self.lost() >> (at / PART) & 1 == 1;
        let starts = (from / PART + 1..to.div_ceil(PART)).map(|part| part * PART);
        std::iter::once(from).chain(starts).find(lost)
    }

    /// Copies the bytes from `offset` on into `out`. False if any of them are lost.
    ///
    /// # Panics
    /// If `offset` and `out` reach past the sector.
    #[must_use]
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> bool {
        match self {
            Self::Zero => out.fill(0),
            Self::Fill(pattern) => fill(*pattern, offset, out),
            Self::Bytes(bytes) => out.copy_from_slice(&bytes[offset..offset + out.len()]),
            Self::Lost => return false,
            Self::Partly(partly) => {
                out.copy_from_slice(&partly.bytes[offset..offset + out.len()]);
                return self.first_lost(offset, offset + out.len()).is_none();
            }
        }
        true
    }

    /// All bytes of the sector; zeros where they are lost.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        // What is lost stays zero.
        let _ = self.copy_to(0, &mut bytes);
        bytes
    }
}

fn fill(pattern: u64, offset: usize, out: &mut [u8]) {
    let turned = pattern.rotate_right(8 * (offset % 8) as u32).to_le_bytes();
    let mut words = out.chunks_exact_mut(turned.len());
    words
        .by_ref()
        .for_each(|word| word.copy_from_slice(&turned));
    let rest = words.into_remainder();
    rest.copy_from_slice(&turned[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_repeats_from_the_start_of_the_sector() {
        let mut out = [0; 4];
        assert!(Payload::Fill(0x0807_0605_0403_0201).copy_to(6, &mut out));
        assert_eq!(out, [7, 8, 1, 2]);
        let mut out = [0; 11];
        assert!(Payload::Fill(0x0807_0605_0403_0201).copy_to(4091, &mut out[..5]));
        assert_eq!(out[..5], [4, 5, 6, 7, 8]);
        assert!(Payload::Fill(0x0807_0605_0403_0201).copy_to(13, &mut out));
        assert_eq!(out, [6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        assert!(!Payload::Lost.copy_to(0, &mut out));
    }

    #[test]
    fn a_part_is_lost_and_the_rest_is_read() {
        let lost = 0b110 << 7;
        let partly = Payload::with_lost([7; UNIT], lost);
        assert_eq!(partly.lost(), lost);
        let mut out = [1; 64];
        assert!(partly.copy_to(7 * 64 + 64 - out.len(), &mut out));
        assert_eq!(out, [7; 64]);
        for at in [8 * 64 - 1, 8 * 64, 9 * 64 + 63] {
            assert!(!partly.copy_to(at, &mut [0; 2]), "{at}");
        }
        assert!(partly.copy_to(10 * 64, &mut [0; UNIT - 10 * 64]));
        assert_eq!(partly.first_lost(0, UNIT), Some(8 * 64));
        assert_eq!(partly.first_lost(9 * 64 + 5, UNIT), Some(9 * 64 + 5));
        assert_eq!(partly.to_bytes()[8 * 64 - 1..][..2], [7, 0]);
        assert_eq!(Payload::with_lost([7; UNIT], u64::MAX), Payload::Lost);
        assert_eq!(Payload::with_lost([7; UNIT], 0).lost(), 0);
    }
}
