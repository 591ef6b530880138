//! One cache: sets of ways, as small as they can be told.
//!
//! Of each set its names lie side by side, of 32 bits each: a line's number without what its
//! set says. Beside each other as well are bytes of its ways: when each was used last, its
//! flags, and who holds it or where the next cache has it. So a lookup reads one or two lines
//! of the simulating machine's memory, and all caches of a machine fit its own. The order of
//! use is exact: times of a set are ranked anew before they run over, and a way that is empty
//! was used before all others.
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
/// Most ways of a set, so that times of use fit a byte and are seldom ranked anew.
pub(crate) const MOST_WAYS: u64 = 64;

/// Most lines of a node's memory that a cache of so many sets can name.
pub(crate) const fn most_lines(sets: u64) -> u64 {
    ((1 << WITHIN) - 1) * sets
}

/// Of a set: the time of its last use, and the way that was used then.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    clock: u8,
    way: u8,
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
    ways: usize,
    /// The logarithm of the ways as they lie; those beyond `ways` stay empty.
    wide_bits: u32,
    set_bits: u32,
    names: Vec<u32>,
    /// Of each set when its ways were used, then their flags, then their notes.
    small: Vec<u8>,
    /// Bytes of a note, and of a set's part of `small`.
    note: usize,
    stride: usize,
    heads: Vec<Head>,
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

/// The lowest lane of `word` that is `byte`, and those above that are or seem to be, as
/// their highest bits.
#[inline]
fn lanes(word: &[u8], byte: u8) -> u64 {
    let word = word
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word));
    let differs = word ^ (u64::from(byte) * ONES);
    differs.wrapping_sub(ONES) & !differs & (ONES << 7)
}

