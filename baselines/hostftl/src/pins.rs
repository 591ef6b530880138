//! Sectors that somebody has for himself for a while.
//!
//! Invariants: one that is pinned, because it is about to be remapped, is neither moved nor
//! written nor deallocated, and nothing of it is on its way. One of which a part is being
//! written is changed by nobody else until then.

use crate::state::{HostFtl, Inner};
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
    /// Pins sectors, once nothing of them is on its way to flash: from then on they stay
    /// where they are. What waits in the buffer of them is written out first.
    ///
    /// # Errors
    /// If nothing can be written any more.
    pub async fn pin(&self, sectors: &[u32]) -> Result<(), ssd::IoError> {
        loop {
            {
                let state = &mut *self.inner.state.borrow_mut();
                let busy = |sector: &u32| {
                    state.buffer.has(*sector)
                        || state.pins.moving.contains(sector)
                        || state.pins.is_held(*sector)
                };
                if !sectors.iter().any(busy) {
                    state.pins.pinned.extend(sectors);
                    return Ok(());
                }
            }
            if self.inner.has_newer(sectors) {
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

    /// Where a pinned sector is on flash.
    #[must_use]
    pub fn place(&self, sector: u32) -> Option<u32> {
        self.inner.state.borrow().table.get(sector)
    }

    /// Sets entries of pinned sectors, all at one instant; they are durable when this
    /// returns. A block that no entry leads to any more is invalid then.
    pub async fn remap(&self, entries: &[(u32, Option<u32>)]) {
        let mut gone = Vec::new();
        {
            let state = &mut *self.inner.state.borrow_mut();
            for &(sector, place) in entries {
                debug_assert!(state.pins.is_pinned(sector), "sector {sector} is pinned");
                gone.extend(state.table.get(sector).map(|place| (place, sector)));
                state.table.put(sector, place);
            }
        }
        self.inner
            .settle(entries.iter().map(|entry| entry.0).collect())
            .await;
        let state = &mut *self.inner.state.borrow_mut();
        for (place, sector) in gone {
            if state.lines.owner(place) == Some(sector) {
                state.lines.own(place, None);
            }
        }
        for &(sector, place) in entries {
            if let Some(place) = place {
                state.lines.own(place, Some(sector));
            }
        }
        self.inner.collect.notify(&self.inner.sim);
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
