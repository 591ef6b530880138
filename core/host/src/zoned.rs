//! The zoned port: the interface for file systems that write zone by zone.
//!
//! Invariant: two writes to a zone arrive at the drive in order only if the host waits for
//! the completion of the first before it sends the second, as on a real machine, where
//! queues overtake each other. Hosts append to keep several writes to a zone in flight.

use crate::cores::Computing;
use crate::device::control;
use crate::ledger::Who;
use crate::{BlockDevice, BytePort, QueuePair, SwapPort};
use ssd::{Content, Sink, ZoneAction, ZoneInfo, ZoneLimits, ZoneStatus, ZoneUse, Zones};
use units::{Extent, Lba, Ns, Refusals, SECTOR};

/// A device of zones that are written at their write pointers.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait ZonedPort: Clone + 'static {
    /// Number, sizes and limits of the zones.
    fn limits(&self) -> ZoneLimits;

    /// State, write pointer and capacity of a zone from the host's own knowledge, without a
    /// command. None if the zone does not exist.
    fn zone(&self, zone: u32) -> Option<ZoneInfo>;

    /// Zones that hold the scarce resources of the drive; [`ZoneUse::holders`] derives from
    /// it the holders in a refused allocation.
    fn in_use(&self) -> ZoneUse;

    /// Log of commands refused at a limit of the drive, with the holders at that time. Empty
    /// for ports that keep no log.
    fn refusals(&self) -> Refusals {
        Refusals::default()
    }

    /// Reads the descriptors of `count` zones from `first` on from the drive.
    ///
    /// # Errors
    /// If zone `first` does not exist.
    async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus>;

    /// Reads `extent` into `sink`.
    ///
    /// # Errors
    /// The status of the drive.
    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus>;

    /// Writes `content` to `extent`, which begins at a write pointer. The data are durable
    /// once a later flush has ended, or on completion with `fua`.
    ///
    /// # Errors
    /// The status of the drive.
    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus>;

    /// Appends `sectors` sectors of 512 bytes to a zone, and returns their first address.
    ///
    /// # Errors
    /// The status of the drive.
    async fn append(
        &self,
        zone: u32,
        sectors: u32,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<Lba, ZoneStatus>;

    /// Copies `sources` inside the drive to the write pointer `to`.
    ///
    /// # Errors
    /// The status of the drive.
    async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus>;

    /// Opens, closes, finishes or resets a zone, or sets it offline.
    ///
    /// # Errors
    /// The status of the drive.
    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus>;

    /// Commits a random write area up to `end`.
    ///
    /// # Errors
    /// The status of the drive.
    async fn commit(&self, end: Lba) -> Result<(), ZoneStatus>;

    /// Makes every completed write durable. The host sends no command to a drive that
    /// reports no volatile write cache.
    ///
    /// # Errors
    /// The status of the drive.
    async fn flush(&self) -> Result<(), ZoneStatus>;

    /// Requests `span` of processor time of the current task's core.
    fn compute(&self, span: Ns) -> Computing;
}

/// A zoned drive behind queues, link and cores.
#[derive(Clone)]
pub struct ZonedDevice {
    device: BlockDevice,
    zones: Zones,
}

/// Bytes of the descriptor of one source of a copy; the drive fetches it like data.
const SOURCE: u64 = 32;
/// Bytes of the descriptor of a zone.
const DESCRIPTOR: u64 = 64;

impl ZonedDevice {
    /// The zoned port of the drive behind `device`; None if the drive has no zones.
    #[must_use]
    pub fn new(device: &BlockDevice) -> Option<Self> {
        let zones = device.drive().zones()?.clone();
        Some(Self {
            device: device.clone(),
            zones,
        })
    }

    /// The block device with the queues and the drive.
    #[must_use]
    pub fn device(&self) -> &BlockDevice {
        &self.device
    }

    fn here(&self) -> QueuePair {
        self.device.here()
    }

    /// `sectors` sectors at the begin of a zone, for a trace.
    fn of_zone(&self, zone: u32, sectors: u32) -> Extent {
        let start = self.zones.info(zone).map_or(0, |zone| zone.start.0);
        Extent::new(start, sectors)
    }

    fn wrote(&self, who: Who, bytes: u64) {
        let mut ledger = self.device.shared.ledger.borrow_mut();
        ledger.book(who, |traffic| traffic.write.block += bytes);
    }
}

/// Name of a zone command in traces.
const fn name(action: ZoneAction) -> &'static str {
    match action {
        ZoneAction::Open | ZoneAction::OpenRandom => "zone open",
        ZoneAction::Close => "zone close",
        ZoneAction::Finish => "zone finish",
        ZoneAction::Reset => "zone reset",
        ZoneAction::Offline => "zone offline",
    }
}

