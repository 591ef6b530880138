//! Location of the undo journal: maps slots of records to bytes of the volume.

use super::format::{FIRST_BLOCK, HEAD_BLOCK};
use crate::buffer::BLOCK;
use crate::geometry::MountError;
use crate::jbd2::Map;
use crate::journal::LEAST;
use crate::persist::Run;
use ssd::wlog::LINE;
use std::ops::Range;

/// Records in a block: 64, one per line.
const PER_BLOCK: u64 = (BLOCK / LINE) as u64;

/// Most blocks of records: 16 MiB, our choice. More would prolong recovery, and any
/// transaction is smaller.
const MOST: u32 = 4096;

/// Slots of a journal of [`LEAST`] blocks.
pub(super) const LEAST_SLOTS: u64 = (LEAST - FIRST_BLOCK) as u64 * PER_BLOCK;

/// The blocks of the journal.
pub(super) struct Area {
    map: Map,
    /// Blocks of the journal in use, superblock and head included.
    blocks: u32,
}

impl Area {
    /// Area of a journal in `runs`, which have at least [`LEAST`] blocks, on a volume of `blocks`
    /// blocks.
    ///
    /// # Errors
    ///
    /// If a run reaches past the volume.
    pub(super) fn new(runs: &[Run], blocks: u64) -> Result<Self, MountError> {
        let outside = MountError::Journal("it does not lie where it says");
        let map = Map::new(runs, blocks).map_err(|_| outside)?;
        let blocks = map.len().min(FIRST_BLOCK + MOST);
        assert!(blocks > FIRST_BLOCK, "a journal has {LEAST} blocks");
        Ok(Self { map, blocks })
    }

    /// Number of slots in the ring, each for one record.
    pub(super) fn slots(&self) -> u64 {
        u64::from(self.blocks - FIRST_BLOCK) * PER_BLOCK
    }

    /// Block 0 of the journal, which belongs to the block journal.
    pub(super) fn superblock(&self) -> u64 {
        self.map.home(0).0
    }

    /// Offset of the head in bytes of the volume.
    pub(super) fn head(&self) -> u64 {
        self.map.home(HEAD_BLOCK).0 * BLOCK as u64
    }

    /// Blocks in use behind the superblock, as runs on the volume.
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

    /// All blocks of the journal, used or not.
    pub(super) fn blocks(&self) -> u64 {
        self.map.len().into()
    }

    /// Whether byte `at` of the volume belongs to the journal.
    pub(super) fn holds(&self, at: u64) -> bool {
        self.map.holds(at / BLOCK as u64)
    }

    /// Locates `count` slots from `slot` on, with wrap-around. Each part is an offset in bytes of
    /// the volume and the range, within the `count` slots, that lies there.
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
    fn slots_past_the_last_run_wrap_to_the_first() {
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
    fn runs_past_the_volume_are_refused() {
        assert!(Area::new(&[run(99, 5)], 100).is_err());
        assert!(Area::new(&[run(u64::MAX, 5)], 100).is_err());
    }
}
