//! Power-on of a drive whose flash is, in whole or in part, as a past workload left it: the
//! firmware's memory by arithmetic, without a scan. The tests compare it with that of the scan.
//!
//! Invariant: sequence numbers of the past are lower than all others. So the newest version of a
//! page that neither a unit nor a deallocation of later lines names is the one that the past left
//! in a kept line; where the past left it in another line, the units there are replayed.

use super::{Found, Rebuilt, block_of, missing_blocks};
use crate::config::DriveConfig;
use crate::layout::Layout;
use crate::line::{LineState, Lines};
use crate::map::{Map, Where};
use crate::media::Dump;
use crate::past::Past;
use nand::Media;
use std::any::Any;
use std::sync::Arc;

/// The past of a drive of that layout.
pub(super) fn of(layout: &Layout, media: &Media) -> Option<Arc<Past>> {
    let past: Arc<dyn Any + Send + Sync> = media.past()?.clone();
    let past = past.downcast::<Past>().ok()?;
    (past.layout() == layout).then_some(past)
}

/// Whether the past alone determines the firmware's memory.
pub(super) fn is_all(media: &Media, dump: Option<&Dump>) -> bool {
    let trims = dump.is_some_and(|dump| !dump.trims.is_empty());
    media.unchanged().is_some() && !trims
}

/// Lines of which every block is as a past left it.
pub(super) struct Kept {
    past: Arc<Past>,
    lines: Vec<bool>,
}

impl Kept {
    pub(super) fn new(layout: &Layout, media: &Media, found: &Found, past: &Arc<Past>) -> Self {
        let is_kept = |line: u32| {
            let owner = past.turn(line).map(|_| past.frontier(line));
            let mut places = (0..layout.dies_per_group)
                .flat_map(|die| (0..layout.geometry.planes).map(move |plane| (die, plane)));
            owner.is_some()
                && owner == found.owners[line as usize]
                && places.all(|(die, plane)| {
                    let block = block_of(layout, found, line, die, plane);
                    block.is_some_and(|id| media.untouched(id).is_some() && past.holds(id, line))
                })
        };
        Self {
            lines: (0..layout.lines()).map(is_kept).collect(),
            past: Arc::clone(past),
        }
    }

    pub(super) fn has(&self, line: u32) -> bool {
        self.lines[line as usize]
    }

    /// The map that the kept lines have.
    pub(super) fn map(&self, layout: &Layout) -> Map {
        let mut map = Map::new(layout.pages(), Some(Arc::clone(&self.past)));
        for line in (0..layout.lines()).filter(|&line| !self.has(line)) {
            for page in self.past.newest_in(line) {
                map.set(page, Where::Nowhere);
            }
        }
        map
    }

    /// Whether a unit of the past with sequence number `stamp` left `page` at `place` as the newest
    /// version; true for any later unit.
    pub(super) fn is_newest(&self, stamp: u64, page: u32, place: u32) -> bool {
        stamp >= self.past.next_sequence() || self.past.place(page) == Some(place)
    }

    /// Sequence number of the first program after the past.
    pub(super) fn next_sequence(&self) -> u64 {
        self.past.next_sequence()
    }

    /// Finds the valid pages of all lines: those that the past left in the kept ones, less those
    /// that `map` has elsewhere now.
    pub(super) fn find_valid(&self, layout: &Layout, map: &Map, lines: &mut Lines) {
        for line in (0..layout.lines()).filter(|&line| self.has(line)) {
            lines.remember(line, &self.past);
        }
        for page in map.changed() {
            if let Some(place) = self.past.place(page) {
                let (line, _) = layout.line_of(place);
                if self.has(line) {
                    lines.find_invalid(line, place);
                }
            }
            if let Where::Flash(place) = map.get(page) {
                lines.find_valid(layout.line_of(place).0, place);
            }
        }
    }
}

/// The memory of a drive that `past` left, with the pools of [`crate::demand::pools`].
pub(super) fn remember(
    layout: &Layout,
    config: &DriveConfig,
    pools: (Vec<u32>, u32),
    past: &Arc<Past>,
) -> Rebuilt {
    let (blocks, spares) = past.blocks();
    let owner = |line: u32| past.turn(line).map(|_| past.frontier(line));
    let found = Found {
        blocks,
        spares,
        owners: (0..layout.lines()).map(owner).collect(),
        dirty: vec![Vec::new(); layout.lines() as usize],
        units: Vec::new(),
    };
    let mut lines = Lines::new(layout, config, pools.0, pools.1);
    for line in 0..layout.lines() {
        lines.remember(line, past);
        let owner = found.owners[line as usize];
        let state = match owner {
            Some(_) => LineState::Closed,
            None if missing_blocks(layout, &found, line) => LineState::Retired,
            None => LineState::Free,
        };
        lines.found(line, owner.unwrap_or(0), state);
    }
    Rebuilt {
        map: Map::new(layout.pages(), Some(Arc::clone(past))),
        lines,
        next: past.next_sequence(),
        found,
    }
}
