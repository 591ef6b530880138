//! The mapping as its user holds it, and what its tasks share.
//!
//! Invariants, defended by [`HostFtl::check`]: no block on flash is owned by two sectors, and
//! the table leads to the blocks that its sectors own; but for the time between an entry that
//! was put and the fence that makes it last, in which the block that it led to before is
//! still owned.

use crate::buffer::Buffer;
use crate::config::FtlConfig;
use crate::lines::{LineState, Lines};
use crate::meta::Trimmed;
use crate::pins::Pins;
use crate::slots::Slots;
use crate::table::Table;
use host::{RawMark, RawPort};
use nand::Payload;
use sim::{Signal, Sim};
use ssd::{IoError, Ppa, RawGeometry};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use units::{Refusals, SECTOR};

/// What is written to flash.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A version of a sector.
    Data(u32),
    /// A sector that cleaning moves, and where it was.
    Moved(u32, u32),
    /// Deallocations.
    Trims(Vec<Trimmed>),
    /// Deallocations that cleaning moves, each with the record that it comes from.
    Records(Vec<(Trimmed, u32)>),
}

/// A sector on its way to flash.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) what: What,
    pub(crate) number: u64,
    pub(crate) payload: Payload,
    pub(crate) mark: RawMark,
}

/// What waits in a queue.
#[derive(Clone, Debug)]
pub(crate) enum Queued {
    /// The version of this sector that waits in the buffer.
    Sector(u32),
    /// This.
    Item(Item),
}

/// New data, and what cleaning moves.
pub(crate) const USER: usize = 0;
pub(crate) const MOVED: usize = 1;

/// An open line and what is to be written to it.
#[derive(Default)]
pub(crate) struct Frontier {
    pub(crate) line: Option<usize>,
    pub(crate) queue: VecDeque<Queued>,
    /// So many at the head of the queue are written even if they do not fill a unit.
    pub(crate) forced: usize,
}

impl Frontier {
    /// Has everything written that waits.
    pub(crate) fn force(&mut self) {
        self.forced = self.queue.len();
    }

    /// Has this written before anything that waits: somebody may wait for it.
    pub(crate) fn put_first(&mut self, item: Item) {
        self.queue.push_front(Queued::Item(item));
        self.forced += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<Queued> {
        self.forced = self.forced.saturating_sub(1);
        self.queue.pop_front()
    }
}

/// What a mapping has done since it was mounted. Counts are of sectors of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlStats {
    /// That its user wrote, whole or in part: those that were overwritten or deallocated in
    /// the buffer too.
    pub written: u64,
    /// That came to flash as new data.
    pub data: u64,
    /// That cleaning wrote elsewhere.
    pub moved: u64,
    /// That held deallocations, new ones and those that cleaning put together.
    pub records: u64,
    /// That filled up units of the above.
    pub padding: u64,
    /// That filled up chunks, since only a full one can be reset.
    pub filled: u64,
    /// Lines that were cleaned and are free, or have no good chunk any more.
    pub cleaned: u64,
    /// Units of which the program failed.
    pub failed: u64,
    /// Times that a write waited for room in a buffer in persistent memory.
    pub waits: u64,
    /// Sectors that recovery has found in such a buffer.
    pub replayed: u64,
    /// Blocks that recovery read.
    pub recovered: u64,
    /// Blocks that recovery could not read. Whose they were is not known: of a sector the
    /// version before comes back, or zeros, and what was deallocated may come back. Their
    /// lines are kept as they are, so another mount may still read them.
    pub unreadable: u64,
    /// Blocks that recovery has read and that this mapping has not written, or not for a
    /// table of this size. They are taken for free.
    pub foreign: u64,
}

pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) lines: Lines,
    pub(crate) buffer: Buffer,
    /// Where versions in the buffer are, if it lasts.
    pub(crate) slots: Option<Slots>,
    pub(crate) frontiers: [Frontier; 2],
    /// Deallocations that are in no record yet.
    pub(crate) trims: Vec<Trimmed>,
    /// Flushes under way.
    pub(crate) flushing: u32,
    /// The number of the next version.
    pub(crate) number: u64,
    /// Items that cleaning has queued and that are not on flash.
    pub(crate) moving: usize,
    /// What cleaning has moved and the table does not know yet, and where it is.
    pub(crate) shifted: Vec<(What, u32)>,
    pub(crate) pins: Pins,
    /// Changes of the table that are being made durable.
    pub(crate) settling: u32,
    pub(crate) stats: FtlStats,
    pub(crate) refusals: Refusals,
}

pub(crate) struct Inner<P> {
    pub(crate) sim: Sim,
    pub(crate) port: P,
    pub(crate) config: FtlConfig,
    pub(crate) geometry: RawGeometry,
    /// Sectors of the table, hidden ones included.
    pub(crate) sectors: u32,
    pub(crate) state: RefCell<State>,
    /// By frontier: there may be something to write, or somewhere to write it.
    pub(crate) work: [Signal; 2],
    /// Something has come to its end.
    pub(crate) progress: Signal,
    /// Cleaning may have to run.
    pub(crate) collect: Signal,
    pub(crate) failure: Cell<Option<IoError>>,
}

