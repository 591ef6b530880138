//! The three cache levels of all cores.
//!
//! Invariants: caches are inclusive, so the shared last level is the directory of the cores
//! that hold a line, and a line evicted from it leaves every cache. A line is owned by one
//! core, which may write it, or shared by many, which may not. A dirty line is written back
//! when it leaves a level.
//!
//! Contents of a line are kept once, beside the ways: only its owner may change them, so
//! caches differ only in dirty flags. A timing-only run keeps no contents.
//!
//! This module knows nothing of memory. A miss is returned to the caller, which fills the
//! line once its arrival is known; dirty lines evicted from the last level queue in `out`.

use crate::cache::{AHEAD, At, Block, Cache, DIRTY, OWNED};
use crate::config::{Config, LastIndex};
use crate::misses::Misses;
use crate::tick::Tick;
use std::collections::BTreeMap;

/// Cache level at which a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    First,
    Second,
    Last,
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A cache has the line; the data are available at this time.
    Hit(Tick, Level),
    /// No cache has it; the request leaves the last one at this time.
    Miss(Tick),
    /// No MSHR is free before this time.
    Full(Tick),
}

/// A dirty line that left the caches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    pub(crate) line: u64,
    pub(crate) data: Block,
}

#[derive(Debug)]
struct Private {
    l1: Cache<false>,
    l2: Cache<false>,
    l1_misses: Misses,
    l2_misses: Misses,
}

/// Lookups since the start, by where the line was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Hits in the core's first cache.
    pub l1_hits: u64,
    /// Hits in the core's second cache.
    pub l2_hits: u64,
    /// Hits in the last cache, or in a cache of another core.
    pub llc_hits: u64,
    /// Misses of all caches that received their line; abandoned accesses are not included.
    pub llc_misses: u64,
    /// Last-cache misses of stores.
    pub llc_store_misses: u64,
    /// Dirty lines evicted from the last cache.
    pub written_back: u64,
    /// Lines prefetched into the second cache.
    pub fetched_ahead: u64,
    /// Prefetched lines with a later demand access.
    pub fetched_ahead_used: u64,
}

pub(crate) struct Hierarchy {
    cores: Vec<Private>,
    llc: Cache<true>,
    llc_misses: Misses,
    /// Contents of each line in the last cache, where contents are kept.
    contents: Option<BTreeMap<u64, Block>>,
    l1_time: Tick,
    l2_time: Tick,
    llc_time: Tick,
    /// Owner of the current requests, in the encoding of [`Misses`].
    pub(crate) asker: u64,
    pub(crate) out: Vec<Out>,
    pub(crate) counts: CacheCounts,
}

impl Hierarchy {
    pub(crate) fn new(config: &Config, payloads: bool) -> Self {
        let cycles = |n| Tick::cycles(n, config.hertz);
        let (l1, l2, llc) = (&config.l1, &config.l2, &config.llc);
        let private = |_| Private {
            l1: Cache::of(l1, 1),
            l2: Cache::of(l2, 1),
            l1_misses: Misses::new(l1.misses as usize),
            l2_misses: Misses::new(l2.misses as usize),
        };
        let mut last = Cache::of(llc, config.cores.div_ceil(8) as usize);
        if config.llc_index == LastIndex::Hashed {
            last = last.hashed();
        }
        Self {
            cores: (0..config.cores).map(private).collect(),
            llc: last,
            llc_misses: Misses::new(llc.misses as usize),
            contents: payloads.then(BTreeMap::new),
            l1_time: cycles(l1.cycles),
            l2_time: cycles(l1.cycles + l2.cycles),
            llc_time: cycles(l1.cycles + l2.cycles + llc.cycles),
            asker: 0,
            out: Vec::with_capacity(64),
            counts: CacheCounts::default(),
        }
    }

    /// Prefetches, into the simulating machine's cache, the sets beyond the first cache that a
    /// lookup of `line` by `core` will read.
    #[inline]
    pub(crate) fn prefetch(&self, core: usize, line: u64) {
        let private = &self.cores[core];
        if private.l1.find_last(line).is_none() {
            private.l2.prefetch(line);
            self.llc.prefetch(line);
        }
    }

