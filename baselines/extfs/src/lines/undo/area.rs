//! Where the undo journal is: slots of records as bytes of the volume.

use super::format::{FIRST_BLOCK, HEAD_BLOCK};
use crate::buffer::BLOCK;
use crate::geometry::MountError;
use crate::jbd2::Map;
use crate::journal::LEAST;
use crate::persist::Run;
use ssd::wlog::LINE;
use std::ops::Range;

/// Records of a block.
const PER_BLOCK: u64 = (BLOCK / LINE) as u64;

/// Blocks of records that are used at most: 16 MiB, our choice. More would make
/// recovery longer, and a transaction is smaller.
const MOST: u32 = 4096;

/// Slots of the smallest journal.
pub(super) const LEAST_SLOTS: u64 = (LEAST - FIRST_BLOCK) as u64 * PER_BLOCK;

/// The blocks of the journal.
pub(super) struct Area {
    map: Map,
    /// Blocks of it that are used.
    blocks: u32,
}

impl Area {
    /// That of a journal in `runs`, of at least [`LEAST`] blocks, on a volume of `blocks` blocks.
    pub(super) fn new(runs: &[Run], blocks: u64) -> Result<Self, MountError> {
        let outside = MountError::Journal("it does not lie where it says");
        let map = Map::new(runs, blocks).map_err(|_| outside)?;
        let blocks = map.len().min(FIRST_BLOCK + MOST);
        assert!(blocks > FIRST_BLOCK, "a journal has {LEAST} blocks");
        Ok(Self { map, blocks })
    }

    /// Slots of records.
    pub(super) fn slots(&self) -> u64 {
        u64::from(self.blocks - FIRST_BLOCK) * PER_BLOCK
    }

    /// Block 0 of the journal, which belongs to the block journal.
    pub(super) fn superblock(&self) -> u64 {
        self.map.home(0).0
    }

    /// Where the head is, in bytes of the volume.
    pub(super) fn head(&self) -> u64 {
        self.map.home(HEAD_BLOCK).0 * BLOCK as u64
    }

    /// Blocks of the journal behind the superblock, as runs on the volume.
    pub(super) fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut block = HEAD_BLOCK;
        while block < self.blocks {
            let (start, len) = self.map.home(block);
            let len = len.min(self.blocks - block);
            runs.push(Run {
                start,
                len: u64::from(len),
            });
            block += len;
        }
        runs
    }

    /// Blocks that the journal has, used or not.
    pub(super) fn blocks(&self) -> u64 {
        self.map.len().into()
    }

    /// Whether byte `at` of the volume belongs to the journal.
    pub(super) fn holds(&self, at: u64) -> bool {
        self.map.holds(at / BLOCK as u64)
    }

    /// Where `count` slots from `slot` on are, going around: bytes of the volume, and
    /// which of the slots are there.
    pub(super) fn places(&self, slot: u64, count: u64) -> Vec<(u64, Range<usize>)> {
        let mut places = Vec::new();
        let mut done = 0;
        while done < count {
            let slot = (slot + done) % self.slots();
            let block = FIRST_BLOCK + (slot / PER_BLOCK) as u32;
            let (home, run) = self.map.home(block);
            let run = u64::from(run.min(self.blocks - block)) * PER_BLOCK - slot % PER_BLOCK;
            let here = run.min(count - done);
            let at = home * BLOCK as u64 + slot % PER_BLOCK * LINE as u64;
            places.push((at, done as usize..(done + here) as usize));
            done += here;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, len: u64) -> Run {
        Run { start, len }
    }

    #[test]
    fn slots_follow_the_runs_and_go_around() {
        let area = Area::new(&[run(10, 3), run(40, 2)], 100).unwrap();
        assert_eq!(area.slots(), 3 * 64);
        let byte = |block: u64, line: u64| block * 4096 + line * 64;
        assert_eq!((area.superblock(), area.head()), (10, byte(11, 0)));
        assert_eq!(area.places(0, 2), [(byte(12, 0), 0..2)]);
        let around = area.places(60, 140);
        let expected = [
            (byte(12, 60), 0..4),
            (byte(40, 0), 4..132),
            (byte(12, 0), 132..140),
        ];
        assert_eq!(around, expected);
        assert_eq!(area.runs(), [run(11, 2), run(40, 2)]);
        assert!(area.holds(byte(40, 63)) && !area.holds(byte(42, 0)));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert!(Area::new(&[run(99, 5)], 100).is_err());
        assert!(Area::new(&[run(u64::MAX, 5)], 100).is_err());
    }
}
