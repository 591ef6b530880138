//! What flash holds and nobody can ask for again.
//!
//! Once every program issued up to the one that superseded a page has completed, no
//! recovery goes back behind it: its spare area may still be read, its contents may
//! not. So the memory that they take in this process is given back, which is worth a
//! page fault for each page of a journal.
//!
//! Invariant: places in the queue lie on lines that have not been erased since. They
//! are taken out before a line is erased, by when all that superseded its pages has
//! completed.

use crate::config::DriveConfig;
use crate::drive::Core;
use crate::layout::{Layout, NONE};
use crate::state::State;
use nand::BlockId;
use std::collections::VecDeque;
use std::ops::Range;

/// Places ahead of time for which the processor is asked: what was written a while ago
/// is in none of its caches. About as many as a program has pages.
const AHEAD: usize = 8;

/// Superseded places, with the number of the first program that need not have
/// completed when their contents are forgotten, in its order.
pub(crate) struct Superseded {
    forgets: bool,
    places: VecDeque<(u64, u32)>,
}

impl Superseded {
    /// Nothing is forgotten where programs fail: then a version that was written while
    /// a failed one is retried may be the only one after the flushed one, and a cut
    /// before it is on flash goes back further.
    pub(crate) fn new(config: &DriveConfig) -> Self {
        Self {
            forgets: config.flash.keep_contents && config.faults.program_failures == 0,
            places: VecDeque::new(),
        }
    }

    /// The version at `place`, if there is one, was superseded by a program before
    /// number `next`.
    #[inline]
    pub(crate) fn add(&mut self, place: u32, next: u64) {
        if self.forgets && place != NONE {
            self.places.push_back((next, place));
        }
    }

    /// A place whose contents no recovery can ask for.
    #[inline]
    fn pop(&mut self, settled: u64) -> Option<u32> {
        let (next, _) = self.places.front()?;
        (*next <= settled)
            .then(|| self.places.pop_front())?
            .map(|(_, place)| place)
    }
}

impl Core {
    /// Forgets what nobody can ask for any more.
    #[inline]
    pub(crate) fn forget_superseded(&self, state: &mut State) {
        while let Some(place) = state.superseded.pop(state.in_flight.settled) {
            let (block, page, sectors) = self.sectors_at(state, place);
            self.nand.forget(block, page, sectors);
        }
        for &(_, place) in state.superseded.places.iter().take(AHEAD) {
            let (block, page, sectors) = self.sectors_at(state, place);
            self.nand.forget_soon(block, page, sectors);
        }
    }

    /// The sectors of flash that a place is.
    pub(crate) fn sectors_at(&self, state: &State, place: u32) -> (BlockId, u32, Range<u32>) {
        let (line, offset) = self.layout.line_of(place);
        let at = self.layout.place(offset);
        let row = self.row(state, line, at.unit, at.row);
        let sectors = at.sector..at.sector + self.layout.sectors_per_page;
        (Layout::block(&row, at.plane), at.row, sectors)
    }
}
