//! Configuration of a zoned drive, and its resolved layout.
//!
//! Invariants of a [`ZoneLayout`]: sequential zones come after the conventional ones. Each
//! sequential zone belongs to one group of dies, and a group has enough blocks for all its zones at
//! once and for the firmware's backups and spares.

use super::firmware::ZoneFirmware;
use crate::config::{ConfigError, DriveConfig, Interface};
use crate::layout;
use nand::{Geometry, UNIT};
use serde::{Deserialize, Serialize};
use units::{Bytes, SECTOR};

/// Result of a read beyond the data of a zone or chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unwritten {
    /// The read returns zeros.
    Zeros,
    /// The read fails with the status Deallocated or Unwritten Logical Block.
    Error,
}

/// Zones of a zoned drive, and their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneConfig {
    /// Distance from the start of one zone to the start of the next.
    pub size: Bytes,
    /// Bytes that can be written to a zone.
    pub capacity: Bytes,
    /// Dies that a zone is striped over: all for large and fast zones, few for small ones that do
    /// not disturb each other.
    pub dies: u32,
    /// Largest number of open zones; 0 for no limit.
    pub max_open: u32,
    /// Largest number of active (open or closed) zones; 0 for no limit.
    pub max_active: u32,
    /// Write buffer of each active zone, in the drive's DRAM.
    pub buffer: Bytes,
    /// Largest append in bytes; 0 for no limit.
    pub append_limit: Bytes,
    /// Conventional zones, at the start of the drive: writable at any address, page-mapped, with a
    /// garbage collection of their own.
    pub conventional: u32,
    /// Whether a read may continue from one zone into the next.
    pub read_across: bool,
    /// Result of a read beyond the data of a zone.
    pub read_unwritten: Unwritten,
    /// Size of the window from the write pointer on that may be written in any order; 0 for none.
    pub random_write_area: Bytes,
    /// Granularity by which the write pointer moves in a zone with such a window.
    pub random_write_step: Bytes,
    /// Largest number of zones that have such a window at the same time.
    pub random_write_zones: u32,
    /// Costs and limits of the firmware; without this table all are off.
    #[serde(default, skip_serializing_if = "ZoneFirmware::is_off")]
    pub firmware: ZoneFirmware,
}

/// Smallest zone, in bytes, when a drive is made smaller: two segments of F2FS.
const LEAST_ZONE: u64 = 4 << 20;
/// Number of zones below which a smaller drive gets smaller zones instead of fewer.
const FEW_ZONES: u64 = 64;
/// Largest number of a zone's programs that are under way or wait: one bit each in a word.
pub(super) const MOST_UNITS: u32 = 64;

/// Resolved sizes. A sector is of 4 KiB, a unit is one multi-plane program.
#[derive(Clone, Debug)]
pub struct ZoneLayout {
    /// Zones of the drive, conventional ones included.
    pub zones: u32,
    /// Conventional zones, which come first.
    pub conventional: u32,
    /// Sectors from the start of a zone to the start of the next.
    pub size: u32,
    /// Sectors that can be written to a zone.
    pub capacity: u32,
    /// Sectors of a unit, that is of one multi-plane program.
    pub unit: u32,
    /// Units of a zone; the last one may be partial.
    pub units: u32,
    /// Dies that a zone is striped over.
    pub width: u32,
    /// Groups of dies; zones are assigned to them in turn.
    pub groups: u32,
    /// Blocks of a zone in each plane of its dies.
    pub depth: u32,
    /// Sectors of the buffer of a zone, its random write area included.
    pub ring: u32,
    /// First block of each plane that sequential zones may use.
    pub first_block: u32,
    /// Programs that fill a block.
    pub programs: u32,
    /// Shape of the flash.
    pub geometry: Geometry,
    /// Sectors of the random write area; 0 for none.
    pub window: u32,
    /// Sectors by which the write pointer moves in a zone with such an area.
    pub step: u32,
}

/// Position of a unit in a zone. A piece is one block in every plane of one die.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) piece: u32,
    /// First page in the blocks.
    pub(super) page: u32,
}

