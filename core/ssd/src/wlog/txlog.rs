//! Which transactions are open, and which have committed.
//!
//! Invariants: a transaction is known from its first write until it has committed
//! and no line of it is in the log; the order of commits is that of the log of
//! commits; 0 is no transaction, and what it writes counts as committed.

use super::StoreError;
use std::collections::BTreeMap;

/// Bytes of a commit entry.
//= bytefs 4.3
const COMMIT: u64 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tx {
    /// Lines of it in the ring, dead ones included.
    lines: u32,
    /// Of those, lines that cleaning has moved and that still lie where they were.
    moved: u32,
    committed: bool,
}

impl Tx {
    /// Lines that would have to be moved, were it cleaned now.
    fn open(self) -> u32 {
        if self.committed {
            0
        } else {
            self.lines - self.moved
        }
    }
}

/// The transactions of a log; kept by the battery.
#[derive(Clone, Debug)]
pub(super) struct TxLog {
    known: BTreeMap<u32, Tx>,
    commits: u32,
    most: u32,
    open_lines: u32,
}

/// Why a commit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// Nothing was written under this number since it was last forgotten.
    #[error("transaction {0} is not open: nothing was written under it")]
    Unknown(u32),
    /// It has committed.
    #[error("transaction {0} has committed already")]
    Committed(u32),
    /// The log of commits is full; cleaning makes room.
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

    /// Commits that are kept, and the most that can be.
    pub(super) fn fill(&self) -> (u32, u32) {
        (self.commits, self.most)
    }

    /// Lines of open transactions.
    pub(super) fn open_lines(&self) -> u32 {
        self.open_lines
    }

    pub(super) fn is_committed(&self, tx: u32) -> bool {
        tx == 0 || self.known.get(&tx).is_some_and(|tx| tx.committed)
    }

    /// Those that have committed, by number.
    pub(super) fn committed(&self) -> impl Iterator<Item = u32> {
        let known = self.known.iter();
        known.filter(|(_, tx)| tx.committed).map(|(&tx, _)| tx)
    }

    /// Whether `tx` may write.
    pub(super) fn may_write(&self, tx: u32) -> Result<(), StoreError> {
        match self.known.get(&tx) {
            Some(known) if known.committed => Err(StoreError::Committed(tx)),
            _ => Ok(()),
        }
    }

    /// Applies `change` to what is known of `tx`.
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

    /// A line of `tx` was written again at the end of the log, by cleaning.
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

    /// Lines of `tx` have left the ring; what had been moved was among what left.
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
