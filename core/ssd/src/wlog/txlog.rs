//! The transactions of a log: open and committed ones.
//!
//! Invariants: a transaction is known from its first write until it has committed and no line of it
//! is in the log. Commits are recorded in the order in which they happen. Transaction 0 is none,
//! and its writes count as committed.

use super::StoreError;
use std::collections::BTreeMap;

/// Bytes of a commit entry.
//= bytefs 4.3
const COMMIT: u64 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tx {
    /// Lines of the transaction in the ring, invalid ones included.
    lines: u32,
    /// Original slots of lines that cleaning has moved and not freed yet.
    moved: u32,
    committed: bool,
}

impl Tx {
    /// Lines that a cleaning started now would have to move.
    fn open(self) -> u32 {
        if self.committed {
            0
        } else {
            self.lines - self.moved
        }
    }
}

/// The transactions of a log; kept by the battery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxLog {
    known: BTreeMap<u32, Tx>,
    commits: u32,
    most: u32,
    open_lines: u32,
}

/// Reason why a commit is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// No line was written under this number since the number became free.
    #[error("transaction {0} is not open: nothing was written under it")]
    Unknown(u32),
    /// The transaction has committed.
    #[error("transaction {0} has committed already")]
    Committed(u32),
    /// No commit entry is free; cleaning makes room.
    #[error("the log of commits is full with {0}")]
    Full(u32),
}

impl TxLog {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            known: BTreeMap::new(),
            commits: 0,
            most: u32::try_from(bytes / COMMIT).unwrap_or(u32::MAX),
            open_lines: 0,
        }
    }

    /// Commit entries in use, and the largest possible number.
    pub(super) fn fill(&self) -> (u32, u32) {
        (self.commits, self.most)
    }

    /// Uncommitted lines of open transactions.
    pub(super) fn open_lines(&self) -> u32 {
        self.open_lines
    }

    pub(super) fn is_committed(&self, tx: u32) -> bool {
        tx == 0 || self.known.get(&tx).is_some_and(|tx| tx.committed)
    }

    /// Numbers of committed transactions, ascending.
    pub(super) fn committed(&self) -> impl Iterator<Item = u32> {
        let known = self.known.iter();
        known.filter(|(_, tx)| tx.committed).map(|(&tx, _)| tx)
    }

    /// Checks that `tx` has not committed, and may write.
    pub(super) fn may_write(&self, tx: u32) -> Result<(), StoreError> {
        match self.known.get(&tx) {
            Some(known) if known.committed => Err(StoreError::Committed(tx)),
            _ => Ok(()),
        }
    }

    /// Applies `change` to the record of `tx`, and updates the count of open lines.
    fn change(&mut self, tx: u32, change: impl FnOnce(&mut Tx)) {
        let known = self.known.entry(tx).or_default();
        self.open_lines -= known.open();
        change(known);
        self.open_lines += known.open();
    }

    pub(super) fn add(&mut self, tx: u32, lines: u32) {
        if tx != 0 {
            self.change(tx, |known| known.lines += lines);
        }
    }

    /// Records that cleaning has copied a line of `tx` to the end of the log.
    pub(super) fn moved(&mut self, tx: u32) {
        self.change(tx, |known| known.moved += 1);
    }

    pub(super) fn commit(&mut self, tx: u32) -> Result<(), CommitError> {
        let known = self.known.get(&tx).ok_or(CommitError::Unknown(tx))?;
        if known.committed {
            return Err(CommitError::Committed(tx));
        }
        if self.commits == self.most {
            return Err(CommitError::Full(self.most));
        }
        self.change(tx, |known| known.committed = true);
        self.commits += 1;
        self.forget_if_done(tx);
        Ok(())
    }

    /// Records that lines of `tx` have left the ring; moved originals leave first.
    pub(super) fn remove(&mut self, tx: u32, lines: u32) {
        if !self.known.contains_key(&tx) {
            return;
        }
        self.change(tx, |known| {
            known.lines -= lines;
            known.moved = known.moved.saturating_sub(lines);
        });
        self.forget_if_done(tx);
    }

    fn forget_if_done(&mut self, tx: u32) {
        let done = self.known.get(&tx).copied();
        if done.is_some_and(|tx| tx.committed && tx.lines == 0) {
            self.known.remove(&tx);
            self.commits -= 1;
        }
    }

    /// Drops the transactions that have not committed.
    pub(super) fn abort_open(&mut self) {
        self.known.retain(|_, tx| tx.committed);
        self.open_lines = 0;
    }
}
