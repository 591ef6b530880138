//! A log of cache lines in device DRAM: what a drive that is written by bytes puts
//! between the host's lines and the pages of its flash.
//!
//! A write appends whole lines and lays them into an index; a read asks the index;
//! a write of a block invalidates. Cleaning takes the pages in the order of the
//! index, gives for each the newest committed version of its lines, and frees the
//! space of all entries that were there when it began; what comes meanwhile goes
//! to a new index over the same ring. The firmware around it moves the pages, keeps
//! two from working at one page, and counts time.
//!
//! # Invariants
//!
//! - A line has at most one version that has not committed: a write to it by anyone
//!   else is refused until then. So the order of committed versions of a line is
//!   their order in the log.
//! - The index in force gives the newest version of each line, committed or not;
//!   the frozen one is asked for what that does not have.
//! - Freed entries are on flash, or newer versions are in the log, or they belong to
//!   nobody. An uncommitted line that cleaning meets moves to the end of the log.
//! - What [`Log::recovered`] makes of the ring and the commits is what a reader of
//!   committed data saw before.
//!
//! # What the source leaves open
//!
//! Descriptors (`ring.rs`), and that overlapping writes split the older chunk. The
//! version before the newest is found over the entries of the same page instead of
//! walking the whole log backwards. One ring is both regions of the double buffer:
//! the new region is what the old one does not use.

mod chunks;
mod index;
mod ring;
mod skip;
mod txlog;

pub use chunks::Chunk;
pub use index::Index;
pub use skip::{PARTITION_PAGES, SkipIndex};
pub use txlog::CommitError;

use ring::{Entry, Ring};
use txlog::TxLog;

/// Bytes of a line.
pub const LINE: usize = 64;
/// Lines of a page: 4,096 bytes, whatever the flash maps.
pub const LINES: u32 = 64;

/// Sizes of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSizes {
    /// Lines and their descriptors, in bytes.
    pub log: u64,
    /// Commit entries, in bytes.
    pub commits: u64,
    /// Whether contents are kept.
    pub keep_contents: bool,
}

/// Why a write is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No room until cleaning has freed some.
    #[error("the log is full")]
    Full,
    /// Open transactions hold so much of the log that cleaning could not free it.
    #[error("open transactions have {open} lines in a log of {slots}: split them")]
    Oversized {
        /// Lines that have not committed.
        open: u32,
        /// Slots of the log.
        slots: u32,
    },
    /// The line was written by another transaction that is open.
    #[error("line {line} of page {page} belongs to open transaction {by}")]
    Locked {
        /// Page of 4,096 bytes.
        page: u32,
        /// Line in it.
        line: u8,
        /// Who wrote it.
        by: u32,
    },
    /// The transaction has committed.
    #[error("transaction {0} has committed and takes no more writes")]
    Committed(u32),
}

/// What cleaning found for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageImage {
    /// Bit set: the line has a committed version.
    pub lines: u64,
    /// Those versions at their places, zeros elsewhere.
    pub bytes: Box<[u8; LINE * LINES as usize]>,
}

impl PageImage {
    /// Whether the rest of the page has to be read from flash.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.lines != u64::MAX
    }
}

/// The log.
#[derive(Clone, Debug)]
pub struct Log<I> {
    ring: Ring,
    txs: TxLog,
    index: I,
    /// What is being cleaned: the index of all slots before the mark.
    frozen: Option<(I, u64)>,
}

impl<I: Index> Log<I> {
    /// An empty log.
    #[must_use]
    pub fn new(sizes: LogSizes) -> Self {
        Self {
            ring: Ring::new(Ring::slots_in(sizes.log), sizes.keep_contents),
            txs: TxLog::new(sizes.commits),
            index: I::default(),
            frozen: None,
        }
    }

    /// Slots in use, and all of them.
    #[must_use]
    pub fn fill(&self) -> (u32, u32) {
        (self.ring.used(), self.ring.capacity())
    }

    /// Commit entries in use, and the most there can be.
    #[must_use]
    pub fn commits(&self) -> (u32, u32) {
        self.txs.fill()
    }

