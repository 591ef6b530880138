//! A log in memory: its pages in order, and its live entries.
//!
//! Invariants: an entry is in `entries` exactly while a fact of the inode refers to it; other
//! entries are dead, and a page with only dead entries may be unlinked. An entry that only cancels
//! others (a hole, a removed name) is live while it is the newest on its subject, since older
//! entries may still lie in the log.
//! the newest word on what it undoes, since older words may still lie in the log.

use crate::entry::{Entry, Found, next_marker};
use crate::format::{Anchor, Geometry, LINE, LINE_BYTES, PAGE_BYTES, Page, log_trailer, trailer};
use crate::state::State;
use host::Purpose;
use std::collections::{BTreeMap, BTreeSet};
use vfs::FileKind;

/// Lines of a page available to entries.
pub(crate) const LINES: u64 = (trailer::AT / LINE) as u64;

/// References to an entry.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Facts that refer to the entry.
    refs: u32,
    /// Number of these facts for which a rewritten log would need an entry.
    solid: u32,
    lines: u32,
}

/// The log of one inode.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Pages of the log in order; the last holds the tail.
    pub(crate) pages: Vec<u64>,
    entries: BTreeMap<u64, Use>,
    /// Number of live entries by page.
    live: BTreeMap<u64, u32>,
    solid_lines: u64,
}

/// Placement of new entries in a log, before they are stored.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Address of each entry.
    pub(crate) places: Vec<u64>,
    /// Pages that are added to the log.
    pub(crate) pages: Vec<u64>,
    /// Bytes to be stored, with address and purpose.
    pub(crate) stores: Vec<(u64, Vec<u8>, Purpose)>,
    /// Head and tail after the commit.
    pub(crate) head: u64,
    pub(crate) tail: u64,
}

/// Purpose to which the links of a log are attributed.
pub(crate) const fn link_purpose(kind: FileKind) -> Purpose {
    match kind {
        FileKind::Directory => Purpose::Directory,
        _ => Purpose::Pointer,
    }
}

impl Plan {
    /// Plans entries after the tail of the log of `anchor`; `page` allocates pages.
    pub(crate) fn new(
        anchor: &Anchor,
        kind: FileKind,
        entries: &[Entry],
        mut page: impl FnMut() -> Option<u64>,
    ) -> Option<Self> {
        let mut plan = Self {
            head: anchor.head,
            tail: anchor.tail,
            ..Self::default()
        };
        let links = link_purpose(kind);
        for entry in entries {
            let len = (entry.lines() * LINE) as u64;
            if !plan.has_room(len) {
                let Some(next) = page() else {
                    plan.pages.clear();
                    return None;
                };
                plan.extend(anchor.ino, next, links);
            }
            plan.places.push(plan.tail);
            plan.put(plan.tail, entry.encode(), entry.purpose());
            plan.tail += len;
        }
        Some(plan)
    }

    /// Whether `len` bytes fit after the tail.
    const fn has_room(&self, len: u64) -> bool {
        fits(self.tail, len)
    }

    /// Appends a page to the log.
    fn extend(&mut self, ino: u64, next: u64, links: Purpose) {
        if self.tail == 0 {
            self.head = next;
        } else {
            if self.has_room(LINE_BYTES) {
                self.put(self.tail, next_marker().to_vec(), links);
            }
            let page = self.tail / PAGE_BYTES;
            self.put(trailer_of(page), log_trailer(ino, next).to_vec(), links);
        }
        self.put(trailer_of(next), log_trailer(ino, 0).to_vec(), links);
        self.pages.push(next);
        self.tail = next * PAGE_BYTES;
    }

    /// Adds bytes to be stored; merges them with the previous ones if adjacent.
    fn put(&mut self, at: u64, bytes: Vec<u8>, purpose: Purpose) {
        match self.stores.last_mut() {
            Some((start, before, same))
                if *start + before.len() as u64 == at && *same == purpose =>
            {
                before.extend(bytes);
            }
            _ => self.stores.push((at, bytes, purpose)),
        }
    }
}

/// Whether `len` bytes fit after `tail` in the same page.
pub(crate) const fn fits(tail: u64, len: u64) -> bool {
    tail != 0 && tail % PAGE_BYTES + len <= trailer::AT as u64
}

/// Address of the trailer of a page of a log.
pub(crate) const fn trailer_of(page: u64) -> u64 {
    page * PAGE_BYTES + trailer::AT as u64
}

impl Log {
    /// Adds an entry that no fact refers to yet.
    pub(crate) fn enter(&mut self, at: u64, lines: usize) {
        let lines = lines as u32;
        let fresh = Use {
            lines,
            ..Use::default()
        };
        self.entries.insert(at, fresh);
    }

