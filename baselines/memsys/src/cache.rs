//! One cache: sets of ways, as small as they can be told.
//!
//! A line's name is its number without what its set says, in 32 bits. Of each set a byte of
//! every name lies side by side, which tells where to look; the whole name decides. Beside
//! each other as well are bytes of its ways: which was used before and after it, its flags,
//! and who holds it or where the next cache has it. So a lookup reads one or two lines of the
//! simulating machine's memory, and all caches of a machine fit its own. A set is a list in
//! order of use; ways that are empty stand at its end.
//!
//! A way tells from when on its line is there: one that is still on its way is found, and
//! whoever finds it waits for it, which is how misses to one line become one.

use crate::pages::NODE_SHIFT;
use crate::tick::Tick;

/// The bytes of a line.
pub(crate) type Block = [u8; 64];

/// The line was written since it came.
pub(crate) const DIRTY: u8 = 1;
/// Its core may write it without asking.
pub(crate) const OWNED: u8 = 2;
/// Nobody has asked for it yet.
pub(crate) const AHEAD: u8 = 4;
/// The name of no line.
const EMPTY: u32 = u32::MAX;
/// Bits of a name that tell the line in its node; the rest is the node.
const WITHIN: u32 = 28;
/// Ways that are looked at together: the bytes of a word.
const LANES: usize = 8;
const ONES: u64 = 0x0101_0101_0101_0101;
/// Most ways of a set.
pub(crate) const MOST_WAYS: u64 = 64;

/// Most lines of a node's memory that a cache of so many sets can name.
pub(crate) const fn most_lines(sets: u64) -> u64 {
    ((1 << WITHIN) - 1) * sets
}

/// Of a set: the way that was used last, and the one that was used longest ago.
#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u8,
    oldest: u8,
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) line: u64,
    pub(crate) flags: u8,
    /// Who held it, or the way of the next cache that has it.
    pub(crate) note: u64,
}

impl Gone {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    /// The logarithm of the ways as they lie; those beyond the set's own stay empty.
    wide_bits: u32,
    set_bits: u32,
    /// A byte of each name, eight to a word.
    marks: Vec<u64>,
    names: Vec<u32>,
    /// Of each set which way was used after each, and which before, then flags and notes.
    small: Vec<u8>,
    /// Bytes of a note, and of a set's part of `small`.
    note: usize,
    stride: usize,
    ends: Vec<Ends>,
    ready: Vec<Tick>,
}

/// A way; it has its line until that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    set: u32,
    way: u32,
}

impl At {
    /// Its number in its set, which the cache before may note.
    #[inline]
    pub(crate) const fn way(self) -> u64 {
        self.way as u64
    }
}

/// Kinds of bytes of a way: who was used next after it and before it, and its flags.
const AFTER: usize = 0;
const BEFORE: usize = 1;
const FLAGS: usize = 2;
const NOTES: usize = 3;

/// The byte of a name.
#[inline]
const fn mark(name: u32) -> u8 {
    (name ^ name >> 8 ^ name >> 16 ^ name >> 24) as u8
}

impl Cache {
    /// `sets` is a power of two; there are [`MOST_WAYS`] at most. Of each way so many bytes
    /// are noted, eight at most.
    pub(crate) fn new(sets: usize, ways: usize, note: usize) -> Self {
        let wide = ways.next_power_of_two().max(LANES);
        let stride = (NOTES + note) * wide;
        let mut small = vec![0; sets * stride];
        for set in small.chunks_exact_mut(stride) {
            for way in 0..ways {
                set[AFTER * wide + way] = way.wrapping_sub(1) as u8;
                set[BEFORE * wide + way] = way as u8 + 1;
            }
        }
        let ends = Ends {
            newest: 0,
            oldest: ways as u8 - 1,
        };
        Self {
            wide_bits: wide.ilog2(),
            set_bits: sets.ilog2(),
            marks: vec![0; sets * wide / LANES],
            names: vec![EMPTY; sets * wide],
            small,
            note,
            stride,
            ends: vec![ends; sets],
            ready: vec![Tick::ZERO; sets * wide],
        }
    }

    #[inline]
    const fn wide(&self) -> usize {
        1 << self.wide_bits
    }

    #[inline]
    fn set(&self, line: u64) -> u32 {
        (line & ((1 << self.set_bits) - 1)) as u32
    }

    /// What a line is called within its set.
    #[inline]
    fn name(&self, line: u64) -> u32 {
        let within = (line & ((1 << NODE_SHIFT) - 1)) >> self.set_bits;
        debug_assert!(within < (1 << WITHIN) - 1, "a line has a name");
        (line >> NODE_SHIFT << WITHIN | within) as u32
    }

    /// The line that is called `name` in a set.
    #[inline]
    fn line_of(&self, set: u32, name: u32) -> u64 {
        let name = u64::from(name);
        let within = (name & ((1 << WITHIN) - 1)) << self.set_bits | u64::from(set);
        name >> WITHIN << NODE_SHIFT | within
    }

