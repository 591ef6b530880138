//! Observation of a traced drive: the parts of each command's time, and the relocations of
//! superblocks.
//!
//! Invariants: observation changes no time; the parts of a command are those of the command that
//! ended last, until they are taken.

use crate::drive::{Core, Drive};
use crate::frontier::Kind;
use crate::ledger::Cause;
use crate::recover::word;
use nand::{Parts, Served};
use std::cell::{Cell, RefCell};
use units::Ns;

/// Parts of the time of a command in the drive. The rest of its time went to steps without a part of
/// their own, such as the merge of lines of a log, or the flush of a write with FUA.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Processors of the firmware and transfers of its DRAM.
    pub firmware: Ns,
    /// Translation pages of a paged map.
    pub map: Ns,
    /// Room in the write buffer.
    pub buffer: Ns,
    /// Flash reads; of several at once, the one that ended last.
    pub flash: Parts,
}

/// Relocation of the valid pages of one superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relocation {
    /// Number of the superblock.
    pub line: u32,
    /// Reclaim group of the superblock.
    pub group: u32,
    /// Garbage collection or wear levelling.
    pub cause: Cause,
    /// Valid mapped pages at the begin.
    pub valid: u32,
    /// Begin of the relocation.
    pub begin: Ns,
    /// End of its last read; the erase follows once the copies are programmed.
    pub end: Ns,
}

/// Observations that have not been taken.
#[derive(Default)]
pub(crate) struct Observed {
    pub(crate) waited: Cell<Option<Waited>>,
    pub(crate) relocations: RefCell<Vec<Relocation>>,
}

/// Operations and relocations of a traced drive that have ended since the last call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Services of dies and channels, in the order of their ends.
    pub served: Vec<Served>,
    /// Collections, in the order of their ends.
    pub relocations: Vec<Relocation>,
}

impl Core {
    /// Valid mapped pages of `line`.
    pub(crate) fn valid_pages(&self, line: u32) -> u32 {
        self.state.borrow().lines.lines[line as usize].valid
    }

    /// Records the relocation of `line`, which had `valid` pages at `begin`, on a traced drive.
    pub(crate) fn observe_relocation(&self, line: u32, cause: Cause, valid: u32, begin: Ns) {
        if self.nand.is_traced() {
            self.observed.relocations.borrow_mut().push(Relocation {
                line,
                group: self.layout.group(line),
                cause,
                valid,
                begin,
                end: self.sim.now(),
            });
        }
    }
}

impl Drive {
    /// Starts to trace the drive.
    pub fn start_trace(&self) {
        self.core.nand.start_trace();
        self.core.observed.waited.take();
        self.core.observed.relocations.take();
    }

    /// Whether the drive is traced.
    #[must_use]
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.core.nand.is_traced()
    }

    /// Takes what a trace has recorded since the last call.
    #[must_use]
    pub fn take_trace(&self) -> Trace {
        Trace {
            served: self.core.nand.take_trace(),
            relocations: self.core.observed.relocations.take(),
        }
    }

    /// Takes the parts of the command that has just ended; `None` if the drive is not traced, or for
    /// a command whose parts are not told apart: to zones, chunks or a page cache, or a flush.
    #[must_use]
    pub fn take_waited(&self) -> Option<Waited> {
        self.core.observed.waited.take()
    }

    /// Use of the block that a program of the page-mapped part labelled; `None` on drives with zones
    /// or chunks.
    #[must_use]
    pub fn use_of(&self, label: u64) -> Option<&'static str> {
        if self.zones.is_some() || self.raw.is_some() {
            return None;
        }
        let state = self.core.state.borrow();
        let frontiers = state.frontiers.len();
        let (_, frontier) = word::parse_label(&self.core.layout, label, frontiers)?;
        Some(match state.frontiers[usize::from(frontier)].kind {
            Kind::Host(_) => "host data",
            Kind::Moved(_) => "relocated data",
            Kind::Map => "translation pages",
            Kind::MovedMap => "relocated translation pages",
            Kind::Journal => "journal of the map",
        })
    }

    /// Pages of the write buffer that hold data.
    #[must_use]
    pub fn buffered_pages(&self) -> u32 {
        let free = self.core.buffer.free() as u32;
        self.core.layout.buffer_pages.saturating_sub(free)
    }
}
