//! Credits of garbage collection, which pace the programs of the host.
//!
//! While a reclaim group is collected, the host may program as many pages as relocation has made
//! free: host and collection go on side by side, and the latency of a write has no gap as long as
//! the relocation of a superblock.
//!
//! Invariants: a victim with v of n pages valid gives n - v credits, in proportion to the pages
//! relocated so far; a group at rest has no limit. The host waits for credits only while a
//! relocation is under way, which does not wait for the host.

use sim::{Signal, Sim};
use std::cell::Cell;

/// A superblock whose pages are being relocated.
#[derive(Clone, Copy, Default)]
struct Victim {
    valid: u32,
    /// Pages that the superblock gains.
    gain: u32,
    moved: u32,
    /// Credits given so far.
    given: u32,
}

/// Credits of one reclaim group.
#[derive(Default)]
struct Group {
    is_paced: Cell<bool>,
    victim: Cell<Victim>,
    /// Pages that the host may program; below zero by a part of its last unit.
    pages: Cell<i64>,
    given: Signal,
}

/// Credits of all reclaim groups.
pub(crate) struct Credits(Vec<Group>);

impl Credits {
    /// Credits of groups at rest.
    pub(crate) fn new(groups: u32) -> Self {
        Self((0..groups).map(|_| Group::default()).collect())
    }

    /// Begins the relocation of a superblock of `pages` pages, of which `valid` are valid.
    pub(crate) fn begin(&self, group: u32, valid: u32, pages: u32) {
        let group = &self.0[group as usize];
        if !group.is_paced.replace(true) {
            group.pages.set(0);
        }
        group.victim.set(Victim {
            valid,
            gain: pages.saturating_sub(valid),
            moved: 0,
            given: 0,
        });
    }

    /// Gives the credits of `pages` relocated pages.
    pub(crate) fn relocated(&self, sim: &Sim, group: u32, pages: u32) {
        let group = &self.0[group as usize];
        let mut victim = group.victim.get();
        victim.moved = (victim.moved + pages).min(victim.valid);
        let share = u64::from(victim.gain) * u64::from(victim.moved);
        group.give(sim, victim, (share / u64::from(victim.valid.max(1))) as u32);
    }

    /// Ends the relocation of a superblock, and gives the rest of its credits.
    pub(crate) fn end(&self, sim: &Sim, group: u32) {
        let group = &self.0[group as usize];
        let victim = group.victim.get();
        group.give(sim, victim, victim.gain);
    }

    /// Lifts the limit of a group that has nothing to relocate.
    pub(crate) fn rest(&self, sim: &Sim, group: u32) {
        let group = &self.0[group as usize];
        if group.is_paced.replace(false) {
            group.given.notify(sim);
        }
    }

    /// Waits until the host may program a unit of the group.
    pub(crate) async fn wait(&self, sim: &Sim, group: u32) {
        let group = &self.0[group as usize];
        while group.is_paced.get() && group.pages.get() <= 0 {
            group.given.wait(sim).await;
        }
    }

    /// Takes the credits of `pages` that the host programs.
    pub(crate) fn spend(&self, group: u32, pages: usize) {
        let group = &self.0[group as usize];
        group.pages.update(|left| left - pages as i64);
    }
}

impl Group {
    /// Gives credits until `victim` has given `total`.
    fn give(&self, sim: &Sim, mut victim: Victim, total: u32) {
        let more = total.saturating_sub(victim.given);
        victim.given += more;
        self.victim.set(victim);
        self.pages.update(|pages| pages + i64::from(more));
        if more > 0 {
            self.given.notify(sim);
        }
    }
}
