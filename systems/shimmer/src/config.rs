//! Options of the core, and limits of the zones.

use units::{Bytes, MIB};

/// Size of a block in bytes, the unit in which zones are written: 4,096.
//= dissertation 5.3.2
pub const BLOCK: u64 = 4096;

/// Number of zones for the log; these are the first zones of the device.
pub const LOG_ZONES: u32 = 2;

/// Placement of a file's data. The core only compares both numbers for equality;
/// [`Policy::Lifetime`] also orders groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// Stream of the writer; streams share zones only if they must.
    pub stream: u32,
    /// Lifetime group, by expected time of deletion. Larger is later.
    pub group: u32,
}

/// Policy that chooses the zone for data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each pair of stream and group fills zones of its own.
    //= dissertation 5.5
    Streams,
    /// Data go to the active zone with the closest lifetime group that is not shorter than theirs.
    /// This is the policy of ZenFS.
    Lifetime,
}

/// Options of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a buffer, and the largest write in bytes; a power of two.
    pub extent: Bytes,
    /// Maximum number of buffers being filled, and of full buffers waiting to be written.
    pub buffers: u32,
    /// Policy that chooses the zone for data.
    pub policy: Policy,
    /// Whether live data are relocated so that their zone can be reset.
    pub relocate: bool,
    /// Reclaiming starts when fewer zones than this are free.
    pub free_zones_min: u32,
    /// Length of the log in blocks at which it is replaced by a snapshot.
    pub log_blocks_max: u32,
}

impl Default for Options {
    /// Extents of 32 MiB and reclaiming below four free zones, as in the dissertation; 16 buffers,
    /// as in its artifact. The log of 16 MiB is our choice: it is read in tenths of a second.
    //= dissertation 5.3.3
    fn default() -> Self {
        Self {
            extent: Bytes(32 * MIB),
            buffers: 16,
            policy: Policy::Streams,
            relocate: true,
            free_zones_min: 4,
            log_blocks_max: 4096,
        }
    }
}

impl Options {
    /// Options that mimic ZenFS: placement by lifetime, and no relocation.
    #[must_use]
    pub fn zenfs() -> Self {
        Self {
            policy: Policy::Lifetime,
            relocate: false,
            ..Self::default()
        }
    }

    pub(crate) fn extent_blocks(&self) -> u64 {
        self.extent.0 / BLOCK
    }
}

/// Limits of zones that may be written at the same time; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of open zones.
    pub open: u32,
    /// Maximum number of active zones: those partly written, open or not.
    pub active: u32,
}

impl Limits {
    /// Limits for data zones: of the log's two zones both may be active, and one is open. `None` if
    /// nothing is left for data.
    pub(crate) fn for_data(self) -> Option<Self> {
        let left = |limit: u32, log| match limit {
            0 => Some(u32::MAX),
            _ => limit.checked_sub(log).filter(|&left| left > 0),
        };
        Some(Self {
            open: left(self.open, 1)?,
            active: left(self.active, 2)?,
        })
    }
}

/// State of a zone as its device reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Capacity of the zone in bytes.
    pub capacity: u64,
    /// Number of bytes written from the start; the capacity if the zone was finished.
    pub written: u64,
}
