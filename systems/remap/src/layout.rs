//! The areas of the medium, in units of 4 KiB.
//!
//! ```text
//! 0, 1      the superblock, and the same once more
//! 2, 3      checkpoints in turn
//! 4 ..      two directories: where each page of the tables is
//!           the log
//!           the tables: two places for each page
//!           data
//! ```
//!
//! Invariants: areas follow each other without gaps; a superblock is accepted only if its areas are
//! those that this module computes from its size and options.

use crate::config::FormatOptions;
use crate::format::{PER_DIRECTORY, PER_PAGE, Place, Super};
use nand::UNIT;
use std::ops::Range;
use units::{Bytes, NoSpace};

/// Sectors of 512 bytes in a unit.
pub(crate) const SECTORS: u64 = UNIT as u64 / units::SECTOR;
/// Units of the two checkpoint headers; checkpoint `n` writes `HEADERS[n % 2]`.
pub(crate) const HEADERS: [u32; 2] = [2, 3];
const DIRECTORY: u32 = 4;
/// Fewest log blocks. A transaction takes at most an eighth of the log, two blocks here.
const LOG_LEAST: u64 = 16;
/// Fewest spare units: requests in flight and one transaction may hold that many.
const SPARE_LEAST: u64 = 64;
/// Most units of a medium, just under 16 TiB: unit numbers have 32 bits.
const UNITS_MOST: u64 = u32::MAX as u64 - 16;

/// Reasons why a layer cannot be laid out on a medium.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The medium has too few units for metadata and the least data area.
    #[error("the medium is too small: {0}")]
    Small(NoSpace),
    /// The medium has more units than 32 bits can number.
    #[error("a medium of {0} is larger than 16 TiB, which units of 4 KiB with 32 bits reach")]
    Large(Bytes),
    /// An option is out of range; the text says what was expected.
    #[error("expected {0}")]
    Options(&'static str),
}

impl Super {
    /// Lays out the areas on a medium of `capacity`.
    pub(crate) fn plan(capacity: Bytes, options: &FormatOptions) -> Result<Self, LayoutError> {
        let units = capacity.0 / UNIT as u64;
        if units > UNITS_MOST {
            return Err(LayoutError::Large(capacity));
        }
        // A partition is no larger than the medium.
        let partition = (options.partition.0 / UNIT as u64).min(units);
        if partition == 0 || partition > 1 << 20 {
            return Err(LayoutError::Options("a partition of 4 KiB to 4 GiB"));
        }
        if !(1..=50).contains(&options.spare_percent) {
            return Err(LayoutError::Options("1 to 50 percent to spare"));
        }
        if !(1..=1000).contains(&options.log_per_10000) {
            return Err(LayoutError::Options(
                "1 to 1000 log blocks for 10,000 units",
            ));
        }
        let log = (units * u64::from(options.log_per_10000) / 10_000).max(LOG_LEAST);
        // The tables cover the whole medium, slightly more than the layer offers.
        let tables = units.div_ceil(partition);
        let pages = tables * pages_of(partition);
        let directory = pages.div_ceil(PER_DIRECTORY as u64);
        let before = u64::from(DIRECTORY) + 2 * directory + log + 2 * pages;
        let data = units.saturating_sub(before);
        let spare = (data * u64::from(options.spare_percent) / 100).max(SPARE_LEAST);
        let least = before + 2 * SPARE_LEAST;
        if units < least {
            return Err(LayoutError::Small(NoSpace::new(
                "units", least, units, units,
            )));
        }
        Ok(Self {
            uuid: options.uuid,
            units: units as u32,
            logical: (data - spare) as u32,
            partition: partition as u32,
            directory: DIRECTORY,
            directory_units: directory as u32,
            log: DIRECTORY + 2 * directory as u32,
            log_units: log as u32,
            tables: (u64::from(DIRECTORY) + 2 * directory + log) as u32,
            pages: pages as u32,
            data: before as u32,
            data_units: data as u32,
        })
    }

