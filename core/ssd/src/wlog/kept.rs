//! The battery-backed part of a log, and its changes.
//!
//! Invariant: the changes that a log reports to a watch, applied in order to the kept state at the
//! start of the watch, give the kept state now.

use super::LogSizes;
use super::ring::{Entry, Ring};
use super::txlog::TxLog;
use std::cell::RefCell;
use std::rc::Rc;

/// Ring and commits: the log without its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(super) ring: Ring,
    pub(super) txs: TxLog,
}

/// One write in the log, in saved form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedEntry {
    pub(crate) page: u32,
    pub(crate) line: u8,
    pub(crate) lines: u8,
    pub(crate) tx: u32,
    pub(crate) tag: u16,
    /// Invalidated lines of the write, one bit each.
    pub(crate) dead: u64,
    /// Contents of the lines; empty if contents are not kept.
    pub(crate) bytes: Vec<u8>,
}

/// A change of the kept state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A write was appended.
    Append(SavedEntry),
    /// The lines `mask` of `page` in the first `slots` slots became invalid.
    Kill { page: u32, mask: u64, slots: u32 },
    /// A transaction committed; its number.
    Commit(u32),
    /// The first slots were freed; their number.
    Free(u32),
}

/// List that receives the changes of a log.
pub(crate) type Changes = Rc<RefCell<Vec<Change>>>;

impl Kept {
    /// State of an empty log.
    pub(crate) fn new(sizes: LogSizes) -> Self {
        Self {
            ring: Ring::new(Ring::slots_in(sizes.log), sizes.keep_contents),
            txs: TxLog::new(sizes.commits),
        }
    }

    /// Whether the log has no entries.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.used() == 0
    }

    /// Writes in the log, oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = SavedEntry> {
        self.ring.entries().map(|entry| self.saved(entry))
    }

    /// Numbers of committed transactions, ascending.
    pub(crate) fn committed(&self) -> impl Iterator<Item = u32> {
        self.txs.committed()
    }

    pub(super) fn saved(&self, entry: &Entry) -> SavedEntry {
        let mut bytes = Vec::new();
        let mut dead = 0;
        for at in 0..u64::from(entry.lines) {
            if self.ring.keeps_contents() {
                bytes.extend_from_slice(&self.ring.line(entry.first + at));
            }
            dead |= u64::from(self.ring.is_dead(entry.first + at)) << at;
        }
        SavedEntry {
            page: entry.page,
            line: entry.line,
            lines: entry.lines,
            tx: entry.tx,
            tag: entry.tag,
            dead,
            bytes,
        }
    }

    /// Restores a write that the log had before; there is room for it. `older` is the number, plus
    /// one, of the last restored slot of the same page before it; 0 if there is none.
    pub(super) fn put_back(&mut self, entry: &SavedEntry, older: u64) {
        let first = self.ring.tail();
        self.ring.append(
            Entry {
                first,
                page: entry.page,
                line: entry.line,
                lines: entry.lines,
                tx: entry.tx,
                tag: entry.tag,
                older,
            },
            &entry.bytes,
        );
        let dead = (0..entry.lines).filter(|at| entry.dead >> at & 1 == 1);
        dead.for_each(|at| self.ring.kill(first + u64::from(at)));
        self.txs.add(entry.tx, u32::from(entry.lines));
    }

    /// Slots appended so far.
    pub(super) fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// Restores the commit of a transaction whose writes were restored.
    pub(super) fn put_commit(&mut self, tx: u32) {
        // The transaction is open, and its commit entry fitted before.
        let _ = self.txs.commit(tx);
    }
}
