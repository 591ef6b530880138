//! Health report: the lifetime counters and the wear of a drive, as a document.

use crate::config::ConfigError;
use crate::drive::Drive;
use crate::ledger::Smart;
use serde::{Deserialize, Serialize};
use units::SECTOR;

/// Lifetime traffic and wear of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// Bytes that hosts read over the drive's life.
    pub host_read_bytes: u64,
    /// Bytes that hosts wrote over the drive's life.
    pub host_write_bytes: u64,
    /// Bytes of mapped pages programmed, for all causes.
    pub programmed_bytes: u64,
    /// Read commands that the drive received.
    pub read_commands: u64,
    /// Write commands that the drive received.
    pub write_commands: u64,
    /// Times the drive was powered on.
    pub power_cycles: u64,
    /// Power cycles that ended in a loss of power without a shutdown.
    pub unsafe_shutdowns: u64,
    /// Reads that failed for unreadable flash.
    pub media_errors: u64,
    /// Mean erases in hundredths of the rated cycles; may exceed 100.
    pub percentage_used: f64,
    /// Erase cycles that a block is rated for.
    pub rated_cycles: u32,
    /// Mean erases of the good blocks.
    pub mean_erases: f64,
    /// Erases of the least erased good block; 0 if there is none.
    pub min_erases: u32,
    /// Erases of the most erased good block; 0 if there is none.
    pub max_erases: u32,
    /// Blocks out of service.
    pub bad_blocks: u64,
}

impl Health {
    /// The health of `drive` with the counters in `smart`: those of its media, or [`Drive::smart`]
    /// to include the counts since power-on.
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

impl Drive {
    /// Erase counts of the good blocks, and the number of bad blocks.
    #[must_use]
    pub fn wear(&self) -> (Vec<u32>, u64) {
        let media = self.core.nand.media();
        let mut erases = Vec::new();
        let mut bad = 0;
        let geometry = self.core.nand.geometry();
        let blocks = 0..geometry.blocks() as usize;
        for block in blocks.map(|index| geometry.block_at(index)) {
            if media.state(block) == nand::BlockState::Bad {
                bad += 1;
            } else {
                erases.push(media.erases(block));
            }
        }
        (erases, bad)
    }
}
