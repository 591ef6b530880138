//! Three levels of caches of all cores, as one.
//!
//! Every level holds what those before it hold: so the last one, which all cores
//! share, can be the directory of who has a line, and what leaves it leaves the
//! machine. A line is owned by one core, which may write it, or held by many, which
//! may not. What was written goes back when its line leaves a level.
//!
//! Nothing here knows memory. A miss is told to the caller, who fills the line once it
//! knows when it comes; dirty lines that left the last level wait in `out`.

use crate::cache::{AHEAD, At, Block, Cache, DIRTY, Gone, Misses, OWNED};
use crate::config::Config;
use crate::tick::Tick;

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    First,
    Second,
    Last,
}

/// What a lookup says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// The data are there at this time.
    Hit(Tick, Level),
    /// No cache has it; the request leaves the last one at this time.
    Miss(Tick),
    /// There is no register for another miss before this time.
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
    l1: Cache,
    l2: Cache,
    l1_misses: Misses,
    l2_misses: Misses,
}

/// Lookups since the start, by where the line was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// In the core's first cache.
    pub l1_hits: u64,
    /// In its second.
    pub l2_hits: u64,
    /// In the last, or in that of another core.
    pub llc_hits: u64,
    /// Nowhere.
    pub llc_misses: u64,
    /// Misses of stores among them.
    pub llc_store_misses: u64,
    /// Dirty lines that left the last cache.
    pub written_back: u64,
    /// Lines that were fetched ahead.
    pub fetched_ahead: u64,
    /// And asked for later.
    pub fetched_ahead_used: u64,
}

pub(crate) struct Hierarchy {
    cores: Vec<Private>,
    llc: Cache,
    llc_misses: Misses,
    l1_time: Tick,
    l2_time: Tick,
    llc_time: Tick,
    pub(crate) out: Vec<Out>,
    pub(crate) counts: CacheCounts,
}

impl Hierarchy {
    pub(crate) fn new(config: &Config, payloads: bool) -> Self {
        let cycles = |n| Tick::cycles(n, config.hertz);
        let (l1, l2, llc) = (&config.l1, &config.l2, &config.llc);
        let cache = |of: &crate::config::CacheConfig, directory| {
            Cache::new(of.sets() as usize, of.ways as usize, directory, payloads)
        };
        let private = |_| Private {
            l1: cache(l1, false),
            l2: cache(l2, false),
            l1_misses: Misses::new(l1.misses as usize),
            l2_misses: Misses::new(l2.misses as usize),
        };
        Self {
            cores: (0..config.cores).map(private).collect(),
            llc: cache(llc, true),
            llc_misses: Misses::new(llc.misses as usize),
            l1_time: cycles(l1.cycles),
            l2_time: cycles(l1.cycles + l2.cycles),
            llc_time: cycles(l1.cycles + l2.cycles + llc.cycles),
            out: Vec::with_capacity(64),
            counts: CacheCounts::default(),
        }
    }

    /// Asks for what a lookup of `line` by `core` will read.
    #[inline]
    pub(crate) fn prefetch(&self, core: usize, line: u64) {
        self.cores[core].l2.prefetch(line);
        self.llc.prefetch(line);
    }

    /// Looks `line` up for `core`, to write it if `own`.
    #[inline]
    pub(crate) fn look(&mut self, core: usize, line: u64, own: bool, now: Tick) -> Look {
        let private = &mut self.cores[core];
        if let Some(at) = private.l1.find(line) {
            private.l1.touch(at);
            if !own || private.l1.has(at, OWNED) {
                self.counts.l1_hits += 1;
                let done = private.l1.ready(at).max(now + self.l1_time);
                return Look::Hit(done, Level::First);
            }
            private.l1.set_flag(at, OWNED);
            let done = self.upgrade(core, line, now);
            return Look::Hit(done, Level::Last);
        }
        let room = private.l1_misses.room(now);
        if room > now {
            return Look::Full(room);
        }
        self.look_second(core, line, own, now)
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
        if own && !private.l2.has(at, OWNED) {
            level = Level::Last;
            done = done.max(self.upgrade(core, line, now));
        } else {
            self.counts.l2_hits += 1;
        }
        let private = &mut self.cores[core];
        private.l1_misses.take(done);
        let found = private.l2.look(at);
        let copy = Gone {
            flags: found.flags & OWNED,
            ready: done,
            ..found
        };
        self.put_first(core, &copy);
        Look::Hit(done, level)
    }