    /// Looks `line` up for `core`, to write it if `own`.
    #[inline]
    pub(crate) fn look(&mut self, core: usize, line: u64, own: bool, now: Tick) -> Look {
        let private = &mut self.cores[core];
        let found = private.l1.find_last(line);
        if let Some(at) = found.or_else(|| private.l1.find(line)) {
            private.l1.touch(at);
            if !own || private.l1.has(at, OWNED) {
                self.counts.l1_hits += 1;
                let done = private.l1.ready(at).max(now + self.l1_time);
                return Look::Hit(done, Level::First);
            }
            private.l1.set_flag(at, OWNED);
            let second = private.l2.at(line, private.l1.note(at));
            let done = self.upgrade(core, second, now);
            return Look::Hit(done, Level::Last);
        }
        let room = private.l1_misses.room(now);
        if room > now {
            return Look::Full(room);
        }
        self.look_second(core, line, own, now)
    }

    /// Time at which `core` gets an MSHR to request `line`; `None` if one is free now or its
    /// first cache has the line.
    #[inline]
    pub(crate) fn full(
        &mut self,
        core: usize,
        line: impl FnOnce() -> u64,
        now: Tick,
    ) -> Option<Tick> {
        let private = &mut self.cores[core];
        let room = private.l1_misses.room(now);
        (room > now && private.l1.find(line()).is_none()).then_some(room)
    }

    fn look_second(&mut self, core: usize, line: u64, own: bool, now: Tick) -> Look {
        let private = &mut self.cores[core];
        let Some(at) = private.l2.find(line) else {
            let room = private.l2_misses.room(now);
            if room > now {
                return Look::Full(room);
            }
            return self.look_last(core, line, own, now);
        };
        private.l2.touch(at);
        if private.l2.has(at, AHEAD) {
            private.l2.clear(at, AHEAD);
            self.counts.fetched_ahead_used += 1;
        }
        let mut level = Level::Second;
        let mut done = private.l2.ready(at).max(now + self.l2_time);
        let mut owned = private.l2.has(at, OWNED);
        if own && !owned {
            level = Level::Last;
            owned = true;
            done = done.max(self.upgrade(core, at, now));
        } else {
            self.counts.l2_hits += 1;
        }
        self.cores[core].l1_misses.take(done, self.asker);
        self.put_first(core, line, owned, done, at);
        Look::Hit(done, level)
    }

    fn look_last(&mut self, core: usize, line: u64, own: bool, now: Tick) -> Look {
        let Some(at) = self.llc.find(line) else {
            let room = self.llc_misses.room(now);
            if room > now {
                return Look::Full(room);
            }
            self.count_miss(own);
            return Look::Miss(now + self.llc_time);
        };
        self.counts.llc_hits += 1;
        self.llc.touch(at);
        if self.llc.has(at, AHEAD) {
            self.llc.clear(at, AHEAD);
            self.counts.fetched_ahead_used += 1;
        }
        let mut done = self.llc.ready(at).max(now + self.llc_time);
        let others = self.llc.note(at) & !(1 << core);
        if others != 0 && (own || self.llc.has(at, OWNED)) {
            // The directory forwards the request to the cores that hold the line.
            done += self.l2_time;
            self.recall(at, others, !own);
        }
        let holders = self.llc.note(at);
        let alone = own || holders & !(1 << core) == 0;
        self.llc.set_note(at, holders | 1 << core);
        if alone {
            self.llc.set_flag(at, OWNED);
        }
        let private = &mut self.cores[core];
        private.l1_misses.take(done, self.asker);
        private.l2_misses.take(done, self.asker);
        let flags = if alone { OWNED } else { 0 };
        let second = self.put_second(core, line, flags, done, at);
        self.put_first(core, line, alone, done, second);
        Look::Hit(done, Level::Last)
    }

    /// Removes a miss from the counts, because its line has not arrived.
    pub(crate) fn uncount_miss(&mut self, own: bool) {
        self.counts.llc_misses -= 1;
        self.counts.llc_store_misses -= u64::from(own);
    }

    /// Counts a miss again once its line has arrived.
    pub(crate) fn count_miss(&mut self, own: bool) {
        self.counts.llc_misses += 1;
        self.counts.llc_store_misses += u64::from(own);
    }

