//! A simulated drive as namespaces.
//!
//! A drive is one namespace. A drive with both kinds of zones is two: the specification has no
//! conventional zones, so these become a namespace of blocks, and the sequential ones a zoned
//! namespace.
//!
//! Requests bypass the model of a host: the real client is the host, with a processor of its own.

use crate::backend::{Backend, Failure, Manner, Placements, Shape, Span};
use crate::namespace::Namespace;
use crate::subsystem::{Identity, Subsystem};
use engine::{Device, DeviceEngine, Engine, Fault, FileError, Handle, Medium, Pace, Service, Show};
use sim::{Kernel, Permit, Semaphore};
use ssd::front::RecoveryReport;
use ssd::{
    ByteError, Content, Drive, FdpLog, Health, Interface, IoError, ZoneAction, ZoneInfo, ZoneLimits,
};
use std::path::Path;
use std::rc::Rc;
use units::{Extent, Lba, Ns, Origin, Placement, SECTOR};

/// A drive, or the part of it that forms a namespace.
pub struct DriveBackend {
    device: Rc<Device>,
    shape: Shape,
    /// First byte of the part on the drive.
    base: u64,
    /// First zone of the part on the drive.
    first_zone: u32,
    /// Permits for buffer bytes, shared by all commands.
    room: Semaphore,
}

/// Bytes that the commands of all hosts may buffer beside their transferred data. Our choice: four
/// Copy commands of the largest size, which are read before they are written.
pub const ROOM: u64 = 16 << 20;

impl DriveBackend {
    /// Starts a thread that powers the drive in the file at `path` as a subsystem; `show` selects
    /// its addresses. The end of the thread powers the drive off. A layer becomes a namespace of
    /// plain blocks.
    ///
    /// # Errors
    /// If the file holds no drive, if it is in use, or if the thread cannot be started.
    pub fn start(
        path: &Path,
        pace: Pace,
        show: Show,
        identity: Identity,
    ) -> Result<(DeviceEngine, Handle<Subsystem<Self>>), FileError> {
        let file = path.to_owned();
        Engine::start(
            pace,
            move |kernel| {
                let device = Device::open(kernel, &file, show)?;
                let namespaces = Self::all(device, &identity.serial);
                Ok(Subsystem::new(identity, namespaces))
            },
            |kernel, subsystem: Rc<Subsystem<Self>>| subsystem.close(kernel),
        )
    }

    /// Namespaces of `device`; their identifiers derive from `serial`.
    #[must_use]
    pub fn all(device: Device, serial: &str) -> Vec<Namespace<Self>> {
        let room = Semaphore::new(device.sim(), ROOM as usize);
        let device = (Rc::new(device), room);
        let whole = Shape::of(&device.0, identifier(serial, 1));
        let Some(zones) = whole.zones else {
            return vec![Self::part(&device, whole, 0, 0)];
        };
        if zones.conventional == 0 {
            return vec![Self::part(&device, whole, 0, 0)];
        }
        let base = u64::from(zones.conventional) * zones.size * SECTOR;
        let anywhere = Shape {
            bytes: base,
            capacity: base,
            zones: None,
            ..whole.clone()
        };
        let sequential = Shape {
            bytes: whole.bytes - base,
            capacity: whole.capacity - base,
            id: identifier(serial, 2),
            zones: Some(ZoneLimits {
                zones: zones.zones - zones.conventional,
                conventional: 0,
                ..zones
            }),
            ..whole
        };
        vec![
            Self::part(&device, anywhere, 0, 0),
            Self::part(&device, sequential, base, zones.conventional),
        ]
    }

    fn part(
        (device, room): &(Rc<Device>, Semaphore),
        shape: Shape,
        base: u64,
        first_zone: u32,
    ) -> Namespace<Self> {
        Namespace::new(Self {
            device: Rc::clone(device),
            shape,
            base,
            first_zone,
            room: room.clone(),
        })
    }

    fn drive(&self) -> &Drive {
        self.device.drive()
    }

