//! Observation of a traced drive: the parts of each command's time, and the relocations of
//! superblocks.
//!
//! Invariants: observation changes no time; the parts of a command are those of the command that
//! ended last, until they are taken.

use crate::ledger::Cause;
use nand::Parts;
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

impl Observed {
    /// Leaves the parts of a command that has ended.
    #[inline]
    pub(crate) fn tell(&self, waited: Waited) {
        self.waited.set(Some(waited));
    }

    /// Adds a relocation that has ended.
    pub(crate) fn add(&self, relocation: Relocation) {
        self.relocations.borrow_mut().push(relocation);
    }
}
