//! The zones of a drive as a file system is given them.
//!
//! Invariant: those of an honest drive are the drive's own, and those of one that lies leave
//! what was forced in the drive's buffers.

use host::{Computing, Who, ZonedDevice, ZonedPort};
use ssd::{Content, Sink, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus, ZoneUse};
use units::{Extent, Lba, Ns, Refusals};

/// Zones that do as they say, or lie.
#[derive(Clone)]
pub struct ZonePort {
    zones: ZonedDevice,
    lies: bool,
}

impl ZonePort {
    pub(crate) const fn new(zones: ZonedDevice, lies: bool) -> Self {
        Self { zones, lies }
    }
}

impl ZonedPort for ZonePort {
    fn limits(&self) -> ZoneLimits {
        self.zones.limits()
    }

    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        self.zones.zone(zone)
    }

    fn in_use(&self) -> ZoneUse {
        self.zones.in_use()
    }

    fn refusals(&self) -> Refusals {
        self.zones.refusals()
    }

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus> {
        self.zones.report(first, count).await
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus> {
        self.zones.read(extent, sink, who).await
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        let fua = fua && !self.lies;
        self.zones.write(extent, content, who, fua).await
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
        self.zones.append(zone, sectors, content, who, fua).await
    }

    async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus> {
        self.zones.copy(sources, to).await
    }

    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        self.zones.manage(zone, action).await
    }

    async fn commit(&self, end: Lba) -> Result<(), ZoneStatus> {
        self.zones.commit(end).await
    }

    async fn flush(&self) -> Result<(), ZoneStatus> {
        if self.lies {
            return Ok(());
        }
        self.zones.flush().await
    }

    fn compute(&self, span: Ns) -> Computing {
        self.zones.compute(span)
    }
}
