//! Pool of the members of a set: existing, missing and busy.
//!
//! Invariant: a member is idle in one of the two sets, or busy with one thread.

use super::IndexSet;
use std::collections::BTreeMap;

/// Result of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::files) enum Picked {
    /// This member, which is busy now.
    One(u32),
    /// All members of the wanted kind are busy.
    Busy,
    /// The set has no member of the wanted kind.
    None,
}

/// Members 0..n, which exist or do not.
#[derive(Clone, Debug)]
pub(in crate::files) struct Pool {
    present: IndexSet,
    missing: IndexSet,
    /// Numbers of busy members that existed when they were picked, and that did not.
    busy_present: u32,
    busy_missing: u32,
    /// Index at which the next search for an existing member begins, for each searcher with a rotor
    /// of its own.
    present_rotors: BTreeMap<u32, u32>,
    /// The same index for all other searchers.
    present_rotor: u32,
    missing_rotor: u32,
}

impl Pool {
    /// A pool of `n` members, none of which exists.
    pub(super) fn new(n: u32) -> Self {
        let mut missing = IndexSet::new(n);
        (0..n).for_each(|index| missing.insert(index));
        Self {
            present: IndexSet::new(n),
            missing,
            busy_present: 0,
            busy_missing: 0,
            present_rotors: BTreeMap::new(),
            present_rotor: 0,
            missing_rotor: 0,
        }
    }

    /// Marks the idle member `index` as existing.
    pub(super) fn exists(&mut self, index: u32) {
        self.missing.remove(index);
        self.present.insert(index);
    }

    /// Picks the next existing member. A searcher with a number has a rotor of its own; all others
    /// share one.
    pub(in crate::files) fn pick_present(&mut self, searcher: Option<u32>) -> Picked {
        let rotor = match searcher {
            Some(searcher) => self.present_rotors.entry(searcher).or_default(),
            None => &mut self.present_rotor,
        };
        let Some(index) = self.present.next(*rotor) else {
            return none(self.busy_present);
        };
        *rotor = index + 1;
        self.present.remove(index);
        self.busy_present += 1;
        Picked::One(index)
    }

    /// Picks `index`, which exists, unless it is busy.
    pub(in crate::files) fn pick_this(&mut self, index: u32) -> bool {
        let idle = self.present.contains(index);
        if idle {
            self.present.remove(index);
            self.busy_present += 1;
        }
        idle
    }

    /// Picks the next missing member.
    pub(in crate::files) fn pick_missing(&mut self) -> Picked {
        let Some(index) = self.missing.next(self.missing_rotor) else {
            return none(self.busy_missing);
        };
        self.missing_rotor = index + 1;
        self.missing.remove(index);
        self.busy_missing += 1;
        Picked::One(index)
    }

    /// Gives back `index`: `before` tells whether it existed when it was picked, `now` whether it
    /// exists.
    pub(in crate::files) fn give_back(&mut self, index: u32, before: bool, now: bool) {
        match before {
            true => self.busy_present -= 1,
            false => self.busy_missing -= 1,
        }
        match now {
            true => self.present.insert(index),
            false => self.missing.insert(index),
        }
    }

    /// Number of existing members, busy or not.
    #[cfg(test)]
    pub(in crate::files) fn count(&self) -> u32 {
        self.present.len() + self.busy_present
    }
}

const fn none(busy: u32) -> Picked {
    if busy > 0 { Picked::Busy } else { Picked::None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_take_turns_and_skip_busy_members() {
        let mut pool = Pool::new(3);
        assert_eq!(pool.pick_present(None), Picked::None);
        (0..3).for_each(|i| pool.exists(i));
        assert_eq!(pool.pick_missing(), Picked::None);
        assert_eq!(pool.pick_present(None), Picked::One(0));
        pool.give_back(0, true, true);
        assert_eq!(pool.pick_present(None), Picked::One(1));
        assert_eq!(pool.pick_present(Some(9)), Picked::One(0));
        assert_eq!(pool.pick_present(None), Picked::One(2));
        assert_eq!(pool.pick_present(None), Picked::Busy);
        pool.give_back(1, true, false);
        assert_eq!(pool.pick_present(None), Picked::Busy);
        assert_eq!(pool.pick_missing(), Picked::One(1));
        assert_eq!((pool.pick_missing(), pool.count()), (Picked::Busy, 2));
    }
}