    fn extent(&self, at: u64, len: u64) -> Result<Extent, Failure> {
        let sectors = u32::try_from(len / SECTOR).map_err(|_| Failure::OutOfRange)?;
        Ok(Extent::new((self.base + at) / SECTOR, sectors))
    }

    /// Writes through the layer above the drive, which has no placement.
    async fn put_through(&self, at: u64, data: &[u8], how: Manner) -> Result<(), Failure> {
        self.device.write(at, data).await?;
        if how.forced {
            self.device.flush().await?;
        }
        Ok(())
    }

    async fn put(&self, at: u64, len: u64, what: Content<'_>, how: Manner) -> Result<(), Failure> {
        let extent = self.extent(at, len)?;
        self.device.may_write(self.base + at, len)?;
        let placement = Placement(how.placement);
        // Zones are append-only: concurrent writes do not overlap.
        let held = match self.shape.zones {
            Some(_) => None,
            None => Some(self.device.hold_bytes(self.base + at, len).await),
        };
        let written = self
            .drive()
            .write(extent, what, placement, Origin(0), how.forced);
        written.await?;
        drop(held);
        self.answered(how).await
    }

    /// Waits until the file holds everything that the answer to a write guarantees. A write with
    /// FUA must be durable in the file.
    async fn answered(&self, how: Manner) -> Result<(), Failure> {
        if how.forced {
            self.device.note().await?;
        } else {
            self.device.promise().await?;
        }
        Ok(())
    }
}

impl Subsystem<DriveBackend> {
    /// The drive, shared with other fronts.
    ///
    /// # Panics
    /// If the backend was not made by [`DriveBackend::start`].
    #[must_use]
    pub fn device(&self) -> Rc<Device> {
        let drive = self.namespaces.first().expect("a drive is a namespace");
        Rc::clone(&drive.backend().device)
    }

    /// Shuts the drive down and writes it to its file.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn close(&self, kernel: &Kernel) -> Result<(), FileError> {
        self.device().close(kernel)
    }
}

impl Shape {
    fn of(device: &Device, id: [u8; 16]) -> Self {
        let drive = device.drive();
        let whole = Self::of_drive(drive, id);
        if !device.is_layer() {
            return whole;
        }
        Self {
            bytes: device.capacity(),
            capacity: device.capacity(),
            volatile_cache: true,
            granule: device.grain() as u32,
            zones: None,
            placements: Placements::None,
            bytes_too: false,
            ..whole
        }
    }

    fn of_drive(drive: &Drive, id: [u8; 16]) -> Self {
        let (config, layout) = (drive.config(), drive.layout());
        let geometry = &config.geometry;
        let planes = geometry.blocks() / u64::from(geometry.blocks_per_plane.max(1));
        let placement = &config.placement;
        let line = layout.bytes(layout.line_data).0;
        Self {
            bytes: drive.capacity().0,
            capacity: config.capacity.0,
            id,
            volatile_cache: drive.has_volatile_cache(),
            granule: layout.page_bytes() as u32,
            spare_blocks: u64::from(config.wear.spare_blocks) * planes,
            zones: drive.zones().map(ssd::Zones::limits),
            placements: match config.interface {
                Interface::Streams => Placements::Streams(placement.handles.saturating_sub(1)),
                Interface::Fdp => Placements::Fdp {
                    groups: placement.reclaim_groups,
                    handles: placement.handles,
                    isolated: placement.persistently_isolated,
                    unit: line,
                },
                _ => Placements::None,
            },
            bytes_too: drive.has_bytes(),
        }
    }
}

/// Globally unique identifier of a namespace, derived from serial number and namespace number.
fn identifier(serial: &str, number: u8) -> [u8; 16] {
    // 128-bit FNV-1a.
    let basis = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b_u128;
    let bytes = serial.bytes().chain([0, number]);
    let hash = bytes.fold(basis, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(prime)
    });
    hash.to_be_bytes()
}

impl Service for DriveBackend {
    fn settle(&self) {
        self.device.settle();
    }
}

