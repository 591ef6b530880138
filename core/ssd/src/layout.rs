//! The layout of a drive: sizes and address arithmetic, resolved once from its configuration.
//!
//! A *page* here is a mapped page ([`crate::Mapping::unit`]). The number of a page on flash encodes
//! its line, its unit in the line, and its position in the unit. Units rotate over the dies of the
//! line's group, so that consecutive programs go to different dies.
//!
//! Invariants: pages on flash are fewer than [`crate::map::MAX_PLACES`], so line times pages of a line,
//! and any sum of a line's first page and a position in it, stay within 32 bits. Slots of the write
//! buffer are at most [`crate::map::MAX_SLOTS`].

mod limits;

pub(crate) use limits::few_sectors;

use crate::config::{ConfigError, DriveConfig, Interface, SpareSplit};
use crate::journal;
use crate::raw::RawGeometry;
use crate::zoned::{self, ZoneLayout};
use nand::{Geometry, MAX_PLANES, Row, UNIT};
use units::Bytes;

/// Marks an absent page, line or slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Division by a constant that is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Divisor {
    by: u32,
    reciprocal: u64,
}

impl Divisor {
    pub(crate) fn new(by: u32) -> Self {
        // Exact for every dividend of 32 bits (Lemire, Kaser, Kurz 2019).
        let reciprocal = (u64::MAX / u64::from(by)).wrapping_add(1);
        Self { by, reciprocal }
    }

    #[inline]
    pub(crate) fn split(self, dividend: u32) -> (u32, u32) {
        if self.by == 1 {
            return (dividend, 0);
        }
        let quotient = ((u128::from(self.reciprocal) * u128::from(dividend)) >> 64) as u32;
        (quotient, dividend - quotient * self.by)
    }
}

/// Resolved sizes of a drive. Counts are of mapped pages unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Shape of the flash, in dies, planes, blocks and pages.
    pub geometry: Geometry,
    /// 4 KiB sectors in a mapped page.
    pub sectors_per_page: u32,
    /// Mapped pages that the host may use.
    pub host_pages: u32,
    /// Translation pages of a paged map; they are mapped like host pages and numbered after them. 0
    /// if the whole map is in DRAM.
    pub map_pages: u32,
    /// Map entries in a translation page, of 4 bytes each.
    pub entries_per_map_page: u32,
    /// Pages of a unit, that is of one multi-plane program.
    pub unit: u32,
    /// Units of a line, over all dies of its group.
    pub units_per_line: u32,
    /// Pages of a line, summary included.
    pub line_pages: u32,
    /// Data pages of a line; the rest of the line, at its end, is its summary.
    pub line_data: u32,
    /// Lines of a reclaim group; 0 on a drive that maps no page.
    pub lines_per_group: u32,
    /// Reclaim groups of the drive, at least 1.
    pub groups: u32,
    /// Dies of a reclaim group.
    pub dies_per_group: u32,
    /// Placement handles in each reclaim group.
    pub handles: u32,
    /// Bits of a spare word that name the page; the rest name its origin.
    pub page_bits: u32,
    /// Mapped pages that the write buffer holds.
    pub buffer_pages: u32,
    /// Frontiers of a group that take relocated data of handles: one for each handle where they
    /// stay separate, one for cold and one for hot data where [`tells_hot()`] says so and there is
    /// space for both, else one.
    pub(crate) movers: u32,
    pub(crate) line: Divisor,
    group_of: Divisor,
    unit_of: Divisor,
    die: Divisor,
    flash_row: Divisor,
    flash_page: Divisor,
}

/// Whether a drive of `handles` that mixes relocated data tells hot from cold: its firmware counts
/// the death rates of handles.
fn tells_hot(config: &DriveConfig, handles: u32) -> bool {
    let placement = &config.placement;
    let counts = placement.spare == SpareSplit::ByDemand && config.collection.separate;
    counts && handles > 1 && !placement.persistently_isolated
}

/// Position of a mapped page within the flash of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Index of the die in the group.
    pub(crate) die: u32,
    /// Page row in the unit's blocks.
    pub(crate) row: u32,
    pub(crate) plane: u32,
    /// First 4 KiB sector in the flash page.
    pub(crate) sector: u32,
}

