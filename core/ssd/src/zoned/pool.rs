//! Erased blocks, and their assignment to zones.
//!
//! Invariant: a block is in the pool, or belongs to a zone or a backup, or is bad. A plane has good
//! blocks for every zone of its group that is not offline.

use super::config::ZoneLayout;
use nand::{BlockId, BlockState, MAX_PLANES, Media, Row};

/// Erased blocks of every plane.
#[derive(Default)]
pub(super) struct Pool {
    /// For each die and plane: erased blocks, in the order in which they became free.
    free: Vec<Vec<u32>>,
    /// For each die and plane: number of blocks that are not bad.
    good: Vec<u32>,
    /// Whether the least worn block is taken; if not, the one that has been free the longest.
    least_worn: bool,
}

impl Pool {
    pub(super) fn new(layout: &ZoneLayout, least_worn: bool) -> Self {
        let columns = (layout.geometry.dies() * layout.geometry.planes) as usize;
        Self {
            free: vec![Vec::new(); columns],
            good: vec![0; columns],
            least_worn,
        }
    }

    fn column(layout: &ZoneLayout, die: u32, plane: u32) -> usize {
        (die * layout.geometry.planes + plane) as usize
    }

    /// Registers a good block; `free` if it is erased and unassigned.
    pub(super) fn found(&mut self, layout: &ZoneLayout, block: BlockId, free: bool) {
        let column = Self::column(layout, block.die, block.plane);
        self.good[column] += 1;
        if free {
            self.free[column].push(block.block);
        }
    }

    /// Takes one erased block in every plane of `die`; `None` if a plane has none.
    pub(super) fn take(&mut self, layout: &ZoneLayout, media: &Media, die: u32) -> Option<Row> {
        let planes = layout.geometry.planes;
        let mut row = Row {
            die,
            page: 0,
            blocks: [0; MAX_PLANES],
            planes: ((1_u32 << planes) - 1) as u8,
        };
        let columns = Self::column(layout, die, 0)..Self::column(layout, die, planes);
        if self.free[columns.clone()].iter().any(Vec::is_empty) {
            return None;
        }
        for (plane, column) in columns.enumerate() {
            let erases = |&block: &u32| {
                let plane = plane as u32;
                media.erases(BlockId { die, plane, block })
            };
            let free = &mut self.free[column];
            let wear = free.iter().enumerate();
            let least = wear.min_by_key(|(at, block)| (erases(block), *at));
            let at = least.map_or(0, |(at, _)| at);
            row.blocks[plane] = free.remove(if self.least_worn { at } else { 0 });
        }
        Some(row)
    }

    /// Returns the blocks of `row` after their erase; those that turned bad leave the pool.
    pub(super) fn put(&mut self, layout: &ZoneLayout, media: &Media, row: Row) {
        for block in row.blocks() {
            let column = Self::column(layout, block.die, block.plane);
            if media.state(block) == BlockState::Bad {
                self.good[column] -= 1;
            } else {
                self.free[column].push(block.block);
            }
        }
    }

    /// Good blocks of the plane with the fewest, among the planes of `dies`.
    pub(super) fn fewest_good(&self, layout: &ZoneLayout, dies: std::ops::Range<u32>) -> u32 {
        let columns = Self::column(layout, dies.start, 0)..Self::column(layout, dies.end, 0);
        self.good[columns].iter().copied().min().unwrap_or(0)
    }

    /// Free blocks of the plane with the fewest, among the planes of `die`.
    pub(super) fn free_of(&self, layout: &ZoneLayout, die: u32) -> u32 {
        let columns =
            Self::column(layout, die, 0)..Self::column(layout, die, layout.geometry.planes);
        let free = self.free[columns].iter().map(Vec::len);
        free.min().unwrap_or(0) as u32
    }

    /// Free blocks over all planes.
    pub(super) fn free(&self) -> usize {
        self.free.iter().map(Vec::len).sum()
    }

    /// Good blocks over all planes.
    pub(super) fn good(&self) -> usize {
        self.good.iter().map(|&good| good as usize).sum()
    }
}
