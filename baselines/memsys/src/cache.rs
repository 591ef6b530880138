//! One cache: a compact array of sets of ways.
//!
//! A line's name is its tag: its number without the bits of the set, in 32 bits. Each set keeps
//! one byte of every name (the mark) side by side; a lookup compares marks first, then the whole
//! name. Each way also has bytes for its neighbours in the order of use, its flags, and its note:
//! the cores that hold the line, or its way in the next cache. The number of ways is a
//! compile-time constant for each supported width, which avoids bounds checks.
//! A set is a ring in order of use, from the most to the least recently used way and back; empty
//! ways count as least recently used. An inserted line replaces the least recently used one by
//! turning the ring, without changing a link.
//!
//! The low bits of a line's number select its set. In the last cache of processors a hash of the
//! whole number does, so arrays that lie a power of two apart do not collide in few sets.
//!
//! A way records the time from which its line is available. A line in flight is found like any
//! other, and the access waits for it, so misses on one line merge.

use crate::config::CacheConfig;
use crate::pages::NODE_SHIFT;
use crate::tick::Tick;

/// Contents of a cache line.
pub(crate) type Block = [u8; 64];

/// Flag of a line: written since it was inserted.
pub(crate) const DIRTY: u8 = 1;
/// Flag of a line: its core owns it exclusively and may write it.
pub(crate) const OWNED: u8 = 2;
/// Flag of a line: prefetched, without a demand access so far.
pub(crate) const AHEAD: u8 = 4;
/// Name of an empty way.
const EMPTY: u32 = u32::MAX;
/// Bits of a name that identify the line within its node; the bits above identify the node.
const WITHIN: u32 = 28;
/// Number of marks that a lookup compares together: the bytes of a word.
const LANES: usize = 8;
const ONES: u64 = 0x0101_0101_0101_0101;
/// Largest supported number of ways of a set.
pub(crate) const MOST_WAYS: u64 = 64;

/// Most lines of a node's memory that a cache of `sets` sets can name.
pub(crate) const fn most_lines(sets: u64) -> u64 {
    ((1 << WITHIN) - 1) * sets
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) line: u64,
    pub(crate) flags: u8,
    /// Mask of the cores that held it, or its way in the next cache.
    pub(crate) note: u64,
}

impl Gone {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Position of a line in the cache; valid until the line is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    set: u32,
    way: u32,
}

impl At {
    /// Number of the way in its set, which the cache of the level above may keep as a note.
    #[inline]
    pub(crate) const fn way(self) -> u64 {
        self.way as u64
    }
}

/// Byte of a name that the set compares first.
#[inline]
const fn mark(name: u32) -> u8 {
    (name ^ name >> 8 ^ name >> 16 ^ name >> 24) as u8
}

/// A set with storage for `W` ways. Ways beyond the cache's number stay empty and out of the
/// ring.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Set<const W: usize> {
    /// Mark of each name; see [`mark`].
    marks: [u8; W],
    names: [u32; W],
    /// For each way, the ways used next after it and before it.
    after: [u8; W],
    before: [u8; W],
    flags: [u8; W],
    notes: [u8; W],
    ready: [Tick; W],
}

impl<const W: usize> Set<W> {
    fn new(ways: usize) -> Self {
        let mut set = Self {
            marks: [0; W],
            names: [EMPTY; W],
            after: [0; W],
            before: [0; W],
            flags: [0; W],
            notes: [0; W],
            ready: [Tick::ZERO; W],
        };
        for way in 0..ways {
            set.link(((way + 1) % ways) as u8, way as u8);
        }
        set
    }

    /// Finds the way that holds `name`.
    #[inline]
    fn find(&self, name: u32) -> Option<u32> {
        let wanted = u64::from(mark(name)) * ONES;
        let words = self.marks.as_chunks::<LANES>().0.iter();
        for (&word, first) in words.zip((0..).step_by(LANES)) {
            // Bit 7 of the lowest matching byte is exact; higher bytes may be false matches.
            let differs = u64::from_le_bytes(word) ^ wanted;
            let mut found = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
            while found != 0 {
                let way = first + found.trailing_zeros() / 8;
                if self.names[way as usize % W] == name {
                    return Some(way);
                }
                found &= found - 1;
            }
        }
        None
    }