impl ZoneLayout {
    /// The zones of `config`; `None` for a drive of another interface.
    ///
    /// # Errors
    /// Names the knob that makes the zones impossible.
    pub fn new(config: &DriveConfig) -> Result<Option<Self>, ConfigError> {
        let layout = Self::shape(config)?;
        if let Some(layout) = &layout {
            layout.check_blocks(config)?;
        }
        Ok(layout)
    }

    /// The layout of `config`, without checking that the flash has enough blocks.
    fn shape(config: &DriveConfig) -> Result<Option<Self>, ConfigError> {
        let zoned = config.interface == Interface::Zoned;
        let Some(zones) = config.zones.filter(|_| zoned) else {
            if zoned || config.zones.is_some() {
                let expected = "a table [zones] on a drive of the interface zoned, and on no other";
                return Err(ConfigError::range("zones", zoned, expected));
            }
            return Ok(None);
        };
        let geometry = layout::few_sectors(config, "a zoned drive")?;
        check_alone(config)?;
        let sequential = sequential_zones(config, &zones)?;
        let unit = geometry.sectors_per_program();
        let capacity = sectors("zones.capacity", zones.capacity)?;
        let size = sectors("zones.size", zones.size)?;
        if capacity == 0 || size < capacity {
            let expected = "4 KiB to the size of the zone";
            return Err(ConfigError::range(
                "zones.capacity",
                zones.capacity,
                expected,
            ));
        }
        if zones.dies == 0 || !geometry.dies().is_multiple_of(zones.dies) {
            let expected = format!("a divisor of the {} dies", geometry.dies());
            return Err(ConfigError::range("zones.dies", zones.dies, expected));
        }
        let (units, programs) = (
            capacity.div_ceil(unit),
            geometry.pages_per_block / geometry.pages_per_program,
        );
        let window = sectors("zones.random_write_area", zones.random_write_area)?;
        let layout = Self {
            zones: sequential + zones.conventional,
            conventional: zones.conventional,
            size,
            capacity,
            unit,
            units,
            width: zones.dies,
            groups: geometry.dies() / zones.dies,
            depth: units.div_ceil(zones.dies * programs),
            ring: ring(&zones, unit, window)?,
            first_block: conventional_blocks(config, &zones)?,
            programs,
            geometry,
            window,
            step: sectors("zones.random_write_step", zones.random_write_step)?,
        };
        zones.firmware.check()?;
        layout.check_window(config, &zones)?;
        layout.check_limits(&zones)?;
        Ok(Some(layout))
    }

    fn check_window(&self, config: &DriveConfig, zones: &ZoneConfig) -> Result<(), ConfigError> {
        if self.window == 0 {
            return Ok(());
        }
        if !config.controller.power_loss_protection {
            let expected = "0 without power_loss_protection: what is not committed has to survive";
            let area = zones.random_write_area;
            return Err(ConfigError::range(
                "zones.random_write_area",
                area,
                expected,
            ));
        }
        let step = self.step;
        let fits = step > 0 && self.window.is_multiple_of(step);
        if fits && self.capacity.is_multiple_of(step) && 2 * self.window <= self.capacity {
            return Ok(());
        }
        let expected = "a divisor of the random write area and of the zone's capacity, and an area \
                        of at most half of that";
        Err(ConfigError::range(
            "zones.random_write_step",
            zones.random_write_step,
            expected,
        ))
    }

    fn check_limits(&self, zones: &ZoneConfig) -> Result<(), ConfigError> {
        if zones.max_active > 0 && (zones.max_open == 0 || zones.max_open > zones.max_active) {
            let expected = format!("1 to max_active ({})", zones.max_active);
            return Err(ConfigError::range(
                "zones.max_open",
                zones.max_open,
                expected,
            ));
        }
        let all = u64::from(self.zones) * u64::from(self.size);
        if all <= Geometry::NAMED_SECTORS {
            return Ok(());
        }
        let expected = "addresses of at most 8 TiB in all zones";
        Err(ConfigError::range("zones.size", zones.size, expected))
    }