impl Layout {
    /// The layout of `config`. For a zoned drive it covers the conventional zones alone, and has no
    /// lines if there are none; for an open-channel drive it has no lines.
    ///
    /// # Errors
    /// Names the knob that makes the drive impossible.
    pub fn new(config: &DriveConfig) -> Result<Self, ConfigError> {
        config.check_ranges()?;
        if RawGeometry::new(config)?.is_some() {
            return Ok(Self::without_lines(&zoned::conventional(config)?));
        }
        if ZoneLayout::new(config)?.is_none() {
            return Self::mapped(config);
        }
        let part = zoned::conventional(config)?;
        if part.capacity.0 > 0 {
            return Self::mapped(&part);
        }
        Ok(Self::without_lines(&part))
    }

    /// The layout of a drive that maps no page.
    fn without_lines(config: &DriveConfig) -> Self {
        let geometry = config.geometry;
        let unit = geometry.sectors_per_program();
        let units_per_line =
            geometry.dies() * (geometry.pages_per_block / geometry.pages_per_program);
        Self {
            sectors_per_page: 1,
            host_pages: 0,
            map_pages: 0,
            entries_per_map_page: UNIT as u32 / 4,
            unit,
            units_per_line,
            line_pages: units_per_line * unit,
            line_data: units_per_line * unit,
            lines_per_group: 0,
            groups: 1,
            dies_per_group: geometry.dies(),
            handles: 1,
            page_bits: 2,
            buffer_pages: 0,
            movers: 1,
            line: Divisor::new(units_per_line * unit),
            group_of: Divisor::new(1),
            unit_of: Divisor::new(unit),
            die: Divisor::new(geometry.dies()),
            flash_row: Divisor::new(geometry.planes * geometry.sectors_per_page()),
            flash_page: Divisor::new(geometry.sectors_per_page()),
            geometry,
        }
    }

    fn mapped(config: &DriveConfig) -> Result<Self, ConfigError> {
        let geometry = config.geometry.checked()?;
        let sectors_per_page = mapping_unit(config)?;
        let groups = u32::from(config.placement.reclaim_groups);
        if groups == 0 || !geometry.dies().is_multiple_of(groups) {
            let expected = format!("a divisor of the {} dies", geometry.dies());
            let knob = "placement.reclaim_groups";
            return Err(ConfigError::range(knob, groups, expected));
        }
        let handles = handles(config)?;
        let lines_per_group = lines_per_group(config)?;
        let page_bytes = u64::from(sectors_per_page) * UNIT as u64;
        let host_pages = limits::host_pages(config, page_bytes)?;
        limits::check_places(config, lines_per_group, page_bytes)?;
        let unit = geometry.sectors_per_program() / sectors_per_page;
        let dies_per_group = geometry.dies() / groups;
        let units_per_line =
            dies_per_group * (geometry.pages_per_block / geometry.pages_per_program);
        let line_pages = units_per_line * unit;
        let summary = (u64::from(line_pages) * 4).div_ceil(page_bytes) as u32;
        let line_data = line_data(&geometry, line_pages, summary)?;
        let entries_per_map_page = (page_bytes / 4) as u32;
        let map_pages = if config.mapping.cache.0 == 0 {
            0
        } else {
            host_pages.div_ceil(entries_per_map_page)
        };
        // Three numbers above those of the pages mark words that name no page.
        let page_bits = u32::BITS - (host_pages + map_pages + 3).leading_zeros();
        let layout = Self {
            geometry,
            sectors_per_page,
            host_pages,
            map_pages,
            entries_per_map_page,
            unit,
            units_per_line,
            line_pages,
            line_data,
            lines_per_group,
            groups,
            dies_per_group,
            handles,
            page_bits,
            buffer_pages: u32::try_from(config.controller.write_buffer.0 / page_bytes)
                .unwrap_or(u32::MAX),
            movers: 1,
            line: Divisor::new(line_pages),
            group_of: Divisor::new(lines_per_group),
            unit_of: Divisor::new(unit),
            die: Divisor::new(dies_per_group),
            flash_row: Divisor::new(
                geometry.planes * geometry.sectors_per_page() / sectors_per_page,
            ),
            flash_page: Divisor::new(geometry.sectors_per_page() / sectors_per_page),
        };
        layout.check_buffer()?;
        limits::check_slots(&layout, config)?;
        layout.with_movers(config)
    }

