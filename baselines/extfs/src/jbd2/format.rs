//! The bytes of the journal, as Linux' jbd2 and e2fsprogs read and write them.
//!
//! Invariants: every number is big endian; this file alone knows the offsets of fields;
//! a reader takes any 4,096 bytes, never panics, and rejects a length that reaches past
//! them. Writers produce tags with checksums of version 3, 64-bit block numbers and
//! revoke blocks; readers accept the older forms as well.

use super::JournalError;
use crate::buffer::BLOCK;

/// The bytes of a block of the log.
pub(super) type Block = [u8; BLOCK];

/// First four bytes of each block that is not a copy.
pub(super) const MAGIC: u32 = 0xc03b_3998;

const COMMIT_SECONDS: usize = 48;
const COMMIT_NANOS: usize = 56;
const COMMIT_SUM: usize = 16;
/// The second of the words that Linux reserves for checksums and leaves zero.
const COMMIT_TX: usize = 20;
const HEADER: usize = 12;
const REVOKE_HEADER: usize = 16;
/// Checksum at the end of descriptor and revoke blocks.
const TAIL: usize = 4;
const UUID: usize = 16;
const TAG_V3: usize = 16;

/// Tags that fit a descriptor block of ours: the first one is followed by the
/// UUID, and Linux starts a new block while there is room for one more of both.
pub(super) const TAGS: usize = (BLOCK - HEADER - UUID - TAG_V3 - UUID - TAIL) / TAG_V3 + 1;
const _: () = assert!(TAGS == 253, "as many as Linux puts there");

/// Entries that fit a revoke block of ours.
pub(super) const REVOKES: usize = (BLOCK - REVOKE_HEADER - TAIL) / 8;

/// Kind of a block of the log other than a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Descriptor,
    Commit,
    Revoke,
}

/// Flag of a tag: the copy starts with the magic number, which the log holds as zeros.
const ESCAPED: u32 = 1;
const SAME_UUID: u32 = 2;
const LAST: u32 = 8;

/// Entry of a descriptor block: home and checksum of one copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) home: u64,
    /// Its first four bytes were the magic number and are zero in the log.
    pub(super) escaped: bool,
    /// Checksum of the copy as it is in the log; its lower half in version 2.
    pub(super) sum: u32,
}

/// Version of the checksums of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    None,
    V2,
    V3,
}

/// Form of the blocks of a journal, as its features define it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) wide: bool,
    pub(super) sums: Sums,
    seed: u32,
}

