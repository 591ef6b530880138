//! The data cache: a set-associative cache of flash pages in the device's DRAM.
//!
//! Invariants, defended by [`Cache::check`]: a page is in one way of its set or in none;
//! the order of a set is a permutation of its ways; only ways in use have dirty and
//! prefetch bits; no other page takes a way that is reserved for a page in flight.
//!
//! A set fills two cache lines of the simulating machine: most accesses touch nothing else.

use crate::config::{CacheConfig, Replacement};
use std::sync::Arc;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Lines of a page.
pub(crate) const LINES: u32 = 64;
/// Most ways of a set: as many nibbles as [`Set::order`] has.
pub(crate) const MOST_WAYS: u32 = 16;

/// Tag of a free way.
const NONE: u32 = u32::MAX;
/// Tag of a way reserved for a page in flight from flash.
const COMING: u32 = NONE - 1;
/// Initial order of a set: way `i` in nibble `i`.
const IN_ORDER: u64 = 0xFEDC_BA98_7654_3210;
/// The value 1 in every nibble, to compare 16 nibbles at once.
const ONES: u64 = 0x1111_1111_1111_1111;

/// Contents of a page; none for zeros, or where contents are not kept.
pub(crate) type Contents = Option<Arc<[u8; PAGE]>>;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set {
    tags: [u32; MOST_WAYS as usize],
    /// Ways by recency, a nibble each, the last used one lowest.
    order: u64,
    dirty: u16,
    /// Bit mask of the ways that were prefetched and not accessed since.
    ahead: u16,
    /// Accesses of each page since it was inserted or last reported hot.
    counts: [u16; MOST_WAYS as usize],
    /// Epoch in which the page was last reported hot; 0 for never.
    told: [u8; MOST_WAYS as usize],
}

const _: () = assert!(size_of::<Set>() == 128);

/// A way of a set: the index of the set times [`MOST_WAYS`], plus the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

impl Slot {
    fn set(self) -> usize {
        (self.0 / MOST_WAYS) as usize
    }

    fn way(self) -> usize {
        (self.0 % MOST_WAYS) as usize
    }
}

/// The page to evict before another one can be inserted into its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The set has a free way: no eviction is needed.
    None(Slot),
    /// A clean page: flash and log together have all of its lines.
    Clean(Slot, u32),
    /// A dirty page: it must be written back.
    Dirty(Slot, u32),
    /// Every way of the set is reserved for a page in flight.
    Coming,
}

/// Remainders of a division by a number that is known only at run time (Lemire, Kaser,
/// Kurz 2019; exact for 32 bits).
#[derive(Clone, Copy)]
struct Modulo {
    by: u32,
    reciprocal: u64,
}

impl Modulo {
    fn new(by: u32) -> Self {
        let reciprocal = (u64::MAX / u64::from(by)).wrapping_add(1);
        Self { by, reciprocal }
    }

    #[inline]
    fn of(self, value: u32) -> usize {
        let fraction = self.reciprocal.wrapping_mul(u64::from(value));
        ((u128::from(fraction) * u128::from(self.by)) >> 64) as usize
    }
}

pub(crate) struct Cache {
    ways: u32,
    /// Number of least recently used ways searched for a clean page; 0 for plain LRU.
    window: u32,
    modulo: Modulo,
    sets: Vec<Set>,
    /// Contents by slot, if contents are kept.
    contents: Option<Vec<Contents>>,
    /// By slot, bit masks of the lines read and written since the page was inserted.
    lines: Vec<[u64; 2]>,
    stays: Stays,
    used: u32,
}

/// Histograms of the lines of a page that were used during its stay in the cache.
//= skybyte 2.3
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stays {
    /// Evicted pages, by how many of their 64 lines were read or written (index 0 to 64).
    pub used: Vec<u64>,
    /// Dirty evicted pages, by how many of their lines were written (index 0 to 64).
    pub written: Vec<u64>,
}

