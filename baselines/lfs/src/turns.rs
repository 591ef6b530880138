//! Which of the two places of a block of a table counts.
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
    /// As the last checkpoint says.
    committed: RefCell<Maps>,
}

/// Where a copy of a block of a table lies: the copies of the SIT are one area each,
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

/// Which map says it of a block, and where; none if there is one place only.
const fn turn_of(table: Table) -> Option<(usize, usize)> {
    match table {
        Table::Sit(index) => Some((0, index as usize)),
        Table::Nat(index) => Some((1, index as usize)),
        Table::Summary(_) => None,
    }
}

impl Turns {
    /// As the state that was committed last says.
    #[must_use]
    pub fn of(found: &Found) -> Self {
        Self::new(found.geometry.clone(), &found.pack.head)
    }

    /// As the checkpoint with this head says.
    pub(crate) fn new(geometry: Geometry, head: &Head) -> Self {
        let maps = [head.sit_bitmap.clone(), head.nat_bitmap.clone()];
        Self {
            geometry,
            newest: RefCell::new(maps.clone()),
            committed: RefCell::new(maps),
        }
    }

    /// Where the newest version of a block lies.
    pub fn newest(&self, table: Table) -> u32 {
        let newest = self.newest.borrow();
        let second = turn_of(table).is_some_and(|(map, at)| high_bit(&newest[map], at));
        place(&self.geometry, table, second)
    }

    /// Where the next version of a block goes, which is the newest one then.
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

    /// The checkpoint that says so is on the medium.
    pub fn committed(&self) {
        self.committed
            .borrow_mut()
            .clone_from(&self.newest.borrow());
    }
}
