//! Formats on flash: the metadata beside a sector, and records of deallocations.
//!
//! | beside a sector | |
//! | --- | --- |
//! | kind | u8: 1 data, 2 deallocations, 3 nothing |
//! | number | 7 bytes: of the version |
//! | address | u32: of data, else 0 |
//! | checksum | u32: CRC-32C of the bytes before it |
//!
//! A sector of deallocations holds up to 255 ranges: a head of 16 bytes (count u32, CRC-32C
//! of the ranges u32, zeros), and for each its number u64, first sector u32, sectors u32.

use nand::{Payload, UNIT};
use ssd::Meta;
use std::sync::Arc;

/// Limit of version numbers; a higher one was not written by this mapping. A mount refuses numbers
/// beyond half of it, and none lasts for the other half.
pub(crate) const MOST_NUMBERS: u64 = 1 << 55;

/// Kind of a sector on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Data(u32),
    Trims,
    Padding,
}

/// Metadata beside a sector: its kind and its version number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
}

impl Beside {
    pub(crate) const PADDING: Self = Self {
        kind: Kind::Padding,
        number: 0,
    };

    pub(crate) fn bytes(self) -> Meta {
        let (kind, address) = match self.kind {
            Kind::Data(address) => (1, address),
            Kind::Trims => (2, 0),
            Kind::Padding => (3, 0),
        };
        let mut meta = [0; 16];
        meta[..8].copy_from_slice(&(self.number << 8 | kind).to_le_bytes());
        meta[8..12].copy_from_slice(&address.to_le_bytes());
        let sum = crc32c::crc32c(&meta[..12]);
        meta[12..].copy_from_slice(&sum.to_le_bytes());
        meta
    }

    /// Decodes `meta`; `None` if this mapping has not written it.
    pub(crate) fn parse(meta: &Meta) -> Option<Self> {
        let word = |at: usize| u32::from_le_bytes(meta[at..at + 4].try_into().expect("four bytes"));
        if word(12) != crc32c::crc32c(&meta[..12]) {
            return None;
        }
        let first = u64::from(word(0)) | u64::from(word(4)) << 32;
        let kind = match first & 0xff {
            1 => Kind::Data(word(8)),
            2 => Kind::Trims,
            3 => Kind::Padding,
            _ => return None,
        };
        Some(Self {
            kind,
            number: first >> 8,
        })
    }
}

/// A run of sectors deallocated under one version number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trimmed {
    pub(crate) number: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
}

const RANGE: usize = 16;
/// Ranges that fit into one record, a sector of 4 KiB.
pub(crate) const MOST_RANGES: usize = UNIT / RANGE - 1;

pub(crate) fn put_ranges(ranges: &[Trimmed]) -> Payload {
    let mut bytes = [0; UNIT];
    for (out, range) in bytes[RANGE..].chunks_exact_mut(RANGE).zip(ranges) {
        out[..8].copy_from_slice(&range.number.to_le_bytes());
        out[8..12].copy_from_slice(&range.first.to_le_bytes());
        out[12..].copy_from_slice(&range.count.to_le_bytes());
    }
    bytes[..4].copy_from_slice(&(ranges.len() as u32).to_le_bytes());
    let sum = crc32c::crc32c(&bytes[RANGE..]);
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    Payload::Bytes(Arc::new(bytes))
}

/// Decodes a record; empty if contents are not stored by the drive, or damaged.
pub(crate) fn take_ranges(payload: &Payload) -> Vec<Trimmed> {
    let bytes = payload.to_bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let count = word(0) as usize;
    if count > MOST_RANGES || word(4) != crc32c::crc32c(&bytes[RANGE..]) {
        return Vec::new();
    }
    let range = |index: usize| {
        let at = (index + 1) * RANGE;
        Trimmed {
            number: u64::from(word(at)) | u64::from(word(at + 4)) << 32,
            first: word(at + 8),
            count: word(at + 12),
        }
    };
    (0..count).map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_round_trip_and_detect_flipped_bits() {
        for kind in [Kind::Data(77), Kind::Trims, Kind::Padding] {
            let number = (1 << 56) - 5;
            let meta = Beside { kind, number }.bytes();
            assert_eq!(Beside::parse(&meta), Some(Beside { kind, number }));
            for bit in 0..128 {
                let mut other = meta;
                other[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Beside::parse(&other), None, "bit {bit}");
            }
        }
        assert_eq!(Beside::parse(&[0; 16]), None);
    }

    #[test]
    fn records_round_trip_and_reject_damage() {
        let range = |number| Trimmed {
            number,
            first: number as u32 * 3,
            count: 9,
        };
        let ranges: Vec<Trimmed> = (0..MOST_RANGES as u64).map(range).collect();
        let payload = put_ranges(&ranges);
        assert_eq!(take_ranges(&payload), ranges);
        let mut bytes = payload.to_bytes();
        bytes[40] ^= 1;
        assert_eq!(take_ranges(&Payload::Bytes(Arc::new(bytes))), []);
        assert_eq!(take_ranges(&Payload::Zero), []);
    }
}
