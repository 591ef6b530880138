//! Pins: exclusive holds on sectors, by remappings and by writes of a part of a sector.
//!
//! Invariants: a pinned sector, which is about to be remapped, is neither moved nor written nor
//! deallocated. Without a buffer in persistent memory no version of it waits or is in flight. With
//! one, versions may do both: a slot keeps its version while its sector is pinned, since a program
//! that ends meanwhile is entered into the table after the unpin. While a part of a sector is
//! written, no other writer changes the sector.

use crate::lasting::{forget, rename};
use crate::state::{HostFtl, Inner, State};
use host::RawPort;
use std::collections::BTreeSet;

#[derive(Default)]
pub(crate) struct Pins {
    /// Sectors pinned by [`HostFtl::pin`].
    pinned: BTreeSet<u32>,
    /// Sectors in transit to another line by cleaning.
    moving: BTreeSet<u32>,
    /// Sectors held by a write of a part of them.
    parts: BTreeSet<u32>,
}

/// The hold of a write on the sector that it changes in part; released on drop.
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

    /// Whether at least one sector is pinned.
    pub(crate) fn has_pinned(&self) -> bool {
        !self.pinned.is_empty()
    }

    /// The pinned sectors, in ascending order.
    pub(crate) fn pinned(&self) -> impl Iterator<Item = u32> {
        self.pinned.iter().copied()
    }

    /// Whether writes and deallocations of a sector must wait: it is pinned, or partly written.
    pub(crate) fn is_held(&self, sector: u32) -> bool {
        self.is_pinned(sector) || self.parts.contains(&sector)
    }

    /// First held sector of `first..end`.
    pub(crate) fn first_held(&self, first: u32, end: u32) -> Option<u32> {
        let of = |held: &BTreeSet<u32>| held.range(first..end).next().copied();
        of(&self.pinned).into_iter().chain(of(&self.parts)).min()
    }

    /// Begins a move of a sector; false if the sector is pinned, or moving already.
    pub(crate) fn begin_move(&mut self, sector: u32) -> bool {
        !self.is_pinned(sector) && self.moving.insert(sector)
    }

    pub(crate) fn end_move(&mut self, sector: u32) {
        self.moving.remove(&sector);
    }
}

impl<P: RawPort> HostFtl<P> {
    /// Pins sectors: they stay in place until [`Self::unpin`]. Without a buffer in persistent
    /// memory their buffered versions are flushed first. With one, versions may wait or be in
    /// flight, but this waits for deallocations in flight and for pending changes of the table.
    ///
    /// # Errors
    /// If the drive accepts no more writes.
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

    /// Unpins sectors and wakes their waiters.
    pub fn unpin(&self, sectors: &[u32]) {
        let state = &mut *self.inner.state.borrow_mut();
        for sector in sectors {
            state.pins.pinned.remove(sector);
        }
        self.inner.wake_all();
    }

    /// Place of a pinned sector: a block of the flash or, numbered behind those, a slot of a buffer
    /// in persistent memory. `None` if the sector is unmapped.
    #[must_use]
    pub fn place(&self, sector: u32) -> Option<u32> {
        let state = self.inner.state.borrow();
        let slot = state.slots.as_ref().and_then(|slots| slots.slot(sector));
        match slot {
            Some(slot) => Some(self.inner.blocks() + slot),
            None => state.table.get(sector),
        }
    }

    /// Sets the places of pinned sectors, all at one instant; durable on return. Blocks that no
    /// entry names any more become invalid. A sector that gets a slot keeps its table entry until
    /// the slot is written out.
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

    /// Stores entries in the table; returns the blocks that they led to before, with their sectors.
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

/// Drops the slot of a sector unless it is `slot`; returns the dropped one.
fn forget_other(state: &mut State, sector: u32, slot: Option<u32>) -> Option<u32> {
    let has = state.slots.as_ref()?.slot(sector);
    match has.is_some() && has == slot {
        true => None,
        false => forget(state, sector),
    }
}

impl<P: RawPort> Inner<P> {
    /// Holds `sector` for a partial write; waits until its current holder releases it.
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
