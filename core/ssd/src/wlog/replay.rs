//! The kept state of a log, rebuilt from writes and changes of an untrusted source.
//!
//! Invariants: input that no log of these sizes could hold is rejected. The changes that a log
//! reported, applied to its kept state at the start, give its kept state now.

use super::kept::{Change, Kept, SavedEntry};
use super::ring::Ring;
use super::txlog::{CommitError, TxLog};
use super::{LINES, LogSizes};
use std::collections::{BTreeMap, VecDeque};

/// A kept state under construction.
pub(crate) struct Replay {
    sizes: LogSizes,
    slots: u32,
    /// Slots freed and slots appended so far.
    head: u64,
    tail: u64,
    /// Entries in the log, each with the number of its first slot.
    entries: VecDeque<(u64, SavedEntry)>,
    /// Entries freed so far.
    freed: u64,
    /// Entries of each page, as numbers counted from the first entry of all.
    of_page: BTreeMap<u32, VecDeque<u64>>,
    txs: TxLog,
}

/// A number out of range: its name, its value, and the exclusive limit.
pub(crate) type Excess = (&'static str, u64, u64);

fn below(what: &'static str, found: u64, limit: u64) -> Result<(), Excess> {
    if found < limit {
        Ok(())
    } else {
        Err((what, found, limit))
    }
}

impl Replay {
    pub(crate) fn new(sizes: LogSizes) -> Self {
        Self {
            sizes,
            slots: Ring::slots_in(sizes.log),
            head: 0,
            tail: 0,
            entries: VecDeque::new(),
            freed: 0,
            of_page: BTreeMap::new(),
            txs: TxLog::new(sizes.commits),
        }
    }

    /// Appends the whole kept state of a log.
    pub(crate) fn take(&mut self, kept: &Kept) -> Result<(), Excess> {
        kept.entries().try_for_each(|entry| self.append(entry))?;
        kept.committed().try_for_each(|tx| self.commit(tx))
    }

    /// Applies a change that a log reported.
    pub(crate) fn apply(&mut self, change: Change) -> Result<(), Excess> {
        match change {
            Change::Append(entry) => self.append(entry),
            Change::Kill { page, mask, slots } => self.kill(page, mask, slots),
            Change::Commit(tx) => self.commit(tx),
            Change::Free(slots) => self.free(slots),
        }
    }

    pub(crate) fn append(&mut self, entry: SavedEntry) -> Result<(), Excess> {
        let (line, lines) = (u64::from(entry.line), u64::from(entry.lines));
        let all = u64::from(LINES);
        below("lines too few in the log", u64::from(lines == 0), 1)?;
        below("the end of a write in the log", line + lines, all + 1)?;
        let used = self.tail - self.head;
        below("lines in the log", used + lines, u64::from(self.slots) + 1)?;
        let stray = entry.dead & !(u64::MAX >> (all - lines));
        below("lines of a write that it has not", stray, 1)?;
        let number = self.freed + self.entries.len() as u64;
        self.of_page
            .entry(entry.page)
            .or_default()
            .push_back(number);
        self.txs.add(entry.tx, u32::from(entry.lines));
        self.entries.push_back((self.tail, entry));
        self.tail += lines;
        Ok(())
    }

    fn kill(&mut self, page: u32, mask: u64, slots: u32) -> Result<(), Excess> {
        let used = self.tail - self.head;
        below("lines that are invalid", u64::from(slots), used + 1)?;
        let end = self.head + u64::from(slots);
        for &number in self.of_page.get(&page).into_iter().flatten() {
            let (first, entry) = &mut self.entries[(number - self.freed) as usize];
            if *first < end {
                let lines = u64::MAX >> (LINES - u32::from(entry.lines));
                entry.dead |= mask >> entry.line & lines;
            }
        }
        Ok(())
    }

    /// Commits a transaction; ignored if no line of it is in the log.
    pub(crate) fn commit(&mut self, tx: u32) -> Result<(), Excess> {
        match self.txs.commit(tx) {
            Ok(()) | Err(CommitError::Unknown(_)) => Ok(()),
            Err(CommitError::Committed(_)) => Err(("commits of a transaction", 2, 2)),
            Err(CommitError::Full(most)) => {
                Err(("commits", u64::from(most) + 1, u64::from(most) + 1))
            }
        }
    }

    fn free(&mut self, slots: u32) -> Result<(), Excess> {
        let until = self.head + u64::from(slots);
        below("lines that are free", until, self.tail + 1)?;
        while self.head < until {
            let Some((_, entry)) = self.entries.pop_front() else {
                break;
            };
            self.head += u64::from(entry.lines);
            self.freed += 1;
            self.txs.remove(entry.tx, u32::from(entry.lines));
            if let Some(of_page) = self.of_page.get_mut(&entry.page) {
                of_page.pop_front();
                if of_page.is_empty() {
                    self.of_page.remove(&entry.page);
                }
            }
        }
        below("lines that are free in part", self.head - until, 1)
    }

    /// The kept state; `None` if the log is empty.
    pub(crate) fn kept(self) -> Option<Kept> {
        if self.entries.is_empty() {
            return None;
        }
        let mut kept = Kept::new(self.sizes);
        let mut last = BTreeMap::new();
        for (_, entry) in &self.entries {
            let older = last.get(&entry.page).copied().unwrap_or(0);
            kept.put_back(entry, older);
            last.insert(entry.page, kept.tail());
        }
        for tx in self.txs.committed() {
            kept.put_commit(tx);
        }
        Some(kept)
    }
}
