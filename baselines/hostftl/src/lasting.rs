//! Writes to a buffer in persistent memory, and the life of its slots.
//!
//! A version is durable once its slot holds it. So a flush waits only for records of deallocations,
//! which are written at once; other units are written as they fill.
//!
//! Invariant: a writer holds its sector until the slots of older versions are free, so slots order
//! versions as reads do.

use crate::buffer::Waiting;
use crate::pins::Part;
use crate::slots::{Leaving, PmBuffer};
use crate::state::{Inner, Queued, State, USER, What};
use crate::write::Unit;
use host::RawPort;
use ssd::IoError;
use std::rc::Rc;

impl<P: RawPort> Inner<P> {
    /// Takes in a version of a sector; durable on return.
    //= hyfim 4
    pub(crate) async fn write_lasting(
        self: &Rc<Self>,
        kept: &PmBuffer,
        sector: u32,
        waiting: impl FnOnce(u64) -> Waiting,
        part: Option<&Part<'_, P>>,
    ) -> Result<(), IoError> {
        let _held = match part {
            Some(_) => None,
            None => Some(self.begin_part(sector).await?),
        };
        let (slot, number) = self.take_slot().await?;
        let waiting = waiting(number);
        kept.fill(slot, sector, number, &waiting.payload).await;
        self.leave_slots(std::iter::once((sector, number))).await;
        let state = &mut *self.state.borrow_mut();
        if let Some(slots) = &mut state.slots {
            slots.hold(sector, number, slot);
        }
        take_in(state, sector, waiting);
        Ok(())
    }

    /// Reserves a slot and a version number; waits for room.
    async fn take_slot(&self) -> Result<(u32, u64), IoError> {
        let mut waits = false;
        loop {
            let taken = self.failed().map(|()| self.try_slot());
            if !matches!(taken, Ok(None)) {
                self.tell_waiting(waits, false);
            }
            if let Some(taken) = taken? {
                return Ok(taken);
            }
            self.tell_waiting(!std::mem::replace(&mut waits, true), true);
            self.leave_trimmed();
            self.collect.notify(&self.sim);
            self.progress.wait(&self.sim).await;
        }
    }

    /// Writes out pending deallocation records: a deallocated version keeps its slot until the
    /// record is durable, and all slots may belong to such versions.
    fn leave_trimmed(&self) {
        let state = &mut *self.state.borrow_mut();
        if !state.trims.is_empty() {
            self.force(state);
        }
    }

    fn try_slot(&self) -> Option<(u32, u64)> {
        let state = &mut *self.state.borrow_mut();
        if state.buffer.held() >= self.quota(state) {
            return None;
        }
        let slot = state.slots.as_mut()?.take()?;
        Some((slot, Self::next_number(state)))
    }

    /// Adds or removes a waiter for room, if `changes`.
    fn tell_waiting(&self, changes: bool, more: bool) {
        let state = &mut *self.state.borrow_mut();
        let Some(slots) = state.slots.as_mut().filter(|_| changes) else {
            return;
        };
        if more {
            slots.waiting += 1;
            state.stats.waits += 1;
        } else {
            slots.waiting -= 1;
        }
    }

    /// Frees the slots of these versions and of older versions of their sectors, durably.
    async fn leave_slots(&self, versions: impl Iterator<Item = (u32, u64)>) {
        let (kept, leaving) = match &self.state.borrow().slots {
            None => return,
            Some(slots) => (slots.kept.clone(), slots.leave(versions)),
        };
        if leaving.is_empty() {
            return;
        }
        kept.settle(leaving.iter().map(Leaving::slot)).await;
        if let Some(slots) = &mut self.state.borrow_mut().slots {
            slots.end(&leaving);
        }
    }

    /// Frees the slots of a unit's versions, once the unit is durable and in the table.
    pub(crate) async fn leave_unit(&self, unit: &Unit) {
        let mut versions = Vec::new();
        for item in &unit.items {
            match &item.what {
                What::Data(sector) => {
                    let owner = self.state.borrow().buffer.owner(*sector, item.number);
                    versions.extend(owner.map(|sector| (sector, item.number)));
                }
                What::Trims(ranges) => {
                    for range in ranges {
                        let sectors = range.first..range.first + range.count;
                        versions.extend(sectors.map(|sector| (sector, range.number)));
                    }
                }
                What::Moved(..) | What::Records(_) => {}
            }
        }
        self.leave_slots(versions.into_iter()).await;
    }

    /// Whether a flush has nothing to wait for: a persistent buffer, and no deallocation pending.
    pub(crate) fn is_durable(&self) -> bool {
        let state = self.state.borrow();
        state.slots.is_some() && state.buffer.gone() == 0
    }

    /// Makes the tags of the `changed` slots durable; then frees those in `given`.
    pub(crate) async fn settle_slots(&self, changed: Vec<u32>, given: Vec<u32>) {
        let kept = self.state.borrow().slots.as_ref().map(|s| s.kept.clone());
        let Some(kept) = kept.filter(|_| !changed.is_empty()) else {
            return;
        };
        kept.settle(changed.into_iter()).await;
        if let Some(slots) = &mut self.state.borrow_mut().slots {
            slots.give(given);
        }
    }
}

/// Adds a version to the buffer, and queues its sector unless one waits already.
pub(crate) fn take_in(state: &mut State, sector: u32, waiting: Waiting) {
    if state.buffer.write(sector, waiting) {
        let queue = &mut state.frontiers[USER].queue;
        queue.push_back(Queued::Sector(sector));
    }
    state.stats.written += 1;
}

/// Drops the versions of a pinned sector, waiting or in flight; returns the slot that it had.
pub(crate) fn forget(state: &mut State, sector: u32) -> Option<u32> {
    if state.buffer.forget(sector) {
        let queue = &mut state.frontiers[USER].queue;
        queue.retain(|queued| !matches!(queued, Queued::Sector(of) if *of == sector));
    }
    state.slots.as_mut()?.forget(sector)
}

/// Gives the version in `slot`, waiting or in flight, to `sector`, whose own versions were dropped.
pub(crate) fn rename(state: &mut State, slot: u32, sector: u32) {
    let Some(from) = state.slots.as_mut().and_then(|s| s.retag(slot, sector)) else {
        debug_assert!(false, "slot {slot} is free");
        return;
    };
    if from == sector || !state.buffer.rename(from, sector) {
        return;
    }
    let queue = &mut state.frontiers[USER].queue;
    for queued in queue.iter_mut() {
        if matches!(queued, Queued::Sector(of) if *of == from) {
            *queued = Queued::Sector(sector);
        }
    }
}