    /// Whether the areas are those that [`Self::plan`] computes, and fit on a medium of `units`.
    pub(crate) fn is_sound(&self, units: u64) -> bool {
        let wide = u64::from;
        let partition = wide(self.partition);
        if partition == 0 || partition > 1 << 20 || wide(self.units) > units {
            return false;
        }
        let pages = wide(self.units).div_ceil(partition) * pages_of(partition);
        wide(self.pages) == pages
            && wide(self.directory_units) == pages.div_ceil(PER_DIRECTORY as u64)
            && self.directory == DIRECTORY
            && wide(self.log) == wide(self.directory) + 2 * wide(self.directory_units)
            && wide(self.tables) == wide(self.log) + wide(self.log_units)
            && wide(self.data) == wide(self.tables) + 2 * pages
            && wide(self.data) + wide(self.data_units) == wide(self.units)
            && wide(self.log_units) >= LOG_LEAST
            && wide(self.logical) + SPARE_LEAST <= wide(self.data_units)
    }

    /// Number of partitions, and so of tables.
    pub(crate) fn partitions(&self) -> u32 {
        self.units.div_ceil(self.partition)
    }

    /// Pages of one table.
    pub(crate) fn pages_each(&self) -> u32 {
        pages_of(u64::from(self.partition)) as u32
    }

    /// Original addresses that a page of the tables covers; the last page of a table has unused
    /// entries.
    pub(crate) fn addresses(&self, page: u32) -> Range<u32> {
        let each = PER_PAGE as u32;
        let (part, at) = (page / self.pages_each(), page % self.pages_each());
        let first = part * self.partition + at * each;
        let end = (part * self.partition).saturating_add(self.partition);
        first..first.saturating_add(each).min(end)
    }

    /// Unit of a table page at `place`; `None` if the page is on the medium nowhere.
    pub(crate) const fn page_at(&self, page: u32, place: Place) -> Option<u32> {
        match place {
            Place::Absent => None,
            Place::First => Some(self.tables + page),
            Place::Second => Some(self.tables + self.pages + page),
        }
    }

    /// First unit of the directory of checkpoint `sequence`; the two directories alternate.
    pub(crate) const fn directory_at(&self, sequence: u64) -> u32 {
        self.directory + (sequence % 2) as u32 * self.directory_units
    }
}

fn pages_of(partition: u64) -> u64 {
    partition.div_ceil(PER_PAGE as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{GIB, MIB, TIB};

    #[test]
    fn plan_is_sound_and_of_the_size_in_the_paper() {
        for size in [4 * MIB, 64 * MIB, GIB, 256 * GIB, 3 * TIB] {
            let plan = Super::plan(Bytes(size), &FormatOptions::default()).unwrap();
            assert!(plan.is_sound(size / UNIT as u64), "{plan:?}");
            assert!(!plan.is_sound(size / UNIT as u64 - 1));
        }
        let plan = Super::plan(Bytes(256 * GIB), &FormatOptions::default()).unwrap();
        // 4 KiB for 2 MiB.
        assert_eq!(plan.log_units, (256 * GIB / (2 * MIB)) as u32 * 1024 / 1000);
    }

    #[test]
    fn plan_of_an_impossible_layout_names_the_reason() {
        let plan = |size, options: FormatOptions| Super::plan(Bytes(size), &options).unwrap_err();
        let usual = FormatOptions::default();
        let small = plan(MIB / 2, usual.clone()).to_string();
        assert!(
            small.starts_with("the medium is too small: units: "),
            "{small}"
        );
        assert!(matches!(
            plan(17 * TIB, usual.clone()),
            LayoutError::Large(_)
        ));
        let spare = FormatOptions {
            spare_percent: 0,
            ..usual
        };
        assert!(plan(GIB, spare).to_string().contains("percent to spare"));
    }
}