impl Default for Stays {
    fn default() -> Self {
        let none = vec![0; LINES as usize + 1];
        Self {
            used: none.clone(),
            written: none,
        }
    }
}

impl Cache {
    pub(crate) fn new(config: &CacheConfig, pages: u32, keep_contents: bool) -> Self {
        let sets = (pages / config.ways).max(1);
        let empty = Set {
            tags: [NONE; MOST_WAYS as usize],
            order: IN_ORDER,
            dirty: 0,
            ahead: 0,
            counts: [0; MOST_WAYS as usize],
            told: [0; MOST_WAYS as usize],
        };
        let window = match config.replacement {
            Replacement::Lru => 0,
            Replacement::Cflru { window } => window.min(config.ways),
        };
        Self {
            ways: config.ways,
            window,
            modulo: Modulo::new(sets),
            sets: vec![empty; sets as usize],
            contents: keep_contents.then(|| vec![None; (sets * MOST_WAYS) as usize]),
            lines: vec![[0; 2]; (sets * MOST_WAYS) as usize],
            stays: Stays::default(),
            used: 0,
        }
    }

    /// The slot of `page`, if it is cached.
    #[inline]
    pub(crate) fn find(&self, page: u32) -> Option<Slot> {
        let set = self.modulo.of(page);
        let tags = &self.sets[set].tags;
        // All ways, without a branch for each.
        let found = tags.iter().enumerate().fold(0_u32, |found, (way, &tag)| {
            found | (u32::from(tag == page) << way)
        });
        (found != 0).then(|| Slot(set as u32 * MOST_WAYS + found.trailing_zeros()))
    }

    /// The page frame of the DRAM that backs `slot`. Consecutive pages in the same way get
    /// consecutive frames, so they lie in consecutive banks as they would in memory.
    #[inline]
    pub(crate) fn frame(&self, slot: Slot) -> u64 {
        (slot.way() * self.sets.len() + slot.set()) as u64
    }

    /// Makes a page the most recent of its set. Returns true on the first access to a
    /// prefetched page.
    #[inline]
    pub(crate) fn touch(&mut self, slot: Slot) -> bool {
        let set = &mut self.sets[slot.set()];
        set.order = to_front(set.order, slot.way() as u64);
        let ahead = set.ahead >> slot.way() & 1 == 1;
        set.ahead &= !(1 << slot.way());
        ahead
    }

    /// Access count of the page, and the epoch in which it was last reported hot.
    #[inline]
    pub(crate) fn heat(&mut self, slot: Slot) -> (&mut u16, &mut u8) {
        let set = &mut self.sets[slot.set()];
        (&mut set.counts[slot.way()], &mut set.told[slot.way()])
    }

    /// The victim for `page`: a clean page in the window of least recently used ways of its
    /// set (`cflru`), else the least recently used page. Ways in flight are skipped.
    pub(crate) fn victim(&self, page: u32) -> Victim {
        let index = self.modulo.of(page);
        let set = &self.sets[index];
        let slot = |way: u32| Slot(index as u32 * MOST_WAYS + way);
        let ways = (0..self.ways).rev().map(|at| nibble(set.order, at));
        let mut ways = ways.filter(|&way| set.tags[way as usize] != COMING);
        if let Some(free) = ways.clone().find(|&way| set.tags[way as usize] == NONE) {
            return Victim::None(slot(free));
        }
        let clean = ways.clone().take(self.window.max(1) as usize);
        let clean = clean.clone().find(|way| set.dirty >> way & 1 == 0);
        let page = |way: u32| set.tags[way as usize];
        match (clean, ways.next()) {
            (Some(way), _) => Victim::Clean(slot(way), page(way)),
            (None, Some(way)) => Victim::Dirty(slot(way), page(way)),
            (None, None) => Victim::Coming,
        }
    }

