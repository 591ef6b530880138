//! The random write area of a zone: a window from the write pointer on whose sectors may be written
//! in any order and repeatedly.
//!
//! Invariant: each sector is committed once and in order, and thereby on its way to flash. A write
//! that reaches beyond the window commits the sectors that the window leaves behind. Sectors that
//! were never written read as zeros, once they are committed too.

use super::rules::{OpenRoom, Room, ZoneEvent, ZoneState, ZoneStatus, transition};
use super::table::{Table, Zone};
use super::write::For;
use super::{Zoned, Zones};
use crate::drive::Content;
use crate::layout::NONE;
use crate::ledger::Cause;
use nand::{Payload, UNIT};
use std::rc::Rc;
use units::{Lba, SECTOR};

const ROOMY: Room = Room {
    active: true,
    open: OpenRoom::Free,
};

impl Zones {
    /// Commits the random write area of a zone up to `end`, the first address that remains
    /// uncommitted.
    ///
    /// # Errors
    /// [`ZoneStatus::InvalidField`] if the zone has no such area, or if `end` is not a whole number
    /// of steps within it; otherwise as a write.
    //= zns 3.4.3
    pub async fn commit(&self, end: Lba) -> Result<(), ZoneStatus> {
        let inner = &self.inner;
        let last = end.0.checked_sub(1).ok_or(ZoneStatus::InvalidField)?;
        let per = UNIT as u64 / SECTOR;
        let (zone, at, _) = inner.locate(units::Extent::new(last / per * per, per as u32))?;
        let zone = inner.sequential(zone)?;
        inner.idle(zone).await;
        inner.core.sim.sleep(inner.config.controller.command).await;
        let opened = {
            let mut table = inner.table.borrow_mut();
            let entry = &table.zones[zone as usize];
            let ahead = (at + 1).saturating_sub(entry.wp);
            let fits = (1..=inner.layout.window).contains(&ahead);
            let whole = end.0.is_multiple_of(per) && ahead.is_multiple_of(inner.layout.step.max(1));
            if !entry.window || !fits || !whole {
                return Err(ZoneStatus::InvalidField);
            }
            let opened = inner.open_for_write(&mut table, zone);
            if opened.is_ok() {
                inner.commit_to(&mut table, zone, at + 1);
            }
            opened
        };
        inner.noted(zone, 0, opened)?;
        inner.issue_full(zone);
        Ok(())
    }
}

impl Zoned {
    /// Opens an empty zone with a random write area.
    pub(super) fn open_random(&self, zone: u32) -> Result<(), ZoneStatus> {
        if self.layout.window == 0 {
            return Err(ZoneStatus::InvalidField);
        }
        let mut table = self.table.borrow_mut();
        let state = table.zones[zone as usize].state;
        transition(state, ZoneEvent::Open, ROOMY)?;
        if state != ZoneState::Empty {
            return Err(ZoneStatus::InvalidZoneOperation);
        }
        if table.windows >= self.rules.random_write_zones {
            return Err(ZoneStatus::NoRandomWriteArea);
        }
        table.step(zone, ZoneEvent::Open)?;
        table.zones[zone as usize].window = true;
        table.windows += 1;
        table.attach_ring(&self.layout, zone);
        Ok(())
    }

    /// Writes `len` sectors at `at` of a zone that has a random write area.
    pub(super) async fn put_in_window(
        self: &Rc<Self>,
        zone: u32,
        at: u32,
        len: u32,
        content: Content<'_>,
        who: For,
    ) -> Result<(), ZoneStatus> {
        let passed = self.write_passed(len, false);
        self.core.sim.sleep_until(passed).await;
        loop {
            self.idle(zone).await;
            if self.store_in_window(zone, (at, len), content, who)? {
                break;
            }
            self.signals[zone as usize].wait(&self.core.sim).await;
        }
        self.issue_full(zone);
        self.wake(zone);
        Ok(())
    }

