//! Sectors that somebody has for himself for a while.
//!
//! Invariants: a pinned sector, which is about to be remapped, is neither moved nor written nor
//! deallocated. Without a buffer in persistent memory no version of it waits or is in flight.
//! With one, versions may do both: a slot keeps its version while its sector is pinned, since
//! a program that ends meanwhile is entered into the table after the sector is unpinned. A
//! sector of which a part is being written is changed by no other writer until then.

use crate::lasting::{forget, rename};
use crate::state::{HostFtl, Inner, State};
use host::RawPort;
use std::collections::BTreeSet;

#[derive(Default)]
pub(crate) struct Pins {
    /// Pinned sectors.
    pinned: BTreeSet<u32>,
    /// Sectors that cleaning is moving.
    moving: BTreeSet<u32>,
    /// Sectors of which a part is being written.
    parts: BTreeSet<u32>,
}

/// Writing a part of a sector, until it is dropped.
pub(crate) struct Part<'a, P: RawPort> {
    inner: &'a Inner<P>,
    sector: u32,
}

impl<P: RawPort> Drop for Part<'_, P> {
    fn drop(&mut self) {
        let state = &mut *self.inner.state.borrow_mut();
        state.pins.parts.remove(&self.sector);
        self.inner.progress.notify(&self.inner.sim);
    }
}

impl Pins {
    pub(crate) fn is_pinned(&self, sector: u32) -> bool {
        self.pinned.contains(&sector)
    }

    /// Whether any sector is pinned.
    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// All pinned sectors.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = u32> {
        self.pinned.iter().copied()
    }

    /// Whether a sector may not be written or deallocated now.
    pub(crate) fn is_held(&self, sector: u32) -> bool {
        self.is_pinned(sector) || self.parts.contains(&sector)
    }

    /// The first such sector from `first` on and before `end`.
    pub(crate) fn first_held(&self, first: u32, end: u32) -> Option<u32> {
        let of = |held: &BTreeSet<u32>| held.range(first..end).next().copied();
        of(&self.pinned).into_iter().chain(of(&self.parts)).min()
    }

    /// Begins to move a sector, unless it is pinned.
    pub(crate) fn begin_move(&mut self, sector: u32) -> bool {
        !self.is_pinned(sector) && self.moving.insert(sector)
    }

    pub(crate) fn end_move(&mut self, sector: u32) {
        self.moving.remove(&sector);
    }
}

impl<P: RawPort> HostFtl<P> {
    /// Pins sectors: from then on they stay where they are. Versions in memory that the power
    /// takes are written out first. With a buffer in persistent memory, versions may wait and
    /// be in flight; deallocations in flight and changes of the table are waited for.
    ///
    /// # Errors
    /// If nothing can be written any more.
    pub async fn pin(&self, sectors: &[u32]) -> Result<(), ssd::IoError> {
        loop {
            {
                let state = &mut *self.inner.state.borrow_mut();
                let newer = |sector: u32| match &state.slots {
                    Some(_) => state.buffer.is_landing(sector),
                    None => state.buffer.has(sector),
                };
                let busy = |sector: &u32| {
                    newer(*sector)
                        || state.pins.moving.contains(sector)
                        || state.pins.is_held(*sector)
                };
                if !sectors.iter().any(busy) {
                    state.pins.pinned.extend(sectors);
                    return Ok(());
                }
            }
            if self.inner.has_newer(sectors) && !self.inner.is_durable() {
                self.inner.flush().await?;
            } else {
                self.inner.progress.wait(&self.inner.sim).await;
            }
            self.inner.failed()?;
        }
    }

    /// Lets pinned sectors go.
    pub fn unpin(&self, sectors: &[u32]) {
        let state = &mut *self.inner.state.borrow_mut();
        for sector in sectors {
            state.pins.pinned.remove(sector);
        }
        self.inner.wake_all();
    }

    /// Where a pinned sector is: a block of the flash, or behind those a slot of a buffer in
    /// persistent memory.
    #[must_use]
    pub fn place(&self, sector: u32) -> Option<u32> {
        let state = self.inner.state.borrow();
        let slot = state.slots.as_ref().and_then(|slots| slots.slot(sector));
        match slot {
            Some(slot) => Some(self.inner.blocks() + slot),
            None => state.table.get(sector),
        }
    }

    /// Has pinned sectors be in these places, all at one instant; that is durable when this
    /// returns. A block that no entry leads to any more is invalid then. A sector that is in a
    /// slot has its entry as it was, for when it leaves that.
    pub async fn remap(&self, entries: &[(u32, Option<u32>)]) {
        let blocks = self.inner.blocks();
        let slot = |place: &Option<u32>| place.and_then(|place| place.checked_sub(blocks));
        let (mut given, mut changed) = (Vec::new(), Vec::new());
        {
            let state = &mut *self.inner.state.borrow_mut();
            for (sector, place) in entries {
                debug_assert!(state.pins.is_pinned(*sector), "sector {sector} is pinned");
                given.extend(forget_other(state, *sector, slot(place)));
                if let Some(slot) = slot(place) {
                    rename(state, slot, *sector);
                    changed.push(slot);
                }
            }
        }
        changed.extend(&given);
        let entries = entries.iter().filter(|(_, place)| slot(place).is_none());
        let entries: Vec<(u32, Option<u32>)> = entries.copied().collect();
        let gone = self.put_entries(&entries);
        self.inner
            .settle(entries.iter().map(|entry| entry.0).collect())
            .await;
        self.inner.settle_slots(changed, given).await;
        let state = &mut *self.inner.state.borrow_mut();
        for (place, sector) in gone {
            if state.lines.owner(place) == Some(sector) {
                state.lines.own(place, None);
            }
        }
        for &(sector, place) in &entries {
            if let Some(place) = place {
                state.lines.own(place, Some(sector));
            }
        }
        self.inner.collect.notify(&self.inner.sim);
    }

    /// Puts entries of the table; gives the blocks that they led to.
    fn put_entries(&self, entries: &[(u32, Option<u32>)]) -> Vec<(u32, u32)> {
        let state = &mut *self.inner.state.borrow_mut();
        let mut gone = Vec::new();
        for &(sector, place) in entries {
            gone.extend(state.table.get(sector).map(|place| (place, sector)));
            state.table.put(sector, place);
        }
        gone
    }
}

/// Has a sector have no slot but this; gives the one that it had.
fn forget_other(state: &mut State, sector: u32, slot: Option<u32>) -> Option<u32> {
    let has = state.slots.as_ref()?.slot(sector);
    match has.is_some() && has == slot {
        true => None,
        false => forget(state, sector),
    }
}

impl<P: RawPort> Inner<P> {
    /// Has a sector for whoever writes a part of it, once nobody else has it.
    pub(crate) async fn begin_part(&self, sector: u32) -> Result<Part<'_, P>, ssd::IoError> {
        loop {
            self.failed()?;
            {
                let pins = &mut self.state.borrow_mut().pins;
                if !pins.is_held(sector) {
                    pins.parts.insert(sector);
                    return Ok(Part {
                        inner: self,
                        sector,
                    });
                }
            }
            self.progress.wait(&self.sim).await;
        }
    }

    fn has_newer(&self, sectors: &[u32]) -> bool {
        let state = self.state.borrow();
        sectors.iter().any(|&sector| state.buffer.has(sector))
    }
}