    /// Reserves a free slot for a page in flight.
    pub(crate) fn keep(&mut self, slot: Slot) {
        let tag = &mut self.sets[slot.set()].tags[slot.way()];
        debug_assert!(*tag == NONE, "the slot is free");
        *tag = COMING;
    }

    /// Frees a reserved slot whose page will not be inserted.
    pub(crate) fn give_up(&mut self, slot: Slot) {
        let tag = &mut self.sets[slot.set()].tags[slot.way()];
        debug_assert!(*tag == COMING, "the slot is kept");
        *tag = NONE;
    }

    /// Inserts a clean page into a slot that is free or reserved for it, as the most recent
    /// one; `ahead` marks it as prefetched.
    pub(crate) fn insert(&mut self, slot: Slot, page: u32, contents: Contents, ahead: bool) {
        let set = &mut self.sets[slot.set()];
        let way = slot.way();
        debug_assert!(matches!(set.tags[way], NONE | COMING), "the slot is free");
        set.tags[way] = page;
        set.order = to_front(set.order, way as u64);
        set.ahead |= u16::from(ahead) << way;
        (set.counts[way], set.told[way]) = (0, 0);
        self.lines[slot.0 as usize] = [0; 2];
        self.used += 1;
        if let Some(all) = &mut self.contents {
            all[slot.0 as usize] = contents;
        }
    }

    /// Records reads of the lines in the bit mask `lines`, for [`Stays`].
    #[inline]
    pub(crate) fn note_read(&mut self, slot: Slot, lines: u64) {
        self.lines[slot.0 as usize][0] |= lines;
    }

    /// Records writes of the lines in the bit mask `lines`, for [`Stays`].
    #[inline]
    pub(crate) fn note_written(&mut self, slot: Slot, lines: u64) {
        self.lines[slot.0 as usize][1] |= lines;
    }

    /// Removes a page to make room and counts its stay. Returns its contents.
    pub(crate) fn evict(&mut self, slot: Slot) -> Contents {
        let [read, written] = self.lines[slot.0 as usize];
        self.stays.used[(read | written).count_ones() as usize] += 1;
        if self.is_dirty(slot) {
            self.stays.written[written.count_ones() as usize] += 1;
        }
        self.remove(slot)
    }

    /// Histograms over all pages evicted so far.
    pub(crate) const fn stays(&self) -> &Stays {
        &self.stays
    }

    /// Removes a page without counting its stay. Returns its contents.
    pub(crate) fn remove(&mut self, slot: Slot) -> Contents {
        let set = &mut self.sets[slot.set()];
        set.tags[slot.way()] = NONE;
        set.dirty &= !(1 << slot.way());
        set.ahead &= !(1 << slot.way());
        self.used -= 1;
        let all = self.contents.as_mut();
        all.and_then(|all| all[slot.0 as usize].take())
    }

    pub(crate) fn is_dirty(&self, slot: Slot) -> bool {
        self.sets[slot.set()].dirty >> slot.way() & 1 == 1
    }

    pub(crate) fn set_dirty(&mut self, slot: Slot) {
        self.sets[slot.set()].dirty |= 1 << slot.way();
    }

    /// Contents of a page; `None` for zeros, or where contents are not kept.
    pub(crate) fn contents(&self, slot: Slot) -> Contents {
        let all = self.contents.as_ref();
        all.and_then(|all| all[slot.0 as usize].clone())
    }

    /// A line of a page; none where contents are not kept.
    #[inline]
    pub(crate) fn line(&self, slot: Slot, at: u32) -> Option<[u8; 64]> {
        let all = self.contents.as_ref()?;
        Some(line_of(all[slot.0 as usize].as_ref(), at))
    }

    /// Writes a line of a page, if contents are kept. Does not mark the page dirty.
    pub(crate) fn set_line(&mut self, slot: Slot, at: u32, data: Option<[u8; 64]>) {
        if let (Some(all), Some(data)) = (&mut self.contents, data) {
            set_line(&mut all[slot.0 as usize], at, &data);
        }
    }

