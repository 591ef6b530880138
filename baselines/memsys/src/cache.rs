//! One cache: sets of ways, with what a lookup needs of a set side by side.
//!
//! Of each way there is a byte of its line's name and a byte that says when it was used
//! last, beside those of its set; all else of a way lies together. So a miss reads one line
//! of the simulating machine's memory, and a hit two. The whole name decides; the byte only
//! says where to look. The order of use is exact: times of a set are ranked anew before
//! they run over, and a way that is empty was used before all others.
//!
//! A way tells from when on its line is there: one that is still on its way is found, and
//! whoever finds it waits for it, which is how misses to one line become one.

use crate::tick::Tick;

/// The bytes of a line.
pub(crate) type Block = [u8; 64];

/// The line was written since it came.
pub(crate) const DIRTY: u64 = 1;
/// Its core may write it without asking.
pub(crate) const OWNED: u64 = 2;
/// Nobody has asked for it yet.
pub(crate) const AHEAD: u64 = 4;
const FLAGS: u32 = 3;
const EMPTY: u64 = u64::MAX;
/// Ways that are looked at together: the bytes of a word.
const LANES: usize = 8;
const ONES: u64 = 0x0101_0101_0101_0101;
/// Most ways of a set, so that times of use fit a byte and are seldom ranked anew.
pub(crate) const MOST_WAYS: u64 = 64;

/// What a cache has of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The line's name above its flags.
    key: u64,
    /// From when on it is there.
    pub(crate) ready: Tick,
    /// Which cores hold it, in a cache that keeps a directory.
    pub(crate) holders: u64,
    /// Where the next cache has it.
    pub(crate) outer: At,
}

const _: () = assert!(size_of::<Way>() == 32);

impl Way {
    pub(crate) const fn new(line: u64, flags: u64, ready: Tick) -> Self {
        Self {
            key: line << FLAGS | flags,
            ready,
            holders: 0,
            outer: At(u32::MAX),
        }
    }

    #[inline]
    pub(crate) const fn line(&self) -> u64 {
        self.key >> FLAGS
    }

    #[inline]
    pub(crate) const fn has(&self, flag: u64) -> bool {
        self.key & flag != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: u64) {
        self.key |= flag;
    }

    #[inline]
    pub(crate) const fn clear(&mut self, flag: u64) {
        self.key &= !flag;
    }
}

/// Of a set: the time of its last use, and the way that was used then.
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    clock: u8,
    way: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    ways: usize,
    /// Ways as they lie, a power of two; those beyond `ways` stay empty.
    wide: usize,
    mask: u64,
    set_bits: u32,
    /// Of each set a byte of the name of each way, then when each was used last.
    marks: Vec<u8>,
    heads: Vec<Head>,
    slots: Vec<Way>,
}