    #[inline]
    fn slot(&self, at: At) -> usize {
        (at.set as usize) << self.wide_bits | at.way as usize
    }

    /// The place of a byte of a way.
    #[inline]
    fn byte(&self, at: At, kind: usize) -> usize {
        at.set as usize * self.stride + (kind << self.wide_bits) + at.way as usize
    }

    /// Asks for what a lookup of `line` will read.
    #[inline]
    pub(crate) fn prefetch(&self, line: u64) {
        let set = self.set(line) as usize;
        sim::prefetch(&self.marks, (set << self.wide_bits) / LANES);
        sim::prefetch(&self.small, set * self.stride);
    }

    /// Where `line` is, if it is the one of its set that was used last.
    #[inline]
    pub(crate) fn find_last(&self, line: u64) -> Option<At> {
        let set = self.set(line);
        let way = u32::from(self.ends[set as usize].newest);
        let at = At { set, way };
        (self.names[self.slot(at)] == self.name(line)).then_some(at)
    }

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<At> {
        let (set, name) = (self.set(line), self.name(line));
        let wanted = u64::from(mark(name)) * ONES;
        let words = self.wide() / LANES;
        let marks = &self.marks[set as usize * words..][..words];
        for (&word, first) in marks.iter().zip((0..).step_by(LANES)) {
            // The lowest byte that is the mark, and those above that are or seem to be.
            let differs = word ^ wanted;
            let mut found = differs.wrapping_sub(ONES) & !differs & (ONES << 7);
            while found != 0 {
                let way = first + found.trailing_zeros() / 8;
                let at = At { set, way };
                if self.names[self.slot(at)] == name {
                    return Some(at);
                }
                found &= found - 1;
            }
        }
        None
    }

    /// Where a line is of which it is known in which way of its set.
    #[inline]
    pub(crate) fn at(&self, line: u64, way: u64) -> At {
        let at = At {
            set: self.set(line),
            way: way as u32,
        };
        debug_assert_eq!(self.find(line), Some(at), "it is where it was");
        at
    }

    /// Makes the way the one used last.
    #[inline]
    pub(crate) fn touch(&mut self, at: At) {
        if u32::from(self.ends[at.set as usize].newest) != at.way {
            self.use_now(at);
        }
    }

    /// The same for a way that is not.
    #[inline]
    fn use_now(&mut self, at: At) {
        let ends = &mut self.ends[at.set as usize];
        let from = at.set as usize * self.stride;
        let set = &mut self.small[from..from + self.stride];
        let (after, before) = set.split_at_mut(1 << self.wide_bits);
        let way = at.way as u8;
        let newer = after[usize::from(way)];
        if way == ends.oldest {
            ends.oldest = newer;
        } else {
            let older = before[usize::from(way)];
            before[usize::from(newer)] = older;
            after[usize::from(older)] = newer;
        }
        before[usize::from(way)] = ends.newest;
        after[usize::from(ends.newest)] = way;
        ends.newest = way;
    }

    /// Makes the way the one used longest ago.
    fn use_never(&mut self, at: At) {
        let wide = self.wide();
        let ends = &mut self.ends[at.set as usize];
        let from = at.set as usize * self.stride;
        let set = &mut self.small[from..from + self.stride];
        let (after, before) = set.split_at_mut(wide);
        let way = at.way as u8;
        if way == ends.oldest {
            return;
        }
        let older = before[usize::from(way)];
        if way == ends.newest {
            ends.newest = older;
        } else {
            let newer = after[usize::from(way)];
            before[usize::from(newer)] = older;
            after[usize::from(older)] = newer;
        }
        after[usize::from(way)] = ends.oldest;
        before[usize::from(ends.oldest)] = way;
        ends.oldest = way;
    }