    /// The index of what was written since the last cleaning began.
    #[must_use]
    pub fn index(&self) -> &I {
        &self.index
    }

    /// Appends `lines` lines of `page` from `line` on, for transaction `tx` (0: none,
    /// and committed at once). `bytes` are their contents; none where contents are not
    /// kept.
    ///
    /// # Errors
    /// If it must wait, or never can be. Nothing has changed then.
    //= bytefs 4.4
    pub fn store(
        &mut self,
        page: u32,
        line: u8,
        lines: u8,
        tx: u32,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        assert!(lines > 0 && u32::from(line) + u32::from(lines) <= LINES);
        self.txs.may_write(tx)?;
        self.check_owner(page, line, lines, tx)?;
        self.check_room(lines, tx)?;
        self.append(page, line, lines, tx, bytes);
        Ok(())
    }

    fn check_owner(&self, page: u32, line: u8, lines: u8, tx: u32) -> Result<(), StoreError> {
        if self.txs.open_lines() == 0 {
            return Ok(());
        }
        for at in line..line + lines {
            let Some(slot) = self.newest(page, at) else {
                continue;
            };
            let by = self.ring.entry_of(slot).tx;
            if by != tx && !self.txs.is_committed(by) {
                return Err(StoreError::Locked { page, line: at, by });
            }
        }
        Ok(())
    }

    /// Room for the write, and beyond that for what cleaning may have to move.
    fn check_room(&self, lines: u8, tx: u32) -> Result<(), StoreError> {
        let (used, slots) = self.fill();
        let new = u32::from(lines);
        let open = self.txs.open_lines() + if tx == 0 { 0 } else { new };
        // While one is under way, lines that it has moved are counted twice.
        if open > slots / 2 && self.frozen.is_none() {
            return Err(StoreError::Oversized { open, slots });
        }
        if used + new + open > slots {
            return Err(StoreError::Full);
        }
        Ok(())
    }

    fn append(&mut self, page: u32, line: u8, lines: u8, tx: u32, bytes: &[u8]) {
        let entry = Entry {
            first: self.ring.tail(),
            page,
            line,
            lines,
            tx,
            older: self.last_of(page).map_or(0, |slot| slot + 1),
        };
        self.ring.append(entry, bytes);
        self.txs.add(tx, u32::from(lines));
        self.lay(&entry);
    }

    /// Lays an entry into the index, in two chunks if it goes over the end of the ring.
    fn lay(&mut self, entry: &Entry) {
        let place = self.ring.place(entry.first);
        let before_end = self.ring.capacity() - place;
        let first = u32::from(entry.lines).min(before_end) as u8;
        let chunk = Chunk {
            line: entry.line,
            lines: first,
            slot: place,
        };
        self.index.lay(entry.page, chunk);
        if first < entry.lines {
            let chunk = Chunk {
                line: entry.line + first,
                lines: entry.lines - first,
                slot: 0,
            };
            self.index.lay(entry.page, chunk);
        }
    }

    /// The last slot that was written for `page` and is not invalidated.
    fn last_of(&self, page: u32) -> Option<u64> {
        let last = |index: &I| last_slot(&self.ring, index.chunks(page));
        last(&self.index).or_else(|| last(&self.frozen.as_ref()?.0))
    }

    /// The slot of the newest version of a line.
    fn newest(&self, page: u32, line: u8) -> Option<u64> {
        let of = |index: &I| self.find(index.chunks(page), line);
        of(&self.index).or_else(|| of(&self.frozen.as_ref()?.0))
    }

    fn find(&self, chunks: &[Chunk], line: u8) -> Option<u64> {
        let after = chunks.partition_point(|chunk| chunk.line <= line);
        let chunk = chunks.get(after.checked_sub(1)?)?;
        (line < chunk.end()).then(|| self.ring.slot_at(chunk.slot + u32::from(line - chunk.line)))
    }

    /// The newest version of a line, committed or not; none if the log has none.
    //= bytefs 4.4
    #[must_use]
    pub fn load(&self, page: u32, line: u8) -> Option<[u8; LINE]> {
        self.newest(page, line).map(|slot| self.ring.line(slot))
    }

