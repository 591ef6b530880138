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
    committed: bool,
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

    /// Whether `tx` may write.
    pub(super) fn may_write(&self, tx: u32) -> Result<(), StoreError> {
        match self.known.get(&tx) {
            Some(known) if known.committed => Err(StoreError::Committed(tx)),
            _ => Ok(()),
        }
    }

    pub(super) fn add(&mut self, tx: u32, lines: u32) {
        if tx != 0 {
            let known = self.known.entry(tx).or_default();
            known.lines += lines;
            self.open_lines += if known.committed { 0 } else { lines };
        }
    }

    pub(super) fn commit(&mut self, tx: u32) -> Result<(), CommitError> {
        let known = self.known.get_mut(&tx).ok_or(CommitError::Unknown(tx))?;
        if known.committed {
            return Err(CommitError::Committed(tx));
        }
        if self.commits == self.most {
            return Err(CommitError::Full(self.most));
        }
        known.committed = true;
        self.commits += 1;
        self.open_lines -= known.lines;
        self.forget_if_done(tx);
        Ok(())
    }

    /// Lines of `tx` have left the ring.
    pub(super) fn remove(&mut self, tx: u32, lines: u32) {
        let Some(known) = self.known.get_mut(&tx) else {
            return;
        };
        known.lines -= lines;
        self.open_lines -= if known.committed { 0 } else { lines };
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