    /// Puts a line in as the one used last, with its flags and what is noted of it. Where it
    /// is, and what had to go for it.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        line: u64,
        (flags, note): (u8, u64),
        ready: Tick,
    ) -> (At, Option<Gone>) {
        debug_assert!(self.find(line).is_none(), "a line is in a cache once");
        let set = self.set(line);
        let at = At {
            set,
            way: self.ends[set as usize].oldest.into(),
        };
        let slot = self.slot(at);
        let before = self.names[slot];
        let gone = (before != EMPTY).then(|| Gone {
            line: self.line_of(at.set, before),
            flags: self.small[self.byte(at, FLAGS)],
            note: self.note(at),
        });
        let name = self.name(line);
        self.names[slot] = name;
        let shift = slot % LANES * 8;
        let word = &mut self.marks[slot / LANES];
        *word = *word & !(0xff << shift) | u64::from(mark(name)) << shift;
        self.touch(at);
        let flagged = self.byte(at, FLAGS);
        self.small[flagged] = flags;
        self.set_note(at, note);
        self.ready[slot] = ready;
        (at, gone)
    }

    /// Takes a line out.
    pub(crate) fn remove(&mut self, line: u64) -> Option<Gone> {
        let at = self.find(line)?;
        Some(self.take(at))
    }

    /// Takes out what is in a way.
    pub(crate) fn take(&mut self, at: At) -> Gone {
        let slot = self.slot(at);
        let name = std::mem::replace(&mut self.names[slot], EMPTY);
        self.use_never(at);
        Gone {
            line: self.line_of(at.set, name),
            flags: self.small[self.byte(at, FLAGS)],
            note: self.note(at),
        }
    }

    /// The line in a way.
    #[inline]
    pub(crate) fn line(&self, at: At) -> u64 {
        self.line_of(at.set, self.names[self.slot(at)])
    }

    /// From when on it is there.
    #[inline]
    pub(crate) fn ready(&self, at: At) -> Tick {
        self.ready[self.slot(at)]
    }

    #[inline]
    pub(crate) fn has(&self, at: At, flag: u8) -> bool {
        self.small[self.byte(at, FLAGS)] & flag != 0
    }

    #[inline]
    pub(crate) fn set_flag(&mut self, at: At, flag: u8) {
        let byte = self.byte(at, FLAGS);
        self.small[byte] |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, at: At, flag: u8) {
        let byte = self.byte(at, FLAGS);
        self.small[byte] &= !flag;
    }

    #[inline]
    fn note_from(&self, at: At) -> usize {
        at.set as usize * self.stride + (NOTES << self.wide_bits) + at.way as usize * self.note
    }

    /// What is noted of a way: the cores that hold it, or where the next cache has it.
    #[inline]
    pub(crate) fn note(&self, at: At) -> u64 {
        let from = self.note_from(at);
        if self.note == 1 {
            return u64::from(self.small[from]);
        }
        let bytes = self.small[from..from + self.note].iter().rev();
        bytes.fold(0, |note, &byte| note << 8 | u64::from(byte))
    }

    #[inline]
    pub(crate) fn set_note(&mut self, at: At, note: u64) {
        let from = self.note_from(at);
        if self.note == 1 {
            self.small[from] = note as u8;
            return;
        }
        let bytes = note.to_le_bytes();
        self.small[from..from + self.note].copy_from_slice(&bytes[..self.note]);
    }

    /// Every way that holds a line.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = At> {
        let slots = (0..).zip(&self.names);
        let used = slots.filter(|(_, name)| **name != EMPTY);
        used.map(|(slot, _): (u32, _)| At {
            set: slot >> self.wide_bits,
            way: slot & (self.wide() as u32 - 1),
        })
    }
}

/// The registers that hold misses (MSHRs): how many, and when each is free again.
#[derive(Clone, Debug)]
pub(crate) struct Misses {
    limit: usize,
    until: Vec<Tick>,
    /// Until then there is none free; zero where that is not known.
    full_until: Tick,
    /// Those of which nobody knows yet when they end.
    held: usize,
}

impl Misses {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            until: Vec::with_capacity(limit),
            full_until: Tick::ZERO,
            held: 0,
        }
    }

    /// From when on there is room; [`Tick::NEVER`] if nobody knows.
    #[inline]
    pub(crate) fn room(&mut self, now: Tick) -> Tick {
        if now < self.full_until {
            return self.full_until;
        }
        if self.until.len() + self.held < self.limit {
            return now;
        }
        self.until.retain(|&until| until > now);
        if self.until.len() + self.held < self.limit {
            return now;
        }
        let first = self.until.iter().copied().min().unwrap_or(Tick::NEVER);
        self.full_until = first;
        first
    }

    #[inline]
    pub(crate) fn take(&mut self, until: Tick) {
        self.until.push(until);
        self.full_until = self.full_until.min(until);
    }

    pub(crate) fn hold(&mut self) {
        self.held += 1;
    }

    pub(crate) fn release(&mut self) {
        debug_assert!(self.held > 0, "what is released was held");
        self.held = self.held.saturating_sub(1);
        self.full_until = Tick::ZERO;
    }

    /// Frees what has a known end, as when its instructions are squashed.
    pub(crate) fn squash(&mut self) {
        self.until.clear();
        self.full_until = Tick::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What has to go for a line.
    fn put(cache: &mut Cache, line: u64) -> Option<u64> {
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
                // Names far apart whose bytes are the same, too.
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
    fn what_is_told_of_a_line_comes_back_with_it() {
        let mut cache = Cache::new(64, 1, 8);
        for node in [0, 1, 15] {
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
    fn misses_wait_for_the_first_that_ends() {
        let mut misses = Misses::new(2);
        misses.take(Tick(30));
        misses.take(Tick(20));
        assert_eq!(misses.room(Tick(19)), Tick(20));
        assert_eq!(misses.room(Tick(20)), Tick(20));
        misses.hold();
        assert_eq!(misses.room(Tick(29)), Tick(30));
        misses.squash();
        misses.hold();
        assert_eq!(misses.room(Tick(40)), Tick::NEVER);
    }
}
