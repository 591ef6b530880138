//! Cleaning of the log (write-out of committed lines, moves of open ones, release of space), and
//! recovery after a power cut.

use super::kept::{Change, Kept};
use super::ring::{DESCRIPTOR, Entry};
use super::shadows::Shadows;
use super::{Index, LINE, LINES, Log, StoreError, Write, last_slot};

/// Result of cleaning one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageImage {
    /// Lines with a committed version, one bit each.
    pub lines: u64,
    /// Committed versions at their places in the page; other bytes are zeros.
    pub bytes: Box<[u8; LINE * LINES as usize]>,
    /// Origin of the newest of these versions.
    pub tag: u16,
    /// Lines that moved to the end of the log.
    pub moved: u32,
}

/// Result of the scan of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Entries in the log.
    pub entries: u64,
    /// Entries with valid lines that are committed.
    pub kept: u64,
    /// Entries with valid lines of transactions that have not committed.
    pub dropped: u64,
}

impl Survey {
    /// Bytes of the descriptors of all entries.
    #[must_use]
    pub const fn descriptors(&self) -> u64 {
        self.entries * DESCRIPTOR
    }
}

impl PageImage {
    /// Whether the rest of the page has to be read from flash.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.lines != u64::MAX
    }
}

impl<I: Index> Log<I> {
    /// Starts cleaning all entries that are in the log.
    ///
    /// # Panics
    /// If the last cleaning has not ended.
    //= bytefs 4.3
    pub fn freeze(&mut self) {
        assert!(self.frozen.is_none(), "one cleaning at a time");
        let mark = self.kept.ring.tail();
        self.frozen = Some((std::mem::take(&mut self.index), mark));
    }

    /// Whether a cleaning has started and not ended.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Pages that the current cleaning has not finished.
    #[must_use]
    pub fn pages_to_clean(&self) -> u64 {
        self.frozen.as_ref().map_or(0, |(index, _)| index.pages())
    }

    /// The first page from `from` on that the current cleaning has not finished.
    #[must_use]
    pub fn next_to_clean(&self, from: u32) -> Option<u32> {
        self.frozen.as_ref()?.0.next_page(from)
    }

    /// Lines of a page that cleaning will copy, to the page or to the end of the log.
    #[must_use]
    pub fn lines_to_clean(&self, page: u32) -> u32 {
        let chunks = self.frozen.as_ref().map(|(index, _)| index.chunks(page));
        let lines = chunks.unwrap_or_default().iter();
        lines.map(|chunk| u32::from(chunk.lines)).sum()
    }

    /// Lines of a page for which cleaning would find a committed version, one bit each.
    #[must_use]
    pub fn committed_lines(&self, page: u32) -> u64 {
        let lines = self.frozen_lines(page);
        let committed = lines.into_iter().filter(|&(line, slot)| {
            let entry = self.kept.ring.entry_of(slot);
            self.committed(entry, line).is_some()
        });
        committed.fold(0, |lines, (line, _)| lines | 1 << line)
    }

    /// Lines of a page that are being cleaned, with the slots of their newest versions.
    fn frozen_lines(&self, page: u32) -> Vec<(u8, u64)> {
        let chunks = self.frozen.as_ref().map(|(index, _)| index.chunks(page));
        let lines = chunks.unwrap_or_default().iter().flat_map(|chunk| {
            (0..chunk.lines).map(|at| {
                let slot = self.kept.ring.slot_at(chunk.slot + u32::from(at));
                (chunk.line + at, slot)
            })
        });
        lines.collect()
    }

    /// Collects the newest committed version of each line of a page. Uncommitted lines move to the
    /// end of the log, and the version before them is used. The page stays readable in the log
    /// until [`Log::cleaned`].
    //= bytefs 4.3
    pub fn resolve(&mut self, page: u32) -> PageImage {
        let mut image = PageImage {
            lines: 0,
            bytes: Box::new([0; LINE * LINES as usize]),
            tag: 0,
            moved: 0,
        };
        let mut newest = 0;
        for (line, slot) in self.frozen_lines(page) {
            let entry = self.kept.ring.entry_of(slot);
            if !self.kept.txs.is_committed(entry.tx) {
                image.moved += u32::from(self.migrate(&entry, line, slot));
            }
            if let Some(slot) = self.committed(entry, line) {
                let to = usize::from(line) * LINE;
                image.bytes[to..to + LINE].copy_from_slice(&self.kept.ring.line(slot));
                image.lines |= 1 << line;
                if slot >= newest {
                    newest = slot;
                    image.tag = self.kept.ring.entry_of(slot).tag;
                }
            }
        }
        image
    }

