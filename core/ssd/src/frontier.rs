//! Frontiers (write points): open lines, and the slots that wait to be appended.
//!
//! One task serves each frontier ([`crate::issue`]). New versions and copies wait in separate
//! queues, because collection must make progress where the host has to wait: lines of the reserve
//! are for copies only.

use std::collections::VecDeque;

/// Kind of data that a frontier takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// New data of one handle.
    Host(u32),
    /// Relocated data: of one handle where handles stay separate, else of the cold handles or all
    /// (0), or of the hot ones (1).
    Moved(u32),
    /// New translation pages of a paged map.
    Map,
    /// Relocated translation pages of a paged map.
    MovedMap,
    Journal,
}

/// An open line and the slots that wait to be appended to it.
#[derive(Debug)]
pub(crate) struct Frontier {
    pub(crate) kind: Kind,
    pub(crate) group: u32,
    /// Index of the open line, or `NONE`.
    pub(crate) open: u32,
    /// Slots of new versions that wait to be issued.
    pub(crate) pending: VecDeque<u32>,
    /// Slots of copies that wait to be issued. Copies go first: a copy issued after a newer version
    /// of its page would replace that version at power-on.
    pub(crate) copies: VecDeque<u32>,
    /// New versions that must be issued even if they do not fill a unit.
    pub(crate) forced: usize,
    /// Copies that must be issued even if they do not fill a unit.
    pub(crate) pushed: usize,
    /// Whether the open line was taken from the reserve: it takes only copies until the reserve is
    /// whole without it.
    pub(crate) borrowed: bool,
    /// Tasks that wait for a line to open.
    pub(crate) waits: u32,
}

impl Frontier {
    /// Slots that wait in both queues.
    pub(crate) fn waiting(&self) -> usize {
        self.pending.len() + self.copies.len()
    }

    /// Whether copies can be issued: they fill a unit of `unit` pages, or must go anyway.
    pub(crate) fn has_copies(&self, unit: u32) -> bool {
        self.pushed > 0 || self.copies.len() >= unit as usize
    }

    /// Whether slots of either queue can be issued: they fill a unit, or must go anyway.
    pub(crate) fn is_ready(&self, unit: u32) -> bool {
        self.pushed > 0 || self.forced > 0 || self.waiting() >= unit as usize
    }

    /// Takes the next slot, copies first; `None` if the open line may not take it.
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
