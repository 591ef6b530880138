//! The physical side: which original address each unit of the data area holds, where
//! requests are appended, and when a unit that was freed may be used again.
//!
//! Invariants, which [`Space::check`] defends:
//! - A unit is free, or holds an original address that a committed transaction mapped to
//!   it, or is held: reserved, written and not committed, or superseded and still to be
//!   freed.
//! - No unit is free that a committed mapping leads to, or that a read under way may have
//!   found: what a commit supersedes waits for the reads that began before.
//! - Units are reserved in ascending order from the append pointer, in one run of free
//!   units after the other.

use crate::format::NONE;
use crate::free::Free;
use std::collections::VecDeque;
use std::ops::Range;

/// Reads that began since a moment, and what was freed since.
#[derive(Default)]
struct Epoch {
    readers: u32,
    freed: Vec<u32>,
}

/// The data area.
pub(crate) struct Space {
    /// By unit: its original address, or [`NONE`]. The paper's tables sorted by transformed
    /// address.
    //= remap 3.4
    orig: Vec<u32>,
    pub(crate) free: Free,
    /// Free units that the medium below may still hold data for, if anybody wants to know:
    /// those that were freed since the mount and are not to be appended to next.
    stale: Option<Free>,
    /// Where requests are appended: free units that nobody else takes.
    run: Range<u32>,
    epochs: VecDeque<Epoch>,
    /// Number of the first epoch.
    first: u64,
    valid: u32,
    /// Rows of epochs that are over, to be used again.
    spare: Vec<Vec<u32>>,
}

/// A read that is under way, by its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading(u64);

impl Space {
    /// An area of so many units, all of them held.
    pub(crate) fn new(units: u32) -> Self {
        Self {
            orig: vec![NONE; units as usize],
            free: Free::new(units),
            stale: None,
            run: 0..0,
            epochs: VecDeque::from([Epoch::default()]),
            first: 0,
            valid: 0,
            spare: Vec::new(),
        }
    }

    /// Notes what recovery found: `unit` holds `orig`. False if it holds another already.
    pub(crate) fn found(&mut self, unit: u32, orig: u32) -> bool {
        let at = &mut self.orig[unit as usize];
        let is_new = *at == NONE;
        if is_new {
            *at = orig;
            self.valid += 1;
        }
        is_new
    }

    /// Notes that recovery found something newer than what `unit` holds.
    pub(crate) fn lose(&mut self, unit: u32) {
        self.orig[unit as usize] = NONE;
        self.valid -= 1;
    }

    /// Frees all that recovery did not find, and appends to the longest run. From then on
    /// it is known what becomes stale, if it `tells`.
    pub(crate) fn open(&mut self, tells: bool) {
        for unit in 0..self.free.units() {
            if self.orig[unit as usize] == NONE {
                self.free.set(unit, true);
            }
        }
        self.stale = tells.then(|| Free::new(self.free.units()));
        self.run = self.free.longest();
    }

    /// Moves the append pointer to `unit`, whose free run is appended to then.
    pub(crate) fn append_at(&mut self, unit: u32) {
        self.append_to(unit..self.free.first_taken(unit, self.free.units()));
    }

    fn append_to(&mut self, run: Range<u32>) {
        if let Some(stale) = &mut self.stale {
            for unit in run.clone() {
                if stale.has(unit) {
                    stale.set(unit, false);
                }
            }
        }
        self.run = run;
    }

    /// Takes up to `most` units of the longest run that is stale, if it has `least`: they are
    /// to be deallocated below, and are given back then.
    pub(crate) fn lend(&mut self, least: u32, most: u32) -> Option<Range<u32>> {
        let stale = self.stale.as_mut()?;
        let longest = stale.longest();
        if (longest.len() as u32) < least.max(1) {
            return None;
        }
        let run = longest.start..longest.end.min(longest.start.saturating_add(most));
        for unit in run.clone() {
            stale.set(unit, false);
            self.free.set(unit, false);
        }
        Some(run)
    }

    /// Notes that `unit` is free or taken from now on.
    fn set_free(&mut self, unit: u32, free: bool) {
        self.free.set(unit, free);
        if let Some(stale) = self.stale.as_mut().filter(|s| s.has(unit) != free) {
            // What is taken holds what is written now.
            stale.set(unit, free);
        }
    }

    pub(crate) const fn valid(&self) -> u32 {
        self.valid
    }

    /// Units that are neither free nor valid.
    pub(crate) const fn held(&self) -> u32 {
        self.free.units() - self.free.count() - self.valid
    }

    /// The original address that `unit` holds.
    pub(crate) fn holds(&self, unit: u32) -> Option<u32> {
        let orig = self.orig[unit as usize];
        (orig != NONE).then_some(orig)
    }

    /// Where the next request is appended, and how far.
    pub(crate) const fn run(&self) -> &Range<u32> {
        &self.run
    }

    /// Reserves up to `most` units, if there are any left of the run.
    //= remap 3.2.1
    pub(crate) fn reserve(&mut self, most: u32) -> Option<Range<u32>> {
        let start = self.run.start;
        let end = self.run.end.min(start.saturating_add(most));
        if start == end {
            return None;
        }
        for unit in start..end {
            self.free.set(unit, false);
        }
        self.run.start = end;
        Some(start..end)
    }

    /// Appends to the longest run from now on, if it has `least` units; says so.
    pub(crate) fn go_on(&mut self, least: u32) -> bool {
        let longest = self.free.longest();
        let enough = longest.len() as u32 >= least.max(1);
        if enough {
            self.append_to(longest);
        }
        enough
    }