    /// Dirty pages with their contents, set by set, the least recently used first.
    pub(crate) fn dirty_pages(&self) -> Vec<(u32, Contents)> {
        let mut pages = Vec::new();
        for (index, set) in self.sets.iter().enumerate() {
            for at in (0..self.ways).rev() {
                let way = nibble(set.order, at);
                if set.dirty >> way & 1 == 1 {
                    let slot = Slot(index as u32 * MOST_WAYS + way);
                    pages.push((set.tags[way as usize], self.contents(slot)));
                }
            }
        }
        pages
    }

    /// Pages in the cache, and its capacity in pages.
    pub(crate) fn fill(&self) -> (u32, u32) {
        (self.used, self.sets.len() as u32 * self.ways)
    }

    /// Panics if an invariant does not hold.
    pub(crate) fn check(&self) {
        let mut used = 0;
        for (index, set) in self.sets.iter().enumerate() {
            let ways = (0..MOST_WAYS).fold(0_u32, |ways, at| ways | 1 << nibble(set.order, at));
            assert_eq!(ways, 0xFFFF, "the order is a permutation");
            for (way, &tag) in set.tags.iter().enumerate() {
                let bits = (set.dirty | set.ahead) >> way & 1;
                let empty = matches!(tag, NONE | COMING);
                assert!(!empty || bits == 0, "an empty way has no state");
                if !empty {
                    assert!((way as u32) < self.ways && self.modulo.of(tag) == index);
                    let same = set.tags.iter().filter(|&&other| other == tag).count();
                    assert_eq!(same, 1, "a page is there once");
                    used += 1;
                }
            }
        }
        assert_eq!(used, self.used);
    }
}

/// A line of contents; zeros if there are none.
pub(crate) fn line_of(contents: Option<&Arc<[u8; PAGE]>>, at: u32) -> [u8; 64] {
    let from = at as usize * 64;
    let line = contents.and_then(|bytes| bytes[from..].first_chunk());
    line.copied().unwrap_or([0; 64])
}

/// Writes line `at` of `contents`; allocates a page of zeros if there is none.
pub(crate) fn set_line(contents: &mut Contents, at: u32, line: &[u8; 64]) {
    let bytes = contents.get_or_insert_with(|| Arc::new([0; PAGE]));
    let from = at as usize * 64;
    Arc::make_mut(bytes)[from..from + 64].copy_from_slice(line);
}

#[inline]
fn nibble(order: u64, at: u32) -> u32 {
    (order >> (4 * at) & 0xF) as u32
}

