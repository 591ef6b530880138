//! The bytes that ByteFS owns: one line of the boot area in front of the
//! superblock, which the format of ext4 leaves alone.
//!
//! ```text
//! 0   8  "ByteFS", 0, 1
//! 8   4  the first TxID that was not reserved, little endian
//! 12  4  count of wraps of the TxIDs
//! 16  1  1 after a clean unmount
//! 17 43  zeros
//! 60  4  CRC-32C of the bytes before
//! ```
//!
//! The record is one cache line, so a store replaces it whole or not at all.

use ssd::wlog::LINE;

/// Name and version of the record.
const MAGIC: [u8; 8] = *b"ByteFS\0\x01";
const SUM: usize = 60;

/// State of the TxIDs that persists across mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// The first TxID that was not reserved; never 0.
    pub(crate) next: u32,
    /// Wraps of the TxIDs, from 2^32 - 1 to 1.
    pub(crate) rounds: u32,
    /// Whether the last mount ended with an unmount.
    pub(crate) clean: bool,
}

impl Record {
    /// The record of a file system that was never mounted.
    pub(crate) const fn new() -> Self {
        Self {
            next: 1,
            rounds: 0,
            clean: true,
        }
    }

    /// Encodes the record, with its checksum.
    pub(crate) fn encode(self) -> [u8; LINE] {
        let mut line = [0; LINE];
        line[..8].copy_from_slice(&MAGIC);
        line[8..12].copy_from_slice(&self.next.to_le_bytes());
        line[12..16].copy_from_slice(&self.rounds.to_le_bytes());
        line[16] = u8::from(self.clean);
        let sum = crc32c::crc32c(&line[..SUM]);
        line[SUM..].copy_from_slice(&sum.to_le_bytes());
        line
    }

    /// Decodes a cache line; `None` if it is not a record or is damaged.
    pub(crate) fn decode(line: &[u8; LINE]) -> Option<Self> {
        let word = |at: usize| line[at..at + 4].try_into().map(u32::from_le_bytes).ok();
        let next = word(8)?;
        let whole = word(SUM)? == crc32c::crc32c(&line[..SUM]);
        let known = line[..8] == MAGIC && line[16] <= 1 && next != 0;
        (whole && known).then_some(Self {
            next,
            rounds: word(12)?,
            clean: line[16] == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_encodes_to_its_golden_bytes() {
        let record = Record {
            next: 0x0102_0304,
            rounds: 5,
            clean: true,
        };
        let line = record.encode();
        assert_eq!(line[..17], *b"ByteFS\0\x01\x04\x03\x02\x01\x05\0\0\0\x01");
        assert_eq!(line[17..SUM], [0; 43]);
        assert_eq!(Record::decode(&line), Some(record));
    }

    #[test]
    fn decode_of_a_damaged_record_is_none() {
        let line = Record::new().encode();
        for bit in 0..LINE * 8 {
            let mut damaged = line;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(&damaged), None, "bit {bit}");
        }
        assert_eq!(Record::decode(&[0; LINE]), None);
        let zero = Record {
            next: 0,
            ..Record::new()
        };
        assert_eq!(Record::decode(&zero.encode()), None);
    }
}
