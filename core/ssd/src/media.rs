//! A drive without power: the state from which power-on starts.

use crate::config::{ConfigError, DriveConfig};
use crate::front::FrontMedia;
use crate::journal::Trimmed;
use crate::ledger::Smart;
use crate::zoned::ZonesMedia;
use nand::{Media, Payload};
use sim::Seed;

/// State that a drive keeps without power. Clones share memory until either is written.
#[derive(Clone, Debug)]
pub struct DriveMedia {
    /// Cells of the flash.
    pub cells: Media,
    /// Buffer contents that the capacitors let the firmware save at the last power loss.
    pub(crate) dump: Option<Dump>,
    /// Battery-backed memory of the front.
    pub(crate) front: FrontMedia,
    /// Non-volatile state of the zones besides their flash.
    pub(crate) zones: ZonesMedia,
    /// Counters over the drive's life.
    pub smart: Smart,
}

/// Contents of a protected buffer, saved to a reserved area as the power went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dump {
    /// Buffered versions, in the order of their slots; one for each page.
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

impl PartialEq for DriveMedia {
    /// Whether both drives hold the same. The counters of their lives are left out: no command is
    /// answered from them but a request for the log pages.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            cells,
            dump,
            front,
            zones,
            smart: _,
        } = self;
        *cells == other.cells
            && *dump == other.dump
            && *front == other.front
            && *zones == other.zones
    }
}

impl DriveMedia {
    /// A drive as it leaves the factory, with bad blocks drawn from `seed`.
    ///
    /// # Errors
    /// If the geometry of `config` is impossible.
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