    /// Lets `way` be the one used next after `before`.
    #[inline]
    fn link(&mut self, before: u8, way: u8) {
        self.after[usize::from(before) % W] = way;
        self.before[usize::from(way) % W] = before;
    }

    /// Takes a way out of the ring and puts it between the one used last and the one used
    /// longest ago.
    #[inline]
    fn unhook(&mut self, way: u8, newest: u8) {
        let at = usize::from(way) % W;
        self.link(self.before[at], self.after[at]);
        let oldest = self.after[usize::from(newest) % W];
        self.link(newest, way);
        self.link(way, oldest);
    }
}

/// Sets of one width, of which each knows the way that was used last.
#[derive(Clone, Debug)]
struct Sets<const W: usize> {
    sets: Vec<Set<W>>,
    newest: Vec<u8>,
}

impl<const W: usize> Sets<W> {
    fn new(sets: usize, ways: usize) -> Self {
        Self {
            sets: vec![Set::new(ways); sets],
            newest: vec![0; sets],
        }
    }

    #[inline]
    fn prefetch(&self, set: u32) {
        let set = &self.sets[set as usize];
        sim::prefetch(&set.marks, 0);
        sim::prefetch(&set.names, W - 1);
        sim::prefetch(&set.notes, 0);
    }

    #[inline(always)]
    fn is_last(&self, set: u32, name: u32) -> Option<u32> {
        let way = self.newest[set as usize];
        let held = self.sets[set as usize].names[usize::from(way) % W];
        (held == name).then_some(way.into())
    }

    #[inline]
    fn touch(&mut self, at: At) {
        let newest = &mut self.newest[at.set as usize];
        let way = at.way as u8;
        if *newest == way {
            return;
        }
        let set = &mut self.sets[at.set as usize];
        if set.after[usize::from(*newest) % W] != way {
            set.unhook(way, *newest);
        }
        *newest = way;
    }

    /// Makes the way the one used longest ago, and empties it. The name that it had.
    fn take(&mut self, at: At) -> u32 {
        let newest = &mut self.newest[at.set as usize];
        let set = &mut self.sets[at.set as usize];
        let way = at.way as u8;
        if *newest == way {
            *newest = set.before[usize::from(way) % W];
        } else if set.after[usize::from(*newest) % W] != way {
            set.unhook(way, *newest);
        }
        std::mem::replace(&mut set.names[usize::from(way) % W], EMPTY)
    }

    /// Replaces the least recently used way by `name` with its flags and note; returns the way
    /// and its former content.
    #[inline]
    fn put(&mut self, set: u32, name: u32, (flags, note): (u8, u8), ready: Tick) -> Put {
        let newest = &mut self.newest[set as usize];
        let set = &mut self.sets[set as usize];
        let way = set.after[usize::from(*newest) % W];
        *newest = way;
        let at = usize::from(way) % W;
        (set.marks[at], set.ready[at]) = (mark(name), ready);
        Put {
            way: way.into(),
            name: std::mem::replace(&mut set.names[at], name),
            flags: std::mem::replace(&mut set.flags[at], flags),
            note: std::mem::replace(&mut set.notes[at], note),
        }
    }
}

/// Way of an inserted line, and the name and state of the line that it evicted.
struct Put {
    way: u32,
    name: u32,
    flags: u8,
    note: u8,
}

/// Sets of the least width that takes their ways.
#[derive(Clone, Debug)]
enum Ways {
    Eight(Sets<8>),
    Sixteen(Sets<16>),
    ThirtyTwo(Sets<32>),
    SixtyFour(Sets<64>),
}

/// Does the same with sets of every width.
macro_rules! with {
    ($ways:expr, $sets:ident => $work:expr) => {
        match $ways {
            Ways::Eight($sets) => $work,
            Ways::Sixteen($sets) => $work,
            Ways::ThirtyTwo($sets) => $work,
            Ways::SixtyFour($sets) => $work,
        }
    };
}