    /// Makes `core` the owner of a line, which its second cache holds at `second`.
    fn upgrade(&mut self, core: usize, second: At, now: Tick) -> Tick {
        self.counts.llc_hits += 1;
        let l2 = &mut self.cores[core].l2;
        l2.set_flag(second, OWNED);
        let at = self.llc.at(l2.line(second), l2.note(second));
        self.llc.touch(at);
        let others = self.llc.note(at) & !(1 << core);
        let mut done = self.llc.ready(at).max(now + self.llc_time);
        if others != 0 {
            done += self.l2_time;
            self.recall(at, others, false);
        }
        self.llc.set_flag(at, OWNED);
        done
    }

    /// Takes a line back from `others`, into the last cache; they may `keep` it to
    /// read.
    fn recall(&mut self, at: At, mut others: u64, keep: bool) {
        let line = self.llc.line(at);
        let mut dirty = false;
        let all = others;
        while others != 0 {
            let core = others.trailing_zeros() as usize;
            others &= others - 1;
            dirty |= self.recall_from(core, line, keep);
        }
        self.llc.clear(at, OWNED);
        if !keep {
            let holders = self.llc.note(at);
            self.llc.set_note(at, holders & !all);
        }
        if dirty {
            self.llc.set_flag(at, DIRTY);
        }
    }

    /// Whether `core` wrote to the line, which it gives up or goes on to read.
    fn recall_from(&mut self, core: usize, line: u64, keep: bool) -> bool {
        let private = &mut self.cores[core];
        let mut dirty = false;
        for cache in [&mut private.l2, &mut private.l1] {
            let Some(at) = cache.find(line) else { continue };
            dirty |= cache.has(at, DIRTY);
            if keep {
                cache.clear(at, DIRTY | OWNED);
            } else {
                cache.take(at);
            }
        }
        dirty
    }

    /// Inserts a line into the first cache of `core`; its second cache holds it at `second`.
    fn put_first(&mut self, core: usize, line: u64, owned: bool, ready: Tick, second: At) {
        let private = &mut self.cores[core];
        let flags = if owned { OWNED } else { 0 };
        let (_, gone) = private.l1.insert(line, (flags, second.way()), ready);
        if let Some(gone) = gone.filter(|gone| gone.has(DIRTY)) {
            let behind = private.l2.at(gone.line, gone.note);
            private.l2.set_flag(behind, DIRTY);
        }
    }

    /// Puts a line into the second cache of `core`, where the last has it at `last`.
    fn put_second(&mut self, core: usize, line: u64, flags: u8, ready: Tick, last: At) -> At {
        let private = &mut self.cores[core];
        let (at, gone) = private.l2.insert(line, (flags, last.way()), ready);
        let Some(gone) = gone else { return at };
        let first = private.l1.remove(gone.line);
        let dirty = gone.has(DIRTY) || first.is_some_and(|first| first.has(DIRTY));
        let behind = self.llc.at(gone.line, gone.note);
        let holders = self.llc.note(behind);
        self.llc.set_note(behind, holders & !(1 << core));
        self.llc.clear(behind, OWNED);
        if dirty {
            self.llc.set_flag(behind, DIRTY);
        }
        at
    }

    /// Puts a line in that no cache has and that comes from memory at `ready`, for `core`
    /// to write if `own`. With `ahead` it goes no further than the second cache.
    pub(crate) fn fill(
        &mut self,
        core: usize,
        line: u64,
        (own, ahead): (bool, bool),
        ready: Tick,
        data: &Block,
    ) {
        debug_assert!(!self.holds(line), "a line that is there comes again");
        debug_assert!(!(own && ahead), "what is fetched ahead is read");
        self.counts.fetched_ahead += u64::from(ahead);
        if let Some(contents) = &mut self.contents {
            contents.insert(line, *data);
        }
        let last = self.put_last(core, line, ready);
        let flags = OWNED | if ahead { AHEAD } else { 0 };
        let second = self.put_second(core, line, flags, ready, last);
        if !ahead {
            self.put_first(core, line, true, ready, second);
        }
    }

