//! A log of cache lines in device DRAM, between the host's lines and the flash pages of a
//! byte-addressable drive.
//!
//! A write appends whole lines and adds them to an index; a read looks them up; a block write
//! invalidates them. Cleaning visits the pages in the order of the index, collects the newest
//! committed version of each line, and frees the space of all entries that were in the log at its
//! start. Writes that arrive meanwhile go to a new index over the same ring. The firmware around
//! the log moves the pages, ensures that one task at a time works on a page, and accounts for time.
//!
//! # Invariants
//!
//! - A line has at most one uncommitted version: until it commits, a write by another transaction
//!   is rejected. So the order of committed versions of a line is their order in the log.
//! - The current index has the newest version of each line, committed or not; the frozen index
//!   serves lines that the current one lacks.
//! - Freed entries are on flash, or superseded in the log, or of aborted transactions. Cleaning
//!   moves uncommitted lines to the end of the log.
//! - Recovery of ring and commits yields the committed data that reads saw before.
//!
//! # Choices that the source leaves open
//!
//! Descriptors (`ring.rs`), and that an overlapping write splits the older chunk. The version
//! before the newest is found through the entries of the page, instead of a walk backwards over the
//! whole log. One ring serves as both regions of the double buffer: the new region is the part that
//! the old one does not use.

mod chunks;
mod clean;
mod index;
mod kept;
mod lines;
mod replay;
mod ring;
mod shadows;
mod skip;
mod txlog;

pub use chunks::Chunk;
pub use clean::{PageImage, Survey};
pub use index::Index;
pub use lines::Lines;
pub use skip::{PARTITION_PAGES, SkipIndex};
pub use txlog::CommitError;

pub(crate) use kept::{Change, Changes, Kept, SavedEntry};
pub(crate) use replay::Replay;
pub(crate) use ring::DESCRIPTOR;

use ring::{Entry, Ring};
use shadows::Shadows;
use std::rc::Rc;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Lines of a page: 4,096 bytes, whatever the mapping unit of the flash.
pub const LINES: u32 = 64;

/// Sizes of a log, and whether it keeps contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSizes {
    /// Lines and their descriptors, in bytes.
    pub log: u64,
    /// Commit entries, in bytes.
    pub commits: u64,
    /// Whether contents are kept; if not, lines read as zeros.
    pub keep_contents: bool,
}

impl LogSizes {
    /// Slots of a log of `bytes`.
    #[must_use]
    pub fn slots(bytes: u64) -> u64 {
        u64::from(Ring::slots_in(bytes))
    }

    /// Largest number of uncommitted lines in a log of `bytes`: cleaning needs as much room again
    /// to move them, and a page written without a transaction must fit beside them.
    #[must_use]
    pub fn open_lines(bytes: u64) -> u64 {
        Self::slots(bytes).saturating_sub(u64::from(LINES)) / 2
    }

    /// Bytes of a log of `slots`.
    #[must_use]
    pub fn bytes(slots: u64) -> u64 {
        slots * ring::SLOT
    }
}

/// A write to consecutive lines of one page.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Index of the 4,096-byte page.
    pub page: u32,
    /// First line in the page.
    pub line: u8,
    /// Number of lines, at least one.
    pub lines: u8,
    /// Transaction; 0 for a write that commits at once.
    pub tx: u32,
    /// Origin of the data.
    pub tag: u16,
    /// Contents of the lines; empty if contents are not kept.
    pub bytes: &'a [u8],
}

/// Bit mask of `lines` lines from `line` on.
#[must_use]
pub fn mask(line: u8, lines: u8) -> u64 {
    assert!(lines > 0 && u32::from(line) + u32::from(lines) <= LINES);
    (u64::MAX >> (64 - lines)) << line
}

/// Reason why a write is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The log is full until cleaning has freed space.
    #[error("the log is full")]
    Full,
    /// Open transactions would take so much of the log that cleaning could not free space.
    #[error("open transactions have {open} lines in a log of {slots}: split them")]
    Oversized {
        /// Uncommitted lines, those of the write included.
        open: u32,
        /// Slots of the log.
        slots: u32,
    },
    /// Another open transaction has written the line.
    #[error("line {line} of page {page} belongs to open transaction {by}")]
    Locked {
        /// Index of the 4,096-byte page.
        page: u32,
        /// Line in the page.
        line: u8,
        /// Transaction that wrote the line.
        by: u32,
    },
    /// The transaction has committed.
    #[error("transaction {0} has committed and takes no more writes")]
    Committed(u32),
}