    /// The layout with as many frontiers for relocated data as there is space for.
    fn with_movers(mut self, config: &DriveConfig) -> Result<Self, ConfigError> {
        if tells_hot(config, self.handles) {
            self.movers = 2;
            if self.check_space(config).is_ok() {
                return Ok(self);
            }
        }
        self.movers = self.first_movers(config);
        self.check_space(config)?;
        Ok(self)
    }

    fn check_buffer(&self) -> Result<(), ConfigError> {
        // Each frontier of the host may hold back pages that do not fill a program.
        let handles = self.handles.saturating_mul(self.groups);
        let need = self.unit.saturating_mul(handles);
        if self.buffer_pages >= need {
            return Ok(());
        }
        let each = self.bytes(self.unit);
        let expected = format!("a program ({each}) for each of {handles} handles");
        let knob = "controller.write_buffer";
        Err(ConfigError::range(
            knob,
            self.bytes(self.buffer_pages),
            expected,
        ))
    }

    /// Checks that the host's data fit beside the lines that must stay available.
    fn check_space(&self, config: &DriveConfig) -> Result<(), ConfigError> {
        let lines = self.lines_per_group;
        let hold = self.most_valid(config, lines).saturating_sub(self.spread());
        let hold = hold * u64::from(self.groups);
        let pages = u64::from(self.pages());
        if hold >= pages {
            return Ok(());
        }
        // Share of the pages that a paged map takes for itself.
        let most = match self.map_pages {
            0 => hold,
            _ => hold - hold.div_ceil(u64::from(self.entries_per_map_page) + 1),
        };
        Err(ConfigError::Space {
            lines,
            line: self.bytes(self.line_pages),
            user: self.bytes(pages.div_ceil(u64::from(self.groups)) as u32),
            need: self.lines_besides(config),
            most: Bytes(most * self.page_bytes()),
        })
    }

    /// Lines that a checkpoint of the journal may fill, wherever in a line it begins; 0 if it fits
    /// in one line when it begins with it.
    pub(crate) fn checkpoint_lines(&self) -> u32 {
        let filled = self.host_pages.div_ceil(journal::BITS) / self.data_units().max(1);
        filled + u32::from(filled > 0)
    }

    /// Lines of a group that may be nearly empty: the open ones of the host, of collection and of a
    /// paged map, the journal's old lines beside its new ones, the reserve, and the line that
    /// collection is about to free.
    fn lines_besides(&self, config: &DriveConfig) -> u32 {
        let movers = self.movers;
        let map = 2 * u32::from(self.map_pages > 0);
        let journal = 2 + 2 * self.checkpoint_lines();
        let open = self.handles + movers + journal + map;
        let reserve = self.reserve_lines(config, movers);
        reserve.saturating_add(open + 1)
    }

    /// Pages that `lines` lines of a group can hold while collection is sure to find a line with an
    /// invalid page: when no more lines than the reserve are free or being reclaimed, there are
    /// more closed lines than these pages can fill.
    pub(crate) fn most_valid(&self, config: &DriveConfig, lines: u32) -> u64 {
        let full = lines.saturating_sub(self.lines_besides(config));
        u64::from(full) * u64::from(self.line_data)
    }

    /// Pages that the host may write to a full group before its writes are redirected to another:
    /// those of the group's open lines and of the buffer. 0 with a single group.
    fn spread(&self) -> u64 {
        if self.groups == 1 {
            return 0;
        }
        u64::from(self.handles) * u64::from(self.line_data) + u64::from(self.buffer_pages)
    }

    /// Count of the frontiers for relocated data that precede the journal's. That of hot data
    /// follows it, so that the labels on older drives keep their meaning.
    pub(crate) const fn first_movers(&self, config: &DriveConfig) -> u32 {
        match config.placement.persistently_isolated {
            true => self.handles,
            false => 1,
        }
    }

