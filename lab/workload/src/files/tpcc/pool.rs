//! Buffer pool: pages in memory by last use, and dirty pages by age.
//!
//! A page that is read goes to the head of the old part of the LRU list, and to the head of the
//! young part when it is used again a second later. A pool with few pages has no old part.
//!
//! Invariants:
//! - A page has at most one frame, which is in one of the two parts.
//! - The old part has three eighths of the pages, within a tolerance.
//! - A page is dirty from its first change after a write until its next write ends.

//= mysql 14.5
//= innodb 1
use super::schema::{PAGE, PageId};
use std::collections::{BTreeMap, BTreeSet};
use units::Ns;

/// Number of pages below which the list has one part only.
//= innodb 1
const SPLIT_MIN: usize = 512;
/// Pages by which the old part may be larger or smaller than three eighths.
//= innodb 1
const TOLERANCE: usize = 20;
/// Time for which a page stays old after its first use (`innodb_old_blocks_time`).
//= mysql 14.15
const OLD_FOR: Ns = Ns(1_000_000_000);
/// Pages at the tail that are searched first for a clean victim.
//= innodb 1
const SCAN: usize = 100;

/// Read or write in progress on a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Io {
    #[default]
    None,
    /// A read is in progress: the page cannot be used.
    Reading,
    /// A write is in progress: the page cannot be changed.
    Writing,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    /// Position in the list: a larger stamp is a later use.
    stamp: i64,
    old: bool,
    first_used: Ns,
    io: Io,
    /// Log position before the first change since the last write; `None` if the page is clean.
    oldest: Option<u64>,
    /// End of the log of its last change.
    newest: u64,
}

/// Page whose frame can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Clean(PageId),
    /// Reusable after the page is written.
    Dirty(PageId),
}

/// State of the buffer pool.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    capacity: usize,
    frames: BTreeMap<PageId, Frame>,
    young: BTreeMap<i64, PageId>,
    old: BTreeMap<i64, PageId>,
    /// Largest and smallest stamp.
    top: i64,
    low: i64,
    dirty: BTreeSet<(u64, PageId)>,
}