/// With `HASHES` it may take a hash for the set, which the others are not asked for.
#[derive(Clone, Debug)]
pub(crate) struct Cache<const HASHES: bool> {
    set_bits: u32,
    hashed: bool,
    ways: Ways,
    /// Notes of ways, 64 to a set, where a byte is too little.
    wide_notes: Vec<u64>,
}

impl<const HASHES: bool> Cache<HASHES> {
    /// A cache of which so many bytes are noted of each way.
    pub(crate) fn of(config: &CacheConfig, note: usize) -> Self {
        Self::new(config.sets() as usize, config.ways as usize, note)
    }

    /// `sets` is a power of two; there are [`MOST_WAYS`] at most. Of each way so many bytes
    /// are noted, eight at most.
    fn new(sets: usize, ways: usize, note: usize) -> Self {
        Self {
            set_bits: sets.ilog2(),
            hashed: false,
            ways: match ways {
                ..=8 => Ways::Eight(Sets::new(sets, ways)),
                9..=16 => Ways::Sixteen(Sets::new(sets, ways)),
                17..=32 => Ways::ThirtyTwo(Sets::new(sets, ways)),
                _ => Ways::SixtyFour(Sets::new(sets, ways)),
            },
            wide_notes: vec![
                0;
                if note > 1 {
                    sets * MOST_WAYS as usize
                } else {
                    0
                }
            ],
        }
    }

    /// This cache with a hash as its set index.
    pub(crate) fn hashed(self) -> Self {
        Self {
            hashed: HASHES && self.set_bits > 0,
            ..self
        }
    }

    #[inline]
    fn set(&self, line: u64) -> u32 {
        let last = (line & ((1 << self.set_bits) - 1)) as u32;
        last ^ self.fold(self.name(line))
    }

    /// Contribution of a name to the set index: its bits folded to the width of the index. So
    /// each bit of the set is a sum of bits of the address, as in processors (Maurice et al.,
    /// Reverse Engineering Intel Last-Level Cache Complex Addressing Using Performance
    /// Counters, RAID 2015).
    #[inline]
    fn fold(&self, name: u32) -> u32 {
        let (mut rest, mut folded) = (name, 0);
        if HASHES && self.hashed {
            while rest != 0 {
                folded ^= rest;
                rest >>= self.set_bits;
            }
        }
        folded & ((1 << self.set_bits) - 1)
    }

    /// Name of a line within its set.
    #[inline]
    fn name(&self, line: u64) -> u32 {
        let within = (line & ((1 << NODE_SHIFT) - 1)) >> self.set_bits;
        debug_assert!(within < (1 << WITHIN) - 1, "a line has a name");
        (line >> NODE_SHIFT << WITHIN | within) as u32
    }

    /// Number of the line with `name` in `set`: the inverse of the two.
    #[inline]
    fn line_of(&self, set: u32, name: u32) -> u64 {
        let last = u64::from(set ^ self.fold(name));
        let name = u64::from(name);
        let within = (name & ((1 << WITHIN) - 1)) << self.set_bits | last;
        name >> WITHIN << NODE_SHIFT | within
    }

    /// Prefetches the set of `line` into the simulating machine's cache, for a later lookup.
    #[inline]
    pub(crate) fn prefetch(&self, line: u64) {
        let set = self.set(line);
        with!(&self.ways, sets => sets.prefetch(set));
    }

    /// The way of `line`, if it is the most recently used of its set.
    #[inline(always)]
    pub(crate) fn find_last(&self, line: u64) -> Option<At> {
        let (set, name) = (self.set(line), self.name(line));
        let way = with!(&self.ways, sets => sets.is_last(set, name))?;
        Some(At { set, way })
    }

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<At> {
        let (set, name) = (self.set(line), self.name(line));
        let way = with!(&self.ways, sets => sets.sets[set as usize].find(name))?;
        Some(At { set, way })
    }

    /// Position of a cached line, if its way is known.
    #[inline]
    pub(crate) fn at(&self, line: u64, way: u64) -> At {
        let at = At {
            set: self.set(line),
            way: way as u32,
        };
        debug_assert_eq!(self.find(line), Some(at), "it is where it was");
        at
    }

