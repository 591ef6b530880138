//! Where data are appended, and what waits to be.
//!
//! A frontier is served by one task ([`crate::issue`]). New versions and copies
//! wait apart, because collection must get on where the host has to wait: lines of
//! the reserve are for copies only.

use std::collections::VecDeque;

/// What a frontier is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// New data of one handle.
    Host(u32),
    /// Moved data of one handle, or of all.
    Moved(u32),
    /// New translation pages.
    Map,
    /// Moved translation pages.
    MovedMap,
    Journal,
}

/// An open line and what waits to be appended to it.
#[derive(Debug)]
pub(crate) struct Frontier {
    pub(crate) kind: Kind,
    pub(crate) group: u32,
    /// Open line, or `NONE`.
    pub(crate) open: u32,
    /// New versions that wait.
    pub(crate) pending: VecDeque<u32>,
    /// Copies that wait. They go first: behind a newer version of its page a copy
    /// would come back at power-on in its place.
    pub(crate) copies: VecDeque<u32>,
    /// New versions that must be issued even if they do not fill a unit.
    pub(crate) forced: usize,
    /// Copies that must.
    pub(crate) pushed: usize,
    /// Whether the open line came out of the reserve: it is for copies only, until
    /// the reserve is whole without it.
    pub(crate) borrowed: bool,
    /// Tasks that wait for a line to open.
    pub(crate) waits: u32,
}

impl Frontier {
    /// Slots that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len() + self.copies.len()
    }

    /// Whether copies are to be issued, of which `unit` fill one.
    pub(crate) fn has_copies(&self, unit: u32) -> bool {
        self.pushed > 0 || self.copies.len() >= unit as usize
    }

    /// Whether anything is.
    pub(crate) fn is_ready(&self, unit: u32) -> bool {
        self.pushed > 0 || self.forced > 0 || self.waiting() >= unit as usize
    }

    /// Takes the slot whose turn it is, if its kind may go to the open line.
    pub(crate) fn next_slot(&mut self) -> Option<u32> {
        if let Some(copy) = self.copies.pop_front() {
            self.pushed = self.pushed.saturating_sub(1);
            return Some(copy);
        }
        if self.borrowed {
            return None;
        }
        let new = self.pending.pop_front()?;
        self.forced = self.forced.saturating_sub(1);
        Some(new)
    }
}
