//! What of a log the battery keeps, and how it changes.
//!
//! Invariant: the changes that a log tells, applied in their order to what it kept
//! when the telling began, are what it keeps now.

use super::LogSizes;
use super::ring::{Entry, Ring};
use super::txlog::TxLog;
use std::cell::RefCell;
use std::rc::Rc;

/// Ring and commits: the log without its index.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(super) ring: Ring,
    pub(super) txs: TxLog,
}

/// One write as it lies in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedEntry {
    pub(crate) page: u32,
    pub(crate) line: u8,
    pub(crate) lines: u8,
    pub(crate) tx: u32,
    pub(crate) tag: u16,
    /// Bit set: that of its lines was invalidated.
    pub(crate) dead: u64,
    /// The lines; none where contents are not kept.
    pub(crate) bytes: Vec<u8>,
}

/// What may become of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// A write came to its end.
    Append(SavedEntry),
    /// Those lines of `page` in the first `slots` slots are invalid.
    Kill { page: u32, mask: u64, slots: u32 },
    /// A transaction has committed.
    Commit(u32),
    /// The first slots are free.
    Free(u32),
}

/// Where changes are told to.
pub(crate) type Changes = Rc<RefCell<Vec<Change>>>;

impl Kept {
    /// What an empty log keeps.
    pub(crate) fn new(sizes: LogSizes) -> Self {
        Self {
            ring: Ring::new(Ring::slots_in(sizes.log), sizes.keep_contents),
            txs: TxLog::new(sizes.commits),
        }
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.used() == 0
    }

    /// Its writes, oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = SavedEntry> {
        self.ring.entries().map(|entry| self.saved(entry))
    }

    /// Transactions that have committed, by number.
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

    /// Puts a write back that was in the log before, and that has room. `older` is the
    /// number, plus one, of the last slot before it that its page has among those put
    /// back; 0 if it has none.
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

    /// Slots that were put in so far.
    pub(super) fn tail(&self) -> u64 {
        self.ring.tail()
    }

    /// A transaction whose writes were put back had committed.
    pub(super) fn put_commit(&mut self, tx: u32) {
        // It is open, and there is room for what was committed before.
        let _ = self.txs.commit(tx);
    }
}
