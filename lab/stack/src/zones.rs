//! The zones of a drive, for a file system.
//!
//! Invariant: an honest port passes every command to the drive; a lying one acknowledges forced
//! writes that are still in the drive's buffers.

use host::{Computing, Who, ZonedDevice, ZonedPort};
use ssd::{Content, Sink, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus, ZoneUse};
use units::{Extent, Lba, Ns, Refusals};

/// The zones of a drive, honest or lying.
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
    host::pass_zoned!([|own| &own.zones] limits, zone, in_use, refusals, report, read, copy, manage,
        commit, compute);

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

    async fn flush(&self) -> Result<(), ZoneStatus> {
        if self.lies {
            return Ok(());
        }
        self.zones.flush().await
    }
}