pub(super) mod feature {
    //! Bits of incompatible features in the superblock of a journal.
    pub(crate) const REVOKE: u32 = 1;
    pub(crate) const WIDE: u32 = 2;
    pub(crate) const ASYNC_COMMIT: u32 = 4;
    pub(crate) const CSUM_V2: u32 = 8;
    pub(crate) const CSUM_V3: u32 = 16;
    pub(crate) const FAST_COMMIT: u32 = 32;
    /// The blocks hold an undo journal of cache lines. A bit of ours, far from the bits that
    /// Linux assigns; Linux and e2fsprogs refuse a journal with an unknown bit.
    pub(crate) const UNDO: u32 = 1 << 30;
    /// Features of the journals that this crate writes.
    pub(crate) const OURS: u32 = REVOKE | WIDE | CSUM_V3;
    pub(crate) const KNOWN: u32 = OURS | CSUM_V2 | ASYNC_COMMIT | FAST_COMMIT | UNDO;
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

/// CRC-32C as Linux counts it: neither the seed nor the result is inverted.
fn crc(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

/// Checksum of `block` with zeros in the place of the four bytes at `at`.
fn crc_without(seed: u32, block: &[u8], at: usize) -> u32 {
    let head = crc(seed, &block[..at]);
    crc(crc(head, &[0; 4]), &block[at + 4..])
}

/// Restores the first four bytes of an escaped copy.
pub(super) fn unescape(bytes: &mut Block) {
    put32(bytes, 0, MAGIC);
}

/// Kind and sequence number of a block; none for anything that is not one of
/// the three kinds that make up a log.
pub(super) fn header(bytes: &[u8]) -> Option<(Kind, u32)> {
    if be32(bytes, 0) != MAGIC {
        return None;
    }
    let kind = match be32(bytes, 4) {
        1 => Kind::Descriptor,
        2 => Kind::Commit,
        5 => Kind::Revoke,
        _ => return None,
    };
    Some((kind, be32(bytes, 8)))
}

fn start(kind: u32, sequence: u32) -> Box<Block> {
    let mut block = Box::new([0; BLOCK]);
    put32(&mut *block, 0, MAGIC);
    put32(&mut *block, 4, kind);
    put32(&mut *block, 8, sequence);
    block
}

impl Form {
    /// The form of journals written by this crate.
    pub(super) fn ours(uuid: &[u8; UUID]) -> Self {
        Self::of(feature::OURS, uuid)
    }

    fn of(incompat: u32, uuid: &[u8; UUID]) -> Self {
        let sums = match incompat & (feature::CSUM_V2 | feature::CSUM_V3) {
            0 => Sums::None,
            feature::CSUM_V2 => Sums::V2,
            _ => Sums::V3,
        };
        Self {
            wide: incompat & feature::WIDE != 0,
            sums,
            seed: crc(!0, uuid),
        }
    }

    fn tail(&self) -> usize {
        if self.sums == Sums::None { 0 } else { TAIL }
    }

    fn tag_bytes(&self) -> usize {
        let high = if self.wide { 4 } else { 0 };
        match self.sums {
            Sums::V3 => TAG_V3,
            Sums::V2 => 10 + high,
            Sums::None => 8 + high,
        }
    }

    fn tag(&self, bytes: &[u8]) -> (Tag, u32) {
        let low = u64::from(be32(bytes, 0));
        let (flags, sum, high) = match self.sums {
            Sums::V3 => (be32(bytes, 4), be32(bytes, 12), 8),
            _ => (u32::from(be16(bytes, 6)), u32::from(be16(bytes, 4)), 8),
        };
        let high = if self.wide { be32(bytes, high) } else { 0 };
        let tag = Tag {
            home: u64::from(high) << 32 | low,
            escaped: flags & ESCAPED != 0,
            sum,
        };
        (tag, flags)
    }

    /// The tags of a descriptor block, in the order of the copies that follow it.
    pub(super) fn tags(&self, block: &Block) -> Vec<Tag> {
        let (end, len) = (BLOCK - self.tail(), self.tag_bytes());
        let (mut at, mut tags) = (HEADER, Vec::new());
        while at + len <= end {
            let (tag, flags) = self.tag(&block[at..at + len]);
            tags.push(tag);
            at += len;
            if flags & SAME_UUID == 0 {
                at += UUID;
            }
            if flags & LAST != 0 {
                break;
            }
        }
        tags
    }

    /// A descriptor block of version 3 for `tags`. The place for a UUID behind the
    /// first one stays zero, as Linux leaves it.
    pub(super) fn descriptor(&self, sequence: u32, tags: &[Tag]) -> Box<Block> {
        let mut block = start(1, sequence);
        let mut at = HEADER;
        for (index, tag) in tags.iter().enumerate() {
            let first = index == 0;
            let same = if first { 0 } else { SAME_UUID };
            let last = if index + 1 == tags.len() { LAST } else { 0 };
            put32(&mut *block, at, tag.home as u32);
            put32(&mut *block, at + 4, u32::from(tag.escaped) | same | last);
            put32(&mut *block, at + 8, (tag.home >> 32) as u32);
            put32(&mut *block, at + 12, tag.sum);
            at += TAG_V3;
            if first {
                at += UUID;
            }
        }
        self.seal(&mut block);
        block
    }

    fn seal(&self, block: &mut Block) {
        let sum = crc_without(self.seed, block, BLOCK - TAIL);
        put32(block, BLOCK - TAIL, sum);
    }

    /// Whether the checksum at the end of a descriptor or revoke block is right.
    pub(super) fn is_whole(&self, block: &Block) -> bool {
        self.sums == Sums::None
            || be32(block, BLOCK - TAIL) == crc_without(self.seed, block, BLOCK - TAIL)
    }

    /// Checksum of a copy as it is in the log, in full.
    pub(super) fn sum(&self, sequence: u32, copy: &[u8]) -> u32 {
        crc(crc(self.seed, &sequence.to_be_bytes()), copy)
    }

    /// Whether the checksum of `copy` matches `tag`.
    pub(super) fn fits(&self, tag: &Tag, sequence: u32, copy: &Block) -> bool {
        match self.sums {
            Sums::None => true,
            Sums::V2 => tag.sum == self.sum(sequence, copy) & 0xffff,
            Sums::V3 => tag.sum == self.sum(sequence, copy),
        }
    }

    /// The blocks that a revoke block names.
    pub(super) fn revoked(&self, block: &Block) -> Vec<u64> {
        let used = (be32(block, 12) as usize).clamp(REVOKE_HEADER, BLOCK - self.tail());
        let entries = &block[REVOKE_HEADER..used];
        if self.wide {
            entries.chunks_exact(8).map(|e| be64(e, 0)).collect()
        } else {
            let narrow = entries.chunks_exact(4);
            narrow.map(|e| u64::from(be32(e, 0))).collect()
        }
    }

    /// A revoke block for up to [`REVOKES`] blocks.
    pub(super) fn revoke(&self, sequence: u32, blocks: &[u64]) -> Box<Block> {
        let mut block = start(5, sequence);
        for (index, revoked) in blocks.iter().enumerate() {
            put64(&mut *block, REVOKE_HEADER + 8 * index, *revoked);
        }
        put32(&mut *block, 12, (REVOKE_HEADER + 8 * blocks.len()) as u32);
        self.seal(&mut block);
        block
    }

    /// A commit block of the time `seconds` and `nanos`; `tx` is the number of the
    /// drive's transaction that it is stored in, and 0 without one.
    pub(super) fn commit(
        &self,
        sequence: u32,
        (seconds, nanos): (u64, u32),
        tx: u32,
    ) -> Box<Block> {
        let mut block = start(2, sequence);
        put64(&mut *block, COMMIT_SECONDS, seconds);
        put32(&mut *block, COMMIT_NANOS, nanos);
        put32(&mut *block, COMMIT_TX, tx);
        let sum = crc_without(self.seed, &*block, COMMIT_SUM);
        put32(&mut *block, COMMIT_SUM, sum);
        block
    }

    /// Whether the checksum of a commit block is right.
    pub(super) fn is_committed(&self, block: &Block) -> bool {
        self.sums == Sums::None
            || be32(block, COMMIT_SUM) == crc_without(self.seed, block, COMMIT_SUM)
    }
}

/// The number of the drive's transaction that a commit block bears.
pub(super) fn committed_in(block: &Block) -> u32 {
    be32(block, COMMIT_TX)
}

/// Seconds and nanoseconds of a commit block.
pub(super) fn committed_at(block: &Block) -> (u64, u32) {
    (be64(block, COMMIT_SECONDS), be32(block, COMMIT_NANOS))
}

/// Bytes of the superblock at the start of its block.
const SUPER: usize = 1024;
const SUPER_SUM: usize = 0xfc;
const CRC32C: u8 = 4;

/// The superblock of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    /// Blocks of the log, this one included.
    pub(super) len: u32,
    /// The first block of the log that transactions use.
    pub(super) first: u32,
    /// The sequence number that recovery expects first.
    pub(super) sequence: u32,
    /// Block of the log where recovery starts; 0 if the log is empty.
    pub(super) start: u32,
    /// Error recorded by an aborted journal, as a negative errno; 0 if none.
    pub(super) errno: i32,
    /// Incompatible features, as bits of [`feature`].
    pub(super) incompat: u32,
    /// UUID of the journal, the seed of its checksums.
    pub(super) uuid: [u8; UUID],
    /// The superblock as it was read; the fields without a place above (users, limits) are
    /// written back unchanged.
    rest: Box<[u8; SUPER]>,
}

impl Superblock {
    /// The superblock of a new, empty journal of `len` blocks.
    pub(super) fn new(len: u32, uuid: [u8; UUID]) -> Self {
        let mut rest = Box::new([0; SUPER]);
        put32(&mut *rest, 0x40, 1);
        Self {
            len,
            first: 1,
            sequence: 1,
            start: 0,
            errno: 0,
            incompat: feature::OURS,
            uuid,
            rest,
        }
    }