    fn look_last(&mut self, core: usize, line: u64, own: bool, now: Tick) -> Look {
        let Some(at) = self.llc.find(line) else {
            let room = self.llc_misses.room(now);
            if room > now {
                return Look::Full(room);
            }
            self.counts.llc_misses += 1;
            self.counts.llc_store_misses += u64::from(own);
            return Look::Miss(now + self.llc_time);
        };
        self.counts.llc_hits += 1;
        self.llc.touch(at);
        if self.llc.has(at, AHEAD) {
            self.llc.clear(at, AHEAD);
            self.counts.fetched_ahead_used += 1;
        }
        let mut done = self.llc.ready(at).max(now + self.llc_time);
        let others = *self.llc.holders(at) & !(1 << core);
        if others != 0 && (own || self.llc.has(at, OWNED)) {
            // The directory sends the question on to who has the line.
            done += self.l2_time;
            self.recall(at, line, others, !own);
        }
        let holders = self.llc.holders(at);
        let alone = own || *holders & !(1 << core) == 0;
        *holders |= 1 << core;
        if alone {
            self.llc.set_flag(at, OWNED);
        }
        let found = self.llc.look(at);
        let copy = Gone {
            flags: if alone { OWNED } else { 0 },
            ready: done,
            ..found
        };
        let private = &mut self.cores[core];
        private.l1_misses.take(done);
        private.l2_misses.take(done);
        self.put_second(core, &copy);
        self.put_first(core, &copy);
        Look::Hit(done, Level::Last)
    }

    /// Takes a miss back that will be asked for again.
    pub(crate) fn uncount_miss(&mut self, own: bool) {
        self.counts.llc_misses -= 1;
        self.counts.llc_store_misses -= u64::from(own);
    }

    /// Makes `core` the owner of a line that its second cache holds.
    fn upgrade(&mut self, core: usize, line: u64, now: Tick) -> Tick {
        self.counts.llc_hits += 1;
        let at = self.llc.find(line).expect("the last cache holds all");
        self.llc.touch(at);
        let others = *self.llc.holders(at) & !(1 << core);
        let mut done = self.llc.ready(at).max(now + self.llc_time);
        if others != 0 {
            done += self.l2_time;
            self.recall(at, line, others, false);
        }
        self.llc.set_flag(at, OWNED);
        let second = &mut self.cores[core].l2;
        let at = second.find(line);
        second.set_flag(
            at.expect("the second cache holds what the first holds"),
            OWNED,
        );
        done
    }

    /// Takes a line back from `others`, into the last cache; they may `keep` it to
    /// read.
    fn recall(&mut self, at: At, line: u64, mut others: u64, keep: bool) {
        let mut dirty = None;
        let all = others;
        while others != 0 {
            let core = others.trailing_zeros() as usize;
            others &= others - 1;
            dirty = self.recall_from(core, line, keep).or(dirty);
        }
        self.llc.clear(at, OWNED);
        if !keep {
            *self.llc.holders(at) &= !all;
        }
        self.merge_last(at, dirty);
    }

    /// What `core` wrote to the line, which it gives up or goes on to read.
    fn recall_from(&mut self, core: usize, line: u64, keep: bool) -> Option<Block> {
        let private = &mut self.cores[core];
        let mut dirty = None;
        // The first cache has the newer copy.
        for cache in [&mut private.l2, &mut private.l1] {
            let Some(at) = cache.find(line) else { continue };
            let found = cache.look(at);
            if found.flags & DIRTY != 0 {
                dirty = Some(found.data);
            }
            if keep {
                cache.clear(at, DIRTY | OWNED);
            } else {
                cache.take(at);
            }
        }
        if keep && let Some(data) = dirty {
            for cache in [&mut private.l2, &mut private.l1] {
                if let Some(at) = cache.find(line)
                    && let Some(copy) = cache.data(at)
                {
                    *copy = data;
                }
            }
        }
        dirty
    }

    fn merge_last(&mut self, at: At, dirty: Option<Block>) {
        let Some(data) = dirty else { return };
        self.llc.set_flag(at, DIRTY);
        if let Some(copy) = self.llc.data(at) {
            *copy = data;
        }
    }

    fn put_first(&mut self, core: usize, line: &Gone) {
        let private = &mut self.cores[core];
        let Some(gone) = private.l1.insert(line) else {
            return;
        };
        if gone.flags & DIRTY != 0 {
            let at = private.l2.find(gone.line);
            let at = at.expect("the second cache holds what the first holds");
            private.l2.set_flag(at, DIRTY);
            if let Some(copy) = private.l2.data(at) {
                *copy = gone.data;
            }
        }
    }

    fn put_second(&mut self, core: usize, line: &Gone) {
        let private = &mut self.cores[core];
        let Some(gone) = private.l2.insert(line) else {
            return;
        };
        let first = private.l1.remove(gone.line);
        let first = first.filter(|first| first.flags & DIRTY != 0);
        let dirty = match first {
            Some(first) => Some(first.data),
            None => (gone.flags & DIRTY != 0).then_some(gone.data),
        };
        let at = self.llc.find(gone.line);
        let at = at.expect("the last cache holds what the second holds");
        *self.llc.holders(at) &= !(1 << core);
        self.llc.clear(at, OWNED);
        self.merge_last(at, dirty);
    }