/// A write log with the index `I`.
#[derive(Debug)]
pub struct Log<I> {
    kept: Kept,
    index: I,
    /// Index of the slots being cleaned, all of which are before the mark.
    frozen: Option<(I, u64)>,
    /// Lines that a page in a volatile write buffer supersedes.
    shadows: Shadows,
    /// Lists that receive the changes of `kept`.
    watches: Vec<Changes>,
}

impl<I: Index> Log<I> {
    /// An empty log of the given sizes.
    #[must_use]
    pub fn new(sizes: LogSizes) -> Self {
        Self::over(Kept::new(sizes))
    }

    fn over(kept: Kept) -> Self {
        Self {
            kept,
            index: I::default(),
            frozen: None,
            shadows: Shadows::default(),
            watches: Vec::new(),
        }
    }

    /// Slots in use, and slots of the log.
    #[must_use]
    pub fn fill(&self) -> (u32, u32) {
        (self.kept.ring.used(), self.kept.ring.capacity())
    }

    /// Commit entries in use, and the largest possible number.
    #[must_use]
    pub fn commits(&self) -> (u32, u32) {
        self.kept.txs.fill()
    }

    /// Lines of transactions that have not committed.
    #[must_use]
    pub fn open_lines(&self) -> u32 {
        self.kept.txs.open_lines()
    }

    /// Index of the lines written since the last cleaning started.
    #[must_use]
    pub fn index(&self) -> &I {
        &self.index
    }

    /// State that the battery keeps.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Registers a new watch; it receives the changes from here on.
    pub(crate) fn watch(&mut self) -> Changes {
        let watch = Changes::default();
        self.watches.push(Changes::clone(&watch));
        watch
    }

    /// Removes `watch` from the receivers of changes.
    pub(crate) fn unwatch(&mut self, watch: &Changes) {
        self.watches.retain(|other| !Rc::ptr_eq(other, watch));
    }

    fn tell(&self, change: impl Fn(&Kept) -> Change) {
        for watch in &self.watches {
            watch.borrow_mut().push(change(&self.kept));
        }
    }

