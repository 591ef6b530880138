//! Power-on of a drive whose flash is as a past workload left it: the firmware's memory by
//! arithmetic, without a scan. The tests compare it with that of the scan.

use super::{Found, Rebuilt, missing_blocks};
use crate::config::DriveConfig;
use crate::layout::Layout;
use crate::line::{LineState, Lines};
use crate::map::Map;
use crate::media::Dump;
use crate::past::Past;
use nand::Media;
use std::any::Any;
use std::sync::Arc;

/// The past of a drive of that layout, if it alone determines the firmware's memory.
pub(super) fn of(layout: &Layout, media: &Media, dump: Option<&Dump>) -> Option<Arc<Past>> {
    let past: Arc<dyn Any + Send + Sync> = media.unchanged()?.clone();
    let past = past.downcast::<Past>().ok()?;
    let trims = dump.is_some_and(|dump| !dump.trims.is_empty());
    (past.layout() == layout && !trims).then_some(past)
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