    /// Index of the journal's frontier, behind those of handles, relocated data and a paged map.
    pub(crate) const fn journal_frontier(&self, config: &DriveConfig) -> usize {
        let of_map = 2 * (self.map_pages > 0) as u32;
        (self.groups * (self.handles + self.first_movers(config)) + of_map) as usize
    }

    /// Free lines of a group that the host must not take while `movers` frontiers of collection
    /// have data of handles to relocate: the configured reserve, and no fewer than the movers need
    /// plus one for the journal.
    #[must_use]
    pub(crate) fn reserve_lines(&self, config: &DriveConfig, movers: u32) -> u32 {
        let needed = self.mover_lines(config, movers) + 1;
        config.collection.reserve_lines.max(needed)
    }

    /// Free lines that collection needs to finish: one for each mover.
    ///
    /// A victim's line becomes free when its last valid page has been copied, and that copy may
    /// need a new line of its own frontier. But no frontier is ever more than one line behind: n
    /// victims and a part of another give n lines back and take fewer than n + 1 lines of copies,
    /// because none of them is full, and units are not padded while there are victims. Where
    /// programs may fail, one more line covers the pages that failures waste.
    #[must_use]
    pub(crate) fn mover_lines(&self, config: &DriveConfig, movers: u32) -> u32 {
        let failing = config.faults.program_failures > 0;
        movers + u32::from(self.map_pages > 0) + u32::from(failing)
    }

    /// Lines of a group that hold data on a drive preconditioned under one handle: all lines except
    /// those that collection keeps free and the open ones of host and collection. 0 if no line is
    /// left.
    #[must_use]
    pub fn aged_lines(&self, config: &DriveConfig) -> u32 {
        let background = config.collection.background_lines.max(1);
        let spare = self.reserve_lines(config, 1).saturating_add(background);
        self.lines_per_group.saturating_sub(spare.saturating_add(2))
    }

    /// Bytes of a mapped page.
    #[must_use]
    pub fn page_bytes(&self) -> u64 {
        u64::from(self.sectors_per_page) * UNIT as u64
    }

    /// Bytes that `pages` mapped pages hold.
    #[must_use]
    pub fn bytes(&self, pages: u32) -> Bytes {
        Bytes(u64::from(pages) * self.page_bytes())
    }

    /// Units of a line that hold data, at least in part.
    pub(crate) fn data_units(&self) -> u32 {
        self.line_data.div_ceil(self.unit)
    }

    /// Lines of all reclaim groups.
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.groups * self.lines_per_group
    }

    /// Mapped pages: the host's and the translation pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.host_pages + self.map_pages
    }

    #[inline]
    pub(crate) fn line_of(&self, page: u32) -> (u32, u32) {
        self.line.split(page)
    }

    /// Position of the page at `offset` (in pages from the start) of a line.
    #[inline]
    pub(crate) fn place(&self, offset: u32) -> Place {
        let (unit, within) = self.unit_of.split(offset);
        let (turn, die) = self.die.split(unit);
        let (page, in_row) = self.flash_row.split(within);
        let (plane, in_page) = self.flash_page.split(in_row);
        Place {
            die,
            row: turn * self.geometry.pages_per_program + page,
            plane,
            sector: in_page * self.sectors_per_page,
        }
    }

    /// The die of `unit` as an index in its group.
    #[inline]
    pub(crate) fn die_in_group(&self, unit: u32) -> u32 {
        self.die.split(unit).1
    }

    /// First page row of `unit` in its blocks.
    pub(crate) fn first_row(&self, unit: u32) -> u32 {
        self.die.split(unit).0 * self.geometry.pages_per_program
    }

    /// The reclaim group of `line`.
    #[inline]
    pub(crate) fn group(&self, line: u32) -> u32 {
        self.group_of.split(line).0
    }

    /// The reclaim group of `die`, and the die as an index in its group.
    pub(crate) fn group_of_die(&self, die: u32) -> (u32, u32) {
        self.die.split(die)
    }

    /// Dies of `group`, in the numbering of the drive.
    pub(crate) fn dies(&self, group: u32) -> std::ops::Range<u32> {
        group * self.dies_per_group..(group + 1) * self.dies_per_group
    }

    /// The flash row of all planes at `page` of `die`; `blocks` has one block a plane.
    #[inline]
    pub(crate) fn row(&self, die: u32, blocks: &[u32], page: u32) -> Row {
        let mut row = Row {
            die,
            page,
            blocks: [0; MAX_PLANES],
            planes: ((1_u32 << self.geometry.planes) - 1) as u8,
        };
        row.blocks[..blocks.len()].copy_from_slice(blocks);
        row
    }
}

