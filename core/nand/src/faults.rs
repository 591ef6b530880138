//! Rates of injected failures, each in failures per million operations.

use serde::{Deserialize, Serialize};

/// Rates of injected failures. All are zero by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// Blocks per million that are bad from the factory.
    pub factory_bad_blocks: u32,
    /// Programs per million that fail.
    pub program_failures: u32,
    /// Erases per million that fail.
    pub erase_failures: u32,
    /// Reads per million that need another pass; each pass draws again.
    pub read_retries: u32,
    /// Maximum number of retries of a read; the read is then uncorrectable.
    pub read_passes: u32,
    /// Whether erases of a block fail once its rated cycles are used up.
    pub wear_out: bool,
}