    /// Puts a line in that no cache has and that comes from memory at `ready`, for `core` to write if
    /// `own`. With `ahead` it goes no further than the second cache.
    pub(crate) fn fill(
        &mut self,
        core: usize,
        line: u64,
        (own, ahead): (bool, bool),
        ready: Tick,
        data: &Block,
    ) {
        debug_assert!(!self.holds(line), "a line that is there comes again");
        self.counts.fetched_ahead += u64::from(ahead);
        let mut new = Gone {
            line,
            flags: OWNED | if ahead { AHEAD } else { 0 },
            holders: 1 << core,
            ready,
            data: *data,
        };
        debug_assert!(!(own && ahead), "what is fetched ahead is read");
        self.put_last(&Gone {
            flags: OWNED,
            ..new
        });
        self.put_second(core, &new);
        if !ahead {
            new.flags = OWNED;
            self.put_first(core, &new);
        }
    }

    fn put_last(&mut self, line: &Gone) {
        let Some(gone) = self.llc.insert(line) else {
            return;
        };
        let mut dirty = (gone.flags & DIRTY != 0).then_some(gone.data);
        let mut holders = gone.holders;
        while holders != 0 {
            let core = holders.trailing_zeros() as usize;
            holders &= holders - 1;
            dirty = self.recall_from(core, gone.line, false).or(dirty);
        }
        if let Some(data) = dirty {
            self.counts.written_back += 1;
            self.out.push(Out {
                line: gone.line,
                data,
            });
        }
    }

    /// Notes a miss of `core` that ends at `done`.
    pub(crate) fn miss_until(&mut self, core: usize, done: Tick) {
        self.cores[core].l1_misses.take(done);
        self.cores[core].l2_misses.take(done);
        self.llc_misses.take(done);
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
        self.cores[core].l2_misses.take(done);
        self.llc_misses.take(done);
    }

    /// Notes that `core` waits, it is not known how long.
    pub(crate) fn hold(&mut self, core: usize) {
        self.cores[core].l1_misses.hold();
        self.cores[core].l2_misses.hold();
    }

    /// Ends that.
    pub(crate) fn release(&mut self, core: usize) {
        self.cores[core].l1_misses.release();
        self.cores[core].l2_misses.release();
    }

    /// The same for the registers of the last cache.
    pub(crate) fn last_misses(&mut self) -> &mut Misses {
        &mut self.llc_misses
    }

    /// Frees the registers of `core`'s squashed instructions.
    pub(crate) fn squash(&mut self, core: usize) {
        self.cores[core].l1_misses.squash();
        self.cores[core].l2_misses.squash();
    }

    /// Whether any cache has the line.
    pub(crate) fn holds(&self, line: u64) -> bool {
        self.llc.find(line).is_some()
    }

    /// The bytes of a line that `core` has just been found to hold.
    pub(crate) fn data(&mut self, core: usize, line: u64) -> Option<&mut Block> {
        let private = &mut self.cores[core];
        let at = private.l1.find(line)?;
        private.l1.data(at)
    }

    /// Marks a line written that `core` owns. Its bytes, where they are kept.
    pub(crate) fn write(&mut self, core: usize, line: u64) -> Option<&mut Block> {
        let private = &mut self.cores[core];
        let at = private.l1.find(line).expect("a store has its line");
        debug_assert!(private.l1.has(at, OWNED), "a store owns its line");
        private.l1.set_flag(at, DIRTY);
        private.l1.data(at)
    }

    /// Cleans a line everywhere and keeps it. What was newer than memory.
    pub(crate) fn clean(&mut self, line: u64) -> Option<Block> {
        let at = self.llc.find(line)?;
        let holders = *self.llc.holders(at);
        self.recall(at, line, holders, true);
        let found = self.llc.look(at);
        self.llc.clear(at, DIRTY);
        (found.flags & DIRTY != 0).then_some(found.data)
    }

    /// Takes a line out everywhere. What was newer than memory.
    pub(crate) fn purge(&mut self, line: u64) -> Option<Block> {
        let at = self.llc.find(line)?;
        let holders = *self.llc.holders(at);
        self.recall(at, line, holders, false);
        let gone = self.llc.take(at);
        (gone.flags & DIRTY != 0).then_some(gone.data)
    }

    /// Whether each level holds what those before it hold, and the directory knows.
    #[cfg(test)]
    pub(crate) fn check(&mut self) {
        for (core, private) in self.cores.iter().enumerate() {
            for line in private.l1.lines() {
                assert!(private.l2.find(line).is_some(), "L2 lacks {line}");
            }
            for line in private.l2.lines() {
                let at = self.llc.find(line).expect("LLC lacks a line");
                let holders = self.llc.look(at).holders;
                assert!(holders & 1 << core != 0, "nobody knows who has {line}");
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
    fn who_finds_a_line_on_its_way_waits_for_it() {
        let mut caches = small();
        let ready = Tick::of(Ns(500));
        caches.fill(0, 5, (false, false), ready, &[0; 64]);
        for core in 0..2 {
            assert!(
                matches!(caches.look(core, 5, false, Tick::ZERO), Look::Hit(done, _) if done >= ready)
            );
        }
    }

    /// Random reads and writes of three cores against an array: every read gives what
    /// was written last, through owners, victims and memory.
    #[test]
    fn the_caches_hold_what_was_written_last() {
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
                caches.write(core, line).unwrap()[7] = step as u8;
                model[line as usize] = step as u8;
            } else {
                assert_eq!(caches.data(core, line).unwrap()[7], model[line as usize]);
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
