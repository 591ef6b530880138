//! The zones of a drive, for a file system.
//!
//! Invariant: an honest port passes every command to the drive; a lying one acknowledges forced
//! writes that are still in the drive's buffers.

use crate::losses::Losses;
use host::{Computing, Who, ZonedDevice, ZonedPort};
use ssd::{Content, Sink, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus, ZoneUse};
use std::cell::Cell;
use std::rc::Rc;
use units::{Extent, Lba, Ns, Refusals};

/// The zones of a drive, honest or lying.
#[derive(Clone)]
pub struct ZonePort {
    zones: ZonedDevice,
    lies: bool,
    losses: Rc<Losses>,
    /// Begun and ended flushes, and ended writes with FUA, of this drive.
    flushes: Rc<Cell<u64>>,
}

impl ZonePort {
    pub(crate) const fn new(
        zones: ZonedDevice,
        lies: bool,
        losses: Rc<Losses>,
        flushes: Rc<Cell<u64>>,
    ) -> Self {
        Self {
            zones,
            lies,
            losses,
            flushes,
        }
    }

    fn mark_if(&self, forces: bool) {
        self.flushes.set(self.flushes.get() + u64::from(forces));
    }
}

impl ZonedPort for ZonePort {
    host::pass_zoned!([|own| &own.zones] limits, zone, in_use, refusals, report, compute);

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus> {
        let read = self.zones.read(extent, sink, who).await;
        self.losses.note(read, who)
    }

    async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus> {
        self.losses.note_other(self.zones.copy(sources, to).await)
    }

    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        let managed = self.zones.manage(zone, action).await;
        self.losses.note_other(managed)
    }

    async fn commit(&self, end: Lba) -> Result<(), ZoneStatus> {
        self.losses.note_other(self.zones.commit(end).await)
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        let fua = fua && !self.lies;
        let written = self.zones.write(extent, content, who, fua).await;
        self.mark_if(fua);
        self.losses.note_other(written)
    }

    async fn append(
        &self,
        zone: u32,
        sectors: u32,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<Lba, ZoneStatus> {
        let fua = fua && !self.lies;
        let appended = self.zones.append(zone, sectors, content, who, fua).await;
        self.mark_if(fua);
        self.losses.note_other(appended)
    }

    async fn flush(&self) -> Result<(), ZoneStatus> {
        if self.lies {
            return Ok(());
        }
        self.mark_if(true);
        let flushed = self.zones.flush().await;
        self.mark_if(true);
        self.losses.note_other(flushed)
    }
}
