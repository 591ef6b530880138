//! Index of the lines that collection may choose.
//!
//! A choice walks from the root of a tree to a leaf, so its cost hardly depends on the size of the
//! drive. Each change of a line updates its keys.
//!
//! Invariants: a line is a *candidate* while it is closed, none of its programs is under way and
//! the journal did not write it. A candidate has keys in the trees of its pool if it has an invalid
//! page, and a key in the tree of its group's wear.

use crate::config::VictimPolicy;
use crate::policy::{self, LineView};
use std::cmp::Reverse;

/// Key of a place without a line.
const NONE: u64 = u64::MAX;

/// Smallest key of a fixed number of places: a complete binary tree whose inner nodes hold the
/// smaller key of their two children. Memory is allocated at the first key.
#[derive(Clone, Debug, Default)]
struct Tournament {
    /// The root at 1, the leaves in the second half.
    keys: Vec<u64>,
}

impl Tournament {
    /// Sets the key of `place`, one of `places`; stops at the first node that does not change.
    #[inline]
    fn set(&mut self, place: u32, key: u64, places: u32) {
        if self.keys.is_empty() {
            if key == NONE {
                return;
            }
            self.keys = vec![NONE; 2 * places.next_power_of_two() as usize];
        }
        let mut at = self.first_leaf() + place as usize;
        self.keys[at] = key;
        while at > 1 {
            at /= 2;
            let least = self.keys[2 * at].min(self.keys[2 * at + 1]);
            if self.keys[at] == least {
                return;
            }
            self.keys[at] = least;
        }
    }

    fn first_leaf(&self) -> usize {
        self.keys.len() / 2
    }

    /// The first place with the smallest key.
    fn first(&self) -> Option<u32> {
        let &least = self.keys.get(1)?;
        if least == NONE {
            return None;
        }
        let mut at = 1;
        while at < self.first_leaf() {
            at = 2 * at + usize::from(self.keys[2 * at] != least);
        }
        Some((at - self.first_leaf()) as u32)
    }
}

/// Lines of a group whose data collection keeps together; see [`crate::demand`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    /// Valid pages of all lines.
    pub(crate) valid: u64,
    /// Lines in use: all but free ones.
    pub(crate) lines: u32,
    /// Candidates with an invalid page, by valid pages.
    emptiest: Tournament,
    /// Candidates with an invalid page, by the sequence number at which they were closed.
    oldest: Tournament,
}

/// Keys of a line, as far as it is a candidate.
#[derive(Clone, Copy)]
pub(crate) struct Keys {
    /// Index of the line in its group.
    pub(crate) place: u32,
    /// Valid pages of the line.
    pub(crate) valid: u32,
    /// Sequence number at which the line was closed.
    pub(crate) closed: u64,
    /// Whether the line is a candidate.
    pub(crate) is_candidate: bool,
}

/// The index: pools of all groups, and the wear of their candidates.
#[derive(Clone, Debug)]
pub(crate) struct Victims {
    policy: VictimPolicy,
    lines_per_group: u32,
    /// Data pages that a line can hold.
    pages: u32,
    pools_per_group: u32,
    pools: Vec<Pool>,
    /// For each group its candidates by erases; empty without static wear levelling.
    wear: Vec<Tournament>,
}

impl Victims {
    /// An index without candidates of `groups` groups with as many pools each.
    pub(crate) fn new(
        (groups, pools_per_group): (u32, u32),
        (lines_per_group, pages): (u32, u32),
        policy: VictimPolicy,
        levels_wear: bool,
    ) -> Self {
        let worn = if levels_wear { groups } else { 0 };
        Self {
            policy,
            lines_per_group,
            pages,
            pools_per_group,
            pools: vec![Pool::default(); (groups * pools_per_group) as usize],
            wear: vec![Tournament::default(); worn as usize],
        }
    }

    pub(crate) fn policy(&self) -> VictimPolicy {
        self.policy
    }

    /// The pools of a group.
    pub(crate) fn pools(&self, group: u32) -> &[Pool] {
        let first = (group * self.pools_per_group) as usize;
        &self.pools[first..first + self.pools_per_group as usize]
    }

    #[inline]
    pub(crate) fn pool_mut(&mut self, pool: u32) -> &mut Pool {
        &mut self.pools[pool as usize]
    }

    /// Updates the keys of a line in its pool.
    #[inline]
    pub(crate) fn update(&mut self, pool: u32, line: Keys) {
        let places = self.lines_per_group;
        let gains = line.is_candidate && line.valid < self.pages;
        let pool = &mut self.pools[pool as usize];
        if self.policy != VictimPolicy::Fifo {
            let key = if gains { u64::from(line.valid) } else { NONE };
            pool.emptiest.set(line.place, key, places);
        }
        if self.policy != VictimPolicy::Greedy {
            let key = if gains { line.closed } else { NONE };
            pool.oldest.set(line.place, key, places);
        }
    }

    /// Updates the wear of a candidate; `None` for a line that is none.
    pub(crate) fn update_wear(&mut self, group: u32, place: u32, erases: Option<u32>) {
        if let Some(wear) = self.wear.get_mut(group as usize) {
            wear.set(place, erases.map_or(NONE, u64::from), self.lines_per_group);
        }
    }

    /// The candidate of a group with the fewest erases; `None` without static wear levelling.
    pub(crate) fn least_worn(&self, group: u32) -> Option<u32> {
        self.wear.get(group as usize)?.first()
    }

    /// The line of `pool` that the victim policy chooses after `now` programs, as its index in the
    /// group.
    pub(crate) fn of_pool(&self, pool: &Pool, now: u64) -> Option<u32> {
        match self.policy {
            VictimPolicy::Greedy => pool.emptiest.first(),
            VictimPolicy::Fifo => pool.oldest.first(),
            VictimPolicy::CostBenefit => {
                let mut best = None;
                if pool.emptiest.keys.get(1).is_some_and(|&key| key != NONE) {
                    self.search(pool, now, 1, &mut best);
                }
                best.map(|(_, Reverse(place))| place)
            }
        }
    }

    /// Searches the lines below node `at` for one of higher benefit over cost than `best`.
    fn search(&self, pool: &Pool, now: u64, at: usize, best: &mut Option<(u128, Reverse<u32>)>) {
        let leaf = pool.emptiest.first_leaf();
        let (bound, first) = self.bound(pool, now, at);
        if best.is_some_and(|best| (bound, Reverse(first)) <= best) {
            return;
        }
        if at >= leaf {
            *best = Some((bound, Reverse(first)));
            return;
        }
        let bound = |at: usize| match pool.emptiest.keys[at] {
            NONE => None,
            _ => Some(self.bound(pool, now, at)),
        };
        let (left, right) = (2 * at, 2 * at + 1);
        let better = usize::from(bound(left).map(|b| b.0) < bound(right).map(|b| b.0));
        for at in [left + better, right - better] {
            if pool.emptiest.keys[at] != NONE {
                self.search(pool, now, at, best);
            }
        }
    }

    /// Highest benefit over cost that a line below node `at` can have, and the first place there:
    /// that of a line as empty as the emptiest and as old as the oldest. Exact at a leaf.
    fn bound(&self, pool: &Pool, now: u64, at: usize) -> (u128, u32) {
        let view = LineView {
            line: 0,
            valid: pool.emptiest.keys[at] as u32,
            pages: self.pages,
            age: now - pool.oldest.keys[at],
            erases: 0,
        };
        let below = pool.emptiest.first_leaf().ilog2() - at.ilog2();
        let first = (at << below) - pool.emptiest.first_leaf();
        (policy::cost_benefit(&view), first as u32)
    }
}