impl Pool {
    pub(super) fn new(bytes: u64) -> Self {
        Self {
            capacity: (bytes / PAGE) as usize,
            frames: BTreeMap::new(),
            young: BTreeMap::new(),
            old: BTreeMap::new(),
            top: 0,
            low: 0,
            dirty: BTreeSet::new(),
        }
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn has_room(&self) -> bool {
        self.frames.len() < self.capacity
    }

    /// Read or write in progress on `page`; `None` if it has no frame.
    pub(super) fn io(&self, page: PageId) -> Option<Io> {
        self.frames.get(&page).map(|frame| frame.io)
    }

    /// Gives `page` a free frame.
    pub(super) fn insert(&mut self, page: PageId, io: Io, now: Ns) {
        assert!(self.has_room(), "a frame is free");
        self.top += 1;
        let old = !self.old.is_empty();
        let frame = Frame {
            stamp: self.top,
            old,
            first_used: now,
            io,
            oldest: None,
            newest: 0,
        };
        let before = self.frames.insert(page, frame);
        assert!(before.is_none(), "{page:?} has no frame yet");
        let top = self.top;
        self.part(old).insert(top, page);
        self.balance();
    }

    /// Removes `page`, which must be clean and at rest.
    pub(super) fn remove(&mut self, page: PageId) {
        let frame = self.frames.remove(&page).expect("it has a frame");
        assert!(frame.oldest.is_none() && frame.io == Io::None, "{page:?}");
        self.part(frame.old).remove(&frame.stamp);
        self.balance();
    }

    /// Moves `page` to the head of the young part, unless it is old and was first used less than a
    /// second ago.
    pub(super) fn touch(&mut self, page: PageId, now: Ns) {
        let frame = self.frames.get_mut(&page).expect("it has a frame");
        if frame.old && now.since(frame.first_used) < OLD_FOR {
            return;
        }
        self.top += 1;
        let (was_old, was) = (frame.old, frame.stamp);
        (frame.old, frame.stamp) = (false, self.top);
        self.part(was_old).remove(&was);
        self.young.insert(self.top, page);
        self.balance();
    }

    /// Marks `page` dirty; the log of the change spans `start` to `end`.
    pub(super) fn change(&mut self, page: PageId, start: u64, end: u64) {
        let frame = self.frames.get_mut(&page).expect("it has a frame");
        assert_eq!(frame.io, Io::None, "{page:?} is at rest");
        frame.newest = end;
        if frame.oldest.is_none() {
            frame.oldest = Some(start);
            self.dirty.insert((start, page));
        }
    }

    /// Ends the read of `page`.
    pub(super) fn loaded(&mut self, page: PageId) {
        self.set_io(page, Io::Reading, Io::None);
    }

    /// Begins a write of `page`; returns the log position that must be durable before.
    pub(super) fn begin_write(&mut self, page: PageId) -> u64 {
        self.set_io(page, Io::None, Io::Writing);
        self.frames[&page].newest
    }

    /// Ends the write of `page`, which is clean now.
    pub(super) fn written(&mut self, page: PageId) {
        self.set_io(page, Io::Writing, Io::None);
        let frame = self.frames.get_mut(&page).expect("it has a frame");
        let oldest = frame
            .oldest
            .take()
            .expect("a page is written if it changed");
        self.dirty.remove(&(oldest, page));
    }

    fn set_io(&mut self, page: PageId, from: Io, to: Io) {
        let frame = self.frames.get_mut(&page).expect("it has a frame");
        assert_eq!(frame.io, from, "{page:?}");
        frame.io = to;
    }

    /// Page to evict: a clean page among the last ones, else any clean one, else a dirty one;
    /// `None` if all pages are busy.
    pub(super) fn victim(&self) -> Option<Victim> {
        let clean = |page: &&PageId| {
            let frame = &self.frames[*page];
            frame.io == Io::None && frame.oldest.is_none()
        };
        let at_rest = |page: &&PageId| self.frames[*page].io == Io::None;
        if let Some(page) = self.oldest_first().take(SCAN).find(clean) {
            return Some(Victim::Clean(*page));
        }
        let any = self
            .oldest_first()
            .find(clean)
            .map(|page| Victim::Clean(*page));
        any.or_else(|| self.oldest_first().find(at_rest).map(|p| Victim::Dirty(*p)))
    }

    /// Pages by last use, the one used longest ago first.
    fn oldest_first(&self) -> impl Iterator<Item = &PageId> {
        self.old.values().chain(self.young.values())
    }

    /// Whether `page` is dirty and at rest.
    pub(super) fn can_write(&self, page: PageId) -> bool {
        let frame = self.frames.get(&page);
        frame.is_some_and(|frame| frame.oldest.is_some() && frame.io == Io::None)
    }

    /// Pages that can be written, by the age of their first change, the oldest first.
    pub(super) fn by_age(&self) -> impl Iterator<Item = PageId> {
        let pages = self.dirty.iter().map(|(_, page)| *page);
        pages.filter(|page| self.can_write(*page))
    }

    /// Pages that can be written among the last `depth` of the list.
    pub(super) fn at_tail(&self, depth: usize) -> impl Iterator<Item = PageId> {
        let pages = self.oldest_first().take(depth).copied();
        pages.filter(|page| self.can_write(*page))
    }

    /// Log position before the oldest change that is not written; `None` if no page is dirty.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.dirty.first().map(|(oldest, _)| *oldest)
    }

    /// Dirty pages in hundredths of the pool's capacity.
    pub(super) fn dirty_percent(&self) -> usize {
        self.dirty.len() * 100 / self.capacity
    }

    const fn part(&mut self, old: bool) -> &mut BTreeMap<i64, PageId> {
        match old {
            true => &mut self.old,
            false => &mut self.young,
        }
    }