    fn put_last(&mut self, core: usize, line: u64, ready: Tick) -> At {
        let (at, gone) = self.llc.insert(line, (OWNED, 1 << core), ready);
        let Some(gone) = gone else { return at };
        let mut dirty = gone.has(DIRTY);
        let mut holders = gone.note;
        while holders != 0 {
            let core = holders.trailing_zeros() as usize;
            holders &= holders - 1;
            dirty |= self.recall_from(core, gone.line, false);
        }
        let data = self.forget(gone.line);
        if dirty {
            self.counts.written_back += 1;
            self.out.push(Out {
                line: gone.line,
                data,
            });
        }
        at
    }

    /// Removes and returns the contents of a line that leaves the caches.
    #[inline]
    fn forget(&mut self, line: u64) -> Block {
        let contents = self.contents.as_mut();
        let held = contents.and_then(|contents| contents.remove(&line));
        held.unwrap_or([0; 64])
    }

    /// Notes a miss of `core` that ends at `done`.
    pub(crate) fn miss_until(&mut self, core: usize, done: Tick) {
        self.cores[core].l1_misses.take(done, self.asker);
        self.cores[core].l2_misses.take(done, self.asker);
        self.llc_misses.take(done, 0);
    }

    /// From when on there is room for a line that `core` fetches ahead.
    pub(crate) fn room_ahead(&mut self, core: usize, now: Tick) -> Tick {
        self.cores[core]
            .l2_misses
            .room(now)
            .max(self.llc_misses.room(now))
    }

    /// Notes that `core` fetches a line ahead until `done`.
    pub(crate) fn ahead_until(&mut self, core: usize, done: Tick) {
        self.cores[core].l2_misses.take(done, 0);
        self.llc_misses.take(done, 0);
    }

    /// Notes that `core` waits, it is not known how long.
    pub(crate) fn hold(&mut self, core: usize) {
        self.cores[core].l1_misses.hold();
        self.cores[core].l2_misses.hold();
    }

    /// Releases a register taken by [`Hierarchy::hold`].
    pub(crate) fn release(&mut self, core: usize) {
        self.cores[core].l1_misses.release();
        self.cores[core].l2_misses.release();
    }

    /// The MSHRs of the last cache.
    pub(crate) fn last_misses(&mut self) -> &mut Misses {
        &mut self.llc_misses
    }

    /// Frees the registers of `core`'s instructions that are squashed, from `number` on.
    pub(crate) fn squash(&mut self, core: usize, number: u64) {
        self.cores[core].l1_misses.squash(number);
        self.cores[core].l2_misses.squash(number);
    }

    /// Whether any cache has the line.
    pub(crate) fn holds(&self, line: u64) -> bool {
        self.llc.find(line).is_some()
    }

    /// The bytes of a line that some cache holds, where contents are kept.
    #[inline]
    pub(crate) fn data(&mut self, line: u64) -> Option<&mut Block> {
        self.contents.as_mut()?.get_mut(&line)
    }

    /// Marks a line written that `core` owns.
    #[inline]
    pub(crate) fn write(&mut self, core: usize, line: u64) {
        let private = &mut self.cores[core];
        let found = private.l1.find_last(line);
        let at = found.or_else(|| private.l1.find(line));
        let at = at.expect("a store has its line");
        debug_assert!(private.l1.has(at, OWNED), "a store owns its line");
        private.l1.set_flag(at, DIRTY);
    }

    /// Cleans a line in all caches and keeps it. Returns its contents if they were dirty.
    pub(crate) fn clean(&mut self, line: u64) -> Option<Block> {
        let at = self.llc.find(line)?;
        let holders = self.llc.note(at);
        self.recall(at, holders, true);
        let dirty = self.llc.has(at, DIRTY);
        self.llc.clear(at, DIRTY);
        let data = self.data(line).map_or([0; 64], |data| *data);
        dirty.then_some(data)
    }

    /// Removes a line from all caches. Returns its contents if they were dirty.
    pub(crate) fn purge(&mut self, line: u64) -> Option<Block> {
        let at = self.llc.find(line)?;
        let holders = self.llc.note(at);
        self.recall(at, holders, false);
        let dirty = self.llc.take(at).has(DIRTY);
        let data = self.forget(line);
        dirty.then_some(data)
    }