/// Data pages of a line, its summary excluded. Fails if the summary leaves none.
fn line_data(geometry: &Geometry, line_pages: u32, summary: u32) -> Result<u32, ConfigError> {
    let left = line_pages.checked_sub(summary).filter(|&pages| pages > 0);
    left.ok_or_else(|| {
        let expected = "enough for a line to hold a page besides its summary";
        ConfigError::range(
            "geometry.pages_per_block",
            geometry.pages_per_block,
            expected,
        )
    })
}

fn lines_per_group(config: &DriveConfig) -> Result<u32, ConfigError> {
    let blocks = config.geometry.blocks_per_plane;
    blocks
        .checked_sub(config.wear.spare_blocks)
        .filter(|&lines| lines > 0)
        .ok_or_else(|| {
            let expected = format!("less than blocks_per_plane ({blocks})");
            ConfigError::range("wear.spare_blocks", config.wear.spare_blocks, expected)
        })
}

fn handles(config: &DriveConfig) -> Result<u32, ConfigError> {
    let handles = config.placement.handles;
    let fits = match config.interface {
        Interface::Block => handles == 1,
        Interface::Streams | Interface::Fdp => (1..=128).contains(&handles),
        Interface::Zoned | Interface::OpenChannel => false,
    };
    if fits {
        return Ok(u32::from(handles));
    }
    let expected = match config.interface {
        Interface::Block | Interface::Zoned | Interface::OpenChannel => {
            "1 on a conventional or zoned drive"
        }
        Interface::Streams | Interface::Fdp => "1 to 128",
    };
    Err(ConfigError::range("placement.handles", handles, expected))
}

/// 4 KiB sectors of a mapped page. Fails unless the mapping unit divides the flash page.
fn mapping_unit(config: &DriveConfig) -> Result<u32, ConfigError> {
    let (unit, page) = (config.mapping.unit.0, u64::from(config.geometry.page_bytes));
    let fits = unit.is_power_of_two() && unit >= UNIT as u64 && unit <= page;
    if fits && page.is_multiple_of(unit) {
        return Ok((unit / UNIT as u64) as u32);
    }
    let expected = format!("a power of two from 4096 to the page size ({page})");
    Err(ConfigError::range("mapping.unit", unit, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisor_split_matches_division() {
        for by in [1, 2, 3, 7, 24, 6144, 65_537, u32::MAX] {
            let divisor = Divisor::new(by);
            for dividend in [0, 1, by - 1, by, by.wrapping_add(1), 1 << 31, u32::MAX] {
                assert_eq!(divisor.split(dividend), (dividend / by, dividend % by));
            }
        }
    }

    #[test]
    fn drive_without_space_for_a_hot_frontier_has_one_frontier_for_relocated_data() {
        let preset = crate::presets::Preset::named("streams").expect("a preset");
        let mut config = (preset.config)();
        let roomy = Layout::new(&config).expect("a preset");
        config.capacity = Bytes(config.geometry.bytes());
        let Err(ConfigError::Space { most, .. }) = Layout::new(&config) else {
            panic!("no drive holds all of its flash");
        };
        config.capacity = most;
        let full = Layout::new(&config).expect("so much fits");
        assert_eq!((roomy.movers, full.movers), (2, 1));
        config.collection.reserve_lines = 0;
        let Err(ConfigError::Space { most, .. }) = Layout::new(&DriveConfig {
            capacity: Bytes(config.geometry.bytes()),
            ..config.clone()
        }) else {
            panic!("no drive holds all of its flash");
        };
        let both = most.0 - 2 * u64::from(full.line_data) * full.page_bytes();
        let movers = |capacity| {
            config.capacity = Bytes(capacity);
            Layout::new(&config).expect("so much fits").movers
        };
        assert_eq!([both, both + 4096].map(movers), [2, 1]);
    }
}
