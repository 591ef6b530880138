//! The physical side: the original address that each unit of the data area holds, the append
//! pointer, and the reads that delay the reuse of freed units.
//!
//! Invariants, which [`Space::check`] defends:
//! - A unit is free, or valid (a committed transaction mapped an original address to it), or held:
//!   reserved, written and not committed, or superseded and not yet freed.
//! - No free unit is mapped by a committed pair or may have been found by a read in flight: units
//!   that a commit supersedes wait for the reads that began before.
//! - Units are reserved in ascending order from the append pointer, within one free run at a time.

use crate::format::NONE;
use crate::free::Free;
use std::collections::VecDeque;
use std::ops::Range;

/// An epoch of reads: `readers` that began in it and are in flight, and units `freed` during it.
/// The units become free once this epoch and all older ones have no readers.
#[derive(Default)]
struct Epoch {
    readers: u32,
    freed: Vec<u32>,
}

/// State of the data area: owner of each unit, free runs, and the append run.
pub(crate) struct Space {
    /// Original address that each unit holds, or [`NONE`]. The paper's tables sorted by transformed
    /// address.
    //= remap 3.4
    orig: Vec<u32>,
    pub(crate) free: Free,
    /// Free units that the medium below may still store data for, kept only if the layer
    /// deallocates: freed since the mount, and outside the append run.
    stale: Option<Free>,
    /// Rest of the append run: free units reserved for requests, off limits to cleaning.
    run: Range<u32>,
    epochs: VecDeque<Epoch>,
    /// Number of the oldest epoch, `epochs[0]`.
    first: u64,
    valid: u32,
    /// Empty vectors of released epochs, for reuse.
    spare: Vec<Vec<u32>>,
}

/// Token of a read in flight: the number of its epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading(u64);

impl Space {
    /// A data area of `units` units, none of them free until [`Self::open`].
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

    /// Records that `unit` holds `orig`, as recovery found. False if the unit holds an address
    /// already.
    pub(crate) fn found(&mut self, unit: u32, orig: u32) -> bool {
        let at = &mut self.orig[unit as usize];
        let is_new = *at == NONE;
        if is_new {
            *at = orig;
            self.valid += 1;
        }
        is_new
    }

    /// Forgets the address of `unit`: recovery found a newer pair for it.
    pub(crate) fn lose(&mut self, unit: u32) {
        self.orig[unit as usize] = NONE;
        self.valid -= 1;
    }

    /// Ends recovery: frees all units without an address and appends to the longest run. If
    /// `tells`, later frees are tracked for deallocation.
    pub(crate) fn open(&mut self, tells: bool) {
        for unit in 0..self.free.units() {
            if self.orig[unit as usize] == NONE {
                self.free.set(unit, true);
            }
        }
        self.stale = tells.then(|| Free::new(self.free.units()));
        self.run = self.free.longest();
    }

    /// Moves the append pointer to `unit`; the append run is the free run from there on.
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

    /// Lends up to `most` units of the longest stale run for deallocation, if the run has at least
    /// `least` units. [`Self::give_back_lent`] returns them.
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

    /// Marks `unit` free or taken, and with it stale or not.
    fn set_free(&mut self, unit: u32, free: bool) {
        self.free.set(unit, free);
        if let Some(stale) = self.stale.as_mut().filter(|s| s.has(unit) != free) {
            // A taken unit is about to be overwritten, so it is stale no more.
            stale.set(unit, free);
        }
    }

    pub(crate) const fn valid(&self) -> u32 {
        self.valid
    }

    /// Units neither free nor valid: uncommitted, waiting for reads, or lent.
    pub(crate) const fn held(&self) -> u32 {
        self.free.units() - self.free.count() - self.valid
    }

    /// Original address that a committed pair maps to `unit`.
    pub(crate) fn holds(&self, unit: u32) -> Option<u32> {
        let orig = self.orig[unit as usize];
        (orig != NONE).then_some(orig)
    }

    /// Rest of the append run; its start is the append pointer.
    pub(crate) const fn run(&self) -> &Range<u32> {
        &self.run
    }

    /// Reserves up to `most` units at the append pointer; `None` if the run is used up.
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

    /// Moves the append pointer to the longest run if that has `least` units (at least one);
    /// returns whether it did.
    pub(crate) fn go_on(&mut self, least: u32) -> bool {
        let longest = self.free.longest();
        let enough = longest.len() as u32 >= least.max(1);
        if enough {
            self.append_to(longest);
        }
        enough
    }

    /// Takes a free unit outside the append run as the target of a move.
    pub(crate) fn take(&mut self, unit: u32) {
        debug_assert!(!self.run.contains(&unit), "the run is for requests");
        self.set_free(unit, false);
    }

    /// Frees a taken unit that no pair ever mapped.
    pub(crate) fn give_back(&mut self, unit: u32) {
        self.set_free(unit, true);
    }

    /// Frees lent units; the medium stores nothing for them, so they are not stale.
    pub(crate) fn give_back_lent(&mut self, run: Range<u32>) {
        for unit in run {
            self.free.set(unit, true);
        }
    }

    /// Records a committed pair: `unit` holds `orig`.
    pub(crate) fn settle(&mut self, unit: u32, orig: u32) {
        debug_assert!(!self.free.has(unit) && self.holds(unit).is_none());
        self.orig[unit as usize] = orig;
        self.valid += 1;
    }

    /// Records that a committed pair superseded `unit`; the unit becomes free once the reads in
    /// flight have ended.
    pub(crate) fn supersede(&mut self, unit: u32) {
        debug_assert_ne!(self.orig[unit as usize], NONE, "unit {unit} was valid");
        self.orig[unit as usize] = NONE;
        self.valid -= 1;
        self.drop_later(unit);
    }

    /// Queues `unit` to be freed once the reads in flight have ended: one of them may have found
    /// the unit.
    pub(crate) fn drop_later(&mut self, unit: u32) {
        let last = self.epochs.back_mut().expect("there is an epoch");
        last.freed.push(unit);
    }

    /// Registers a read in the current epoch.
    pub(crate) fn begin(&mut self) -> Reading {
        let last = self.epochs.back_mut().expect("there is an epoch");
        last.readers += 1;
        Reading(self.first + self.epochs.len() as u64 - 1)
    }

    /// Ends a read; returns whether units became free.
    pub(crate) fn end(&mut self, reading: Reading) -> bool {
        let at = (reading.0 - self.first) as usize;
        self.epochs[at].readers -= 1;
        at == 0 && self.epochs[0].readers == 0 && self.release()
    }

    /// Closes the current epoch if it freed units, and frees the units of all oldest epochs without
    /// readers. Later reads do not delay them. Returns whether any unit became free.
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

    /// Bytes of memory of the map and the bitmaps.
    pub(crate) fn memory(&self) -> u64 {
        let bitmaps = 1 + u64::from(self.stale.is_some());
        self.orig.len() as u64 * 4 + bitmaps * u64::from(self.free.units()) / 8
    }

    /// Checks the invariants against `led`: committed pairs, transformed addresses first. With
    /// `whole`, `led` has every pair; otherwise units outside it are not compared.
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
    fn freed_unit_waits_for_the_reads_that_began_before() {
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
    fn reservations_ascend_and_move_on_to_the_longest_run() {
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