    /// Takes a free unit to move something to.
    pub(crate) fn take(&mut self, unit: u32) {
        debug_assert!(!self.run.contains(&unit), "the run is for requests");
        self.set_free(unit, false);
    }

    /// Gives back a unit that nothing ever led to.
    pub(crate) fn give_back(&mut self, unit: u32) {
        self.set_free(unit, true);
    }

    /// Gives back units that were lent, and of which the medium holds nothing now.
    pub(crate) fn give_back_lent(&mut self, run: Range<u32>) {
        for unit in run {
            self.free.set(unit, true);
        }
    }

    /// A transaction has committed that `unit` holds `orig`.
    pub(crate) fn settle(&mut self, unit: u32, orig: u32) {
        debug_assert!(!self.free.has(unit) && self.holds(unit).is_none());
        self.orig[unit as usize] = orig;
        self.valid += 1;
    }

    /// A transaction has committed that nothing leads to `unit` any more.
    pub(crate) fn supersede(&mut self, unit: u32) {
        debug_assert_ne!(self.orig[unit as usize], NONE, "unit {unit} was valid");
        self.orig[unit as usize] = NONE;
        self.valid -= 1;
        self.drop_later(unit);
    }

    /// Frees a unit once the reads under way have ended, since one may have found it.
    pub(crate) fn drop_later(&mut self, unit: u32) {
        let last = self.epochs.back_mut().expect("there is an epoch");
        last.freed.push(unit);
    }

    /// A read begins.
    pub(crate) fn begin(&mut self) -> Reading {
        let last = self.epochs.back_mut().expect("there is an epoch");
        last.readers += 1;
        Reading(self.first + self.epochs.len() as u64 - 1)
    }

    /// A read has ended. Says whether units may have become free.
    pub(crate) fn end(&mut self, reading: Reading) -> bool {
        let at = (reading.0 - self.first) as usize;
        self.epochs[at].readers -= 1;
        at == 0 && self.epochs[0].readers == 0 && self.release()
    }

    /// Frees what waits for no read; says whether that was anything. Reads that begin
    /// later hold nothing up that was freed before.
    pub(crate) fn release(&mut self) -> bool {
        if !self
            .epochs
            .back()
            .expect("there is an epoch")
            .freed
            .is_empty()
        {
            let freed = self.spare.pop().unwrap_or_default();
            self.epochs.push_back(Epoch { readers: 0, freed });
        }
        let mut freed = false;
        while self.epochs.len() > 1 && self.epochs[0].readers == 0 {
            let mut epoch = self.epochs.pop_front().expect("there are two");
            self.first += 1;
            freed |= !epoch.freed.is_empty();
            for unit in epoch.freed.drain(..) {
                self.set_free(unit, true);
            }
            self.spare.push(epoch.freed);
        }
        freed
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> u64 {
        let bitmaps = 1 + u64::from(self.stale.is_some());
        self.orig.len() as u64 * 4 + bitmaps * u64::from(self.free.units()) / 8
    }

    /// What is wrong, with `led` for pairs that are committed, transformed addresses first:
    /// for all of them if they are `whole`.
    pub(crate) fn check(&self, mut led: Vec<(u32, u32)>, whole: bool) -> Result<(), String> {
        led.sort_unstable();
        if let Some(twice) = led.windows(2).find(|pairs| pairs[0].0 == pairs[1].0) {
            return Err(format!("two addresses share a unit: {twice:?}"));
        }
        let mut valid = 0;
        for (unit, &orig) in (0..).zip(&self.orig) {
            let expected = led.binary_search_by_key(&unit, |pair| pair.0);
            let expected = expected.map_or(NONE, |at| led[at].1);
            if expected != orig && (whole || expected != NONE) {
                return Err(format!("unit {unit} holds {orig}, not {expected}"));
            }
            if orig != NONE && self.free.has(unit) {
                return Err(format!("unit {unit} is free and holds {orig}"));
            }
            valid += u32::from(orig != NONE);
        }
        if valid != self.valid {
            return Err(format!(
                "{} units are said to be valid, not {valid}",
                self.valid
            ));
        }
        let is_stale = |unit: &u32| self.stale.as_ref().is_some_and(|stale| stale.has(*unit));
        if let Some(unit) = (0..self.free.units()).find(|u| is_stale(u) && !self.free.has(*u)) {
            return Err(format!("unit {unit} is stale and not free"));
        }
        let run = self.run.clone();
        if run.clone().any(|unit| !self.free.has(unit)) {
            return Err(format!("of the run {run:?} some are not free"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_freed_waits_for_the_reads_that_began_before() {
        let mut space = Space::new(128);
        space.open(false);
        let unit = space.reserve(1).unwrap().start;
        space.settle(unit, 7);
        let early = space.begin();
        space.supersede(unit);
        assert!(!space.release() && !space.free.has(unit));
        let late = space.begin();
        assert!(!space.end(late) && !space.free.has(unit));
        assert!(space.end(early) && space.free.has(unit));
        assert_eq!((space.held(), space.free.count()), (0, 128));
    }

    #[test]
    fn requests_are_appended_one_behind_the_other() {
        let mut space = Space::new(128);
        space.open(false);
        space.append_at(100);
        assert_eq!(space.reserve(20), Some(100..120));
        assert_eq!(space.reserve(20), Some(120..128));
        assert_eq!(space.reserve(20), None);
        assert!(!space.go_on(101) && space.go_on(100));
        assert_eq!(space.reserve(1), Some(0..1));
    }
}