    /// Checks that the flash has blocks for all zones, backups and spares.
    fn check_blocks(&self, config: &DriveConfig) -> Result<(), ConfigError> {
        let need = self.blocks_needed(config);
        let have = config
            .geometry
            .blocks_per_plane
            .saturating_sub(self.first_block);
        if have >= need {
            return Ok(());
        }
        let expected = format!(
            "{} for the conventional zones and {need} for the others",
            self.first_block
        );
        let knob = "geometry.blocks_per_plane";
        Err(ConfigError::range(
            knob,
            config.geometry.blocks_per_plane,
            expected,
        ))
    }

    /// Blocks that sequential zones need in a plane, spares and backups included.
    fn blocks_needed(&self, config: &DriveConfig) -> u32 {
        let zones = self.sequential().div_ceil(self.groups);
        let backups = self.backup_blocks(config);
        zones
            .saturating_mul(self.depth)
            .saturating_add(config.wear.spare_blocks + backups)
    }

    /// Blocks of a plane for backups of partial units: each active zone of a drive without
    /// protection has one, and a second one while it changes to a new one. One more block is for
    /// the copy of a block that a power cut tore.
    fn backup_blocks(&self, config: &DriveConfig) -> u32 {
        let zones = config.zones.as_ref();
        let active = zones.map_or(0, |zones| zones.max_active);
        let active = if active == 0 {
            self.sequential()
        } else {
            active
        };
        let backups = if config.controller.power_loss_protection {
            0
        } else {
            (2 * active).div_ceil(self.geometry.dies())
        };
        backups + 1
    }

    /// Sequential zones, which are written at their write pointer.
    #[must_use]
    pub const fn sequential(&self) -> u32 {
        self.zones - self.conventional
    }

    /// Pieces of a zone: its width times its depth.
    pub(super) const fn pieces(&self) -> u32 {
        self.width * self.depth
    }

    /// The die of `piece` of `zone`, the zone's number including conventional ones.
    #[inline]
    pub(super) const fn die(&self, zone: u32, piece: u32) -> u32 {
        let group = (zone - self.conventional) % self.groups;
        group * self.width + piece % self.width
    }

    /// Position of `unit` in a zone.
    #[inline]
    pub(super) const fn place(&self, unit: u32) -> Place {
        let (turn, die) = (unit / self.width, unit % self.width);
        Place {
            piece: turn / self.programs * self.width + die,
            page: turn % self.programs * self.geometry.pages_per_program,
        }
    }
}

/// Rejects settings that a zoned drive does not support.
fn check_alone(config: &DriveConfig) -> Result<(), ConfigError> {
    if config.mapping.unit.0 != UNIT as u64 {
        return Err(ConfigError::range(
            "mapping.unit",
            config.mapping.unit,
            "4096 on a zoned drive",
        ));
    }
    let handles = (
        config.placement.handles,
        config.placement.reclaim_groups,
        config.front.is_none(),
    );
    if handles == (1, 1, true) {
        return Ok(());
    }
    let expected = "one handle in one group and no front on a zoned drive";
    Err(ConfigError::range(
        "placement.handles",
        config.placement.handles,
        expected,
    ))
}

fn sectors(knob: &'static str, bytes: Bytes) -> Result<u32, ConfigError> {
    let whole = bytes.0.is_multiple_of(UNIT as u64);
    let count = u32::try_from(bytes.0 / UNIT as u64).ok();
    count
        .filter(|&count| whole && count < 1 << 31)
        .ok_or_else(|| ConfigError::range(knob, bytes, "a multiple of 4096 below 8 TiB"))
}

/// Sequential zones that the capacity makes beside the conventional ones.
fn sequential_zones(config: &DriveConfig, zones: &ZoneConfig) -> Result<u32, ConfigError> {
    let conventional = u64::from(zones.conventional).saturating_mul(zones.size.0);
    let rest = config.capacity.0.checked_sub(conventional);
    let count = rest.filter(|rest| zones.capacity.0 > 0 && rest.is_multiple_of(zones.capacity.0));
    let count = count.map(|rest| rest / zones.capacity.0);
    let count = count.filter(|&count| count > 0 && count < 1 << 24);
    count.map(|count| count as u32).ok_or_else(|| {
        let expected = format!(
            "{} for the conventional zones and a multiple of the capacity of a zone ({})",
            Bytes(conventional),
            zones.capacity
        );
        ConfigError::range("capacity", config.capacity.0, expected)
    })
}

