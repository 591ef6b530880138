//! A device without power: its flash, and the part of its DRAM that the battery keeps.
//!
//! Invariant: a device powered on from these media returns every line as last accepted.
//! Pages that the host had taken are the exception: their lines have some value that was
//! accepted once.

use crate::cache::Contents;
use crate::config::{ConfigError, DeviceConfig};
use crate::log::KeptLog;
use memsys::LineData;
use sim::Seed;
use ssd::{DriveMedia, Precondition};

/// State of the front that the battery keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontMedia {
    /// Dirty pages of the cache, set by set, the least recently used first.
    pub(crate) pages: Vec<(u32, Contents)>,
    /// Lines held by registers: page, line in the page, data.
    pub(crate) lines: Vec<(u32, u32, LineData)>,
    /// Both halves of the log; `None` without one.
    pub(crate) log: Option<KeptLog>,
}

/// Persistent state of a device. Clones share contents copy-on-write.
#[derive(Clone, Debug)]
pub struct DeviceMedia {
    /// Flash and protected DRAM of the drive behind the front.
    pub drive: DriveMedia,
    pub(crate) front: FrontMedia,
}

impl DeviceMedia {
    /// Media with flash preconditioned by `past` and an empty DRAM.
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
