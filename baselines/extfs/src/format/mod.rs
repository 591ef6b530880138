//! The structures of ext4 on the medium, one module per layout.
//!
//! Invariants: a field is written down once, in a [`mod@units::layout`]; no bytes, however
//! wrong, make a function here panic.
//!
//! All numbers on the medium are little endian, but those of the journal.

pub(crate) mod dirent;
pub(crate) mod extent;
pub(crate) mod group;
pub(crate) mod hash;
pub(crate) mod htree;
pub(crate) mod inode;
pub(crate) mod journal;
pub(crate) mod superblock;
pub(crate) mod xattr;

pub(crate) use units::layout;
pub(crate) use units::layout::{Field, FieldInfo, Value};

/// The checksum of the format: CRC-32C that goes on from `seed`, without the
/// inversions that are usual at both ends.
//= ext4-layout 4.1
#[inline]
pub(crate) fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// CRC-16 (polynomial 0xA001, reflected), of group descriptors before `metadata_csum`.
pub(crate) fn crc16(seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| {
            (crc >> 1) ^ (0xA001 * (crc & 1))
        })
    })
}

/// Joins two fields to a number of 48 or 64 bits.
#[inline]
pub(crate) fn wide(lo: u32, hi: impl Into<u64>) -> u64 {
    u64::from(lo) | hi.into() << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_the_check_string_match_published_values() {
        let text = b"123456789";
        assert_eq!(!crc(!0, text), 0xE306_9283);
        assert_eq!(crc16(0, text), 0xBB3D);
    }
}
