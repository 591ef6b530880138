//! Configuration and errors of a mapping.

use crate::table::PmTable;
use ssd::{DriveConfig, RawError, VictimPolicy};
use units::{Bytes, MIB, NoSpace};

/// Configuration of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlConfig {
    /// Capacity of the block port in bytes; the rest of the flash is spare.
    pub capacity: Bytes,
    /// Hidden sectors of 4 KiB behind the capacity, reachable only by the sector calls of
    /// [`crate::HostFtl`].
    pub hidden: u32,
    /// Size of the write buffer in host memory; its contents survive a power cut only with a
    /// [`crate::PmBuffer`].
    pub buffer: Bytes,
    /// Policy that selects the next line to clean.
    pub victim: VictimPolicy,
    /// Free lines closed to new data, for cleaning alone; at least one.
    pub reserve: u32,
    /// Free lines beyond the reserve below which cleaning runs; below that, writes are throttled
    /// the more the fewer lines are free.
    pub background: u32,
}

impl FtlConfig {
    /// A mapping of `capacity`. Buffer, policy and free lines are those of the generic drives, so
    /// that host and drive mappings differ in their location alone.
    #[must_use]
    pub const fn new(capacity: Bytes) -> Self {
        Self {
            capacity,
            hidden: 0,
            buffer: Bytes(6 * MIB),
            victim: VictimPolicy::Greedy,
            reserve: 2,
            background: 2,
        }
    }

    /// A mapping with the capacity, write buffer and cleaning options of `drive`: the host does
    /// what a drive with its own mapping would do with them.
    #[must_use]
    pub const fn of(drive: &DriveConfig) -> Self {
        Self {
            capacity: drive.capacity,
            hidden: 0,
            buffer: drive.controller.write_buffer,
            victim: drive.collection.victim,
            reserve: drive.collection.reserve_lines,
            background: drive.collection.background_lines,
        }
    }
}

/// Location of the table.
#[derive(Clone)]
pub enum Home {
    /// In volatile memory; recovery rebuilds the table from the metadata of the sectors on flash.
    Dram,
    /// In persistent memory; a mount uses the table as it is.
    Pm(PmTable),
    /// In persistent memory that has no complete table yet: rebuilt once as for [`Self::Dram`],
    /// then kept there.
    Moving(PmTable),
}

/// Reasons why a mount fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FtlError {
    /// The flash has too few blocks or good lines for the sectors.
    #[error("too little flash for the mapping: {0}")]
    Space(NoSpace),
    /// The reserve is 0, so cleaning could not move anything.
    #[error("cleaning needs a reserve of at least one line")]
    Reserve,
    /// Blocks of the drive become readable only some writes later.
    #[error(
        "the drive reads a block only once {0} more are written, which this mapping does not wait for"
    )]
    Cached(u32),
    /// Version numbers on flash or in the buffer leave too few for a mount.
    #[error("the numbers of versions on flash have come to their end")]
    Numbers,
    /// The table in persistent memory is damaged, or of another mapping or drive.
    #[error("the table is damaged: {0}")]
    Table(String),
    /// The write buffer in persistent memory is damaged, or of another mapping or drive.
    #[error("the write buffer makes no sense: {0}")]
    Buffer(String),
    /// The drive returned an error.
    #[error(transparent)]
    Drive(#[from] RawError),
}