    /// Reads the superblock from its block.
    ///
    /// # Errors
    /// If `block` is no superblock, contradicts itself, or has a wrong checksum or unknown
    /// features.
    pub(crate) fn parse(block: &Block) -> Result<Self, JournalError> {
        let version = be32(block, 4);
        if be32(block, 0) != MAGIC || !(3..=4).contains(&version) {
            return Err(JournalError::NotAJournal);
        }
        let mut rest = Box::new([0; SUPER]);
        // Version 1 ends before the features.
        let known = if version == 3 { 0x24 } else { SUPER };
        rest[..known].copy_from_slice(&block[..known]);
        if be32(&*rest, 0x0c) as usize != BLOCK {
            return Err(JournalError::BlockSize(be32(&*rest, 0x0c)));
        }
        let superblock = Self {
            len: be32(&*rest, 0x10),
            first: be32(&*rest, 0x14),
            sequence: be32(&*rest, 0x18),
            start: be32(&*rest, 0x1c),
            errno: be32(&*rest, 0x20) as i32,
            incompat: be32(&*rest, 0x28),
            uuid: std::array::from_fn(|index| rest[0x30 + index]),
            rest,
        };
        superblock.check()?;
        Ok(superblock)
    }

    fn check(&self) -> Result<(), JournalError> {
        let read_only = be32(&*self.rest, 0x2c);
        let unknown = self.incompat & !feature::KNOWN | read_only;
        if unknown != 0 {
            return Err(JournalError::Feature(unknown));
        }
        let sums = self.incompat & (feature::CSUM_V2 | feature::CSUM_V3);
        if sums != 0 {
            let sum = crc_without(!0, &*self.rest, SUPER_SUM);
            let known = self.rest[0x50] == CRC32C && sums.count_ones() == 1;
            if !known || sum != be32(&*self.rest, SUPER_SUM) {
                return Err(JournalError::SuperblockSum);
            }
        }
        let inside = |at: u32| at >= self.first && at < self.end();
        if self.first == 0 || !inside(self.first) || self.start != 0 && !inside(self.start) {
            return Err(JournalError::Shape);
        }
        Ok(())
    }