    /// Moves an uncommitted line to the end of the log, unless its transaction has written it again
    /// since. Returns whether the line was moved.
    fn migrate(&mut self, entry: &Entry, line: u8, slot: u64) -> bool {
        let page = entry.page;
        if self.find(self.index.chunks(page), line).is_some() {
            return false;
        }
        let bytes = self.kept.ring.line(slot);
        self.append(&Write {
            page,
            line,
            lines: 1,
            tx: entry.tx,
            tag: entry.tag,
            bytes: &bytes,
        });
        self.kept.txs.moved(entry.tx);
        true
    }

    /// Slot of the newest committed, valid version of a line, searched from `entry` backwards.
    fn committed(&self, entry: Entry, line: u8) -> Option<u64> {
        let mut entry = Some(entry);
        while let Some(at) = entry {
            if let Some(slot) = at.slot_of(line)
                && self.kept.txs.is_committed(at.tx)
                && !self.kept.ring.is_dead(slot)
                && !self.shadows.is_hidden(self.kept.ring.place(slot))
            {
                return Some(slot);
            }
            entry = self.kept.ring.older(&at);
        }
        None
    }

    /// Invalidates the entries of a page that was resolved and is on flash now: after a power cut
    /// they must not overwrite later block writes.
    pub fn cleaned(&mut self, page: u32) {
        if let Some(slot) = self.thaw(page) {
            self.kill(slot, u64::MAX);
        }
    }

    /// As [`Log::cleaned`], for a page that is in a volatile buffer as version `by`: its entries are
    /// hidden until [`Log::written`].
    pub fn cleaned_by(&mut self, page: u32, by: u64) {
        if let Some(slot) = self.thaw(page) {
            self.cover(page, u64::MAX, (by, slot));
        }
    }

    /// Leaves out a page without committed lines. Its lines have moved, and lines of it that are
    /// hidden stay so.
    pub fn skip(&mut self, page: u32) {
        self.thaw(page);
    }

    /// Removes a page from those being cleaned; returns its last slot.
    fn thaw(&mut self, page: u32) -> Option<u64> {
        let (frozen, _) = self.frozen.as_mut()?;
        let last = last_slot(&self.kept.ring, frozen.chunks(page));
        frozen.remove(page);
        last
    }

    /// Ends cleaning: frees the space of all entries that were in the log at its start.
    ///
    /// # Panics
    /// If a page has not been cleaned.
    //= bytefs 4.3
    pub fn finish(&mut self) {
        let Some((frozen, mark)) = self.frozen.take() else {
            return;
        };
        assert_eq!(frozen.pages(), 0, "all pages are clean");
        self.free_until(mark);
    }

    fn free_until(&mut self, mark: u64) {
        let slots = (mark - self.kept.ring.head()) as u32;
        for entry in self.kept.ring.free_until(mark) {
            self.kept.txs.remove(entry.tx, u32::from(entry.lines));
        }
        self.tell(|_| Change::Free(slots));
    }

    /// Drops all entries: those that are left belong to transactions that will never commit.
    pub fn clear(&mut self) {
        (self.index, self.frozen) = (I::default(), None);
        self.shadows = Shadows::default();
        self.kept.txs.abort_open();
        self.free_until(self.kept.ring.tail());
    }

    /// The log after a power cut, from its ring and commits; the index is rebuilt. Lines of
    /// uncommitted transactions are dropped. All others wait to be cleaned, which another cut may
    /// interrupt.
    //= bytefs 4.7
    pub(crate) fn recovered(kept: &Kept) -> Self {
        let mut log = Self::over(kept.clone());
        for entry in kept.ring.entries() {
            if kept.txs.is_committed(entry.tx) {
                log.lay_live(entry);
            }
        }
        log.kept.txs.abort_open();
        log.freeze();
        log
    }

    /// Appends a write to the log that a power cut left, before any of it is cleaned.
    ///
    /// # Errors
    /// As [`Log::store`].
    pub(crate) fn store_arrived(&mut self, write: &Write<'_>) -> Result<(), StoreError> {
        let left = self.frozen.take();
        let was_frozen = left.is_some();
        if let Some((index, _)) = left {
            assert!(self.index.pages() == 0, "nothing was written since");
            self.index = index;
        }
        let stored = self.store(write);
        if was_frozen {
            self.freeze();
        }
        stored
    }

    /// Adds the valid lines of an entry to the index.
    fn lay_live(&mut self, entry: &Entry) {
        for at in 0..entry.lines {
            let first = entry.first + u64::from(at);
            if !self.kept.ring.is_dead(first) {
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

    /// Counts the entries in the log, by their state.
    #[must_use]
    pub fn survey(&self) -> Survey {
        let mut survey = Survey::default();
        for entry in self.kept.ring.entries() {
            let slots = entry.first..entry.first + u64::from(entry.lines);
            let mut slots = slots.filter(|&slot| !self.kept.ring.is_dead(slot));
            let lives = slots.next().is_some();
            let committed = self.kept.txs.is_committed(entry.tx);
            survey.entries += 1;
            survey.kept += u64::from(lives && committed);
            survey.dropped += u64::from(lives && !committed);
        }
        survey
    }
}