impl ZonedPort for ZonedDevice {
    fn limits(&self) -> ZoneLimits {
        self.zones.limits()
    }

    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        self.zones.info(zone)
    }

    fn in_use(&self) -> ZoneUse {
        self.zones.in_use()
    }

    fn refusals(&self) -> Refusals {
        self.zones.refusals()
    }

    async fn report(&self, first: u32, count: u32) -> Result<Vec<ZoneInfo>, ZoneStatus> {
        let queue = self.here();
        let tracing = queue.arrive(control("zone report"), 0).await;
        let zones = self.zones.report(first, count).await;
        let told = zones.as_ref().map_or(0, Vec::len) as u64;
        queue.leave(tracing, told * DESCRIPTOR, zones.is_ok()).await;
        zones
    }

    async fn read(&self, extent: Extent, sink: &mut impl Sink, who: Who) -> Result<(), ZoneStatus> {
        let queue = self.here();
        let tracing = queue.arrive(("read", extent, who), 0).await;
        let result = self.zones.read(extent, sink).await;
        let bytes = if result.is_ok() { extent.bytes() } else { 0 };
        queue.leave(tracing, bytes, result.is_ok()).await;
        result?;
        let mut ledger = self.device.shared.ledger.borrow_mut();
        ledger.book(who, |traffic| traffic.read.block += bytes);
        Ok(())
    }

    async fn write(
        &self,
        extent: Extent,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<(), ZoneStatus> {
        let queue = self.here();
        let tracing = queue.arrive(("write", extent, who), extent.bytes()).await;
        let result = self.zones.write(extent, content, who.origin, fua).await;
        queue.leave(tracing, 0, result.is_ok()).await;
        result?;
        self.wrote(who, extent.bytes());
        Ok(())
    }

    async fn append(
        &self,
        zone: u32,
        sectors: u32,
        content: Content<'_>,
        who: Who,
        fua: bool,
    ) -> Result<Lba, ZoneStatus> {
        let queue = self.here();
        let bytes = u64::from(sectors) * SECTOR;
        let named = ("append", self.of_zone(zone, sectors), who);
        let tracing = queue.arrive(named, bytes).await;
        let appended = self.zones.append(zone, sectors, content, who.origin, fua);
        let result = appended.await;
        queue.leave(tracing, 0, result.is_ok()).await;
        let at = result?;
        self.wrote(who, bytes);
        Ok(at)
    }

    async fn copy(&self, sources: &[Extent], to: Lba) -> Result<(), ZoneStatus> {
        let queue = self.here();
        let sectors = sources.iter().map(|source| source.sectors).sum();
        let named = ("copy", Extent::new(to.0, sectors), Who::default());
        let tracing = queue.arrive(named, sources.len() as u64 * SOURCE).await;
        let result = self.zones.copy(sources, to).await;
        queue.leave(tracing, 0, result.is_ok()).await;
        result
    }

    async fn manage(&self, zone: u32, action: ZoneAction) -> Result<(), ZoneStatus> {
        let queue = self.here();
        let named = (name(action), self.of_zone(zone, 0), Who::default());
        let tracing = queue.arrive(named, 0).await;
        let result = self.zones.manage(zone, action).await;
        queue.leave(tracing, 0, result.is_ok()).await;
        result
    }

    async fn commit(&self, end: Lba) -> Result<(), ZoneStatus> {
        let queue = self.here();
        let tracing = queue.arrive(control("zone commit"), 0).await;
        let result = self.zones.commit(end).await;
        queue.leave(tracing, 0, result.is_ok()).await;
        result
    }

    async fn flush(&self) -> Result<(), ZoneStatus> {
        if !self.device.drive().has_volatile_cache() {
            return Ok(());
        }
        let queue = self.here();
        let tracing = queue.arrive(control("flush"), 0).await;
        let result = self.zones.flush().await;
        queue.leave(tracing, 0, result.is_ok()).await;
        if result.is_ok() {
            self.device.shared.ledger.borrow_mut().flushes += 1;
        }
        result
    }

    fn compute(&self, span: Ns) -> Computing {
        self.device.occupy(self.device.current(), span)
    }
}

/// A drive with all of its ports, for a host that chooses one of them.
pub trait DrivePort: BytePort + SwapPort {
    /// Type of the drive's zoned port.
    type Zones: ZonedPort;

    /// The zoned port of the drive; None if it has no zones.
    fn zones(&self) -> Option<Self::Zones>;
}

impl DrivePort for BlockDevice {
    type Zones = ZonedDevice;

    fn zones(&self) -> Option<ZonedDevice> {
        ZonedDevice::new(self)
    }
}
