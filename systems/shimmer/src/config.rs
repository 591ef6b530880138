//! What may be chosen, and what the zones allow.

use units::{Bytes, MIB};

/// Bytes of a block, the unit in which zones are written: 4,096.
//= dissertation 5.3.2
pub const BLOCK: u64 = 4096;

/// The zones whose blocks tell of all others.
pub const LOG_ZONES: u32 = 2;

/// Where a file's data belong. To this crate both are numbers that are equal or not;
/// [`Policy::Lifetime`] also compares groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    /// The stream: who writes.
    pub stream: u32,
    /// The lifetime group: when its data are expected to go. Larger is later.
    pub group: u32,
}

/// Which zone data go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Each stream and group fills zones of its own.
    //= dissertation 5.5
    Streams,
    /// Data go to the open zone whose first data live longest among those that fit: not
    /// shorter than theirs, and as close as can be. This is how ZenFS places.
    Lifetime,
}

/// Choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of a buffer, and the most that is sent at once; a power of two.
    pub extent: Bytes,
    /// Buffers that are filled at once, and those that wait to be written.
    pub buffers: u32,
    /// Which zone data go to.
    pub policy: Policy,
    /// Whether data that are still needed are moved so that their zone can be reset.
    pub relocate: bool,
    /// Fewer free zones than this start reclaiming.
    pub free_zones_min: u32,
    /// Blocks of the log after which it begins anew with a snapshot.
    pub log_blocks_max: u32,
}

impl Default for Options {
    /// Extents of 32 MiB and reclaiming below four free zones, as in the dissertation;
    /// 16 buffers, as in its artifact. A log of 16 MiB is ours: it is read within tenths
    /// of a second.
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
    /// The way of ZenFS: lifetimes that fit, and nothing is moved.
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

/// How many zones may be written to at once; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Zones that are open.
    pub open: u32,
    /// Zones that are partly written, open or not.
    pub active: u32,
}

impl Limits {
    /// What is left for data: of the log's two zones both are partly written, and one is
    /// open. None if that is nothing.
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

/// What a device says of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Bytes that it can hold.
    pub capacity: u64,
    /// Bytes that are written, from its start; all of them if it was finished.
    pub written: u64,
}
