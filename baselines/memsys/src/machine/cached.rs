//! The host's DRAM as a cache of pages in hardware, whose misses make threads yield
//! (AstriFlash over CXL).
//!
//! Every access to the device goes through it. A page comes as a whole, by 64 reads of
//! lines, and goes by the lines that were written.

use super::access::Access;
use super::device::Waiter;
use super::{Machine, Values};
use crate::cache::{Block, Cache, Gone};
use crate::far::Far;
use crate::op::Program;
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
            cache: Some(Cache::new(sets, ways, true, false)),
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
            Some(cache.touch(way))
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
        let dirty = cache.holders(way);
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
        let new = Gone {
            line: page,
            flags: 0,
            holders: entry.newer[0],
            ready: now,
            data: [0; 64],
        };
        let cache = self.page_cache.cache.as_mut();
        let gone = cache.and_then(|cache| cache.insert(&new));
        if let Some(gone) = gone {
            let mut dirty = gone.holders;
            self.counts.demoted_lines += u64::from(dirty.count_ones());
            while dirty != 0 {
                let line = gone.line * 64 + u64::from(dirty.trailing_zeros());
                dirty &= dirty - 1;
                let data = self.host_data(line);
                self.write_line(line, &data, now, None);
            }
        }
        for number in 0..self.os.threads.len() as u32 {
            let thread = &mut self.os.threads[number as usize];
            if thread.wants == Some(page) {
                thread.wants = None;
                self.enqueue(number, now);
            }
        }
    }
}
