//! Release of flash contents that no read and no recovery can reach.
//!
//! Once every program issued up to the one that superseded a page has completed, no recovery reads
//! the contents of the older version again; its spare area may still be read. So the process memory
//! of those contents is released, which saves a page fault for each page of a journal.
//!
//! Invariant: places in the queue lie on lines that have not been erased since. They are removed
//! before the line is erased: by then every program that superseded its pages has completed.

use crate::config::DriveConfig;
use crate::drive::Core;
use crate::layout::{Layout, NONE};
use crate::state::State;
use nand::BlockId;
use std::collections::VecDeque;
use std::ops::Range;

/// Queued places whose contents are prefetched into the processor's caches, where contents written
/// a while ago no longer are. About as many as a program has pages.
const AHEAD: usize = 8;

/// Superseded places in their order, each with the sequence number of the first program that need
/// not have completed when its contents are released.
pub(crate) struct Superseded {
    forgets: bool,
    places: VecDeque<(u64, u32)>,
}

impl Superseded {
    /// A queue for `config`; inert if contents are not kept, or if programs may fail. With
    /// failures, a version written while a failed program is retried may be the only one after the
    /// flushed version, and a cut before it is on flash falls back further.
    pub(crate) fn new(config: &DriveConfig) -> Self {
        Self {
            forgets: config.flash.keep_contents && config.faults.program_failures == 0,
            places: VecDeque::new(),
        }
    }

    /// Queues the version at `place`, unless it is `NONE`: a program before number `next`
    /// superseded it.
    #[inline]
    pub(crate) fn add(&mut self, place: u32, next: u64) {
        if self.forgets && place != NONE {
            self.places.push_back((next, place));
        }
    }

    /// Takes the first place whose contents no recovery reads any more.
    #[inline]
    fn pop(&mut self, settled: u64) -> Option<u32> {
        let (next, _) = self.places.front()?;
        (*next <= settled)
            .then(|| self.places.pop_front())?
            .map(|(_, place)| place)
    }
}

impl Core {
    /// Releases the contents of all places that no recovery reads any more.
    #[inline]
    pub(crate) fn forget_superseded(&self, state: &mut State) {
        while let Some(place) = state.superseded.pop(state.in_flight.settled) {
            let (block, page, sectors) = state.sectors_at(&self.layout, place);
            self.nand.forget(block, page, sectors);
        }
        for &(_, place) in state.superseded.places.iter().take(AHEAD) {
            let (block, page, sectors) = state.sectors_at(&self.layout, place);
            self.nand.forget_soon(block, page, sectors);
        }
    }
}

impl State {
    /// The flash sectors of the mapped page at `place`: block, page in the block, sectors.
    pub(crate) fn sectors_at(&self, layout: &Layout, place: u32) -> (BlockId, u32, Range<u32>) {
        let at = self.flash_page(layout, place);
        let sectors = at.sector..at.sector + layout.sectors_per_page;
        (at.block, at.page, sectors)
    }
}
