//! The blocks of a journal, for contents of files that others commit.
//!
//! A record is a transaction of jbd2 but for its commit block, of which all lies in
//! the first 64 bytes: with the record that block is written as zeros, and whoever has
//! transactions of cache lines stores the first line along with the rest of one. So the
//! record counts exactly if that transaction does, for recovery here and for anybody
//! else who replays a journal of jbd2.
//!
//! Invariants: records are committed in the order of their places; a place is given
//! out again only once the superblock on the medium says that recovery starts behind
//! it.

use super::format::{Block, Form, Superblock, TAGS, Tag};
use super::log::{Map, Piece, Span, extent, payload, pieces};
use super::recover::{Recover, copy_for_log};
use super::{JournalError, Recovery};
use crate::persist::Run;
use host::{BlockPort, Purpose, Who};
use nand::{Payload, UNIT};
use ssd::{Content, IoError};
use units::{Origin, Placement};

/// The first line of a commit block.
type Line = [u8; 64];

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    sequence: u32,
    start: u32,
    /// Of its commit block, the last one of the record.
    commit: u32,
}

/// The line that makes a record count, but for the number of a transaction.
pub(crate) struct Seal {
    form: Form,
    sequence: u32,
    time: (u64, u32),
    block: u64,
}

impl Seal {
    /// The block whose first line it is, and its bytes; `tx` is the number that the
    /// drive has for the transaction.
    //= bytefs 4.6
    pub(crate) fn line(&self, tx: u32) -> (u64, Line) {
        let block: Box<Block> = self.form.commit(self.sequence, self.time, tx);
        let mut line = [0; 64];
        line.copy_from_slice(&block[..64]);
        debug_assert!(block[64..].iter().all(|&byte| byte == 0));
        (self.block, line)
    }
}

/// The blocks of a journal.
pub(crate) struct Area {
    map: Map,
    form: Form,
    superblock: Superblock,
    span: Span,
    next: u32,
    to: Placement,
    who: Who,
}

/// Blocks of a record of so many copies.
const fn blocks_of(copies: usize) -> u32 {
    (copies.div_ceil(TAGS) + copies + 1) as u32
}

impl Area {
    /// Replays the journal in `runs`, and leaves it empty.
    ///
    /// # Errors
    /// If there is no journal, if it is damaged or of an unknown kind, or if the
    /// medium fails.
    pub(crate) async fn open<P: BlockPort>(
        port: &P,
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

    /// Most copies of a record.
    pub(crate) fn largest(&self) -> usize {
        let size = self.span.size() as usize;
        // All of the log is never in use.
        (size - 2) * TAGS / (TAGS + 1)
    }

    /// Whether a record of so many copies can be placed now.
    pub(crate) fn has_room(&self, copies: usize) -> bool {
        blocks_of(copies) < self.span.free()
    }

    /// Gives out the next place, for so many copies.
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

    /// The blocks of a record that does not count yet.
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

    /// What makes a record count, that bears this time.
    pub(crate) fn seal(&self, place: Place, time: (u64, u32)) -> Seal {
        Seal {
            form: self.form,
            sequence: place.sequence,
            time,
            block: self.map.home(place.commit).0,
        }
    }

    /// Nobody needs the records up to `place` any more.
    pub(crate) fn retire(&mut self, place: Place) {
        self.span.tail = self.span.after(place.commit, 1);
        self.span.tail_id = u64::from(place.sequence.wrapping_add(1));
    }

    /// The superblock that says where recovery starts; nowhere, once it is no longer
    /// `in_use`.
    pub(crate) fn superblock(&mut self, in_use: bool) -> (u64, Payload) {
        self.superblock.sequence = self.span.tail_id as u32;
        self.superblock.start = if in_use { self.span.tail } else { 0 };
        (self.map.home(0).0, payload(&self.superblock.encode()))
    }

    /// Whom the journal is booked under, and where it goes.
    pub(crate) const fn to(&self) -> (Placement, Who) {
        (self.to, self.who)
    }
}

/// Writes one block, durable when this ends.
///
/// # Errors
/// If the medium fails.
pub(crate) async fn write_durably(
    port: &impl BlockPort,
    (block, bytes): (u64, Payload),
    (to, who): (Placement, Who),
) -> Result<(), IoError> {
    let copies = [bytes];
    let content = Content::Sectors(&copies);
    port.write(extent(block, 1), content, to, who, true).await
}