    /// Makes a way the most recently used one of its set.
    #[inline]
    pub(crate) fn touch(&mut self, at: At) {
        with!(&mut self.ways, sets => sets.touch(at));
    }

    /// Inserts a line, which must not be cached, as the most recently used one of its set.
    /// Returns its position, and the line that it evicted.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        line: u64,
        (flags, note): (u8, u64),
        ready: Tick,
    ) -> (At, Option<Gone>) {
        debug_assert!(self.find(line).is_none(), "a line is in a cache once");
        let (set, name) = (self.set(line), self.name(line));
        let bytes = (flags, note as u8);
        let put = with!(&mut self.ways, sets => sets.put(set, name, bytes, ready));
        let at = At { set, way: put.way };
        let gone = (put.name != EMPTY).then(|| Gone {
            line: self.line_of(set, put.name),
            flags: put.flags,
            note: self.wide_note(at).unwrap_or(put.note.into()),
        });
        if !self.wide_notes.is_empty() {
            self.set_note(at, note);
        }
        (at, gone)
    }

    /// State of a way for the line `name` that has just left it.
    #[inline]
    fn gone(&self, at: At, name: u32) -> Gone {
        Gone {
            line: self.line_of(at.set, name),
            flags: with!(&self.ways, sets => sets.sets[at.set as usize].flags[at.way as usize]),
            note: self.note(at),
        }
    }

    /// Removes a line, if it is cached.
    pub(crate) fn remove(&mut self, line: u64) -> Option<Gone> {
        let at = self.find(line)?;
        Some(self.take(at))
    }

    /// Removes the line in a way and returns it.
    pub(crate) fn take(&mut self, at: At) -> Gone {
        let name = with!(&mut self.ways, sets => sets.take(at));
        self.gone(at, name)
    }

    /// The line in a way.
    #[inline]
    pub(crate) fn line(&self, at: At) -> u64 {
        let name = with!(&self.ways, sets => sets.sets[at.set as usize].names[at.way as usize]);
        self.line_of(at.set, name)
    }

    /// Instant from which the line in a way is available.
    #[inline]
    pub(crate) fn ready(&self, at: At) -> Tick {
        with!(&self.ways, sets => sets.sets[at.set as usize].ready[at.way as usize])
    }

    #[inline]
    fn flags(&mut self, at: At) -> &mut u8 {
        with!(&mut self.ways, sets => &mut sets.sets[at.set as usize].flags[at.way as usize])
    }

    #[inline]
    pub(crate) fn has(&self, at: At, flag: u8) -> bool {
        let flags = with!(&self.ways, sets => sets.sets[at.set as usize].flags[at.way as usize]);
        flags & flag != 0
    }

    #[inline]
    pub(crate) fn set_flag(&mut self, at: At, flag: u8) {
        *self.flags(at) |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, at: At, flag: u8) {
        *self.flags(at) &= !flag;
    }

    /// The note of a way, where notes are wider than a byte.
    #[inline]
    fn wide_note(&self, at: At) -> Option<u64> {
        let place = at.set as usize * MOST_WAYS as usize + at.way as usize;
        self.wide_notes.get(place).copied()
    }

    /// The note of a way: mask of the cores that hold its line, or its way in the next cache.
    #[inline]
    pub(crate) fn note(&self, at: At) -> u64 {
        let set = at.set as usize;
        let byte = || with!(&self.ways, sets => sets.sets[set].notes[at.way as usize]).into();
        self.wide_note(at).unwrap_or_else(byte)
    }

    #[inline]
    pub(crate) fn set_note(&mut self, at: At, note: u64) {
        if self.wide_notes.is_empty() {
            let set = at.set as usize;
            with!(&mut self.ways, sets => sets.sets[set].notes[at.way as usize] = note as u8);
        } else {
            self.wide_notes[at.set as usize * MOST_WAYS as usize + at.way as usize] = note;
        }
    }

    /// Every way that holds a line.
    #[cfg(test)]
    pub(crate) fn held(&self) -> Vec<At> {
        with!(&self.ways, sets => {
            let ways = (0..).zip(&sets.sets).flat_map(|(set, held)| {
                (0..).zip(held.names).map(move |(way, name)| (At { set, way }, name))
            });
            ways.filter(|(_, name)| *name != EMPTY).map(|(at, _)| at).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inserts a line. Returns the line that it evicts.
    fn put(cache: &mut Cache<true>, line: u64) -> Option<u64> {
        cache
            .insert(line, (0, 0), Tick::ZERO)
            .1
            .map(|gone| gone.line)
    }

    #[test]
    fn the_line_used_longest_ago_goes() {
        let mut cache = Cache::new(2, 3, 1);
        for line in [0, 2, 4] {
            assert_eq!(put(&mut cache, line), None);
        }
        let at = cache.find(0).unwrap();
        cache.touch(at);
        assert_eq!(put(&mut cache, 6), Some(2));
        assert_eq!(put(&mut cache, 1), None);
        assert!(cache.remove(4).is_some() && cache.find(4).is_none());
        assert_eq!(put(&mut cache, 8), None, "an empty way is used first");
    }

    /// A list of lines, the one used last first, against sets of every width.
    #[test]
    fn the_order_of_use_is_that_of_a_list() {
        let mut rng = sim::Seed(9).stream("order of use");
        for ways in [1, 2, 3, 8, 12, 32, 64] {
            let mut cache = Cache::new(2, ways, 1);
            let mut recent: [Vec<u64>; 2] = [Vec::new(), Vec::new()];
            for _ in 0..6_000 {
                // Names far apart with equal marks, too.
                let line = rng.below(ways as u64 * 3) * if rng.chance(1, 2) { 1 } else { 512 };
                let list = &mut recent[line as usize % 2];
                let known = list.iter().position(|&other| other == line);
                let found = cache.find(line);
                assert_eq!(found.is_some(), known.is_some(), "{ways} ways, line {line}");
                match (found, known) {
                    (Some(_), Some(at)) if rng.chance(1, 8) => {
                        list.remove(at);
                        assert_eq!(cache.remove(line).map(|gone| gone.line), Some(line));
                        continue;
                    }
                    (Some(at), Some(place)) => {
                        let last = cache.find_last(line).is_some();
                        assert!(!last || place == 0, "the one used last");
                        list.remove(place);
                        cache.touch(at);
                    }
                    _ => {
                        let oldest = if list.len() == ways { list.pop() } else { None };
                        assert_eq!(put(&mut cache, line), oldest);
                    }
                }
                list.insert(0, line);
            }
        }
    }

    #[test]
    fn flags_and_note_of_a_line_come_back_with_it() {
        let plain = Cache::<true>::new(64, 1, 8);
        for (node, hashed) in [(0, true), (1, false), (1, true), (15, true)] {
            let mut cache = plain.clone();
            cache = if hashed { cache.hashed() } else { cache };
            let line = node << NODE_SHIFT | (most_lines(64) - 1);
            cache.insert(line, (DIRTY, u64::MAX << 3), Tick(7));
            let at = cache.find(line).unwrap();
            assert_eq!((cache.line(at), cache.ready(at)), (line, Tick(7)));
            cache.set_flag(at, OWNED);
            cache.clear(at, DIRTY);
            let gone = cache.remove(line).unwrap();
            assert_eq!((gone.line, gone.flags), (line, OWNED));
            assert_eq!(gone.note, u64::MAX << 3);
        }
    }

    #[test]
    fn a_hash_spreads_lines_that_lie_a_power_of_two_apart() {
        let sets = 64;
        for apart in (6..20).map(|bits| 1 << bits) {
            let lines = || (0..sets).map(|n| n * apart + 5);
            let mut plain = Cache::<true>::new(sets as usize, 1, 1);
            let mut hashed = plain.clone().hashed();
            assert_eq!(lines().filter_map(|line| put(&mut plain, line)).count(), 63);
            let gone = lines().filter_map(|line| put(&mut hashed, line)).count();
            assert_eq!(gone, 0, "{apart} lines apart");
        }
        // Those that follow each other fill it, as they do without.
        let mut hashed = Cache::<true>::new(sets as usize, 2, 1).hashed();
        assert!((0..2 * sets).all(|line| put(&mut hashed, line).is_none()));
    }
}