    /// Checks that levels are inclusive, that each way knows the way of its line in the next
    /// level, and that the directory knows the cores that hold it.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        for (core, private) in self.cores.iter().enumerate() {
            for at in private.l1.held() {
                let (line, second) = (private.l1.line(at), private.l1.note(at));
                assert_eq!(private.l2.find(line), Some(private.l2.at(line, second)));
            }
            for at in private.l2.held() {
                let (line, last) = (private.l2.line(at), private.l2.note(at));
                let at = self.llc.at(line, last);
                assert_eq!(self.llc.find(line), Some(at));
                let holders = self.llc.note(at);
                assert!(holders & 1 << core != 0, "nobody knows who has it");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CacheConfig;
    use sim::Seed;
    use units::{Bytes, Ns};

    fn small() -> Hierarchy {
        let cache = |lines: u64, ways, cycles| CacheConfig {
            size: Bytes(lines * 64),
            ways,
            cycles,
            misses: 1_000,
        };
        let config = Config {
            cores: 3,
            l1: cache(8, 2, 3),
            l2: cache(16, 2, 8),
            llc: cache(32, 4, 30),
            ..Config::default()
        };
        Hierarchy::new(&config, true)
    }

    #[test]
    fn a_hit_takes_the_cycles_of_all_levels_up_to_it() {
        let mut caches = small();
        let late = Tick::of(Ns(1_000));
        let at = |cycles| late + Tick::cycles(cycles, 4_000_000_000);
        assert_eq!(caches.look(0, 5, false, late), Look::Miss(at(41)));
        caches.fill(0, 5, (false, false), Tick::ZERO, &[0; 64]);
        assert_eq!(
            caches.look(0, 5, false, late),
            Look::Hit(at(3), Level::First)
        );
        // Two more of its set push it into the second cache.
        for line in [9, 13] {
            caches.fill(0, line, (false, false), Tick::ZERO, &[0; 64]);
        }
        assert_eq!(
            caches.look(0, 5, false, late),
            Look::Hit(at(11), Level::Second)
        );
        let other = caches.look(1, 13, false, late);
        assert_eq!(other, Look::Hit(at(41 + 11), Level::Last));
        let shared = caches.look(2, 13, false, late);
        assert_eq!(shared, Look::Hit(at(41), Level::Last));
    }

    #[test]
    fn access_to_a_line_in_flight_waits_for_it() {
        let mut caches = small();
        let ready = Tick::of(Ns(500));
        caches.fill(0, 5, (false, false), ready, &[0; 64]);
        for core in 0..2 {
            assert!(
                matches!(caches.look(core, 5, false, Tick::ZERO), Look::Hit(done, _) if done >= ready)
            );
        }
    }

    /// Random reads and writes of three cores against an array: every read returns the last
    /// write, through owners, victims and memory.
    #[test]
    fn caches_return_the_last_write() {
        let mut rng = Seed(3).stream("caches");
        let mut caches = small();
        let mut memory = vec![[0_u8; 64]; 128];
        let mut model = [0_u8; 128];
        for step in 0..60_000_u64 {
            let core = rng.below(3) as usize;
            let line = rng.below(128);
            let own = rng.chance(1, 3);
            let now = Tick::of(Ns(step));
            match caches.look(core, line, own, now) {
                Look::Hit(..) => {}
                Look::Miss(_) => {
                    let data = memory[line as usize];
                    caches.fill(core, line, (own, false), now, &data);
                }
                Look::Full(_) => panic!("there are registers enough"),
            }
            if own {
                caches.write(core, line);
                caches.data(line).unwrap()[7] = step as u8;
                model[line as usize] = step as u8;
            } else {
                assert_eq!(caches.data(line).unwrap()[7], model[line as usize]);
            }
            match rng.below(40) {
                0 => {
                    if let Some(data) = caches.clean(line) {
                        memory[line as usize] = data;
                    }
                }
                1 => {
                    if let Some(data) = caches.purge(line) {
                        memory[line as usize] = data;
                    }
                    assert!(!caches.holds(line));
                }
                _ => {}
            }
            for out in std::mem::take(&mut caches.out) {
                memory[out.line as usize] = out.data;
            }
            caches.check();
        }
    }
}