    /// Checks that `writes` of one transaction can be stored one after the other, given room for
    /// each, with `waiting` lines of open transactions ahead of them.
    ///
    /// # Errors
    /// If a write can never be stored.
    pub fn check_writes<'a>(
        &self,
        writes: impl Iterator<Item = Write<'a>>,
        waiting: u32,
    ) -> Result<(), StoreError> {
        let mut lines = 0;
        for write in writes {
            self.kept.txs.may_write(write.tx)?;
            self.check_owner(&write)?;
            lines += if write.tx == 0 {
                0
            } else {
                u32::from(write.lines)
            };
        }
        self.check_size(lines, waiting)
    }

    /// Appends a write.
    ///
    /// # Errors
    /// If the write must wait for room, or can never be stored. The log does not change then.
    //= bytefs 4.4
    pub fn store(&mut self, write: &Write<'_>) -> Result<(), StoreError> {
        self.check_writes(std::iter::once(*write), 0)?;
        self.check_room(write)?;
        self.append(write);
        Ok(())
    }

    fn check_owner(&self, write: &Write<'_>) -> Result<(), StoreError> {
        if self.open_lines() == 0 {
            return Ok(());
        }
        for line in write.line..write.line + write.lines {
            let Some(slot) = self.newest(write.page, line) else {
                continue;
            };
            let by = self.kept.ring.entry_of(slot).tx;
            if by != write.tx && !self.kept.txs.is_committed(by) {
                let page = write.page;
                return Err(StoreError::Locked { page, line, by });
            }
        }
        Ok(())
    }

    /// Checks the limit of uncommitted lines: cleaning moves them, which needs as much room again,
    /// and a page written without a transaction must fit beside them.
    fn check_size(&self, more: u32, waiting: u32) -> Result<(), StoreError> {
        let (_, slots) = self.fill();
        let open = u64::from(self.open_lines()) + u64::from(more) + u64::from(waiting);
        if more > 0 && 2 * open + u64::from(LINES) > u64::from(slots) {
            let open = open as u32;
            return Err(StoreError::Oversized { open, slots });
        }
        Ok(())
    }

    /// Checks that there is room for the write, and for the lines that cleaning may have to move.
    fn check_room(&self, write: &Write<'_>) -> Result<(), StoreError> {
        let (used, slots) = self.fill();
        let new = u64::from(write.lines);
        let kept_free = u64::from(self.open_lines())
            + if write.tx == 0 {
                0
            } else {
                new + u64::from(LINES)
            };
        if u64::from(used) + new + kept_free > u64::from(slots) {
            return Err(StoreError::Full);
        }
        Ok(())
    }

    fn append(&mut self, write: &Write<'_>) {
        let entry = Entry {
            first: self.kept.ring.tail(),
            page: write.page,
            line: write.line,
            lines: write.lines,
            tx: write.tx,
            tag: write.tag,
            older: self.last_kept_of(write.page).map_or(0, |slot| slot + 1),
        };
        for at in 0..u64::from(entry.lines) {
            self.shadows.show(self.kept.ring.place(entry.first + at));
        }
        self.kept.ring.append(entry, write.bytes);
        self.kept.txs.add(write.tx, u32::from(write.lines));
        self.lay(&entry);
        self.tell(|kept| Change::Append(kept.saved(&entry)));
    }

    /// Adds an entry to the index, as two chunks if it wraps around the end of the ring.
    fn lay(&mut self, entry: &Entry) {
        let place = self.kept.ring.place(entry.first);
        let before_end = self.kept.ring.capacity() - place;
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

    /// The last valid slot that was written for `page`.
    fn last_of(&self, page: u32) -> Option<u64> {
        let last = |index: &I| last_slot(&self.kept.ring, index.chunks(page));
        last(&self.index).or_else(|| last(&self.frozen.as_ref()?.0))
    }

    /// The last slot that was written for `page` and is valid or hidden.
    fn last_kept_of(&self, page: u32) -> Option<u64> {
        self.last_of(page).max(self.shadows.last_of(page))
    }

    /// The slot of the newest version of a line.
    fn newest(&self, page: u32, line: u8) -> Option<u64> {
        let of = |index: &I| self.find(index.chunks(page), line);
        of(&self.index).or_else(|| of(&self.frozen.as_ref()?.0))
    }

    fn find(&self, chunks: &[Chunk], line: u8) -> Option<u64> {
        let after = chunks.partition_point(|chunk| chunk.line <= line);
        let chunk = chunks.get(after.checked_sub(1)?)?;
        let slot = || chunk.slot + u32::from(line - chunk.line);
        (line < chunk.end()).then(|| self.kept.ring.slot_at(slot()))
    }

    /// The newest version of a line, committed or not; `None` if the log has none.
    //= bytefs 4.4
    #[must_use]
    pub fn load(&self, page: u32, line: u8) -> Option<[u8; LINE]> {
        let slot = self.newest(page, line);
        slot.map(|slot| self.kept.ring.line(slot))
    }

    /// Lines of `page` in the log, one bit each.
    #[must_use]
    pub fn lines_of(&self, page: u32) -> u64 {
        let frozen = self.frozen.as_ref().map(|(index, _)| index.chunks(page));
        let chunks = frozen.unwrap_or_default().iter();
        let chunks = chunks.chain(self.index.chunks(page));
        chunks.fold(0, |lines, chunk| lines | mask(chunk.line, chunk.lines))
    }

    /// The first page with lines in the log, from `from` on.
    #[must_use]
    pub fn next_page(&self, from: u32) -> Option<u32> {
        let frozen = self.frozen.as_ref();
        let frozen = frozen.and_then(|(index, _)| index.next_page(from));
        let new = self.index.next_page(from);
        frozen.into_iter().chain(new).min()
    }

    /// Overlays `bytes`, the contents of `page` from `line` on, with the lines in the log. Returns
    /// the overlaid lines, one bit each.
    //= bytefs 4.4
    pub fn merge(&self, page: u32, line: u8, bytes: &mut [u8]) -> u64 {
        let mut lines = 0;
        let wanted = line..line + (bytes.len() / LINE) as u8;
        let frozen = self.frozen.as_ref().map(|(index, _)| index.chunks(page));
        for chunks in [frozen.unwrap_or_default(), self.index.chunks(page)] {
            for chunk in chunks {
                let first = chunk.line.max(wanted.start);
                for at in first..chunk.end().min(wanted.end) {
                    let place = chunk.slot + u32::from(at - chunk.line);
                    let slot = self.kept.ring.slot_at(place);
                    let to = usize::from(at - line) * LINE;
                    bytes[to..to + LINE].copy_from_slice(&self.kept.ring.line(slot));
                    lines |= 1 << at;
                }
            }
        }
        lines
    }

    /// Invalidates `lines` of `page`, which a block write has replaced, whether they are committed
    /// or not. Returns whether the log had any line of the page.
    //= bytefs 4.4
    pub fn invalidate(&mut self, page: u32, lines: u64) -> bool {
        let last = self.last_of(page);
        if let Some(slot) = last {
            self.kill(slot, lines);
        }
        self.cut(page, lines);
        last.is_some()
    }

    fn cut(&mut self, page: u32, lines: u64) {
        self.index.cut(page, lines);
        if let Some((frozen, _)) = &mut self.frozen {
            frozen.cut(page, lines);
        }
    }

    /// Slots of `lines` in the entry of slot `last`, and in earlier entries of the same page.
    fn slots_of(&self, last: u64, lines: u64) -> Vec<u64> {
        let mut slots = Vec::new();
        let mut next = Some(self.kept.ring.entry_of(last));
        while let Some(entry) = next {
            let wanted = (0..entry.lines).filter(|at| lines >> (entry.line + at) & 1 == 1);
            slots.extend(wanted.map(|at| entry.first + u64::from(at)));
            next = self.kept.ring.older(&entry);
        }
        slots
    }

    /// Invalidates `lines` in the entry of `slot` and in earlier entries of the same page.
    fn kill(&mut self, slot: u64, lines: u64) {
        let last = self.kept.ring.entry_of(slot);
        for slot in self.slots_of(slot, lines) {
            self.kept.ring.kill(slot);
            self.shadows.show(self.kept.ring.place(slot));
        }
        let end = last.first + u64::from(last.lines);
        self.tell(|kept| Change::Kill {
            page: last.page,
            mask: lines,
            slots: (end - kept.ring.head()) as u32,
        });
    }

    /// Commits a transaction.
    ///
    /// # Errors
    /// If it is not open, or no commit entry is free.
    //= bytefs 4.3
    pub fn commit(&mut self, tx: u32) -> Result<(), CommitError> {
        self.kept.txs.commit(tx)?;
        self.tell(|_| Change::Commit(tx));
        Ok(())
    }

    /// Panics if an invariant does not hold.
    pub fn check(&self) {
        let mut open = 0;
        let mut next = None;
        for entry in self.kept.ring.entries() {
            assert!(next.is_none_or(|next| next == entry.first), "no gaps");
            next = Some(entry.first + u64::from(entry.lines));
            let is_open = !self.kept.txs.is_committed(entry.tx);
            open += if is_open { u32::from(entry.lines) } else { 0 };
        }
        assert!(
            next.is_none_or(|next| next == self.kept.ring.tail()),
            "no end"
        );
        let counted = self.open_lines();
        let moved = open - counted;
        assert!(
            self.frozen.is_some() || moved == 0,
            "{moved} lines too few are open"
        );
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
                    let slot = self.kept.ring.slot_at(chunk.slot + u32::from(at));
                    let entry = self.kept.ring.entry_of(slot);
                    assert_eq!(entry.page, page, "a chunk of another page");
                    assert_eq!(entry.slot_of(chunk.line + at), Some(slot));
                    assert!(!self.kept.ring.is_dead(slot), "a dead line is in the index");
                    let place = self.kept.ring.place(slot);
                    assert!(
                        !self.shadows.is_hidden(place),
                        "a hidden line is in the index"
                    );
                }
            }
            pages += 1;
            from = page + 1;
        }
        assert_eq!(pages, index.pages(), "pages of the index");
    }
}

/// The newest slot of `chunks`. In a full ring a chunk may continue from the newest slot to the
/// oldest one.
fn last_slot(ring: &Ring, chunks: &[Chunk]) -> Option<u64> {
    let last = |c: &Chunk| {
        let last = ring.slot_at(c.slot + u32::from(c.lines) - 1);
        if ring.slot_at(c.slot) > last {
            ring.tail() - 1
        } else {
            last
        }
    };
    chunks.iter().map(last).max()
}

#[cfg(test)]
mod tests;