fn ring(zones: &ZoneConfig, unit: u32, window: u32) -> Result<u32, ConfigError> {
    let buffer = sectors("zones.buffer", zones.buffer)?;
    let most = MOST_UNITS * unit;
    // A write may reach beyond the window by as much as the window is long.
    let ring = (buffer / unit + (2 * window).div_ceil(unit)) * unit;
    if buffer >= unit && ring <= most {
        return Ok(ring);
    }
    let expected = format!(
        "a program ({}) to {} of them, with the random write area",
        Bytes(u64::from(unit) * UNIT as u64),
        MOST_UNITS
    );
    Err(ConfigError::range("zones.buffer", zones.buffer, expected))
}

/// Blocks of each plane that the conventional zones take, spare ones included.
fn conventional_blocks(config: &DriveConfig, zones: &ZoneConfig) -> Result<u32, ConfigError> {
    if zones.conventional == 0 {
        return Ok(0);
    }
    let part = conventional(config)?;
    Ok(part.geometry.blocks_per_plane)
}

/// Spare flash of the conventional zones in percent, beside the lines that their garbage collection
/// needs: chosen here, as in the generic drives.
const SPARE_PERCENT: u64 = 7;
/// Lines beside the data of conventional zones: the open ones, those of journal and reserve, and
/// the one being reclaimed (see `Layout::lines_besides`).
const LINES_BESIDE: u64 = 12;

/// The page-mapped part of `config`. On a zoned drive it consists of the conventional zones: a
/// conventional drive on the first blocks of every plane, or one without lines if there are none.
/// An open-channel drive has no lines either; any other drive is returned unchanged.
pub(crate) fn conventional(config: &DriveConfig) -> Result<DriveConfig, ConfigError> {
    let mut part = config.clone();
    let maps_less = matches!(config.interface, Interface::Zoned | Interface::OpenChannel);
    if !maps_less {
        return Ok(part);
    }
    part.interface = Interface::Block;
    part.raw = None;
    let zones = part.zones.take();
    let zones = zones.filter(|zones| zones.conventional > 0);
    let bytes = zones.map_or(0, |z| u64::from(z.conventional).saturating_mul(z.size.0));
    part.capacity = Bytes(bytes);
    if bytes == 0 {
        part.geometry.blocks_per_plane = 0;
        part.wear.spare_blocks = 0;
        return Ok(part);
    }
    let geometry = config.geometry.checked()?;
    let line = u64::from(geometry.sectors_per_program())
        * u64::from(geometry.dies())
        * u64::from(geometry.pages_per_block / geometry.pages_per_program)
        * UNIT as u64;
    let data = bytes.saturating_mul(100 + SPARE_PERCENT) / 100;
    let lines = data.div_ceil(line) + LINES_BESIDE + u64::from(config.collection.reserve_lines);
    let blocks = lines + u64::from(config.wear.spare_blocks);
    part.geometry.blocks_per_plane = u32::try_from(blocks)
        .map_err(|_| ConfigError::range("zones.conventional", bytes, "fewer"))?;
    Ok(part)
}

impl DriveConfig {
    /// Bytes that the drive's addresses cover: the sizes of all zones on a zoned drive, otherwise
    /// the capacity.
    #[must_use]
    pub fn address_space(&self) -> Bytes {
        let Some(zones) = self.zones.filter(|_| self.interface == Interface::Zoned) else {
            return self.capacity;
        };
        let conventional = u64::from(zones.conventional).saturating_mul(zones.size.0);
        let rest = self.capacity.0.saturating_sub(conventional);
        let sequential = rest / zones.capacity.0.max(1);
        Bytes(conventional.saturating_add(sequential.saturating_mul(zones.size.0)))
    }