impl Backend for DriveBackend {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    async fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        if self.device.is_layer() {
            let bytes = self.device.read(at, into.len()).await?;
            into.copy_from_slice(&bytes);
            return Ok(());
        }
        let extent = self.extent(at, into.len() as u64)?;
        let is_turned = self.device.may_read(self.base + at, into.len() as u64)?;
        let mut sink = &mut *into;
        self.drive().read(extent, &mut sink).await?;
        if let (true, Some(first)) = (is_turned, into.first_mut()) {
            *first ^= 1;
        }
        Ok(())
    }

    async fn verify(&self, at: u64, space: &mut [u8]) -> Result<(), Failure> {
        let (first, end) = (self.base + at, self.base + at + space.len() as u64);
        let nothing =
            self.shape.zones.is_none() && self.device.seek_before(first, end, Medium::Data) == end;
        if nothing {
            // Reading unmapped pages for a verify would only delay other requests.
            self.device.may_read(first, end - first)?;
            return Ok(());
        }
        self.read(at, space).await
    }

    async fn write(&self, at: u64, data: &[u8], how: Manner) -> Result<(), Failure> {
        if self.device.is_layer() {
            return self.put_through(at, data, how).await;
        }
        self.put(at, data.len() as u64, Content::Bytes(data), how)
            .await
    }

    async fn zero(&self, span: Span, how: Manner) -> Result<(), Failure> {
        if self.shape.zones.is_some() {
            return self.put(span.at, span.len, Content::Fill(0), how).await;
        }
        self.device.zero(self.base + span.at, span.len).await?;
        if how.forced {
            self.device.flush().await?;
        }
        Ok(())
    }

    fn can_spoil(&self) -> bool {
        self.shape.zones.is_none() && !self.device.is_layer()
    }

    async fn spoil(&self, span: Span) -> Result<(), Failure> {
        if !self.can_spoil() {
            return Err(Failure::Unsupported);
        }
        Ok(self.device.spoil(self.base + span.at, span.len).await?)
    }

    async fn deallocate(&self, span: Span) -> Result<(), Failure> {
        if self.shape.zones.is_some() {
            return Ok(());
        }
        let granule = u64::from(self.shape.granule);
        let first = span.at.next_multiple_of(granule);
        let end = span.end() / granule * granule;
        if first < end {
            self.device.zero(self.base + first, end - first).await?;
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), Failure> {
        Ok(self.device.flush().await?)
    }

    async fn copy(&self, sources: &[Span], to: u64, how: Manner) -> Result<(), Failure> {
        let Some(zones) = self.drive().zones().filter(|_| self.shape.zones.is_some()) else {
            let len = sources.iter().map(|span| span.len as usize).sum();
            let mut bytes = Vec::with_capacity(len);
            for span in sources {
                let from = bytes.len();
                bytes.resize(from + span.len as usize, 0);
                self.read(span.at, &mut bytes[from..]).await?;
            }
            return self.write(to, &bytes, how).await;
        };
        let extents: Result<Vec<Extent>, Failure> = sources
            .iter()
            .map(|span| self.extent(span.at, span.len))
            .collect();
        for span in sources {
            // Copied data are checked inside the drive: injected bit flips do not apply.
            self.device.may_read(self.base + span.at, span.len)?;
        }
        let len = sources.iter().map(|span| span.len).sum();
        self.device.may_write(self.base + to, len)?;
        let to = Lba((self.base + to) / SECTOR);
        zones.copy(&extents?, to).await?;
        if how.forced {
            self.device.flush().await?;
        }
        self.answered(how).await
    }

    async fn room(&self, bytes: u64) -> Option<Permit> {
        Some(self.room.acquire(bytes.min(ROOM) as usize).await)
    }

    fn health(&self) -> Option<Health> {
        self.device.health().ok()
    }

    fn shares_health(&self) -> bool {
        self.base > 0
    }

    fn is_read_only(&self) -> bool {
        self.drive().is_read_only()
    }

    fn now(&self) -> Ns {
        self.device.sim().now()
    }

    fn zone(&self, zone: u32) -> Option<ZoneInfo> {
        let info = self.drive().zones()?.info(self.first_zone + zone)?;
        let base = self.base / SECTOR;
        Some(ZoneInfo {
            zone,
            start: Lba(info.start.0 - base),
            write_pointer: info.write_pointer.map(|pointer| Lba(pointer.0 - base)),
            ..info
        })
    }

    async fn manage(&self, zone: Option<u32>, action: ZoneAction) -> Result<(), Failure> {
        let zones = self.drive().zones().filter(|_| self.shape.zones.is_some());
        let zones = zones.ok_or(Failure::Unsupported)?;
        match zone {
            Some(zone) => zones.manage(self.first_zone + zone, action).await?,
            None => zones.manage_all(action).await?,
        }
        Ok(self.device.promise().await?)
    }

    async fn commit_zone(&self, end: u64) -> Result<(), Failure> {
        let zones = self.drive().zones().filter(|_| self.shape.zones.is_some());
        let zones = zones.ok_or(Failure::Unsupported)?;
        zones.commit(Lba((self.base + end) / SECTOR)).await?;
        Ok(self.device.promise().await?)
    }

    async fn append(&self, zone: u32, data: &[u8], how: Manner) -> Result<u64, Failure> {
        let zones = self.drive().zones().filter(|_| self.shape.zones.is_some());
        let zones = zones.ok_or(Failure::Unsupported)?;
        let sectors = (data.len() as u64 / SECTOR) as u32;
        let content = Content::Bytes(data);
        let zone = self.first_zone + zone;
        let info = zones.info(zone);
        if let Some(at) = info.and_then(|info| info.write_pointer)
            && let Err(fault @ (Fault::Unwritable(_) | Fault::Gone(_))) =
                self.device.may_write(at.0 * SECTOR, data.len() as u64)
        {
            // The zone reports the boundary error.
            return Err(fault.into());
        }
        let appended = zones.append(zone, sectors, content, Origin(0), how.forced);
        let at = appended.await?.0 * SECTOR - self.base;
        self.answered(how).await?;
        Ok(at)
    }

    fn fdp(&self) -> Option<FdpLog> {
        self.drive().fdp()
    }

    fn writable_in_unit(&self, placement: u16) -> Option<u64> {
        let left = self.drive().writable_in_unit(Placement(placement));
        left.map(|bytes| bytes.0)
    }

    async fn renew_unit(&self, placement: u16) -> Result<(), Failure> {
        Ok(self.drive().update_handle(Placement(placement)).await?)
    }

    async fn load(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        Ok(self.drive().load(at, into).await?)
    }

    async fn store(&self, at: u64, data: &[u8], tx: u32) -> Result<(), Failure> {
        self.drive().store(at, data, tx, Origin(0)).await?;
        self.answered(Manner::default()).await
    }

    async fn commit(&self, tx: u32) -> Result<(), Failure> {
        self.drive().commit(tx).await?;
        Ok(self.device.note().await?)
    }

    async fn recover(&self) -> Result<RecoveryReport, Failure> {
        let report = self.drive().recover().await?;
        self.device.note().await?;
        Ok(report)
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Self {
        match error {
            IoError::OutOfRange { .. } => Self::OutOfRange,
            IoError::Media(_) => Self::Media,
            IoError::Placement(..) => Self::Placement,
            IoError::ReadOnly => Self::ReadOnly,
            IoError::Zone(status) => Self::Zone(status),
        }
    }
}

impl From<ByteError> for Failure {
    fn from(error: ByteError) -> Self {
        match error {
            ByteError::Io(error) => error.into(),
            ByteError::NoBytes | ByteError::NoTransactions => Self::Unsupported,
            _ => Self::Bytes,
        }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::PastEnd { .. } => Self::OutOfRange,
            Fault::Drive(error) => error.into(),
            Fault::Unwritable(_) => Self::WriteFault,
            Fault::Gone(_) => Self::Gone,
            Fault::File(_) | Fault::Config(_) => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_known_by_its_drive_and_its_number() {
        let ids = [("a", 1), ("a", 2), ("b", 1)].map(|(serial, n)| identifier(serial, n));
        assert_eq!(ids[0], identifier("a", 1));
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
    }
}
