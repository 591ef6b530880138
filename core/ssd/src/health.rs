//! The counters of a drive over its life, as a document.

use crate::config::ConfigError;
use crate::drive::Drive;
use crate::ledger::Smart;
use serde::{Deserialize, Serialize};
use units::SECTOR;

/// What a drive has done and how worn it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Bytes that hosts read.
    pub host_read_bytes: u64,
    /// Bytes that hosts wrote.
    pub host_write_bytes: u64,
    /// Bytes of mapped pages programmed.
    pub programmed_bytes: u64,
    /// Read commands.
    pub read_commands: u64,
    /// Write commands.
    pub write_commands: u64,
    /// Times the drive was powered on.
    pub power_cycles: u64,
    /// Of those, times the power had gone without a shutdown.
    pub unsafe_shutdowns: u64,
    /// Reads that could not be answered.
    pub media_errors: u64,
    /// Mean erases in hundredths of the rated cycles.
    pub percentage_used: f64,
    /// Cycles that a block is rated for.
    pub rated_cycles: u32,
    /// Mean erases of the good blocks.
    pub mean_erases: f64,
    /// Erases of the least erased one.
    pub min_erases: u32,
    /// Erases of the most erased one.
    pub max_erases: u32,
    /// Blocks out of service.
    pub bad_blocks: u64,
}

impl Health {
    /// The health of `drive`, with its counters as `smart` has them: those of its
    /// media, or [`Drive::smart`] for what it did since power-on too.
    ///
    /// # Errors
    /// If the flash of the drive has no rated cycles.
    pub fn of(drive: &Drive, smart: Smart) -> Result<Self, ConfigError> {
        let (erases, bad_blocks) = drive.wear();
        let total: u64 = erases.iter().map(|&n| u64::from(n)).sum();
        let mean_erases = total as f64 / erases.len().max(1) as f64;
        let rated_cycles = drive.config().endurance()?;
        Ok(Self {
            host_read_bytes: smart.host_read_sectors * SECTOR,
            host_write_bytes: smart.host_write_sectors * SECTOR,
            programmed_bytes: smart.programmed_pages * drive.layout().page_bytes(),
            read_commands: smart.read_commands,
            write_commands: smart.write_commands,
            power_cycles: smart.power_cycles,
            unsafe_shutdowns: smart.unsafe_shutdowns,
            media_errors: smart.media_errors,
            percentage_used: 100.0 * mean_erases / f64::from(rated_cycles.max(1)),
            rated_cycles,
            mean_erases,
            min_erases: erases.iter().min().copied().unwrap_or(0),
            max_erases: erases.iter().max().copied().unwrap_or(0),
            bad_blocks,
        })
    }
}
