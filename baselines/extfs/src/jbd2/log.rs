//! Location of the log on the medium, and the part of it in use.
//!
//! Invariants: a recovery needs only the blocks from `tail` up to `head`, going
//! around, and these are never all of the log.

use super::JournalError;
use super::format::Block;
use crate::buffer::BLOCK;
use crate::persist::Run;
use host::{BlockPort, Disk, Who};
use nand::Payload;
use ssd::{Content, IoError};
use std::sync::Arc;
use units::{Extent, Placement, SECTOR};

/// Sectors in a block of the file system.
pub(super) const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// Blocks of the largest command: 1,280 KiB, the cap that Linux' block layer puts
/// on the requests of a file system (`BLK_DEF_MAX_SECTORS`).
pub(crate) const LARGEST: usize = 320;

/// Commands in flight at once, as many buffers as jbd2 hands to the block layer
/// in one batch (`JBD2_NR_BATCH`).
const DEPTH: usize = 64;

/// The extent of `count` blocks from `start` on.
pub(super) fn extent(start: u64, count: usize) -> Extent {
    Extent::new(start * SECTORS, (count as u64 * SECTORS) as u32)
}

/// A payload that holds `bytes`.
pub(super) fn payload(bytes: &Block) -> Payload {
    // Straight into the shared allocation, without a copy on the stack.
    let shared = Arc::<[u8]>::from(bytes.as_slice());
    Payload::Bytes(shared.try_into().expect("it is a block"))
}

/// Map from blocks of the log to blocks of the file system.
pub(crate) struct Map {
    runs: Vec<Run>,
    /// The block of the log that each run starts with.
    starts: Vec<u32>,
}

impl Map {
    /// The map of a log that lies in `runs`, on a medium of `blocks` blocks.
    pub(crate) fn new(runs: &[Run], blocks: u64) -> Result<Self, JournalError> {
        let (mut starts, mut next) = (Vec::with_capacity(runs.len()), 0_u32);
        let runs: Vec<_> = runs.iter().copied().filter(|run| run.len > 0).collect();
        for run in &runs {
            let fits = run.start.checked_add(run.len).is_some_and(|e| e <= blocks);
            let len = u32::try_from(run.len).ok().filter(|_| fits);
            starts.push(next);
            let end = len.and_then(|len| next.checked_add(len));
            next = end.ok_or(JournalError::Shape)?;
        }
        Ok(Self { runs, starts })
    }

    /// Blocks of all runs.
    pub(crate) fn len(&self) -> u32 {
        let last = self.runs.last().zip(self.starts.last());
        last.map_or(0, |(run, start)| start + run.len as u32)
    }

    /// The block of the file system that holds block `index` of the log, and the count of
    /// blocks from it to the end of its run, itself included.
    pub(crate) fn home(&self, index: u32) -> (u64, u32) {
        let run = self.starts.partition_point(|&start| start <= index) - 1;
        let inside = index - self.starts[run];
        let Run { start, len } = self.runs[run];
        (start + u64::from(inside), len as u32 - inside)
    }

    /// Whether `block` belongs to the log.
    pub(crate) fn holds(&self, block: u64) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|run| (run.start..run.start + run.len).contains(&block))
    }
}

/// The part of the log that is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    /// The first block that transactions use, and one past the last.
    pub(super) first: u32,
    pub(super) end: u32,
    /// The next block of the log to write.
    pub(super) head: u32,
    /// The first block that a recovery needs.
    pub(super) tail: u32,
    /// The transaction that starts at `tail`.
    pub(super) tail_id: u64,
}

impl Span {
    pub(super) fn size(&self) -> u32 {
        self.end - self.first
    }

    /// Blocks from `tail` up to `to`.
    pub(super) fn distance(&self, to: u32) -> u32 {
        if to >= self.tail {
            to - self.tail
        } else {
            to + self.size() - self.tail
        }
    }

    /// Blocks that no recovery needs.
    pub(super) fn free(&self) -> u32 {
        self.size() - self.distance(self.head)
    }

    /// The block `count` after `at`, going around.
    pub(super) fn after(&self, at: u32, count: u32) -> u32 {
        self.first + (at - self.first + count) % self.size()
    }
}

/// Adjacent blocks to be written with one command.
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) payloads: Vec<Payload>,
    pub(crate) placement: Placement,
    pub(crate) who: Who,
}

impl Piece {
    async fn write(&self, port: &Disk) -> Result<(), IoError> {
        let extent = extent(self.start, self.payloads.len());
        let content = Content::Sectors(&self.payloads);
        let written = port.write(extent, content, self.placement, self.who, false);
        written.await
    }
}

/// Cuts `payloads`, for the log from block `at` on, into pieces: one per run, lap and
/// [`LARGEST`] blocks.
pub(super) fn pieces(
    map: &Map,
    span: &Span,
    mut at: u32,
    payloads: Vec<Payload>,
    (placement, who): (Placement, Who),
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut left = payloads.into_iter();
    while left.len() > 0 {
        let (start, follow) = map.home(at);
        let room = (span.end - at).min(follow) as usize;
        let payloads: Vec<_> = left.by_ref().take(room.min(LARGEST)).collect();
        at = span.after(at, payloads.len() as u32);
        pieces.push(Piece {
            start,
            payloads,
            placement,
            who,
        });
    }
    pieces
}

/// Writes pieces, up to [`DEPTH`] in flight at once.
pub(crate) async fn write_pieces(port: &Disk, pieces: &[Piece]) -> Result<(), IoError> {
    if let [piece] = pieces {
        return piece.write(port).await;
    }
    for batch in pieces.chunks(DEPTH) {
        let writes = batch.iter().map(|piece| piece.write(port)).collect();
        let results = sim::join_all(writes).await;
        results.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_wrap_at_the_end_of_the_log_and_split_between_runs() {
        let (a, b) = (Run { start: 10, len: 4 }, Run { start: 50, len: 6 });
        let map = Map::new(&[a, b], 100).unwrap();
        assert_eq!(
            (map.len(), map.home(3), map.home(4)),
            (10, (13, 1), (50, 6))
        );
        assert!(map.holds(55) && !map.holds(14));
        let span = Span {
            first: 1,
            end: 10,
            head: 8,
            tail: 8,
            tail_id: 1,
        };
        let payloads = vec![Payload::Zero; 7];
        let cut = pieces(&map, &span, 8, payloads, (Placement(0), Who::default()));
        let places: Vec<_> = cut.iter().map(|p| (p.start, p.payloads.len())).collect();
        assert_eq!(places, [(54, 2), (11, 3), (50, 2)]);
    }

    #[test]
    fn map_of_runs_past_the_medium_is_an_error() {
        for (start, len) in [(99, 2), (u64::MAX, 2), (0, u64::MAX)] {
            assert!(Map::new(&[Run { start, len }], 100).is_err());
        }
    }
}
