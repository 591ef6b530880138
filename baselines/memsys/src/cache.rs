//! One cache: sets of ways, with what a lookup needs of a set side by side.
//!
//! Of each way there is a byte of its line's name and a byte that says when it was used
//! last, beside those of its set: so a miss reads one line of the simulating machine's
//! memory. The whole name decides; the byte only says where to look. The order of use is
//! exact: times of a set are ranked anew before they run over, and a way that is empty
//! was used before all others.
//!
//! A way tells from when on its line is there: one that is still on its way is found, and
//! whoever finds it waits for it, which is how misses to one line become one. A run that
//! asks for time alone keeps no contents.

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

#[derive(Clone, Copy, Debug)]
struct Way {
    key: u64,
    ready: Tick,
}

/// A line that left a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone {
    pub(crate) line: u64,
    pub(crate) flags: u64,
    pub(crate) holders: u64,
    pub(crate) ready: Tick,
    pub(crate) data: Block,
}

#[derive(Clone, Debug)]
pub(crate) struct Cache {
    ways: usize,
    /// The same in whole words; ways beyond `ways` stay empty.
    wide: usize,
    mask: u64,
    set_bits: u32,
    /// Of each set a byte of the name of each way, then when each was used last.
    marks: Vec<u8>,
    /// Of each set when it was used last.
    clocks: Vec<u8>,
    slots: Vec<Way>,
    holders: Vec<u64>,
    data: Vec<Block>,
}

