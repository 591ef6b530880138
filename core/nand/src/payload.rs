//! What a sector holds: real bytes, or a pattern that costs nothing.

use std::sync::Arc;

/// Bytes of one sector of flash, the smallest piece that is read: 4096.
pub const UNIT: usize = 4096;

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
}

impl Payload {
    /// Copies the bytes from `offset` on into `out`. False if they are lost.
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
        }
        true
    }

    /// All bytes of the sector; zeros where they are lost.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; UNIT] {
        let mut bytes = [0; UNIT];
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
}