/// A way; it has its line until that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(u32);

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
    /// `sets` is a power of two; there are [`MOST_WAYS`] at most.
    pub(crate) fn new(sets: usize, ways: usize) -> Self {
        let wide = ways.next_power_of_two().max(LANES);
        let count = sets * wide;
        let mut marks = vec![0; 2 * count];
        // Ways that are not there are never the ones used longest ago.
        for set in marks.chunks_exact_mut(2 * wide) {
            set[wide + ways..].fill(u8::MAX);
        }
        let empty = Way {
            key: EMPTY,
            ..Way::new(0, 0, Tick::ZERO)
        };
        Self {
            ways,
            wide,
            mask: sets as u64 - 1,
            set_bits: sets.ilog2(),
            marks,
            heads: vec![Head::default(); sets],
            slots: vec![empty; count],
        }
    }

    #[inline]
    fn set(&self, line: u64) -> usize {
        (line & self.mask) as usize
    }

    #[inline]
    fn at(&self, set: usize, way: usize) -> At {
        At((set * self.wide + way) as u32)
    }

    /// The set of a way, and which of its ways it is.
    #[inline]
    fn place(&self, at: At) -> (usize, usize) {
        let at = at.0 as usize;
        (at >> self.wide.ilog2(), at & (self.wide - 1))
    }

    /// The byte of a line's name.
    #[inline]
    fn mark(&self, line: u64) -> u8 {
        let name = line >> self.set_bits;
        (name ^ name >> 8 ^ name >> 16) as u8
    }

    /// Asks for what a lookup of `line` will read.
    #[inline]
    pub(crate) fn prefetch(&self, line: u64) {
        sim::prefetch(&self.marks, self.set(line) * 2 * self.wide);
    }

    /// Where `line` is, if it is the one of its set that was used last.
    #[inline]
    pub(crate) fn find_last(&self, line: u64) -> Option<At> {
        let set = self.set(line);
        let at = self.at(set, usize::from(self.heads[set].way));
        (self.slots[at.0 as usize].line() == line).then_some(at)
    }

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<At> {
        let set = self.set(line);
        let mark = self.mark(line);
        let from = set * 2 * self.wide;
        let marks = &self.marks[from..from + self.wide];
        for (word, lane) in marks.chunks_exact(LANES).zip((0..).step_by(LANES)) {
            let mut found = lanes(word, mark);
            while found != 0 {
                let at = self.at(set, lane + found.trailing_zeros() as usize / 8);
                if self.slots[at.0 as usize].line() == line {
                    return Some(at);
                }
                found &= found - 1;
            }
        }
        None
    }

    /// Makes the way the one used last.
    #[inline]
    pub(crate) fn touch(&mut self, at: At) {
        let (set, way) = self.place(at);
        if usize::from(self.heads[set].way) != way {
            self.use_now(set, way);
        }
    }

    #[inline]
    fn use_now(&mut self, set: usize, way: usize) {
        let clock = match self.heads[set].clock {
            u8::MAX => self.rank(set),
            clock => clock,
        } + 1;
        let way_mark = way as u8;
        self.heads[set] = Head {
            clock,
            way: way_mark,
        };
        self.marks[set * 2 * self.wide + self.wide + way] = clock;
    }

    /// Gives the ways of a set the lowest times in the order that they have. The last.
    #[cold]
    fn rank(&mut self, set: usize) -> u8 {
        let from = set * 2 * self.wide + self.wide;
        let times = &mut self.marks[from..from + self.ways];
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
    fn victim(&self, set: usize) -> usize {
        let from = set * 2 * self.wide + self.wide;
        let times = &self.marks[from..from + self.wide];
        let mut least = [u8::MAX; LANES];
        for word in times.chunks_exact(LANES) {
            for (least, &time) in least.iter_mut().zip(word) {
                *least = time.min(*least);
            }
        }
        let oldest = least.into_iter().fold(u8::MAX, u8::min);
        let words = times.chunks_exact(LANES).zip((0..).step_by(LANES));
        for (word, lane) in words {
            let found = lanes(word, oldest);
            if found != 0 {
                return lane + found.trailing_zeros() as usize / 8;
            }
        }
        0
    }

    /// Puts a line in as the one used last. Where it is, and what had to go for it.
    #[inline]
    pub(crate) fn insert(&mut self, new: Way) -> (At, Option<Way>) {
        debug_assert!(self.find(new.line()).is_none(), "a line is in a cache once");
        let set = self.set(new.line());
        let way = self.victim(set);
        let at = self.at(set, way);
        self.marks[set * 2 * self.wide + way] = self.mark(new.line());
        self.use_now(set, way);
        let gone = std::mem::replace(&mut self.slots[at.0 as usize], new);
        (at, (gone.key != EMPTY).then_some(gone))
    }

    /// Takes a line out.
    pub(crate) fn remove(&mut self, line: u64) -> Option<Way> {
        let at = self.find(line)?;
        Some(self.take(at))
    }

    /// Takes out what is in a way.
    pub(crate) fn take(&mut self, at: At) -> Way {
        let (set, way) = self.place(at);
        self.marks[set * 2 * self.wide + self.wide + way] = 0;
        let gone = self.slots[at.0 as usize];
        self.slots[at.0 as usize].key = EMPTY;
        gone
    }

    /// What is in a way.
    #[inline]
    pub(crate) fn look(&self, at: At) -> &Way {
        &self.slots[at.0 as usize]
    }

    /// The same, to change it.
    #[inline]
    pub(crate) fn way(&mut self, at: At) -> &mut Way {
        &mut self.slots[at.0 as usize]
    }

    /// What is in every way that holds a line.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = &Way> {
        self.slots.iter().filter(|way| way.key != EMPTY)
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

    fn clean(line: u64) -> Way {
        Way::new(line, 0, Tick::ZERO)
    }

    /// What has to go for a line.
    fn put(cache: &mut Cache, line: u64) -> Option<u64> {
        cache.insert(clean(line)).1.map(|gone| gone.line())
    }

    #[test]
    fn the_line_used_longest_ago_goes() {
        let mut cache = Cache::new(2, 3);
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
            let mut cache = Cache::new(2, ways);
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
                        assert_eq!(cache.remove(line).map(|gone| gone.line()), Some(line));
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