/// A way; it has its line until that is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    set: usize,
    way: usize,
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
    /// `sets` is a power of two; there are [`MOST_WAYS`] at most. `directory` keeps which
    /// cores hold a line.
    pub(crate) fn new(sets: usize, ways: usize, directory: bool, payloads: bool) -> Self {
        let empty = Way {
            key: EMPTY,
            ready: Tick::ZERO,
        };
        let wide = ways.next_multiple_of(LANES);
        let count = sets * wide;
        let mut marks = vec![0; 2 * count];
        // Ways that are not there are never the ones used longest ago.
        for set in marks.chunks_exact_mut(2 * wide) {
            set[wide + ways..].fill(u8::MAX);
        }
        Self {
            ways,
            wide,
            mask: sets as u64 - 1,
            set_bits: sets.ilog2(),
            marks,
            clocks: vec![0; sets],
            slots: vec![empty; count],
            holders: vec![0; if directory { count } else { 0 }],
            data: vec![[0; 64]; if payloads { count } else { 0 }],
        }
    }

    #[inline]
    fn set(&self, line: u64) -> usize {
        (line & self.mask) as usize
    }

    #[inline]
    fn slot(&self, at: At) -> usize {
        at.set * self.wide + at.way
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

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<At> {
        let set = self.set(line);
        let mark = self.mark(line);
        let from = set * 2 * self.wide;
        let marks = &self.marks[from..from + self.wide];
        for (word, lane) in marks.chunks_exact(LANES).zip((0..).step_by(LANES)) {
            let mut found = lanes(word, mark);
            while found != 0 {
                let way = lane + found.trailing_zeros() as usize / 8;
                if self.slots[set * self.wide + way].key >> FLAGS == line {
                    return Some(At { set, way });
                }
                found &= found - 1;
            }
        }
        None
    }

    /// Makes the way the one used last.
    #[inline]
    pub(crate) fn touch(&mut self, at: At) {
        let used = at.set * 2 * self.wide + self.wide + at.way;
        if self.clocks[at.set] != self.marks[used] {
            self.use_now(at, used);
        }
    }

    #[inline]
    fn use_now(&mut self, at: At, used: usize) {
        let clock = match self.clocks[at.set] {
            u8::MAX => self.rank(at.set),
            clock => clock,
        };
        self.clocks[at.set] = clock + 1;
        self.marks[used] = clock + 1;
    }

    /// Gives the ways of a set the lowest times in the order that they have. The last.
    #[cold]
    fn rank(&mut self, set: usize) -> u8 {
        let from = set * 2 * self.wide + self.wide;
        let times = &mut self.marks[from..from + self.ways];
        let before = times.to_vec();
        for time in times.iter_mut().filter(|time| **time > 0) {
            let older = before.iter().filter(|&&other| other > 0 && other < *time);
            *time = older.count() as u8 + 1;
        }
        times.iter().copied().max().unwrap_or(0)
    }

    /// The way used longest ago; an empty one if there is any.
    #[inline]
    fn victim(&self, set: usize) -> At {
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
                let way = lane + found.trailing_zeros() as usize / 8;
                return At { set, way };
            }
        }
        At { set, way: 0 }
    }

    /// Puts a line in as the one used last. What had to go for it.
    pub(crate) fn insert(&mut self, new: &Gone) -> Option<Gone> {
        debug_assert!(self.find(new.line).is_none(), "a line is in a cache once");
        let at = self.victim(self.set(new.line));
        let slot = self.slot(at);
        let gone = (self.slots[slot].key != EMPTY).then(|| self.look(at));
        let mark = self.mark(new.line);
        let from = at.set * 2 * self.wide;
        self.marks[from + at.way] = mark;
        self.use_now(at, from + self.wide + at.way);
        self.slots[slot] = Way {
            key: new.line << FLAGS | new.flags,
            ready: new.ready,
        };
        if !self.holders.is_empty() {
            self.holders[slot] = new.holders;
        }
        if !self.data.is_empty() {
            self.data[slot] = new.data;
        }
        gone
    }

    /// Takes a line out.
    pub(crate) fn remove(&mut self, line: u64) -> Option<Gone> {
        let at = self.find(line)?;
        Some(self.take(at))
    }

    /// Takes out what is in a way.
    pub(crate) fn take(&mut self, at: At) -> Gone {
        let gone = self.look(at);
        let slot = self.slot(at);
        self.slots[slot].key = EMPTY;
        self.marks[at.set * 2 * self.wide + self.wide + at.way] = 0;
        gone
    }

    /// What is in a way.
    #[inline]
    pub(crate) fn look(&self, at: At) -> Gone {
        let slot = self.slot(at);
        let way = self.slots[slot];
        Gone {
            line: way.key >> FLAGS,
            flags: way.key & ((1 << FLAGS) - 1),
            holders: self.holders.get(slot).copied().unwrap_or(0),
            ready: way.ready,
            data: self.data.get(slot).copied().unwrap_or([0; 64]),
        }
    }

    #[inline]
    pub(crate) fn ready(&self, at: At) -> Tick {
        self.slots[self.slot(at)].ready
    }

    #[inline]
    pub(crate) fn has(&self, at: At, flag: u64) -> bool {
        self.slots[self.slot(at)].key & flag != 0
    }

    #[inline]
    pub(crate) fn set_flag(&mut self, at: At, flag: u64) {
        let slot = self.slot(at);
        self.slots[slot].key |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, at: At, flag: u64) {
        let slot = self.slot(at);
        self.slots[slot].key &= !flag;
    }

    #[inline]
    pub(crate) fn holders(&mut self, at: At) -> &mut u64 {
        let slot = self.slot(at);
        &mut self.holders[slot]
    }

    /// The bytes, where contents are kept.
    #[inline]
    pub(crate) fn data(&mut self, at: At) -> Option<&mut Block> {
        let slot = self.slot(at);
        self.data.get_mut(slot)
    }

    /// The line of every way that holds one.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        let used = self.slots.iter().filter(|way| way.key != EMPTY);
        used.map(|way| way.key >> FLAGS)
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

    fn clean(line: u64) -> Gone {
        Gone {
            line,
            flags: 0,
            holders: 0,
            ready: Tick::ZERO,
            data: [0; 64],
        }
    }

    #[test]
    fn the_line_used_longest_ago_goes() {
        let mut cache = Cache::new(2, 3, false, false);
        for line in [0, 2, 4] {
            assert!(cache.insert(&clean(line)).is_none());
        }
        let at = cache.find(0).unwrap();
        cache.touch(at);
        assert_eq!(cache.insert(&clean(6)).unwrap().line, 2);
        assert_eq!(cache.insert(&clean(1)).map(|gone| gone.line), None);
        assert!(cache.remove(4).is_some() && cache.find(4).is_none());
        assert!(
            cache.insert(&clean(8)).is_none(),
            "an empty way is used first"
        );
    }

    /// A list of lines, the one used last first, against sets of every width.
    #[test]
    fn the_order_of_use_is_that_of_a_list() {
        let mut rng = sim::Seed(9).stream("order of use");
        for ways in [1, 2, 3, 8, 12, 32, 64] {
            let mut cache = Cache::new(2, ways, false, false);
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
                        list.remove(place);
                        cache.touch(at);
                    }
                    _ => {
                        let oldest = if list.len() == ways { list.pop() } else { None };
                        assert_eq!(cache.insert(&clean(line)).map(|gone| gone.line), oldest);
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