/// A mapping over an open-channel drive, mounted.
pub struct HostFtl<P> {
    pub(crate) inner: Rc<Inner<P>>,
}

impl<P> Clone for HostFtl<P> {
    fn clone(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
        }
    }
}

impl<P: RawPort> HostFtl<P> {
    /// The drive.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.inner.port
    }

    /// How it was made.
    #[must_use]
    pub fn config(&self) -> &FtlConfig {
        &self.inner.config
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> FtlStats {
        self.inner.state.borrow().stats
    }

    /// Lines that are free.
    #[must_use]
    pub fn free_lines(&self) -> u32 {
        self.inner.state.borrow().lines.free()
    }

    /// Limits that writes have met.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.inner.state.borrow().refusals.clone()
    }

    /// Whether lines are being cleaned.
    #[must_use]
    pub fn is_cleaning(&self) -> bool {
        let state = self.inner.state.borrow();
        let mut lines = state.lines.lines.iter();
        lines.any(|line| line.state == LineState::Cleaning)
    }

    /// Whether lines are being cleaned on which there are sectors that are pinned.
    #[must_use]
    pub fn is_cleaning_pinned(&self) -> bool {
        let state = self.inner.state.borrow();
        let mut places = state.pins.pinned().filter_map(|s| state.table.get(s));
        places.any(|place| {
            let line = state.lines.of(place);
            state.lines.lines[line].state == LineState::Cleaning
        })
    }

    /// Whether entries of a table that lasts were stored and may be lost.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.inner.state.borrow().settling > 0
    }

    /// Whether sectors are in a buffer in persistent memory.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        let state = self.inner.state.borrow();
        state.slots.as_ref().is_some_and(Slots::is_used)
    }

    /// Whether a write waits for room in a buffer in persistent memory.
    #[must_use]
    pub fn is_full(&self) -> bool {
        let state = self.inner.state.borrow();
        state.slots.as_ref().is_some_and(|slots| slots.waiting > 0)
    }

    /// What a sector of 4 KiB holds, at once and without cost: for oracles. None if it cannot
    /// be read.
    #[must_use]
    pub fn peek(&self, sector: u32) -> Option<Payload> {
        let state = self.inner.state.borrow();
        if let Some(newest) = state.buffer.newest(sector) {
            return Some(newest.cloned().unwrap_or_default());
        }
        let Some(place) = state.table.get(sector) else {
            return Some(Payload::Zero);
        };
        let block = self.inner.port.peek(self.inner.ppa(place))?;
        Some(block.payload)
    }

    /// The same for who must not keep the mapping alive.
    pub fn viewer(&self) -> impl Fn(u32) -> Option<Payload> + use<P> {
        let inner = Rc::downgrade(&self.inner);
        move |sector| {
            let inner = inner.upgrade()?;
            let is_there = sector < inner.sectors;
            is_there.then(|| Self { inner }.peek(sector)).flatten()
        }
    }

    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        let state = self.inner.state.borrow();
        state.buffer.check();
        state.lines.check();
        if let Some(slots) = &state.slots {
            slots.check(&state.buffer);
        }
        for sector in 0..self.inner.sectors {
            if let Some(place) = state.table.get(sector) {
                assert_eq!(state.lines.owner(place), Some(sector), "sector {sector}");
                let tomb = state.lines.tomb(sector);
                assert_eq!(tomb, None, "sector {sector} is there, and its record too");
            }
        }
    }
}

impl<P: RawPort> Inner<P> {
    /// Blocks of the drive. Behind them come the slots of a buffer in persistent memory.
    pub(crate) const fn blocks(&self) -> u32 {
        self.geometry.all_chunks() * self.geometry.blocks
    }

    pub(crate) fn ppa(&self, place: u32) -> Ppa {
        self.geometry.ppa(self.geometry.nth(place))
    }

    pub(crate) fn next_number(state: &mut State) -> u64 {
        state.number += 1;
        state.number - 1
    }

    /// Everything that writes fails from now on.
    pub(crate) fn fail(&self, error: IoError) {
        if self.failure.get().is_none() {
            self.failure.set(Some(error));
        }
        self.wake_all();
    }

    pub(crate) fn failed(&self) -> Result<(), IoError> {
        self.failure.get().map_or(Ok(()), Err)
    }

    pub(crate) fn wake_all(&self) {
        for signal in self.work.iter().chain([&self.progress, &self.collect]) {
            signal.notify(&self.sim);
        }
    }

    /// Refuses what reaches past the end.
    pub(crate) fn within(&self, extent: units::Extent) -> Result<(), IoError> {
        let sectors = self.config.capacity.0 / SECTOR;
        let end = extent.start.0.checked_add(u64::from(extent.sectors));
        if end.is_some_and(|end| end <= sectors) {
            return Ok(());
        }
        let last = extent.start.0.saturating_add(u64::from(extent.sectors));
        Err(IoError::OutOfRange {
            first: extent.start.0,
            last: last.saturating_sub(1),
            sectors,
        })
    }
}