/// Moves `way` to the lowest nibble; the nibbles below its old place move up by one.
#[inline]
fn to_front(order: u64, way: u64) -> u64 {
    let differs = order ^ (way * ONES);
    // The lowest nibble that is zero is the first whose borrow shows.
    let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
    let shift = zero.trailing_zeros() & !3;
    let below = (1 << shift) - 1;
    let above = !(below | 0xF << shift);
    order & above | (order & below) << 4 | way
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Prefetch;

    fn config(ways: u32, replacement: Replacement) -> CacheConfig {
        CacheConfig {
            ways,
            replacement,
            prefetch: Prefetch::None,
            ..CacheConfig::default()
        }
    }

    #[test]
    fn any_way_moves_to_the_front() {
        for order in [IN_ORDER, 0x0123_4567_89AB_CDEF, 0x37A0_5C1F_2B94_8ED6] {
            for way in 0..16 {
                let moved = to_front(order, way);
                let mut expected: Vec<u32> = (0..16).map(|at| nibble(order, at)).collect();
                expected.retain(|&other| u64::from(other) != way);
                expected.insert(0, way as u32);
                let got: Vec<u32> = (0..16).map(|at| nibble(moved, at)).collect();
                assert_eq!(got, expected, "{order:x} {way}");
            }
        }
    }

    fn put(cache: &mut Cache, page: u32) -> Option<u32> {
        let (slot, gone) = match cache.victim(page) {
            Victim::None(slot) => (slot, None),
            Victim::Clean(slot, gone) | Victim::Dirty(slot, gone) => {
                cache.remove(slot);
                (slot, Some(gone))
            }
            Victim::Coming => unreachable!("no page is on its way"),
        };
        cache.insert(slot, page, None, false);
        gone
    }

    #[test]
    fn the_page_used_longest_ago_goes_first() {
        for ways in [1, 3, 16] {
            let mut cache = Cache::new(&config(ways, Replacement::Lru), ways, false);
            let mut recent: Vec<u32> = Vec::new();
            let mut rng = sim::Seed(5).stream("lru");
            for _ in 0..2_000 {
                let page = rng.below(u64::from(ways) * 2) as u32;
                if let Some(slot) = cache.find(page) {
                    cache.touch(slot);
                    recent.retain(|&other| other != page);
                } else {
                    let full = recent.len() == ways as usize;
                    let oldest = full.then(|| recent.remove(0));
                    assert_eq!(put(&mut cache, page), oldest);
                }
                recent.push(page);
                cache.check();
            }
        }
    }

    #[test]
    fn a_way_that_is_kept_is_nobodys() {
        for replacement in [Replacement::Lru, Replacement::Cflru { window: 2 }] {
            let mut cache = Cache::new(&config(2, replacement), 2, false);
            let place = |cache: &Cache, page| match cache.victim(page) {
                Victim::None(slot) => slot,
                other => panic!("{other:?}"),
            };
            let first = place(&cache, 0);
            cache.keep(first);
            assert_ne!(place(&cache, 1), first);
            put(&mut cache, 1);
            assert!(matches!(cache.victim(2), Victim::Clean(_, 1)));
            cache.remove(cache.find(1).unwrap());
            let second = place(&cache, 2);
            cache.keep(second);
            assert_eq!(cache.victim(3), Victim::Coming);
            cache.insert(first, 0, None, false);
            cache.give_up(second);
            cache.check();
            assert_eq!(place(&cache, 3), second);
            assert_eq!(cache.find(0), Some(first));
        }
    }

    #[test]
    fn lines_are_counted_for_the_time_of_a_stay() {
        let mut cache = Cache::new(&config(1, Replacement::Lru), 1, false);
        let mut stay = |read: u64, written: u64| {
            let Victim::None(slot) = cache.victim(7) else {
                panic!("it has left");
            };
            cache.insert(slot, 7, None, false);
            cache.note_read(slot, read);
            if written != 0 {
                cache.note_written(slot, written);
                cache.set_dirty(slot);
            }
            cache.evict(slot);
        };
        stay(0b1011, 0);
        stay(0b0011, 0b0110);
        stay(0, 0);
        stay(u64::MAX, 1);
        let stays = cache.stays();
        let found = |counts: &[u64]| -> Vec<(usize, u64)> {
            let counts = counts.iter().copied().enumerate();
            counts.filter(|(_, count)| *count > 0).collect()
        };
        assert_eq!(found(&stays.used), [(0, 1), (3, 2), (64, 1)]);
        assert_eq!(found(&stays.written), [(1, 1), (2, 1)]);
    }

    #[test]
    fn a_clean_page_in_the_window_goes_before_an_older_dirty_one() {
        let mut cache = Cache::new(&config(4, Replacement::Cflru { window: 2 }), 4, false);
        for page in 0..4 {
            put(&mut cache, page);
        }
        cache.set_dirty(cache.find(0).unwrap());
        assert_eq!(put(&mut cache, 4), Some(1), "0 is older, but dirty");
        cache.set_dirty(cache.find(2).unwrap());
        assert!(
            matches!(cache.victim(5), Victim::Dirty(_, 0)),
            "3 is outside"
        );
    }
}
