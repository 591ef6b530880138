//! Preconditioned drives: the flash as a past workload would have left it, without running it.
//!
//! The firmware powers on from such flash as from any other.
//! *Full*: every page written once, in order. *Aged*: the steady state of uniform random
//! overwrites. Either is a function ([`Past`]).

use crate::config::{ConfigError, DriveConfig};
use crate::layout::Layout;
use crate::media::DriveMedia;
use crate::past::Past;
use crate::zoned::{self, ZoneLayout};
use nand::{BlockState, Media};
use serde::{Deserialize, Serialize};
use sim::Seed;
use std::sync::Arc;

/// Past workload of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Precondition {
    /// No past: the flash is erased.
    #[default]
    Fresh,
    /// Every page written once, in order; on a zoned drive every zone except conventional ones.
    Full,
    /// Overwritten at random until garbage collection is in its steady state.
    Aged,
}

impl Precondition {
    /// Every past, in the order in which reports list them.
    pub const ALL: [Self; 3] = [Self::Fresh, Self::Full, Self::Aged];

    /// The past's name in plans and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::Full => "full",
            Self::Aged => "aged",
        }
    }

    /// A new drive with this past; `seed` draws bad blocks and the aged state.
    ///
    /// # Errors
    /// If `config` cannot be built, has too little spare flash to be aged, or has more bad blocks
    /// than leave room for this past.
    pub fn media(self, config: &DriveConfig, seed: Seed) -> Result<DriveMedia, ConfigError> {
        let layout = Layout::new(config)?;
        if self == Self::Fresh {
            return DriveMedia::new(config, seed);
        }
        if let Some(zones) = ZoneLayout::new(config)? {
            return self.zoned_media(config, &zones, seed);
        }
        if config.raw.is_some() {
            let expected =
                "fresh, as what the host of this drive has mapped it has to write itself";
            return Err(ConfigError::range("precondition", self.name(), expected));
        }
        let lines = layout.aged_lines(config);
        if self == Self::Aged {
            check_aged(&layout, lines)?;
        }
        let mut media = DriveMedia::new(config, seed)?;
        let bad = bad_blocks(config, &media.cells);
        let past = match self {
            Self::Aged => Past::aged(layout, bad, lines, seed),
            _ => Past::full(layout, bad),
        };
        past.check_blocks()?;
        media.cells = Media::with_past(config.geometry, Arc::new(past));
        Ok(media)
    }

    /// A new zoned drive whose sequential zones are all full. Zones do not age: the drive relocates
    /// no data of theirs.
    fn zoned_media(
        self,
        config: &DriveConfig,
        zones: &ZoneLayout,
        seed: Seed,
    ) -> Result<DriveMedia, ConfigError> {
        if self == Self::Aged {
            let expected = "fresh or full on a zoned drive, which moves no data of its own";
            return Err(ConfigError::range("precondition", self.name(), expected));
        }
        let mut media = DriveMedia::new(config, seed)?;
        zoned::write_full(zones, &mut media.cells)?;
        Ok(media)
    }
}

/// Indices of the blocks that are bad from the factory.
fn bad_blocks(config: &DriveConfig, cells: &Media) -> Vec<u32> {
    if config.faults.factory_bad_blocks == 0 {
        return Vec::new();
    }
    let geometry = cells.geometry();
    let is_bad = |&index: &u32| {
        let block = geometry.block_at(index as usize);
        cells.state(block) == BlockState::Bad
    };
    (0..geometry.blocks() as u32).filter(is_bad).collect()
}

/// Checks that `lines` lines of each group, which hold the data of an aged drive, can hold all host
/// pages.
fn check_aged(layout: &Layout, lines: u32) -> Result<(), ConfigError> {
    let each = layout.host_pages.div_ceil(layout.groups);
    let need = each.div_ceil(layout.line_data);
    if lines >= need {
        return Ok(());
    }
    Err(ConfigError::Aged { lines, need })
}
