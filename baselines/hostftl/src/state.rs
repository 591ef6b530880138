//! The mapping as its user holds it, and the state that its tasks share.
//!
//! Invariants, defended by [`HostFtl::check`]: no flash block is owned by two sectors, and the
//! table leads to the blocks that its sectors own. Between the store of an entry and the fence that
//! makes it durable, the sector owns the previous block too.

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

/// Kind of an item that is written to flash.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A new version of this sector.
    Data(u32),
    /// A sector that cleaning moves, and its previous block.
    Moved(u32, u32),
    /// A record of deallocations.
    Trims(Vec<Trimmed>),
    /// Deallocations that cleaning moves, each with the block of its old record.
    Records(Vec<(Trimmed, u32)>),
}

/// One sector's worth of data queued for flash, with its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) what: What,
    pub(crate) number: u64,
    pub(crate) payload: Payload,
    pub(crate) mark: RawMark,
}

/// An entry of a write queue.
#[derive(Clone, Debug)]
pub(crate) enum Queued {
    /// The version of this sector that waits in the buffer when its turn comes.
    Sector(u32),
    /// An item with its own contents.
    Item(Item),
}

/// Indexes of the two frontiers: new data, and sectors that cleaning moves.
pub(crate) const USER: usize = 0;
pub(crate) const MOVED: usize = 1;

/// A write point: an open line, and the queue of entries to write there.
#[derive(Default)]
pub(crate) struct Frontier {
    pub(crate) line: Option<usize>,
    pub(crate) queue: VecDeque<Queued>,
    /// Number of entries at the head of the queue that are written even if they do not fill a unit.
    pub(crate) forced: usize,
}

impl Frontier {
    /// Forces everything queued now.
    pub(crate) fn force(&mut self) {
        self.forced = self.queue.len();
    }

    /// Queues `item` first and forces it: a flush or a writer may wait for it.
    pub(crate) fn put_first(&mut self, item: Item) {
        self.queue.push_front(Queued::Item(item));
        self.forced += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<Queued> {
        self.forced = self.forced.saturating_sub(1);
        self.queue.pop_front()
    }
}

/// Counters since the mount, in sectors of 4 KiB unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FtlStats {
    /// Sectors that the user wrote, whole or in part, including versions replaced or deallocated in
    /// the buffer.
    pub written: u64,
    /// Sectors written to flash as new data.
    pub data: u64,
    /// Sectors that cleaning wrote elsewhere.
    pub moved: u64,
    /// Sectors with records of deallocations: new ones, and merged ones of cleaning.
    pub records: u64,
    /// Sectors of padding in units of the above.
    pub padding: u64,
    /// Sectors of padding in open chunks, which can be reset only when full.
    pub filled: u64,
    /// Lines cleaned: free again, or left without a good chunk.
    pub cleaned: u64,
    /// Units whose program failed.
    pub failed: u64,
    /// Writes that waited for room in a buffer in persistent memory.
    pub waits: u64,
    /// Sectors that recovery found in a buffer in persistent memory.
    pub replayed: u64,
    /// Written blocks that recovery visited, unreadable ones included.
    pub recovered: u64,
    /// Blocks that recovery could not read, with unknown owners: the previous version of a sector
    /// comes back, or zeros, and a deallocated sector may come back. Their lines are kept as they
    /// are, so another mount may still read them.
    pub unreadable: u64,
    /// Blocks that recovery read but this mapping has not written, or wrote for a larger table.
    /// Their space counts as free.
    pub foreign: u64,
}

pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) lines: Lines,
    pub(crate) buffer: Buffer,
    /// Slots of the buffered versions, if the buffer is in persistent memory.
    pub(crate) slots: Option<Slots>,
    pub(crate) frontiers: [Frontier; 2],
    /// Deallocations not yet in a record.
    pub(crate) trims: Vec<Trimmed>,
    /// Number of flushes in progress.
    pub(crate) flushing: u32,
    /// Number for the next version.
    pub(crate) number: u64,
    /// Items queued by cleaning and not yet on flash.
    pub(crate) moving: usize,
    /// Items of cleaning that are on flash but not yet in the table, with their blocks.
    pub(crate) shifted: Vec<(What, u32)>,
    pub(crate) pins: Pins,
    /// Updates of table entries that are being made durable.
    pub(crate) settling: u32,
    pub(crate) stats: FtlStats,
    pub(crate) refusals: Refusals,
}

pub(crate) struct Inner<P> {
    pub(crate) sim: Sim,
    pub(crate) port: P,
    pub(crate) config: FtlConfig,
    pub(crate) geometry: RawGeometry,
    /// Number of table entries, hidden sectors included.
    pub(crate) sectors: u32,
    pub(crate) state: RefCell<State>,
    /// By frontier: notified when there may be something to write, or a place for it.
    pub(crate) work: [Signal; 2],
    /// Notified when a write, a move, a hold or a deallocation ends.
    pub(crate) progress: Signal,
    /// Notified when cleaning may have to run.
    pub(crate) collect: Signal,
    pub(crate) failure: Cell<Option<IoError>>,
}

/// A mounted mapping of an open-channel drive; clones share it.
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
    /// The raw port of the drive.
    #[must_use]
    pub fn port(&self) -> &P {
        &self.inner.port
    }

    /// Configuration of the mount.
    #[must_use]
    pub fn config(&self) -> &FtlConfig {
        &self.inner.config
    }

    /// Counters since the mount.
    #[must_use]
    pub fn stats(&self) -> FtlStats {
        self.inner.state.borrow().stats
    }

    /// Number of free lines.
    #[must_use]
    pub fn free_lines(&self) -> u32 {
        self.inner.state.borrow().lines.free()
    }

    /// Limits that made writes fail.
    #[must_use]
    pub fn refusals(&self) -> Refusals {
        self.inner.state.borrow().refusals.clone()
    }

    /// Whether a line is being cleaned now.
    #[must_use]
    pub fn is_cleaning(&self) -> bool {
        let state = self.inner.state.borrow();
        let mut lines = state.lines.lines.iter();
        lines.any(|line| line.state == LineState::Cleaning)
    }

    /// Whether a line with a pinned sector is being cleaned now.
    #[must_use]
    pub fn is_cleaning_pinned(&self) -> bool {
        let state = self.inner.state.borrow();
        let mut places = state.pins.pinned().filter_map(|s| state.table.get(s));
        places.any(|place| {
            let line = state.lines.of(place);
            state.lines.lines[line].state == LineState::Cleaning
        })
    }

    /// Whether stored entries of a table in persistent memory may still be lost.
    #[must_use]
    pub fn is_settling(&self) -> bool {
        self.inner.state.borrow().settling > 0
    }

    /// Whether a buffer in persistent memory holds any version.
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

    /// Contents of a sector of 4 KiB, at once and without cost, for test oracles. `None` if its
    /// block cannot be read.
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

    /// A function like [`Self::peek`] that does not keep the mapping alive; it returns `None` once
    /// the mapping is gone, or past the last sector.
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
    /// Blocks of the drive; place numbers behind them are slots of a buffer in persistent memory.
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

    /// Records the first error; all writes fail from now on.
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

    /// Rejects an extent past the capacity.
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
