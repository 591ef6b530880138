//! A device without power: flash, and what the battery keeps of its DRAM.
//!
//! Invariant: a device made of this shows every line as it was accepted, but for pages
//! that the host had taken: of these it shows some line that was accepted once.

use crate::cache::Contents;
use crate::config::{ConfigError, DeviceConfig};
use crate::log::KeptLog;
use memsys::LineData;
use sim::Seed;
use ssd::{DriveMedia, Precondition};

/// What is kept of the front.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontMedia {
    /// Pages of the cache that nothing else has, set by set and the oldest of each first.
    pub(crate) pages: Vec<(u32, Contents)>,
    /// Lines that were written to pages on their way.
    pub(crate) lines: Vec<(u32, u32, LineData)>,
    /// The log.
    pub(crate) log: Option<KeptLog>,
}

/// What a device holds without power. Clones share what neither has written.
#[derive(Clone, Debug)]
pub struct DeviceMedia {
    /// The drive behind the front.
    pub drive: DriveMedia,
    pub(crate) front: FrontMedia,
}

impl DeviceMedia {
    /// A device whose flash has that past and whose DRAM holds nothing.
    ///
    /// # Errors
    /// If `config` cannot be built or have that past.
    //= skybyte 6.1
    pub fn new(config: &DeviceConfig, past: Precondition, seed: Seed) -> Result<Self, ConfigError> {
        Ok(Self {
            drive: past.media(&config.drive, seed)?,
            front: FrontMedia::default(),
        })
    }
}
