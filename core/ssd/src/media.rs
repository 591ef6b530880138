//! A drive without power: what is left for power-on to begin with.

use crate::config::{ConfigError, DriveConfig};
use crate::front::FrontMedia;
use crate::journal::Trimmed;
use crate::ledger::Smart;
use crate::zoned::ZonesMedia;
use nand::{Media, Payload};
use sim::Seed;

/// What a drive holds without power. Clones share what neither has written.
#[derive(Clone, Debug)]
pub struct DriveMedia {
    /// The flash.
    pub cells: Media,
    /// What the capacitors let the firmware save when the power went.
    pub(crate) dump: Option<Dump>,
    /// What the battery of a front keeps.
    pub(crate) front: FrontMedia,
    /// What is kept of zones besides their flash.
    pub(crate) zones: ZonesMedia,
    /// Counters over the drive's life.
    pub smart: Smart,
}

/// Contents of a protected buffer, saved to a reserved area as the power went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dump {
    /// Buffered versions, oldest first.
    pub(crate) slots: Vec<SavedSlot>,
    /// Deallocations that were not yet on flash.
    pub(crate) trims: Vec<Trimmed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SavedSlot {
    pub(crate) page: u32,
    pub(crate) tag: u16,
    pub(crate) frontier: u16,
    pub(crate) payload: Vec<Payload>,
}

impl DriveMedia {
    /// A drive as it leaves the factory.
    ///
    /// # Errors
    /// If `config` cannot be built.
    pub fn new(config: &DriveConfig, seed: Seed) -> Result<Self, ConfigError> {
        let geometry = config.geometry.checked()?;
        let mut cells = Media::new(geometry);
        let bad = config.faults.factory_bad_blocks;
        if bad > 0 {
            cells.age_factory(bad, &mut seed.stream("factory"));
        }
        Ok(Self {
            cells,
            dump: None,
            front: FrontMedia::default(),
            zones: ZonesMedia::default(),
            smart: Smart::default(),
        })
    }
}
