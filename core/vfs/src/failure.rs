//! Failures of write-back, and their reports to open files, as with `errseq_t` in Linux.
//!
//! Invariant: an open file reports once the failures since it was opened, and an earlier failure
//! that no open file has reported. Several failures are reported as the last one.

use crate::errno::{Errno, Result};
use std::cell::Cell;

/// Failures of write-back of a file, or of all files of a mount.
#[derive(Default)]
pub(crate) struct Failures {
    /// Failures so far, wrapping.
    count: Cell<u32>,
    /// Value of `count` at the last report to any open file.
    told: Cell<u32>,
    last: Cell<Option<Errno>>,
}

impl Failures {
    /// Counts a failure and keeps its error.
    pub(crate) fn add(&self, errno: Errno) {
        self.count.set(self.count.get().wrapping_add(1));
        self.last.set(Some(errno));
    }

    /// Failures so far; the argument of a later `since`.
    pub(crate) fn count(&self) -> u32 {
        self.count.get()
    }

    /// Count that a file opened now starts from: unreported failures stay pending for it.
    pub(crate) fn known(&self) -> u32 {
        self.told.get()
    }

    /// The last failure, if any came after the first `count`; reports nothing.
    pub(crate) fn since(&self, count: u32) -> Result<()> {
        let last = self.last.get().filter(|_| self.count.get() != count);
        last.map_or(Ok(()), Err)
    }

    /// Returns the last failure if any came after `known`, and advances `known`.
    pub(crate) fn tell(&self, known: &Cell<u32>) -> Result<()> {
        let before = known.replace(self.count.get());
        if before != self.count.get() {
            self.told.set(self.count.get());
        }
        self.since(before)
    }
}