    /// Removes the entry if no fact refers to it.
    pub(crate) fn settle(&mut self, at: u64) {
        if self.entries.get(&at).is_some_and(|entry| entry.refs == 0) {
            self.entries.remove(&at);
        }
    }

    /// Adds a reference to the entry; `solid` if a rewritten log would need the entry for it.
    pub(crate) fn hold(&mut self, at: u64, solid: bool) {
        let Some(entry) = self.entries.get_mut(&at) else {
            return;
        };
        if entry.refs == 0 {
            *self.live.entry(at / PAGE_BYTES).or_default() += 1;
        }
        entry.refs += 1;
        if solid {
            if entry.solid == 0 {
                self.solid_lines += u64::from(entry.lines);
            }
            entry.solid += 1;
        }
    }

    /// Drops a reference to the entry; `solid` as when it was added.
    pub(crate) fn release(&mut self, at: u64, solid: bool) {
        let Some(entry) = self.entries.get_mut(&at) else {
            return;
        };
        if solid {
            entry.solid -= 1;
            if entry.solid == 0 {
                self.solid_lines -= u64::from(entry.lines);
            }
        }
        entry.refs -= 1;
        if entry.refs > 0 {
            return;
        }
        self.entries.remove(&at);
        if let Some(live) = self.live.get_mut(&(at / PAGE_BYTES)) {
            *live -= 1;
            if *live == 0 {
                self.live.remove(&(at / PAGE_BYTES));
            }
        }
    }

    /// Whether a page holds only dead entries and is not the page of the tail.
    pub(crate) fn is_dead(&self, page: u64) -> bool {
        self.pages.last() != Some(&page) && !self.live.contains_key(&page)
    }

    /// Length of the log in lines.
    pub(crate) fn lines(&self) -> u64 {
        self.pages.len() as u64 * LINES
    }

    /// Whether less than half of the log is live; attributes count once.
    //= nova 4.5
    pub(crate) fn is_mostly_dead(&self) -> bool {
        self.pages.len() > 1 && (1 + self.solid_lines) * 2 < self.lines()
    }
}

/// A walk along the log of an inode, page by page, that rebuilds its state.
pub(crate) struct Walk {
    geometry: Geometry,
    anchor: Anchor,
    state: State,
    /// Next page to be read, 0 at the end.
    page: u64,
    seen: BTreeSet<u64>,
}

impl Walk {
    /// Starts a walk; `None` if head and tail are invalid.
    pub(crate) fn new(geometry: Geometry, anchor: Anchor, state: State) -> Option<Self> {
        let (page, at) = (anchor.tail / PAGE_BYTES, anchor.tail % PAGE_BYTES);
        let empty = anchor.head == 0 && anchor.tail == 0;
        let lines =
            at.is_multiple_of(LINE_BYTES) && (LINE_BYTES..=trailer::AT as u64).contains(&at);
        let placed = geometry.has(anchor.head, 1) && geometry.has(page, 1) && lines;
        (empty || placed).then(|| Self {
            geometry,
            page: anchor.head,
            anchor,
            state,
            seen: BTreeSet::new(),
        })
    }

    /// Next page to be read, and the number of its bytes; `None` at the end.
    pub(crate) fn wants(&self) -> Option<(u64, usize)> {
        let last = self.anchor.tail / PAGE_BYTES == self.page;
        let tail = (self.anchor.tail % PAGE_BYTES) as usize;
        let bytes = if last { tail } else { PAGE_BYTES as usize };
        (self.page != 0).then_some((self.page, bytes))
    }

    /// Applies a page; `None` if the page is damaged or was visited before.
    pub(crate) fn feed(&mut self, bytes: &Page) -> Option<()> {
        let (page, end) = self.wants()?;
        if !self.seen.insert(page) {
            return None;
        }
        self.state.log.pages.push(page);
        let end = end.min(trailer::AT);
        let last = self.anchor.tail / PAGE_BYTES == page;
        let mut at = 0;
        while at < end {
            match Entry::decode(&bytes[..], at, &self.state.attr, &self.geometry)? {
                // Unused space lies only after the tail.
                Found::Next if last => return None,
                Found::Next => break,
                Found::Entry(entry, lines) => {
                    let address = page * PAGE_BYTES + at as u64;
                    self.state.apply(address, entry, &mut Vec::new())?;
                    at += lines * LINE;
                }
            }
        }
        if last {
            self.page = 0;
            return (at == end).then_some(());
        }
        let line = &bytes[trailer::AT..];
        let next = trailer::NEXT.get(line);
        let known = trailer::MAGIC.get(line) == trailer::MAGIC_VALUE
            && trailer::INO.get(line) == self.anchor.ino
            && self.geometry.has(next, 1);
        self.page = next;
        known.then_some(())
    }

    /// The state of the inode, after the last page was applied.
    pub(crate) fn finish(self) -> State {
        self.state
    }
}