    /// Whether the log holds nothing.
    pub(crate) const fn is_empty(&self) -> bool {
        self.start == 0
    }

    /// Whether the blocks of the log hold an undo journal of cache lines instead.
    pub(crate) const fn is_lent(&self) -> bool {
        self.incompat & feature::UNDO != 0
    }

    /// Marks the blocks of the log as holding an undo journal of cache lines, or a log again.
    pub(crate) const fn lend(&mut self, lent: bool) {
        self.incompat = feature::OURS | if lent { feature::UNDO } else { 0 };
    }

    /// One past the last block that full transactions use: the area of fast commits is behind it.
    pub(super) fn end(&self) -> u32 {
        if self.incompat & feature::FAST_COMMIT == 0 {
            return self.len;
        }
        let fast = match be32(&*self.rest, 0x54) {
            0 => 256,
            blocks => blocks,
        };
        self.len.saturating_sub(fast)
    }

    /// Form of the log's blocks, by the features.
    pub(super) fn form(&self) -> Form {
        Form::of(self.incompat, &self.uuid)
    }

    /// Encodes the superblock in version 2, with the features that this crate writes.
    pub(crate) fn encode(&self) -> Box<Block> {
        let mut block = start(4, 0);
        block[HEADER..SUPER].copy_from_slice(&self.rest[HEADER..]);
        let fields = [
            (0x0c, BLOCK as u32),
            (0x10, self.len),
            (0x14, self.first),
            (0x18, self.sequence),
            (0x1c, self.start),
            (0x20, self.errno as u32),
            (0x24, 0),
            (0x28, feature::OURS | self.incompat & feature::UNDO),
            (0x2c, 0),
            (0x54, 0),
            // The head of a clean log: only Linux with fast commits uses it.
            (0x58, 0),
        ];
        for (at, value) in fields {
            put32(&mut *block, at, value);
        }
        block[0x30..0x40].copy_from_slice(&self.uuid);
        block[0x50] = CRC32C;
        let sum = crc_without(!0, &block[..SUPER], SUPER_SUM);
        put32(&mut *block, SUPER_SUM, sum);
        block
    }
}
