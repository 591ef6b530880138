//! Contents of a sector: real bytes, or a pattern that takes no memory.

use std::sync::Arc;

/// Bytes of one sector of flash, the smallest unit of a read: 4096.
pub const UNIT: usize = 4096;

/// Bytes of the smallest part of a sector that can be lost: a cache line, an eighth of a
/// host sector of 512 bytes.
pub const PART: usize = 64;

const _: () = assert!(PART * u64::BITS as usize == UNIT);

/// A partly lost sector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partly {
    /// Contents of the sector, with zeros in the lost parts.
    pub bytes: [u8; UNIT],
    /// Bit p is set if the p-th part of 64 bytes is lost. Some bits are set, but not all.
    pub lost: u64,
}

/// The contents of one sector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Payload {
    /// Zeros, or contents that were not kept: reads return zeros.
    #[default]
    Zero,
    /// A repetition of the eight bytes of the number, little endian.
    Fill(u64),
    /// Real bytes, shared between copies.
    Bytes(Arc<[u8; UNIT]>),
    /// A relocation could not read the data: reads fail.
    Lost,
    /// A relocation could not read the data, and parts of them were written since.
    Partly(Arc<Partly>),
}

impl Payload {
    /// A payload with a copy of `bytes`.
    ///
    /// # Panics
    /// If `bytes` is not as long as a sector.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let bytes: Arc<[u8]> = Arc::from(bytes);
        Self::Bytes(bytes.try_into().expect("the bytes of a sector"))
    }

    /// A payload with `bytes` except the lost parts; bit p of `lost` stands for the p-th part
    /// of 64 bytes.
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

    /// The lost parts: bit p is set if the p-th part of 64 bytes is lost.
    #[must_use]
    pub fn lost(&self) -> u64 {
        match self {
            Self::Lost => u64::MAX,
            Self::Partly(partly) => partly.lost,
            _ => 0,
        }
    }

    /// Offset of the first lost byte in `from..to`, if any.
    #[must_use]
    pub fn first_lost(&self, from: usize, to: usize) -> Option<usize> {
        let lost = |&at: &usize| self.lost() >> (at / PART) & 1 == 1;
        let starts = (from / PART + 1..to.div_ceil(PART)).map(|part| part * PART);
        std::iter::once(from).chain(starts).find(lost)
    }

    /// Copies the bytes from `offset` on into `out`. Returns false if any of them are lost;
    /// `out` is then unchanged or has zeros in the lost parts.
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

    /// All bytes of the sector, with zeros in the lost parts.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
        // Lost parts stay zero.
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
