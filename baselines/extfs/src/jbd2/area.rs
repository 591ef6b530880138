//! The blocks of a jbd2 journal, for file contents that a strategy of cache lines commits.
//!
//! A record is a transaction of jbd2 whose commit block is written as zeros. All
//! contents of a commit block lie in its first 64 bytes, its first cache line: the
//! strategy stores that line within its own transaction. So the record counts exactly
//! if that transaction does, for recovery here and for any other replay of the journal.
//!
//! Invariants: records are committed in the order of their places; a place is reused
//! only once the superblock on the medium says that recovery starts behind it.

use super::format::{Block, Form, Superblock, TAGS, Tag};
use super::log::{Map, Piece, Span, extent, payload, pieces};
use super::recover::{Recover, copy_for_log};
use super::{JournalError, Recovery};
use crate::persist::Run;
use host::{BlockPort, Disk, Purpose, Who};
use nand::{Payload, UNIT};
use ssd::{Content, IoError};
use units::{Origin, Placement};

/// The first cache line of a commit block.
type Line = [u8; 64];

/// Sequence number and location of a record in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    sequence: u32,
    start: u32,
    /// Block of the log for the commit block, the last one of the record.
    commit: u32,
}

/// The cache line that commits a record, except for the number of its transaction.
pub(crate) struct Seal {
    form: Form,
    sequence: u32,
    time: (u64, u32),
    block: u64,
}

impl Seal {
    /// The block that starts with this line, and the bytes of the line. `tx` is the
    /// number of the transaction in the drive.
    //= bytefs 4.6
    pub(crate) fn line(&self, tx: u32) -> (u64, Line) {
        let block: Box<Block> = self.form.commit(self.sequence, self.time, tx);
        let mut line = [0; 64];
        line.copy_from_slice(&block[..64]);
        debug_assert!(block[64..].iter().all(|&byte| byte == 0));
        (self.block, line)
    }
}

/// An open journal of records, with the span of its log in use.
pub(crate) struct Area {
    map: Map,
    form: Form,
    superblock: Superblock,
    span: Span,
    next: u32,
    to: Placement,
    who: Who,
}

/// Blocks of the log that a record of `copies` copies takes: descriptors, copies and
/// the commit block.
const fn blocks_of(copies: usize) -> u32 {
    (copies.div_ceil(TAGS) + copies + 1) as u32
}

impl Area {
    /// Replays the journal in `runs`, and leaves it empty.
    ///
    /// # Errors
    /// If there is no journal, if it is damaged or of an unknown kind, or if the medium fails.
    pub(crate) async fn open(
        port: &Disk,
        runs: &[Run],
        to: Placement,
        origin: Origin,
    ) -> Result<(Self, Recovery), JournalError> {
        let blocks = port.capacity().0 / UNIT as u64;
        let map = Map::new(runs, blocks)?;
        let purpose = Purpose::Journal;
        let who = Who { origin, purpose };
        let recover = Recover {
            port,
            map: &map,
            blocks,
            journal: (to, who),
            metadata: to,
        };
        let (superblock, report) = recover.run().await?;
        if superblock.end() - superblock.first < super::SMALLEST {
            return Err(JournalError::Shape);
        }
        let span = Span {
            first: superblock.first,
            end: superblock.end(),
            head: superblock.first,
            tail: superblock.first,
            tail_id: u64::from(superblock.sequence),
        };
        let area = Self {
            form: Form::ours(&superblock.uuid),
            next: superblock.sequence,
            superblock,
            map,
            span,
            to,
            who,
        };
        Ok((area, report))
    }

    /// Upper bound on the copies of one record.
    pub(crate) fn largest(&self) -> usize {
        let size = self.span.size() as usize;
        // At least one block of the log stays free.
        (size - 2) * TAGS / (TAGS + 1)
    }

    /// Whether a record of `copies` copies fits in the free part of the log.
    pub(crate) fn has_room(&self, copies: usize) -> bool {
        blocks_of(copies) < self.span.free()
    }

    /// Takes the next place, for a record of `copies` copies.
    pub(crate) fn place(&mut self, copies: usize) -> Place {
        let (sequence, start) = (self.next, self.span.head);
        self.next = self.next.wrapping_add(1);
        self.span.head = self.span.after(start, blocks_of(copies));
        let commit = self.span.after(start, blocks_of(copies) - 1);
        Place {
            sequence,
            start,
            commit,
        }
    }

    /// The blocks of a record that is not committed yet: its commit block is zeros.
    pub(crate) fn record(&self, place: Place, copies: &[(u64, Payload)]) -> Vec<Piece> {
        let mut blocks = Vec::with_capacity(blocks_of(copies.len()) as usize);
        for part in copies.chunks(TAGS) {
            let (tags, copies): (Vec<Tag>, Vec<Payload>) =
                part.iter().map(|copy| self.tagged(place, copy)).unzip();
            blocks.push(payload(&self.form.descriptor(place.sequence, &tags)));
            blocks.extend(copies);
        }
        blocks.push(Payload::Zero);
        let to = (self.to, self.who);
        pieces(&self.map, &self.span, place.start, blocks, to)
    }

    fn tagged(&self, place: Place, (home, original): &(u64, Payload)) -> (Tag, Payload) {
        let (copy, escaped) = copy_for_log(original);
        let tag = Tag {
            home: *home,
            escaped,
            sum: self.form.sum(place.sequence, &copy.to_bytes()),
        };
        (tag, copy)
    }

    /// The seal that commits the record at `place`; `time` is seconds since 1970 and nanoseconds.
    pub(crate) fn seal(&self, place: Place, time: (u64, u32)) -> Seal {
        Seal {
            form: self.form,
            sequence: place.sequence,
            time,
            block: self.map.home(place.commit).0,
        }
    }

    /// Frees the log up to and including the record at `place`.
    pub(crate) fn retire(&mut self, place: Place) {
        self.span.tail = self.span.after(place.commit, 1);
        self.span.tail_id = u64::from(place.sequence.wrapping_add(1));
    }

    /// The block number and bytes of the superblock, with the tail of the log as the
    /// start of recovery; with no start unless `in_use`.
    pub(crate) fn superblock(&mut self, in_use: bool) -> (u64, Payload) {
        self.superblock.sequence = self.span.tail_id as u32;
        self.superblock.start = if in_use { self.span.tail } else { 0 };
        (self.map.home(0).0, payload(&self.superblock.encode()))
    }

    /// Placement and attribution of writes to the journal.
    pub(crate) const fn to(&self) -> (Placement, Who) {
        (self.to, self.who)
    }
}

/// Writes one block durably (FUA).
///
/// # Errors
/// If the medium fails.
pub(crate) async fn write_durably(
    port: &Disk,
    (block, bytes): (u64, Payload),
    (to, who): (Placement, Who),
) -> Result<(), IoError> {
    let copies = [bytes];
    let content = Content::Sectors(&copies);
    port.write(extent(block, 1), content, to, who, true).await
}