    /// Lays the lines that the log has of a page over `bytes`, what flash has of it;
    /// which lines those were, a bit each.
    //= bytefs 4.4
    pub fn merge(&self, page: u32, bytes: &mut [u8]) -> u64 {
        let mut lines = 0;
        let frozen = self.frozen.as_ref().map(|(index, _)| index.chunks(page));
        for chunks in [frozen.unwrap_or_default(), self.index.chunks(page)] {
            for chunk in chunks {
                for at in 0..chunk.lines {
                    let slot = self.ring.slot_at(chunk.slot + u32::from(at));
                    let line = usize::from(chunk.line + at);
                    bytes[line * LINE..][..LINE].copy_from_slice(&self.ring.line(slot));
                    lines |= 1 << line;
                }
            }
        }
        lines
    }

    /// A block was written: whatever the log has of `page` does not count any more,
    /// whoever wrote it. Whether it had any.
    //= bytefs 4.4
    pub fn invalidate(&mut self, page: u32) -> bool {
        let last = self.last_of(page);
        if let Some(slot) = last {
            self.kill(slot);
        }
        self.index.remove(page);
        if let Some((frozen, _)) = &mut self.frozen {
            frozen.remove(page);
        }
        last.is_some()
    }

    /// Invalidates the entry of `slot`, and those of the same page before it.
    fn kill(&mut self, slot: u64) {
        let mut next = Some(self.ring.entry_of(slot));
        while let Some(entry) = next {
            for slot in entry.first..entry.first + u64::from(entry.lines) {
                self.ring.kill(slot);
            }
            next = self.ring.older(&entry);
        }
    }

    /// Commits a transaction.
    ///
    /// # Errors
    /// If it is not open, or the log of commits is full.
    //= bytefs 4.3
    pub fn commit(&mut self, tx: u32) -> Result<(), CommitError> {
        self.txs.commit(tx)
    }