    /// This zoned drive with `count` conventional zones. They take their flash, with the needs of
    /// their garbage collection, from the sequential zones. A drive without zones is returned
    /// unchanged.
    ///
    /// # Errors
    /// If no sequential zone is left.
    pub fn with_conventional(&self, count: u32) -> Result<Self, ConfigError> {
        let mut config = self.clone();
        let (Some(zones), Some(before)) = (&mut config.zones, ZoneLayout::new(self)?) else {
            return Ok(config);
        };
        zones.conventional = count;
        let (size, capacity) = (zones.size.0, zones.capacity.0);
        let fits = |sequential: u32| {
            let mut config = config.clone();
            let conventional = u64::from(count).saturating_mul(size);
            config.capacity = Bytes(conventional + u64::from(sequential) * capacity);
            ZoneLayout::new(&config).map(|_| config)
        };
        // More zones need more blocks: a binary search finds the largest number that fits.
        let (mut least, mut most) = (1, before.sequential());
        let mut best = fits(least)?;
        while least < most {
            let middle = least + (most - least).div_ceil(2);
            match fits(middle) {
                Ok(config) => (best, least) = (config, middle),
                Err(_) => most = middle - 1,
            }
        }
        Ok(best)
    }

    /// This zoned drive with at least `capacity` for the host, in whole zones. If few zones would
    /// remain, zones and blocks become smaller. The share of spare flash stays, except that a very
    /// small drive gets the blocks that its zones need.
    pub(crate) fn resized_zones(&self, capacity: Bytes) -> Self {
        let mut config = self.clone();
        let Some(mut zones) = self.zones else {
            return config;
        };
        let count = |zones: &ZoneConfig| {
            let conventional = u64::from(zones.conventional).saturating_mul(zones.size.0);
            let rest = capacity.0.saturating_sub(conventional);
            rest.div_ceil(zones.capacity.0.max(1)).max(1)
        };
        let step = config.geometry.pages_per_program;
        let halves = |config: &Self, zones: &ZoneConfig| {
            config
                .geometry
                .pages_per_block
                .is_multiple_of(2 * step.max(1))
                && [zones.size.0, zones.capacity.0]
                    .iter()
                    .all(|n| n.is_multiple_of(8192))
                && zones.capacity.0 >= 2 * LEAST_ZONE
                && count(zones) < FEW_ZONES
        };
        while halves(&config, &zones) {
            config.geometry.pages_per_block /= 2;
            (zones.size.0, zones.capacity.0) = (zones.size.0 / 2, zones.capacity.0 / 2);
        }
        let conventional = u64::from(zones.conventional).saturating_mul(zones.size.0);
        config.capacity =
            Bytes(conventional.saturating_add(count(&zones).saturating_mul(zones.capacity.0)));
        config.zones = Some(zones);
        config.geometry.blocks_per_plane = config.blocks_for_zones(self);
        config
    }

    /// Blocks of a plane for the zones, in the same proportion to the need as in `before`.
    fn blocks_for_zones(&self, before: &Self) -> u32 {
        let least = |config: &Self| {
            let layout = ZoneLayout::shape(config).ok().flatten()?;
            Some(layout.first_block + layout.blocks_needed(config))
        };
        let (Some(now), Some(then)) = (least(self), least(before)) else {
            return self.geometry.blocks_per_plane;
        };
        let blocks = u64::from(now) * u64::from(before.geometry.blocks_per_plane);
        let blocks = blocks.div_ceil(u64::from(then.max(1))).max(u64::from(now));
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }
}

/// Converts an extent of 512-byte sectors to whole 4 KiB sectors; `None` if it is unaligned or
/// empty.
pub(super) fn whole(start: u64, count: u32) -> Option<(u64, u32)> {
    let per = UNIT as u64 / SECTOR;
    let aligned = start.is_multiple_of(per) && u64::from(count).is_multiple_of(per) && count > 0;
    aligned.then(|| (start / per, count / per as u32))
}
