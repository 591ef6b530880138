//! The host's DRAM as a hardware-managed page cache; its misses make threads yield (AstriFlash
//! over CXL).
//!
//! Every access to the device goes through the cache, except to pinned pages, because flushed
//! data must reach the device to survive a power cut. A page is fetched as a whole, by 64 line
//! reads, for stores as for loads, and written back as a whole if any line is dirty. A page being
//! fetched holds an MSHR, and an evicted page holds one until the device has accepted it. A miss
//! without a free MSHR waits in order.

use super::access::Access;
use super::device::Waiter;
use super::posted::Posted;
use super::{Machine, Values};
use crate::cache::Block;
use crate::far::{Far, Tag};
use crate::link::{Ndr, Request, Response};
use crate::op::Program;
use crate::pages::split;
use crate::tick::Tick;
use crate::tiering::{Promote, Tiering};
use crate::window::Cause;
use std::collections::VecDeque;

/// A page of the device that is in the cache, and its lines that were written, one bit each.
#[derive(Clone, Copy)]
struct Kept {
    page: u64,
    dirty: u64,
}

const NO_PAGE: u64 = u64::MAX;

/// Tags of the page cache: sets in LRU order, the most recent page first; empty where there
/// is no page cache.
pub(super) struct PageTable {
    kept: Vec<Kept>,
    ways: usize,
    sets: u64,
    misses: usize,
    /// Pages that wait for a register: one of each thread, and of the oldest store of each
    /// core, at most.
    waiting: VecDeque<u64>,
}

impl PageTable {
    pub(super) fn new(tiering: &Tiering) -> Self {
        let Tiering::Cached(config) = tiering else {
            return Self {
                kept: Vec::new(),
                ways: 1,
                sets: 1,
                misses: 0,
                waiting: VecDeque::new(),
            };
        };
        let nothing = Kept {
            page: NO_PAGE,
            dirty: 0,
        };
        Self {
            kept: vec![nothing; (config.sets() * config.ways) as usize],
            ways: config.ways as usize,
            sets: config.sets(),
            misses: config.misses as usize,
            waiting: VecDeque::new(),
        }
    }

    /// The pages beside which a page is or would be.
    fn set(&mut self, page: u64) -> &mut [Kept] {
        if self.kept.is_empty() {
            return &mut [];
        }
        let from = (page % self.sets) as usize * self.ways;
        &mut self.kept[from..from + self.ways]
    }

    /// Makes a page the most recent of its set. Returns whether it is cached.
    fn uses(&mut self, page: u64) -> bool {
        let set = self.set(page);
        let found = set.iter().position(|kept| kept.page == page);
        if let Some(way) = found {
            set[..=way].rotate_right(1);
        }
        found.is_some()
    }

    fn holds(&mut self, page: u64) -> bool {
        self.set(page).iter().any(|kept| kept.page == page)
    }

    /// The lines of a page that were written, if it is there.
    fn dirty(&mut self, page: u64) -> Option<&mut u64> {
        let mut set = self.set(page).iter_mut();
        let found = set.find(|kept| kept.page == page)?;
        Some(&mut found.dirty)
    }

    /// Puts a page in. The page that had to go, if it was written.
    fn put(&mut self, page: u64, dirty: u64) -> Option<u64> {
        let set = self.set(page);
        let gone = std::mem::replace(set.last_mut()?, Kept { page, dirty });
        set.rotate_right(1);
        (gone.page != NO_PAGE && gone.dirty != 0).then_some(gone.page)
    }

    /// The line of DRAM that stands for a line of the device. Which way of its set a
    /// page has makes no difference to time.
    fn frame_line(&self, line: u64) -> u64 {
        line / 64 % (self.sets * self.ways as u64) * 64 + line % 64
    }
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
    /// Whether a line of the device is reached through the cache of pages.
    //= skybyte 4
    #[inline]
    pub(super) fn is_page_cached(&self, line: u64) -> bool {
        matches!(self.config.tiering, Tiering::Cached(_)) && !self.pages.is_pinned(line)
    }

    /// Brings a line of the device through the cache of pages.
    //= skybyte 6.8
    pub(super) fn bring_cached(
        &mut self,
        core: usize,
        line: u64,
        own: bool,
        leaves: Tick,
        waiter: Waiter,
    ) -> Access {
        let table = &mut self.page_cache;
        let at = table.frame_line(line);
        if table.uses(line / 64) {
            self.counts.page_hits += 1;
            let done = self.drams[0].access(leaves, at).done;
            let data = self.host_data(line);
            self.host.add(done - leaves, Tick::ZERO);
            self.known(core, line, own, done, &data, leaves);
            return Access::Known(done, Cause::Host);
        }
        let page = line / 64;
        if self.page_register_is_free() {
            self.fetch_page(page, leaves);
        } else if waiter == Waiter::Drain {
            self.wait_for_register(page);
        }
        debug_assert!(waiter != Waiter::Ahead, "nothing is fetched ahead here");
        Access::Delayed(leaves)
    }

