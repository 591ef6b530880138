//! The bytes of the undo journal, in lines of 64 bytes.
//!
//! The journal lies in the blocks of the journal inode. Block 0 is the superblock of the
//! block journal: its log stays empty, and bit 30 of its incompatible features (`0x28`,
//! big endian) claims the other blocks for records. The first line of block 1 is the head:
//!
//! ```text
//! 0   8  "UndoLog", 1
//! 8   8  the epoch, little endian like all numbers here
//! 16 44  zeros
//! 60  4  CRC-32C of the bytes before
//! ```
//!
//! Records fill the blocks from 2 on, as a ring. A record is one line, so its store is atomic:
//!
//! ```text
//! 0   4  number of the transaction
//! 4   2  distance from this number to that of the oldest transaction not done
//! 6   1  length of the former contents: 16, 32 or 48; 0 in the mark of a commit
//! 7   5  address of the former contents, in units of 16 bytes of the volume
//! 12 48  the former contents
//! 60  4  CRC-32C of the epoch and the bytes before
//! ```
//!
//! A record of PMFS holds 48 bytes per line, too. PMFS tells new records from old ones by
//! the lap of the ring; here an epoch, one per mount, enters the checksum, and within an
//! epoch each record states which transactions before it are done.
//!
//! A record overwrites only records of transactions that are done, and proves by its
//! distance that they are done. So recovery needs no stored pointer to the oldest record.

use ssd::wlog::LINE;

/// Bytes of a volume that records can address: 2^40 units of 16.
pub(super) const REACH: u64 = 1 << 44;
/// Most bytes of former contents in a record.
pub(super) const PAYLOAD: usize = 48;
/// Unit in bytes of addresses and lengths.
const UNIT: usize = 16;
/// Block of the journal that holds the head.
pub(super) const HEAD_BLOCK: u32 = 1;
/// First block of the journal that holds records.
pub(super) const FIRST_BLOCK: u32 = 2;

const MAGIC: [u8; 8] = *b"UndoLog\x01";
const BYTES: usize = 12;
const SUM: usize = 60;

const _: () = assert!(BYTES + PAYLOAD == SUM && SUM + 4 == LINE);

/// The bytes of a cache line: a head, a record, or a line to restore.
pub(super) type Line = [u8; LINE];

/// Encodes the head of the journal in `epoch`.
pub(super) fn head(epoch: u64) -> Line {
    let mut line = [0; LINE];
    line[..8].copy_from_slice(&MAGIC);
    line[8..16].copy_from_slice(&epoch.to_le_bytes());
    let sum = crc32c::crc32c(&line[..SUM]);
    line[SUM..].copy_from_slice(&sum.to_le_bytes());
    line
}

/// The epoch of a head; `None` if `line` is no head or a damaged one.
pub(super) fn epoch_of(line: &Line) -> Option<u64> {
    let epoch = u64::from_le_bytes(line[8..16].try_into().ok()?);
    (*line == head(epoch)).then_some(epoch)
}

/// A record: former contents of a part of a line, or the mark of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Number of the transaction.
    pub(super) tx: u32,
    /// Distance from `tx` to the oldest transaction that was not done when `tx` got its slots.
    pub(super) back: u16,
    /// Address of `old` in bytes of the volume, a multiple of 16.
    pub(super) at: u64,
    /// Former contents: 16, 32 or 48 bytes; empty in the mark of a commit.
    pub(super) old: &'a [u8],
}

fn sum(epoch: u64, line: &[u8]) -> [u8; 4] {
    let seed = crc32c::crc32c(&epoch.to_le_bytes());
    crc32c::crc32c_append(seed, &line[..SUM]).to_le_bytes()
}

impl<'a> Record<'a> {
    /// Encodes the record as a line of `epoch`.
    pub(super) fn encode(&self, epoch: u64) -> Line {
        debug_assert!(self.at.is_multiple_of(UNIT as u64) && self.at < REACH);
        debug_assert!(self.old.len() <= PAYLOAD && self.old.len().is_multiple_of(UNIT));
        let mut line = [0; LINE];
        line[..4].copy_from_slice(&self.tx.to_le_bytes());
        line[4..6].copy_from_slice(&self.back.to_le_bytes());
        line[6] = self.old.len() as u8;
        let place = (self.at / UNIT as u64).to_le_bytes();
        line[7..BYTES].copy_from_slice(&place[..5]);
        line[BYTES..BYTES + self.old.len()].copy_from_slice(self.old);
        let sum = sum(epoch, &line);
        line[SUM..].copy_from_slice(&sum);
        line
    }

    /// Decodes a record of `epoch`; `None` if the checksum is wrong, as for a record of any other
    /// epoch.
    pub(super) fn decode(epoch: u64, line: &'a Line) -> Option<Self> {
        if line[SUM..] != sum(epoch, line) && !vfs::mutant::is("pmfs-record-sum-not-read") {
            return None;
        }
        let mut place = [0; 8];
        place[..5].copy_from_slice(&line[7..BYTES]);
        Some(Self {
            tx: u32::from_le_bytes(line[..4].try_into().ok()?),
            back: u16::from_le_bytes(line[4..6].try_into().ok()?),
            at: u64::from_le_bytes(place) * UNIT as u64,
            old: line.get(BYTES..BYTES + usize::from(line[6]))?,
        })
    }

    /// Whether the length is a multiple of 16 and at most [`PAYLOAD`].
    pub(super) fn is_sound(&self) -> bool {
        self.old.len() <= PAYLOAD && self.old.len().is_multiple_of(UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_encoded_has_its_golden_bytes() {
        let old = [7; 16];
        let record = Record {
            tx: 0x0102_0304,
            back: 5,
            at: 0xa0_b0c0_d0e0,
            old: &old,
        };
        let line = record.encode(9);
        let head = [4, 3, 2, 1, 5, 0, 16, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a];
        assert_eq!(line[..12], head);
        assert_eq!(line[12..28], old);
        assert_eq!(line[28..60], [0; 32]);
        assert_eq!(Record::decode(9, &line), Some(record));
        assert_eq!(Record::decode(8, &line), None, "of another epoch");
    }

    #[test]
    fn record_with_any_bit_flipped_is_refused() {
        let old = [3; PAYLOAD];
        let record = Record {
            tx: 1,
            back: 0,
            at: 64,
            old: &old,
        };
        let line = record.encode(1);
        for bit in 0..LINE * 8 {
            let mut damaged = line;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Record::decode(1, &damaged), None, "bit {bit}");
        }
        assert_eq!(Record::decode(0, &[0; LINE]), None, "zeros are no record");
    }

    #[test]
    fn head_with_any_bit_flipped_is_refused() {
        let line = head(77);
        assert_eq!(epoch_of(&line), Some(77));
        for bit in 0..LINE * 8 {
            let mut damaged = line;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(epoch_of(&damaged), None, "bit {bit}");
        }
    }
}
