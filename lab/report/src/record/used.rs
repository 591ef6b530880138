//! Facts of a file system that was used before a run.

use serde::{Deserialize, Serialize};

/// Use of a file system before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsedPast {
    /// Percentage of the drive's capacity that files fill.
    pub fill_percent: u64,
    /// Bytes of these files.
    pub file_bytes: u64,
    /// Number of these files.
    pub files: u64,
    /// Bytes that programs wrote to make these files and all before them.
    pub written_bytes: u64,
    /// Number of windows, each of the drive's capacity in bytes of programs, in which files were
    /// written over.
    pub windows: u64,
    /// Whether the last two windows agree in total write amplification within 2 %.
    pub steady: bool,
    /// Total write amplification of the last window: bytes programmed over bytes of programs.
    pub waf: f64,
}
