//! The bytes of the undo journal, in lines of 64 bytes.
//!
//! It lies in the blocks of the journal inode, behind block 0 with the superblock of
//! the block journal, which says all the time that its log is empty, and by bit 30 of
//! its incompatible features (`0x28`, big endian) that records count. The first line
//! of block 1 is the head:
//!
//! ```text
//! 0   8  "UndoLog", 1
//! 8   8  the epoch, little endian like all numbers here
//! 16 44  zeros
//! 60  4  CRC-32C of the bytes before
//! ```
//!
//! Records fill the blocks from 2 on, as a ring. A record is one line, so it is there
//! as a whole or not at all:
//!
//! ```text
//! 0   4  the transaction
//! 4   2  how many numbers back the oldest one is that may not have been done
//! 6   1  bytes that it holds: 16, 32 or 48; 0 is the mark of a commit
//! 7   5  where they belong, in units of 16 bytes of the volume
//! 12 48  what was there
//! 60  4  CRC-32C of the epoch and the bytes before
//! ```
//!
//! PMFS has the same 48 bytes in a line. Its lap of the ring, which tells new records
//! from old ones, is here an epoch of a whole mount, in the checksum; within one
//! a record says itself which transactions before it are done.
//!
//! A record goes only over those of transactions that are done. Whichever line of them
//! it destroys, it is the proof that they are: so no pointer to the oldest one has to be
//! stored.

use ssd::wlog::LINE;

/// Bytes of a volume that records can lead to: 2^40 units of 16.
pub(super) const REACH: u64 = 1 << 44;
/// Bytes that a record holds at most.
pub(super) const PAYLOAD: usize = 48;
/// The unit of places and lengths.
const UNIT: usize = 16;
/// The block of the head.
pub(super) const HEAD_BLOCK: u32 = 1;
/// The first block of records.
pub(super) const FIRST_BLOCK: u32 = 2;

const MAGIC: [u8; 8] = *b"UndoLog\x01";
const BYTES: usize = 12;
const SUM: usize = 60;

const _: () = assert!(BYTES + PAYLOAD == SUM && SUM + 4 == LINE);

/// A line.
pub(super) type Line = [u8; LINE];

/// The line that begins the journal, in `epoch`.
pub(super) fn head(epoch: u64) -> Line {
    let mut line = [0; LINE];
    line[..8].copy_from_slice(&MAGIC);
    line[8..16].copy_from_slice(&epoch.to_le_bytes());
    let sum = crc32c::crc32c(&line[..SUM]);
    line[SUM..].copy_from_slice(&sum.to_le_bytes());
    line
}

/// The epoch of a head; none if it is none, or a damaged one.
pub(super) fn epoch_of(line: &Line) -> Option<u64> {
    let epoch = u64::from_le_bytes(line[8..16].try_into().ok()?);
    (*line == head(epoch)).then_some(epoch)
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// The transaction.
    pub(super) tx: u32,
    /// How many numbers back the oldest one is that may not have been done.
    pub(super) back: u16,
    /// Where the bytes belong.
    pub(super) at: u64,
    /// What was there; nothing in the mark of a commit.
    pub(super) old: &'a [u8],
}

fn sum(epoch: u64, line: &[u8]) -> [u8; 4] {
    let seed = crc32c::crc32c(&epoch.to_le_bytes());
    crc32c::crc32c_append(seed, &line[..SUM]).to_le_bytes()
}

impl<'a> Record<'a> {
    /// Its line.
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

    /// What a line says in `epoch`; none if nobody has written it in this one.
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

    /// Whether it says something that can be: whole units, no more than fit.
    pub(super) fn is_sound(&self) -> bool {
        self.old.len() <= PAYLOAD && self.old.len().is_multiple_of(UNIT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_golden_bytes() {
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
    fn each_bit_of_a_record_counts() {
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
    fn each_bit_of_a_head_counts() {
        let line = head(77);
        assert_eq!(epoch_of(&line), Some(77));
        for bit in 0..LINE * 8 {
            let mut damaged = line;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(epoch_of(&damaged), None, "bit {bit}");
        }
    }
}