    /// Begins cleaning all that is there.
    ///
    /// # Panics
    /// If the last cleaning has not ended.
    //= bytefs 4.3
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one cleaning at a time");
        self.frozen = Some((std::mem::take(&mut self.index), self.ring.tail()));
    }

    /// The first page from `from` on that cleaning has not done.
    #[must_use]
    pub fn next_to_clean(&self, from: u32) -> Option<u32> {
        self.frozen.as_ref()?.0.next_page(from)
    }

    /// What of a page goes to flash: for each of its lines the newest committed
    /// version. Lines that have not committed move to the end of the log, and the
    /// version before them counts. The page stays readable until [`Log::cleaned`].
    //= bytefs 4.3
    pub fn resolve(&mut self, page: u32) -> PageImage {
        let mut image = PageImage {
            lines: 0,
            bytes: Box::new([0; LINE * LINES as usize]),
        };
        let chunks = self.frozen.as_ref().map(|(index, _)| index.chunks(page));
        let chunks = chunks.unwrap_or_default().to_vec();
        for chunk in chunks {
            for at in 0..chunk.lines {
                let slot = self.ring.slot_at(chunk.slot + u32::from(at));
                let line = chunk.line + at;
                let entry = self.ring.entry_of(slot);
                if !self.txs.is_committed(entry.tx) {
                    self.migrate(page, line, slot, entry.tx);
                }
                if let Some(slot) = self.committed(entry, line) {
                    let to = usize::from(line) * LINE;
                    image.bytes[to..to + LINE].copy_from_slice(&self.ring.line(slot));
                    image.lines |= 1 << line;
                }
            }
        }
        image
    }

    /// Moves an uncommitted line to the end, unless its transaction has written it
    /// again since.
    fn migrate(&mut self, page: u32, line: u8, slot: u64, tx: u32) {
        if self.find(self.index.chunks(page), line).is_none() {
            let bytes = self.ring.line(slot);
            self.append(page, line, 1, tx, &bytes);
        }
    }

    /// The newest committed version of a line, from `entry` backwards.
    fn committed(&self, entry: Entry, line: u8) -> Option<u64> {
        let mut entry = Some(entry);
        while let Some(at) = entry {
            if let Some(slot) = at.slot_of(line)
                && self.txs.is_committed(at.tx)
                && !self.ring.is_dead(slot)
            {
                return Some(slot);
            }
            entry = self.ring.older(&at);
        }
        None
    }

    /// A page that was resolved is on flash: its entries must not come back after
    /// a power cut, over what is written to it as a block from now on.
    pub fn cleaned(&mut self, page: u32) {
        let Some((frozen, _)) = &mut self.frozen else {
            return;
        };
        let last = last_slot(&self.ring, frozen.chunks(page));
        frozen.remove(page);
        if let Some(slot) = last {
            self.kill(slot);
        }
    }

    /// Ends cleaning: frees the space of all that was there when it began.
    ///
    /// # Panics
    /// If a page is left.
    //= bytefs 4.3
    pub fn finish(&mut self) {
        let Some((frozen, mark)) = self.frozen.take() else {
            return;
        };
        assert_eq!(frozen.pages(), 0, "all pages are clean");
        for entry in self.ring.free_until(mark) {
            self.txs.remove(entry.tx, u32::from(entry.lines));
        }
    }

    /// The log after a power cut: ring and commits are there, the index is not.
    /// Lines of transactions that have not committed belong to nobody. Everything
    /// else waits to be cleaned, which may be cut short again.
    //= bytefs 4.7
    #[must_use]
    pub fn recovered(&self) -> Self {
        let mut log = Self {
            ring: self.ring.clone(),
            txs: self.txs.clone(),
            index: I::default(),
            frozen: None,
        };
        for entry in self.ring.entries() {
            if self.txs.is_committed(entry.tx) {
                log.lay_live(entry);
            }
        }
        log.txs.abort_open();
        log.freeze();
        log
    }

    /// Lays the lines of an entry that were not invalidated into the index.
    fn lay_live(&mut self, entry: &Entry) {
        for at in 0..entry.lines {
            let first = entry.first + u64::from(at);
            if !self.ring.is_dead(first) {
                let (line, lines) = (entry.line + at, 1);
                self.lay(&Entry {
                    first,
                    line,
                    lines,
                    ..*entry
                });
            }
        }
    }

    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        let mut open = 0;
        let mut next = None;
        for entry in self.ring.entries() {
            assert!(next.is_none_or(|next| next == entry.first), "no gaps");
            next = Some(entry.first + u64::from(entry.lines));
            let is_open = !self.txs.is_committed(entry.tx);
            open += if is_open { u32::from(entry.lines) } else { 0 };
        }
        assert!(next.is_none_or(|next| next == self.ring.tail()), "no end");
        assert_eq!(open, self.txs.open_lines(), "lines of open transactions");
        for index in std::iter::once(&self.index).chain(self.frozen.as_ref().map(|(i, _)| i)) {
            self.check_index(index);
        }
    }

    fn check_index(&self, index: &I) {
        let mut from = 0;
        let mut pages = 0;
        while let Some(page) = index.next_page(from) {
            let mut end = 0;
            for chunk in index.chunks(page) {
                assert!(chunk.line >= end && chunk.lines > 0, "chunks are in order");
                end = chunk.end();
                for at in 0..chunk.lines {
                    let slot = self.ring.slot_at(chunk.slot + u32::from(at));
                    let entry = self.ring.entry_of(slot);
                    assert_eq!(entry.page, page, "a chunk of another page");
                    assert_eq!(entry.slot_of(chunk.line + at), Some(slot));
                    assert!(!self.ring.is_dead(slot), "a dead line is in the index");
                }
            }
            pages += 1;
            from = page + 1;
        }
        assert_eq!(pages, index.pages(), "pages of the index");
    }
}

fn last_slot(ring: &Ring, chunks: &[Chunk]) -> Option<u64> {
    let last = |c: &Chunk| ring.slot_at(c.slot + u32::from(c.lines) - 1);
    chunks.iter().map(last).max()
}

#[cfg(test)]
mod tests;