impl Cache {
    /// `sets` is a power of two; there are [`MOST_WAYS`] at most. Of each way so many bytes
    /// are noted, eight at most.
    pub(crate) fn new(sets: usize, ways: usize, note: usize) -> Self {
        let wide = ways.next_power_of_two().max(LANES);
        let stride = (2 + note) * wide;
        let mut small = vec![0; sets * stride];
        // Ways that are not there are never the ones used longest ago.
        for set in small.chunks_exact_mut(stride) {
            set[ways..wide].fill(u8::MAX);
        }
        Self {
            ways,
            wide_bits: wide.ilog2(),
            set_bits: sets.ilog2(),
            names: vec![EMPTY; sets * wide],
            small,
            note,
            stride,
            heads: vec![Head::default(); sets],
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

    /// The place of byte `kind` of a way: 0 for its use, 1 for its flags.
    #[inline]
    fn byte(&self, at: At, kind: usize) -> usize {
        at.set as usize * self.stride + (kind << self.wide_bits) + at.way as usize
    }

    /// Asks for what a lookup of `line` will read.
    #[inline]
    pub(crate) fn prefetch(&self, line: u64) {
        let set = self.set(line) as usize;
        sim::prefetch(&self.names, set << self.wide_bits);
        sim::prefetch(&self.small, set * self.stride);
    }

    /// Where `line` is, if it is the one of its set that was used last.
    #[inline]
    pub(crate) fn find_last(&self, line: u64) -> Option<At> {
        let set = self.set(line);
        let way = u32::from(self.heads[set as usize].way);
        let at = At { set, way };
        (self.names[self.slot(at)] == self.name(line)).then_some(at)
    }

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<At> {
        let (set, name) = (self.set(line), self.name(line));
        let from = (set as usize) << self.wide_bits;
        let names = &self.names[from..from + self.wide()];
        for (eight, first) in names.chunks_exact(LANES).zip((0..).step_by(LANES)) {
            // Eight at a time, without a branch for each.
            let is_it = eight.iter().enumerate();
            let found = is_it.fold(0_u32, |found, (way, &other)| {
                found | (u32::from(other == name) << way)
            });
            if found != 0 {
                let way = first + found.trailing_zeros();
                return Some(At { set, way });
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
        if u32::from(self.heads[at.set as usize].way) != at.way {
            self.use_now(at);
        }
    }

    #[inline]
    fn use_now(&mut self, at: At) {
        let before = match self.heads[at.set as usize].clock {
            u8::MAX => self.rank(at.set),
            clock => clock,
        };
        self.heads[at.set as usize] = Head {
            clock: before + 1,
            way: at.way as u8,
        };
        let used = self.byte(at, 0);
        self.small[used] = before + 1;
    }

    /// Gives the ways of a set the lowest times in the order that they have. The last.
    #[cold]
    fn rank(&mut self, set: u32) -> u8 {
        let from = set as usize * self.stride;
        let times = &mut self.small[from..from + self.ways];
        let mut before = [0; MOST_WAYS as usize];
        before[..times.len()].copy_from_slice(times);
        for time in times.iter_mut().filter(|time| **time > 0) {
            let older = before.iter().filter(|&&other| other > 0 && other < *time);
            *time = older.count() as u8 + 1;
        }
        times.iter().copied().max().unwrap_or(0)
    }

    /// The way used longest ago; an empty one if there is any.
    #[inline]
    fn victim(&self, set: u32) -> At {
        let from = set as usize * self.stride;
        let times = &self.small[from..from + self.wide()];
        let mut least = [u8::MAX; LANES];
        for word in times.chunks_exact(LANES) {
            for (least, &time) in least.iter_mut().zip(word) {
                *least = time.min(*least);
            }
        }
        let oldest = least.into_iter().fold(u8::MAX, u8::min);
        for (word, first) in times.chunks_exact(LANES).zip((0..).step_by(LANES)) {
            let found = lanes(word, oldest);
            if found != 0 {
                let way = first + found.trailing_zeros() / 8;
                return At { set, way };
            }
        }
        At { set, way: 0 }
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
        let at = self.victim(self.set(line));
        let slot = self.slot(at);
        let before = self.names[slot];
        let gone = (before != EMPTY).then(|| Gone {
            line: self.line_of(at.set, before),
            flags: self.small[self.byte(at, 1)],
            note: self.note(at),
        });
        self.names[slot] = self.name(line);
        self.use_now(at);
        let flagged = self.byte(at, 1);
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
        let used = self.byte(at, 0);
        self.small[used] = 0;
        Gone {
            line: self.line_of(at.set, name),
            flags: self.small[self.byte(at, 1)],
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
        self.small[self.byte(at, 1)] & flag != 0
    }

    #[inline]
    pub(crate) fn set_flag(&mut self, at: At, flag: u8) {
        let byte = self.byte(at, 1);
        self.small[byte] |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, at: At, flag: u8) {
        let byte = self.byte(at, 1);
        self.small[byte] &= !flag;
    }

    #[inline]
    fn note_from(&self, at: At) -> usize {
        at.set as usize * self.stride + (2 << self.wide_bits) + at.way as usize * self.note
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
    /// Those of which nobody knows yet when they end.
    held: usize,
}

impl Misses {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            until: Vec::with_capacity(limit),
            held: 0,
        }
    }

    /// From when on there is room; [`Tick::NEVER`] if nobody knows.
    #[inline]
    pub(crate) fn room(&mut self, now: Tick) -> Tick {
        if self.until.len() + self.held < self.limit {
            return now;
        }
        self.until.retain(|&until| until > now);
        if self.until.len() + self.held < self.limit {
            return now;
        }
        self.until.iter().copied().min().unwrap_or(Tick::NEVER)
    }

    #[inline]
    pub(crate) fn take(&mut self, until: Tick) {
        self.until.push(until);
    }

    pub(crate) fn hold(&mut self) {
        self.held += 1;
    }

    pub(crate) fn release(&mut self) {
        debug_assert!(self.held > 0, "what is released was held");
        self.held = self.held.saturating_sub(1);
    }

    /// Frees what has a known end, as when its instructions are squashed.
    pub(crate) fn squash(&mut self) {
        self.until.clear();
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
