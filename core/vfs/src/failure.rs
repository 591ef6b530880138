//! Failures of write-back, and who was told of them.
//!
//! Invariant: what Linux keeps in an `errseq_t` is kept here. An open file is told
//! once of failures since it was opened, and of an earlier one that nobody was
//! told of; it is told of several as of the last one.

use crate::errno::{Errno, Result};
use std::cell::Cell;

/// Failures of write-back of a file, or of all files of a mount.
#[derive(Default)]
pub(crate) struct Failures {
    /// So far.
    count: Cell<u32>,
    /// Those that somebody was told of.
    told: Cell<u32>,
    last: Cell<Option<Errno>>,
}

impl Failures {
    /// One more.
    pub(crate) fn add(&self, errno: Errno) {
        self.count.set(self.count.get().wrapping_add(1));
        self.last.set(Some(errno));
    }

    /// How many there were so far.
    pub(crate) fn count(&self) -> u32 {
        self.count.get()
    }

    /// Those that a file opened now counts as known.
    pub(crate) fn known(&self) -> u32 {
        self.told.get()
    }

    /// The last failure if there were others than the first `count`, without
    /// telling anybody of it.
    pub(crate) fn since(&self, count: u32) -> Result<()> {
        let last = self.last.get().filter(|_| self.count.get() != count);
        last.map_or(Ok(()), Err)
    }

    /// Tells of failures that `known` does not include, and includes them.
    pub(crate) fn tell(&self, known: &Cell<u32>) -> Result<()> {
        let before = known.replace(self.count.get());
        if before != self.count.get() {
            self.told.set(self.count.get());
        }
        self.since(before)
    }
}
