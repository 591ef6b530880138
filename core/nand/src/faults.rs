//! Injected failures, each a chance in a million operations.

use serde::{Deserialize, Serialize};

/// How often what fails. All zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Blocks that are bad from the factory, in a million.
    pub factory_bad_blocks: u32,
    /// Programs that fail, in a million.
    pub program_failures: u32,
    /// Erases that fail, in a million.
    pub erase_failures: u32,
    /// Reads that need another pass, in a million; each pass draws again.
    pub read_retries: u32,
    /// Passes beyond the first one after which a read is uncorrectable.
    pub read_passes: u32,
    /// Whether a block fails its erase once its rated cycles are used up.
    pub wear_out: bool,
}
