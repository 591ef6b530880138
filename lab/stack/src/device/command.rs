//! Commands of a stepped drive, and their completions.

use crate::device::error::DeviceError;
use crate::replay::lacks;
use ssd::IoError;
use units::{Extent, Ns, Origin, Placement};
use workload::{Op, Request};

/// Largest number of sectors of a command that moves data: NVMe counts them with 16 bits.
const MOST_SECTORS: u32 = 1 << 16;

/// A command for a stepped drive. Addresses and lengths are in sectors of 512 bytes.
///
/// The zones of a drive follow each other without gaps: each begins where the capacity of the one
/// before ends, as in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Kind of the command.
    pub op: Op,
    /// Addressed sectors; empty for a flush.
    pub extent: Extent,
    /// Stream or placement handle of a write; 0 is the default.
    pub placement: Placement,
    /// Force unit access: a write completes only when its data are durable.
    pub fua: bool,
    /// Cause of the command, as [`Device::origin`](super::Device::origin) returns it; 0 is unnamed.
    pub origin: Origin,
    /// Queue pair of the host, modulo their number; `None` for the one that has been idle longest.
    /// Commands to zones and above a host's mapping take queues in turn.
    pub queue: Option<u32>,
}

impl Command {
    /// A command of kind `op` on `sectors` sectors from `start`.
    #[must_use]
    pub const fn new(op: Op, start: u64, sectors: u32) -> Self {
        Self {
            op,
            extent: Extent::new(start, sectors),
            placement: Placement(0),
            fua: false,
            origin: Origin(0),
            queue: None,
        }
    }

    /// Reads `sectors` sectors from `start`.
    #[must_use]
    pub const fn read(start: u64, sectors: u32) -> Self {
        Self::new(Op::Read, start, sectors)
    }

    /// Writes `sectors` sectors from `start`. In a zone it continues at the write pointer, or begins
    /// at the first sector, which resets the zone.
    #[must_use]
    pub const fn write(start: u64, sectors: u32) -> Self {
        Self::new(Op::Write, start, sectors)
    }

    /// Deallocates `sectors` sectors from `start`.
    #[must_use]
    pub const fn deallocate(start: u64, sectors: u32) -> Self {
        Self::new(Op::Trim, start, sectors)
    }

    /// Makes all completed writes durable.
    #[must_use]
    pub const fn flush() -> Self {
        Self::new(Op::Flush, 0, 0)
    }

    /// Appends `sectors` sectors to the zone that contains sector `start`. The completion has their
    /// address.
    #[must_use]
    pub const fn append(start: u64, sectors: u32) -> Self {
        Self::new(Op::Append, start, sectors)
    }

    /// Empties the zone that contains sector `start`.
    #[must_use]
    pub const fn reset(start: u64) -> Self {
        Self::new(Op::ZoneReset, start, 0)
    }

    /// Makes the zone full that contains sector `start`.
    #[must_use]
    pub const fn finish(start: u64) -> Self {
        Self::new(Op::ZoneFinish, start, 0)
    }

    /// The same command with placement handle `handle`.
    #[must_use]
    pub const fn with_handle(self, handle: u16) -> Self {
        Self {
            placement: Placement(handle),
            ..self
        }
    }

    /// The same command, complete only when durable.
    #[must_use]
    pub const fn with_fua(self) -> Self {
        Self { fua: true, ..self }
    }

    /// The same command, caused by `origin`.
    #[must_use]
    pub const fn with_origin(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// The same command in queue pair `queue`.
    #[must_use]
    pub const fn on_queue(self, queue: u32) -> Self {
        Self {
            queue: Some(queue),
            ..self
        }
    }

    /// Refuses a command that a drive of `sectors` sectors, with or without zones, does not have.
    pub(super) fn check(&self, sectors: u64, has_zones: bool) -> Result<(), DeviceError> {
        let (op, found) = (self.op.name(), self.extent.sectors);
        if let Some(needed) = lacks(self.op, has_zones) {
            return Err(DeviceError::Command { op, needed });
        }
        if matches!(self.op, Op::Flush | Op::ZoneResetAll) {
            return Ok(());
        }
        let most = match self.op {
            Op::Read | Op::Write | Op::Append => MOST_SECTORS,
            _ => u32::MAX,
        };
        if !self.op.manages_zones() && !(1..=most).contains(&found) {
            return Err(DeviceError::Length { op, found, most });
        }
        let first = self.extent.start.0;
        // An append ends where the zone has room; a zone command addresses one sector.
        let length = match self.op {
            _ if self.op.needs_zones() => 1,
            _ => u64::from(found),
        };
        let end = first.saturating_add(length);
        if end > sectors {
            let last = first.saturating_add(length - 1);
            return Err(DeviceError::PastEnd {
                op,
                first,
                last,
                sectors,
            });
        }
        Ok(())
    }

    /// Whether the command changes what the drive holds.
    pub(super) const fn changes(&self) -> bool {
        !matches!(self.op, Op::Read | Op::Flush)
    }

    /// The request of a workload that is this command.
    pub(super) const fn request(&self) -> Request {
        Request {
            at: Ns::ZERO,
            op: self.op,
            extent: self.extent,
            placement: self.placement,
            origin: self.origin,
            fua: self.fua,
        }
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Number of the command, as its submission returned it.
    pub id: u64,
    /// Time at which the host submitted the command.
    pub submitted: Ns,
    /// Time at which the host had taken its completion in.
    pub completed: Ns,
    /// The error of the drive, if it failed the command.
    pub result: Result<(), IoError>,
    /// First sector that an append has written; `None` for other commands.
    pub address: Option<u64>,
}
