//! What a mapping is made with, and why there is none.

use crate::table::PmTable;
use ssd::{DriveConfig, RawError, VictimPolicy};
use units::{Bytes, MIB, NoSpace};

/// How a mapping works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FtlConfig {
    /// Bytes that it gives to its user; the rest of the flash is spare.
    pub capacity: Bytes,
    /// Sectors of 4 KiB behind those, which its user may have for what nobody else sees.
    pub hidden: u32,
    /// Write buffer, in memory of the host: what it holds lasts only with a [`crate::PmBuffer`].
    pub buffer: Bytes,
    /// Which line is cleaned next.
    pub victim: VictimPolicy,
    /// Free lines that only cleaning may take.
    pub reserve: u32,
    /// Free lines beyond the reserve below which lines are cleaned, and writes wait the
    /// longer the fewer there are.
    pub background: u32,
}

impl FtlConfig {
    /// A mapping that gives `capacity`. Buffer, policy and free lines are those of the
    /// generic drives, so that what differs between them is who holds the mapping.
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

    /// The mapping for a drive whose description says how much it gives, how large its write
    /// buffer is and how it is cleaned: what a drive does with these that maps itself, its
    /// host does here.
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

/// Where the table is.
#[derive(Clone)]
pub enum Home {
    /// In memory that the power takes; it is rebuilt from what lies beside the sectors.
    Dram,
    /// In persistent memory.
    Pm(PmTable),
    /// In persistent memory that has none yet, or none as a whole: it is rebuilt as that in
    /// memory, once.
    Moving(PmTable),
}

/// Why a mapping cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FtlError {
    /// The flash is too small for what it is to hold.
    #[error("too little flash for the mapping: {0}")]
    Space(NoSpace),
    /// No free line is kept for cleaning, which could not move anything then.
    #[error("cleaning needs a reserve of at least one line")]
    Reserve,
    /// The drive reads blocks only some writes later.
    #[error(
        "the drive reads a block only once {0} more are written, which this mapping does not wait for"
    )]
    Cached(u32),
    /// Versions on flash have numbers that leave none to count on with.
    #[error("the numbers of versions on flash have come to their end")]
    Numbers,
    /// The table makes no sense.
    #[error("the table is damaged: {0}")]
    Table(String),
    /// The write buffer in persistent memory makes no sense.
    #[error("the write buffer makes no sense: {0}")]
    Buffer(String),
    /// The drive has refused something.
    #[error(transparent)]
    Drive(#[from] RawError),
}
