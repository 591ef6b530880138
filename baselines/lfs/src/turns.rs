//! [`Turns`]: which of the two places of each table block holds its current version.
//!
//! Invariant: of the two places of a block, the one that the last checkpoint leads to is
//! not given out to be written.

use crate::format::checkpoint::Head;
use crate::format::superblock::Geometry;
use crate::format::{SEG_BLOCKS, high_bit, set_high_bit};
use crate::persist::{Found, Table};
use std::cell::RefCell;

/// The bitmaps of the SIT and of the NAT.
type Maps = [Vec<u8>; 2];

/// The places of the tables' blocks, in the addresses of the format.
pub struct Turns {
    geometry: Geometry,
    newest: RefCell<Maps>,
    /// Bits of the last checkpoint, whose places must not be written.
    committed: RefCell<Maps>,
}

/// Address of the first or second copy of a table block: the copies of the SIT are one area each,
/// those of the NAT segments in turn.
//= f2fs-layout 3
//= f2fs-layout 4
pub(crate) fn place(geometry: &Geometry, table: Table, second: bool) -> u32 {
    match table {
        Table::Nat(index) => {
            let pair = index / SEG_BLOCKS * 2 + u32::from(second);
            geometry.nat + pair * SEG_BLOCKS + index % SEG_BLOCKS
        }
        Table::Sit(index) => {
            let copy = geometry.sit_segments / 2 * SEG_BLOCKS;
            geometry.sit + index + if second { copy } else { 0 }
        }
        Table::Summary(segment) => geometry.ssa + segment,
    }
}

/// Index of the bitmap in [`Maps`] and of the bit in it for `table`; `None` for summaries,
/// which have one place.
const fn turn_of(table: Table) -> Option<(usize, usize)> {
    match table {
        Table::Sit(index) => Some((0, index as usize)),
        Table::Nat(index) => Some((1, index as usize)),
        Table::Summary(_) => None,
    }
}

impl Turns {
    /// Places as the last committed state has them.
    #[must_use]
    pub fn of(found: &Found) -> Self {
        Self::new(found.geometry.clone(), &found.pack.head)
    }

    /// Places as the bitmaps of a checkpoint's `head` have them.
    pub(crate) fn new(geometry: Geometry, head: &Head) -> Self {
        let maps = [head.sit_bitmap.clone(), head.nat_bitmap.clone()];
        Self {
            geometry,
            newest: RefCell::new(maps.clone()),
            committed: RefCell::new(maps),
        }
    }

    /// Address of the newest version of a block, committed or not.
    pub fn newest(&self, table: Table) -> u32 {
        let newest = self.newest.borrow();
        let second = turn_of(table).is_some_and(|(map, at)| high_bit(&newest[map], at));
        place(&self.geometry, table, second)
    }

    /// Address for the next version of a block, which becomes the newest: the place that the
    /// last checkpoint does not lead to. Summaries have one place and keep it.
    pub fn turn_over(&self, table: Table) -> u32 {
        let Some((map, at)) = turn_of(table) else {
            return place(&self.geometry, table, false);
        };
        let second = !high_bit(&self.committed.borrow()[map], at);
        set_high_bit(&mut self.newest.borrow_mut()[map], at, second);
        place(&self.geometry, table, second)
    }

    /// Writes what counts into the head of a checkpoint.
    pub(crate) fn put(&self, head: &mut Head) {
        [head.sit_bitmap, head.nat_bitmap] = self.newest.borrow().clone();
    }

    /// Makes the newest places the committed ones, once their checkpoint is on the medium.
    pub fn committed(&self) {
        self.committed
            .borrow_mut()
            .clone_from(&self.newest.borrow());
    }
}