    /// Moves pages between the two parts until the old part has its share.
    fn balance(&mut self) {
        let all = self.frames.len();
        if self.old.is_empty() && all < SPLIT_MIN {
            return;
        }
        let wanted = all * 3 / 8;
        while self.old.len() > wanted + TOLERANCE {
            let (_, page) = self.old.pop_last().expect("it has more than wanted");
            self.low -= 1;
            self.young.insert(self.low, page);
            self.place(page, self.low, false);
        }
        while self.old.len() + TOLERANCE < wanted {
            let (_, page) = self.young.pop_first().expect("it has the others");
            self.top += 1;
            self.old.insert(self.top, page);
            self.place(page, self.top, true);
        }
    }

    fn place(&mut self, page: PageId, stamp: i64, old: bool) {
        let frame = self.frames.get_mut(&page).expect("it has a frame");
        (frame.stamp, frame.old) = (stamp, old);
    }

    #[cfg(test)]
    pub(super) fn newest(&self, page: PageId) -> u64 {
        self.frames[&page].newest
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        assert_eq!(self.young.len() + self.old.len(), self.frames.len());
        for (page, frame) in &self.frames {
            let part = if frame.old { &self.old } else { &self.young };
            assert_eq!(part.get(&frame.stamp), Some(page));
            if let Some(oldest) = frame.oldest {
                assert!(self.dirty.contains(&(oldest, *page)) && oldest < frame.newest);
            }
        }
        let dirty = self.frames.values().filter(|f| f.oldest.is_some());
        assert_eq!(dirty.count(), self.dirty.len());
        if !self.old.is_empty() {
            let wanted = self.frames.len() * 3 / 8;
            assert!(self.old.len().abs_diff(wanted) <= TOLERANCE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn page(no: u32) -> PageId {
        PageId { space: 1, no }
    }

    #[test]
    fn scan_does_not_evict_pages_that_are_used_again() {
        let mut pool = Pool::new(1_024 * PAGE);
        let fill = |pool: &mut Pool, no: u32, now: Ns| {
            if !pool.has_room() {
                let Some(Victim::Clean(page)) = pool.victim() else {
                    panic!("all are clean");
                };
                pool.remove(page);
            }
            pool.insert(page(no), Io::None, now);
            pool.touch(page(no), now);
            pool.check();
        };
        (0..1_024).for_each(|no| fill(&mut pool, no, Ns(0)));
        // Two pages used again: one too early, one a second later.
        (1_500..1_502).for_each(|no| fill(&mut pool, no, Ns(0)));
        let second = Ns(1_000_000_000);
        pool.touch(page(1_500), Ns(5));
        let again = || (100..200).chain([1_501]);
        again().for_each(|no| pool.touch(page(no), second));
        (2_000..4_000).for_each(|no| fill(&mut pool, no, second));
        assert!(again().all(|no| pool.io(page(no)).is_some()));
        assert!(pool.io(page(1_500)).is_none());
    }

    #[test]
    fn small_pool_evicts_the_page_used_longest_ago() {
        let mut pool = Pool::new(3 * PAGE);
        (0..3).for_each(|no| pool.insert(page(no), Io::None, Ns(0)));
        pool.touch(page(0), Ns(1));
        assert_eq!(pool.victim(), Some(Victim::Clean(page(1))));
        pool.change(page(1), 10, 20);
        pool.change(page(1), 20, 30);
        pool.change(page(2), 30, 40);
        assert_eq!((pool.oldest(), pool.newest(page(1))), (Some(10), 30));
        assert_eq!(pool.victim(), Some(Victim::Clean(page(0))));
        pool.change(page(0), 40, 50);
        assert_eq!(pool.victim(), Some(Victim::Dirty(page(1))));
        assert!(pool.by_age().eq([1, 2, 0].map(page)));
        assert_eq!(pool.begin_write(page(1)), 30);
        assert!(pool.by_age().eq([2, 0].map(page)));
        assert_eq!(pool.oldest(), Some(10), "until it is written");
        pool.written(page(1));
        assert_eq!(pool.oldest(), Some(30));
        pool.check();
    }
}
