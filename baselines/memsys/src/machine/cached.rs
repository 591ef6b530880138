//! The host's DRAM as a cache of pages in hardware, whose misses make threads yield
//! (AstriFlash over CXL).
//!
//! Every access to the device goes through it. A page comes as a whole, by 64 reads of
//! lines, and if any was written it goes as a whole.

use super::access::Access;
use super::device::{Posted, Waiter};
use super::{Machine, Values};
use crate::cache::{Block, Cache, Way};
use crate::far::{Far, Tag};
use crate::link::{Ndr, Request, Response};
use crate::op::Program;
use crate::pages::split;
use crate::tick::Tick;
use crate::tiering::{Promote, Tiering};
use crate::window::Cause;

/// Which pages are in the cache, with the lines that were written, one bit each.
pub(super) struct PageTable {
    cache: Option<Cache>,
    frames: u64,
    misses: usize,
}

impl PageTable {
    pub(super) fn new(tiering: &Tiering) -> Self {
        let Tiering::Cached(config) = tiering else {
            return Self {
                cache: None,
                frames: 1,
                misses: 0,
            };
        };
        let (sets, ways) = (config.sets() as usize, config.ways as usize);
        Self {
            cache: Some(Cache::new(sets, ways)),
            frames: config.size.0 / 4_096,
            misses: config.misses as usize,
        }
    }

    /// The line of DRAM that stands for a line of the device. Which way of its set a
    /// page has makes no difference to time.
    fn frame_line(&self, line: u64) -> u64 {
        line / 64 % self.frames * 64 + line % 64
    }
}

impl<F: Far, P: Program, W: Values, M: Promote> Machine<'_, F, P, W, M> {
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
        let found = table.cache.as_mut().and_then(|cache| {
            let way = cache.find(line / 64)?;
            cache.touch(way);
            Some(())
        });
        if found.is_some() {
            self.counts.page_hits += 1;
            let done = self.drams[0].access(leaves, at).done;
            let data = self.host_data(line);
            self.host.add(done - leaves, Tick::ZERO);
            self.known(core, line, own, done, &data, leaves);
            return Access::Known(done, Cause::Host);
        }
        let first = line / 64 * 64;
        if !self.is_copied(first) {
            // Who finds no register yields too, and asks again when it runs next.
            if self.copying.len() < self.page_cache.misses {
                self.counts.page_misses += 1;
                self.copy(None, first, first, 64, leaves);
            }
        }
        debug_assert!(waiter != Waiter::Ahead, "nothing is fetched ahead here");
        Access::Delayed(leaves)
    }

    /// Whether a page of the device, counted in lines by 64, is on its way.
    pub(super) fn fetching(&self, page: u64) -> bool {
        self.is_copied(page * 64)
    }

    /// Writes a line of a page that is in the cache; false if it is not.
    pub(super) fn write_cached(&mut self, line: u64, data: &Block, now: Tick, fresh: bool) -> bool {
        let Some(cache) = &mut self.page_cache.cache else {
            return false;
        };
        let Some(way) = cache.find(line / 64) else {
            return false;
        };
        let bit = 1 << (line % 64);
        let dirty = &mut cache.way(way).holders;
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
        let mut new = Way::new(page, 0, now);
        new.holders = entry.newer[0];
        let cache = self.page_cache.cache.as_mut();
        let gone = cache.and_then(|cache| cache.insert(new).1);
        if let Some(gone) = gone.filter(|gone| gone.holders != 0) {
            self.counts.demoted_lines += 64;
            self.write_page(gone.line() * 64, now);
        }
        for number in 0..self.os.threads.len() as u32 {
            let thread = &mut self.os.threads[number as usize];
            if thread.wants == Some(page) {
                thread.wants = None;
                self.enqueue(number, now);
            }
        }
    }

    /// Writes the page of the device that begins at `first` back as a whole.
    //= skybyte 6.8
    pub(super) fn write_page(&mut self, first: u64, now: Tick) {
        let idle = self.posted.is_empty();
        for line in first..first + 64 {
            let data = self.host_data(line);
            self.posted.push_back(Posted {
                line,
                data,
                flusher: None,
                whole: true,
            });
        }
        if idle {
            self.send_posted(now);
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
        for (line, post) in data.iter_mut().zip(&self.posted) {
            *line = post.data;
        }
        let data = W::KEPT.then_some(&data);
        let taken = self.far.write_page(at, split(first).1 / 64, data);
        self.listen();
        let Some(time) = taken else { return false };
        self.counts.far_writes += 64;
        let sent: Vec<Posted> = self.posted.drain(..64).collect();
        for post in sent {
            let done = Response::NoData(Ndr::Cmp, Tag(0));
            let known = self.link.up(Tick::of(time), done);
            if let Some(core) = post.flusher {
                self.acknowledge(core, known);
            }
        }
        true
    }
}