    fn page_register_is_free(&self) -> bool {
        let leaving = self.posted.len().div_ceil(64) as usize;
        self.copying.len() + leaving < self.page_cache.misses
    }

    /// Asks for a page, unless it is on its way.
    fn fetch_page(&mut self, page: u64, now: Tick) {
        if !self.is_copied(page * 64) {
            self.counts.page_misses += 1;
            self.copy(None, page * 64, page * 64, 64, now);
        }
    }

    fn wait_for_register(&mut self, page: u64) {
        let waiting = &mut self.page_cache.waiting;
        if !waiting.contains(&page) {
            waiting.push_back(page);
        }
    }

    /// Whether a thread that misses `page` has to wait for it; then it comes.
    pub(super) fn awaits_page(&mut self, page: u64, now: Tick) -> bool {
        if self.page_cache.holds(page) {
            return false;
        }
        if !self.is_copied(page * 64) {
            self.wait_for_register(page);
            self.fetch_waiting(now);
        }
        true
    }

    /// Asks for pages that waited, as far as there are registers.
    pub(super) fn fetch_waiting(&mut self, now: Tick) {
        while self.page_register_is_free()
            && let Some(page) = self.page_cache.waiting.pop_front()
        {
            if !self.page_cache.holds(page) {
                self.fetch_page(page, now);
            }
        }
    }

    /// Writes a line of a page that is in the cache; false if it is not.
    pub(super) fn write_cached(&mut self, line: u64, data: &Block, now: Tick, fresh: bool) -> bool {
        let bit = 1 << (line % 64);
        let Some(dirty) = self.page_cache.dirty(line / 64) else {
            return false;
        };
        if fresh || *dirty & bit == 0 {
            *dirty |= bit;
            self.write_page_cache(line, data, now);
        }
        true
    }

    /// Writes a line of the cache's DRAM.
    pub(super) fn write_page_cache(&mut self, line: u64, data: &Block, now: Tick) {
        let at = self.page_cache.frame_line(line);
        self.drams[0].access(now, at);
        self.host_keep(line, data);
    }

    /// A page has come: it takes the place of another.
    pub(super) fn fetched(&mut self, now: Tick, slot: u16) {
        let Some(entry) = self.end_copy(slot) else {
            return;
        };
        let page = entry.from / 64;
        if let Some(gone) = self.page_cache.put(page, entry.newer[0]) {
            self.counts.demoted_lines += 64;
            self.write_page(gone * 64, now);
        }
        for number in 0..self.os.threads.len() as u32 {
            let thread = &mut self.os.threads[number as usize];
            if thread.wants == Some(page) {
                thread.wants = None;
                self.enqueue(number, now);
            }
        }
        self.fetch_waiting(now);
    }

    /// Writes the page of the device that begins at `first` back as a whole, once it has been
    /// read from the cache's DRAM.
    //= skybyte 6.8
    pub(super) fn write_page(&mut self, first: u64, now: Tick) {
        let idle = self.posted.is_empty();
        let read = self.drams[0].move_lines(now, 64);
        for line in first..first + 64 {
            let data = self.host_data(line);
            self.posted.push(Posted {
                line,
                data,
                flushers: 0,
                whole: true,
            });
        }
        if idle {
            self.send_posted(read);
        }
        let left = self
            .posted
            .iter()
            .filter(|post| post.line / 64 == first / 64);
        self.counts.refused_writes += left.count() as u64;
    }

    /// Whether the first writes that the host holds are all of a page.
    pub(super) fn page_is_first(&self) -> bool {
        let first = self.posted.front().map_or(0, |post| post.line);
        let page = self.posted.iter().zip(first..first + 64);
        first.is_multiple_of(64)
            && page
                .filter(|(post, line)| post.whole && post.line == *line)
                .count()
                == 64
    }

    /// Sends the page that is first; false if the device has no room.
    pub(super) fn send_page(&mut self, now: Tick) -> bool {
        let mut there = now;
        for _ in 0..64 {
            there = there.max(self.link.down(now, Request::MemWr(Tag(0))));
        }
        let at = self.at_device(there);
        let first = self.posted.front().map_or(0, |post| post.line);
        let mut data = [[0; 64]; 64];
        for (line, post) in data.iter_mut().zip(self.posted.iter()) {
            *line = post.data;
        }
        let data = W::KEPT.then_some(&data);
        let taken = self.far.write_page(at, split(first).1 / 64, data);
        self.listen();
        let Some(time) = taken else { return false };
        self.counts.far_writes += 64;
        for _ in 0..64 {
            let Some(post) = self.posted.pop() else { break };
            let done = Response::NoData(Ndr::Cmp, Tag(0));
            let known = self.link.up(Tick::of(time), done);
            self.acknowledge(post.flushers, known);
        }
        true
    }
}
