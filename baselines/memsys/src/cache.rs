//! One cache: sets whose ways stand in order of use.
//!
//! The first way of a set was used last. A way tells from when on its line is there:
//! one that is still on its way is found, and whoever finds it waits for it, which is
//! how misses to one line become one. Contents and directory stand beside the ways
//! and move with them; a run that asks for time alone keeps no contents.

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
    mask: u64,
    slots: Vec<Way>,
    holders: Vec<u64>,
    data: Vec<Block>,
}

/// A way, until the set changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At(usize);

impl Cache {
    /// `sets` is a power of two. `directory` keeps which cores hold a line.
    pub(crate) fn new(sets: usize, ways: usize, directory: bool, payloads: bool) -> Self {
        let empty = Way {
            key: EMPTY,
            ready: Tick::ZERO,
        };
        let count = sets * ways;
        Self {
            ways,
            mask: sets as u64 - 1,
            slots: vec![empty; count],
            holders: vec![0; if directory { count } else { 0 }],
            data: vec![[0; 64]; if payloads { count } else { 0 }],
        }
    }

    #[inline]
    fn base(&self, line: u64) -> usize {
        (line & self.mask) as usize * self.ways
    }

    #[inline]
    pub(crate) fn find(&self, line: u64) -> Option<At> {
        let base = self.base(line);
        let set = &self.slots[base..base + self.ways];
        let way = set.iter().position(|way| way.key >> FLAGS == line)?;
        Some(At(base + way))
    }

    /// Makes the way the one used last. Where it stands now.
    #[inline]
    pub(crate) fn touch(&mut self, at: At) -> At {
        let base = at.0 / self.ways * self.ways;
        if at.0 > base {
            self.slots[base..=at.0].rotate_right(1);
            if !self.holders.is_empty() {
                self.holders[base..=at.0].rotate_right(1);
            }
            if !self.data.is_empty() {
                self.data[base..=at.0].rotate_right(1);
            }
        }
        At(base)
    }

    /// Puts a line in as the one used last. What had to go for it.
    pub(crate) fn insert(&mut self, new: &Gone) -> Option<Gone> {
        debug_assert!(self.find(new.line).is_none(), "a line is in a cache once");
        let base = self.base(new.line);
        let set = &self.slots[base..base + self.ways];
        let empty = set.iter().position(|way| way.key == EMPTY);
        let way = At(base + empty.unwrap_or(self.ways - 1));
        let gone = empty.is_none().then(|| self.look(way));
        let first = self.touch(way).0;
        self.slots[first] = Way {
            key: new.line << FLAGS | new.flags,
            ready: new.ready,
        };
        if !self.holders.is_empty() {
            self.holders[first] = new.holders;
        }
        if !self.data.is_empty() {
            self.data[first] = new.data;
        }
        gone
    }

    /// Takes a line out.
    pub(crate) fn remove(&mut self, line: u64) -> Option<Gone> {
        let at = self.find(line)?;
        let gone = self.look(at);
        self.slots[at.0].key = EMPTY;
        Some(gone)
    }

    /// What is in a way.
    pub(crate) fn look(&self, at: At) -> Gone {
        let way = self.slots[at.0];
        Gone {
            line: way.key >> FLAGS,
            flags: way.key & ((1 << FLAGS) - 1),
            holders: self.holders.get(at.0).copied().unwrap_or(0),
            ready: way.ready,
            data: self.data.get(at.0).copied().unwrap_or([0; 64]),
        }
    }

    #[inline]
    pub(crate) fn ready(&self, at: At) -> Tick {
        self.slots[at.0].ready
    }

    #[inline]
    pub(crate) fn has(&self, at: At, flag: u64) -> bool {
        self.slots[at.0].key & flag != 0
    }

    #[inline]
    pub(crate) fn set(&mut self, at: At, flag: u64) {
        self.slots[at.0].key |= flag;
    }

    #[inline]
    pub(crate) fn clear(&mut self, at: At, flag: u64) {
        self.slots[at.0].key &= !flag;
    }

    #[inline]
    pub(crate) fn holders(&mut self, at: At) -> &mut u64 {
        &mut self.holders[at.0]
    }

    /// The bytes, where contents are kept.
    #[inline]
    pub(crate) fn data(&mut self, at: At) -> Option<&mut Block> {
        self.data.get_mut(at.0)
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
