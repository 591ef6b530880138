//! Read access to media at rest by block number, at once and without the clock.
//!
//! Invariant: a read of an unreadable block or past the end returns false.

use crate::packing::Packing;
use crate::ram::ZonesAtRest;
use nand::UNIT;
use units::SECTOR;

/// Sectors per block of 4,096 bytes.
const SECTORS: u64 = UNIT as u64 / SECTOR;

/// An unmounted medium.
pub trait Image {
    /// Number of whole blocks of 4,096 bytes.
    fn blocks(&self) -> u64;

    /// Copies block number `block` into `out`; returns false if it cannot be read.
    fn read(&self, block: u64, out: &mut [u8; UNIT]) -> bool;
}

/// An image of all bytes of a medium; a partial last block is left out.
impl Image for [u8] {
    fn blocks(&self) -> u64 {
        (self.len() / UNIT) as u64
    }

    fn read(&self, block: u64, out: &mut [u8; UNIT]) -> bool {
        let at = usize::try_from(block).ok();
        let at = at.and_then(|block| block.checked_mul(UNIT));
        let bytes = at.and_then(|at| self.get(at..at.checked_add(UNIT)?));
        if let Some(bytes) = bytes {
            out.copy_from_slice(bytes);
        }
        bytes.is_some()
    }
}

/// Zones as consecutive blocks without gaps, each zone used to its capacity.
impl Image for ZonesAtRest {
    fn blocks(&self) -> u64 {
        Packing::new(self.limits, SECTORS).sectors() / SECTORS
    }

    fn read(&self, block: u64, out: &mut [u8; UNIT]) -> bool {
        if block >= self.blocks() {
            return false;
        }
        let (_, sector) = Packing::new(self.limits, SECTORS).place(block * SECTORS);
        self.payload(sector).copy_to(0, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_past_the_end_of_bytes_returns_false() {
        let mut image = vec![1; 2 * UNIT + 100];
        image[UNIT..].fill(2);
        let (image, mut out) = (&image[..], [0; UNIT]);
        assert_eq!(image.blocks(), 2);
        assert!(image.read(1, &mut out) && out == [2; UNIT]);
        for block in [2, 3, u64::MAX / UNIT as u64 + 1, u64::MAX] {
            assert!(!image.read(block, &mut out), "{block}");
        }
        assert_eq!(out, [2; UNIT]);
    }
}