    /// Checks a write and takes it into the buffer. Returns false if there is no room yet.
    fn store_in_window(
        &self,
        zone: u32,
        (at, len): (u32, u32),
        content: Content<'_>,
        who: For,
    ) -> Result<bool, ZoneStatus> {
        let mut table = self.table.borrow_mut();
        let entry = &table.zones[zone as usize];
        let wp = self.check_window(entry, at, len)?;
        let end = at + len;
        if end - entry.on_flash(self.layout.unit) > self.layout.ring {
            return Ok(false);
        }
        self.open_for_write(&mut table, zone)?;
        table.zones[zone as usize].origin = who.tag;
        let ring = table.attach_ring(&self.layout, zone);
        ring.store_all((at, len), content, 0, who);
        for sector in at..end {
            ring.written[(sector % self.layout.ring) as usize] = true;
        }
        if wp > table.zones[zone as usize].wp {
            self.commit_to(&mut table, zone, wp);
        }
        Ok(true)
    }

    /// The write pointer after a write of `len` sectors at `at`, if the write is allowed.
    fn check_window(&self, entry: &Zone, at: u32, len: u32) -> Result<u32, ZoneStatus> {
        transition(entry.state, ZoneEvent::Write, ROOMY)?;
        let (window, wp) = (self.layout.window, entry.wp);
        // The zone may have lost its area while the command was on its way.
        let reach = u64::from(wp) + 2 * u64::from(window);
        if !entry.window || at < wp || u64::from(at) + u64::from(len) > reach {
            return Err(ZoneStatus::ZoneInvalidWrite);
        }
        if len > self.layout.capacity - at.min(self.layout.capacity) {
            return Err(ZoneStatus::ZoneBoundary);
        }
        let past = (at + len).saturating_sub(wp + window);
        Ok(wp + past.next_multiple_of(self.layout.step.max(1)))
    }

    /// Moves the write pointer of a zone with a random write area to `wp`.
    fn commit_to(&self, table: &mut Table, zone: u32, wp: u32) {
        let from = table.zones[zone as usize].wp;
        let ring = table.attach_ring(&self.layout, zone);
        for sector in from..wp {
            let slot = (sector % self.layout.ring) as usize;
            if !std::mem::take(&mut ring.written[slot]) {
                ring.marks[slot] = (Cause::Padding as u8, 0);
                if let Some(payload) = ring.payload.get_mut(slot) {
                    *payload = Payload::Zero;
                }
            }
        }
        let entry = &mut table.zones[zone as usize];
        (entry.wp, entry.filled) = (wp, wp);
        self.note_full(table, zone);
    }

    /// End of a zone's data if every written sector of its area were committed: the data that a
    /// protected drive saves.
    pub(super) fn committed_end(&self, table: &Table, zone: u32) -> u32 {
        let entry = &table.zones[zone as usize];
        if !entry.window || entry.ring == NONE {
            return entry.filled;
        }
        let written = &table.rings[entry.ring as usize].written;
        let area = entry.wp..(entry.wp + self.layout.window).min(self.layout.capacity);
        let is_written = |sector: &u32| written[(sector % self.layout.ring) as usize];
        let last = area.rev().find(is_written);
        let past = last.map_or(0, |last| last + 1 - entry.wp);
        entry.wp + past.next_multiple_of(self.layout.step.max(1))
    }

    /// Contents of a sector of a zone that is in its buffer.
    pub(super) fn contents(&self, table: &Table, zone: u32, at: u32) -> Payload {
        let entry = &table.zones[zone as usize];
        if entry.ring == NONE {
            return Payload::Zero;
        }
        let ring = &table.rings[entry.ring as usize];
        let slot = (at % self.layout.ring) as usize;
        let there = at < entry.filled || ring.written.get(slot).copied().unwrap_or(false);
        let payload = ring.payload.get(slot).filter(|_| there);
        payload.cloned().unwrap_or_default()
    }
}
