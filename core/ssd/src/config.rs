//! Configuration of a drive, in the form of drive files.
//!
//! Every knob has its unit in its type and its default from a preset; a drive file starts from a
//! preset and overrides some of its knobs.

use crate::front::{self, FrontConfig};
use crate::raw::RawConfig;
use crate::zoned::ZoneConfig;
use nand::{Faults, Geometry, GeometryError, Part, Timing};
use serde::{Deserialize, Serialize};
use sim::Discipline;
use units::{Bytes, GIB, Ns};

/// Configuration of a whole drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriveConfig {
    /// Name of the drive in reports.
    pub name: String,
    /// Interface that the drive offers to the host.
    pub interface: Interface,
    /// Bytes that the host may use.
    pub capacity: Bytes,
    /// Kind of flash, and how its dies serve their queues.
    pub flash: Flash,
    /// Shape of the flash.
    pub geometry: Geometry,
    /// Firmware costs and buffers.
    pub controller: Controller,
    /// Placement handles and reclaim groups.
    pub placement: Placements,
    /// Granularity and cache of the logical-to-physical map.
    pub mapping: Mapping,
    /// Policy and pace of garbage collection.
    pub collection: Collection,
    /// Wear levelling and bad blocks.
    pub wear: Wear,
    /// Injected failures of the flash.
    #[serde(default)]
    pub faults: Faults,
    /// Front that makes the drive byte-addressable too; `None` for a drive of blocks only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub front: Option<FrontConfig>,
    /// Zones of a zoned drive; `None` for any other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZoneConfig>,
    /// Rules of an open-channel drive, which leaves the mapping to its host; `None` for any other.
    /// `capacity` is then the space that the host's mapping offers to files; the drive itself
    /// ignores it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawConfig>,
}

/// Interface that a drive offers to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interface {
    /// A conventional drive: one handle, whatever the host names.
    Block,
    /// NVMe streams: one frontier for each stream.
    Streams,
    /// NVMe flexible data placement.
    Fdp,
    /// NVMe zones, which are written in order.
    Zoned,
    /// Raw chunks of flash; the host holds the mapping.
    OpenChannel,
}

/// Kind of flash, and how its dies serve their queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Name of a part in [`Part`]'s table, such as `tlc`.
    pub part: String,
    /// Times that replace those of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// Rated erase cycles that replace those of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance: Option<u32>,
    /// Whether host reads go before programs and erases that wait.
    pub reads_first: bool,
    /// Reads in a row that may go before an older program or erase.
    pub bypass_limit: u32,
    /// Times a read may suspend one program or erase; 0 for never.
    pub suspend_limit: u32,
    /// Whether page registers serve reads: a page that its die sensed last, or is sensing, is not
    /// sensed again.
    #[serde(default, skip_serializing_if = "is_false")]
    pub page_registers: bool,
    /// Whether contents are kept. If not, reads return zeros and a run takes less memory.
    pub keep_contents: bool,
}

impl Flash {
    /// The queueing discipline of the dies, without the cost of a suspension.
    pub(crate) fn discipline(&self) -> Discipline {
        Discipline {
            bypass_limit: u32::from(self.reads_first) * self.bypass_limit,
            suspend_limit: self.suspend_limit,
            suspend_cost: Ns::ZERO,
        }
    }
}

/// Firmware costs and buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Firmware time of a command before the flash or the buffer is reached.
    pub command: Ns,
    /// Time to move 4 KiB to or from the controller's DRAM.
    pub dram_per_unit: Ns,
    /// Size of the write buffer.
    pub write_buffer: Bytes,
    /// Whether the write buffer survives a power cut.
    pub power_loss_protection: bool,
    /// DRAM for pages that reads in order will ask for next; 0 for no read-ahead. Streams of reads
    /// share it equally, each a power of two of mapped pages.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub read_ahead: Bytes,
    /// Streams of reads in order that are told apart at once.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_streams: u32,
    /// Limits beside those of the flash.
    #[serde(default, skip_serializing_if = "Limits::is_off")]
    pub limits: Limits,
}

/// Limits of the firmware's processors and of the drive's power. Each is off at 0, as all are by
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Time that a read occupies the processors, which serve commands in order of arrival. A command
    /// at rest takes this time or [`Controller::command`], whichever is longer.
    pub read: Ns,
    /// Time that a write occupies the processors; an append in a zone may have a time of its own.
    pub write: Ns,
    /// Bytes per second at which programs begin, those of garbage collection and of padding
    /// included.
    pub program_bytes_per_s: u64,
}

impl Limits {
    /// Whether every limit is off.
    pub(crate) fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Rejects times and rates that are out of range.
    fn check(&self) -> Result<(), ConfigError> {
        check_times([
            ("controller.limits.read", self.read),
            ("controller.limits.write", self.write),
        ])?;
        if (1..LEAST_RATE).contains(&self.program_bytes_per_s) {
            let expected = format!("0 or at least {LEAST_RATE}");
            let knob = "controller.limits.program_bytes_per_s";
            return Err(ConfigError::range(knob, self.program_bytes_per_s, expected));
        }
        Ok(())
    }
}

/// Placement handles and reclaim groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placements {
    /// Handles that the host may name, in each reclaim group.
    pub handles: u16,
    /// Groups of dies that are written and reclaimed separately.
    pub reclaim_groups: u16,
    /// Whether data of different handles stay separate when relocated (FDP's persistently isolated)
    /// or only when first written (FDP's initially isolated).
    pub persistently_isolated: bool,
    /// Division of the spare space between the handles in use.
    #[serde(default, skip_serializing_if = "is_pooled")]
    pub spare: SpareSplit,
}

/// Division of the spare space between handles by collection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpareSplit {
    /// Lines of all handles compete under [`Collection::victim`], as on a drive without handles.
    #[default]
    Pooled,
    /// Each handle gets the spare space at which one more line would save equally many copies in
    /// every handle ([`crate::by_demand`]); [`Collection::victim`] chooses within a handle. With
    /// one handle in use this equals [`SpareSplit::Pooled`].
    ByDemand,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_pooled(split: &SpareSplit) -> bool {
    *split == SpareSplit::Pooled
}

/// Granularity and cache of the logical-to-physical map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mapping {
    /// Bytes that one entry maps: 4 KiB or a larger power of two, up to a flash page.
    pub unit: Bytes,
    /// DRAM for the map. `0` holds all of it; any other size holds its most recently used parts.
    pub cache: Bytes,
    /// Kind of those parts.
    #[serde(default, skip_serializing_if = "is_pages")]
    pub cache_holds: CacheHolds,
}

/// Kind of the parts of a map that its cache holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheHolds {
    /// Whole translation pages. Eviction writes a dirty one as it is.
    #[default]
    Pages,
    /// Single entries of 8 bytes (DFTL's cached mapping table). The eviction of a dirty one reads
    /// and writes its translation page, for all dirty entries of that page together.
    Entries,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_pages(holds: &CacheHolds) -> bool {
    *holds == CacheHolds::Pages
}

/// Rule that chooses the next line to reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// The line with the fewest valid pages.
    Greedy,
    /// The line with the best ratio of free space times age to cost (Rosenblum and Ousterhout).
    CostBenefit,
    /// The line that was closed longest ago.
    Fifo,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_nothing(size: &Bytes) -> bool {
    size.0 == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Policy and pace of garbage collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collection {
    /// Rule that chooses the next line to reclaim.
    pub victim: VictimPolicy,
    /// Whether relocated data go to lines of their own, apart from new data.
    pub separate: bool,
    /// Free lines of each reclaim group that only garbage collection may take.
    pub reserve_lines: u32,
    /// Free lines beyond the reserve below which collection runs in the background; 0 collects only
    /// when a write waits for space.
    pub background_lines: u32,
    /// Further free lines that background collection reclaims once it has begun; 0 ends it as soon
    /// as it is back at the level that starts it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub batch_lines: u32,
    /// Page reads that collection keeps under way on each die.
    pub reads_per_die: u32,
    /// Whether the host programs new data at the pace at which collection makes pages free, as long
    /// as that runs; if not, as fast as it can until free lines run out.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paced: bool,
}

/// Wear levelling and bad blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wear {
    /// Whether the free line with the fewest erases is taken first.
    pub dynamic: bool,
    /// Difference of erases between lines beyond which cold data are relocated; 0 for never.
    pub static_threshold: u32,
    /// Blocks of each plane that replace bad ones.
    pub spare_blocks: u32,
}

/// Reason why a drive cannot be built from its configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The geometry of the flash is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// The table has no part of that name.
    #[error("flash.part: no part is called {0:?}; there are z-nand, xl-flash, slc, mlc, tlc, qlc")]
    Part(String),
    /// A knob is out of its range.
    #[error("{knob}: {value} given, {expected} expected")]
    Range {
        /// Name of the knob in the drive file.
        knob: &'static str,
        /// Value in the configuration.
        value: String,
        /// Range or kind of value that is accepted.
        expected: String,
    },
    /// The flash is too small for the capacity that the drive promises.
    #[error(
        "no spare blocks: {lines} lines of {line} in each reclaim group hold {user} of host data \
         with {need} lines besides (open lines, journal, reserve); {most} of capacity would fit"
    )]
    Space {
        /// Lines of a reclaim group.
        lines: u32,
        /// Bytes of a line.
        line: Bytes,
        /// Host data of a reclaim group, in bytes.
        user: Bytes,
        /// Lines needed besides those of host data.
        need: u32,
        /// Largest capacity of the drive that would fit.
        most: Bytes,
    },
    /// The drive has more bad blocks than its preconditioning leaves room for.
    #[error(
        "too many bad blocks: {need} lines of a reclaim group would hold data, its good blocks \
         make {good}; lower faults.factory_bad_blocks"
    )]
    BadBlocks {
        /// Lines that the good blocks of a reclaim group make.
        good: u32,
        /// Lines of a reclaim group that must hold data.
        need: u32,
    },
    /// The flash is too small for a drive that starts aged.
    #[error(
        "too little spare flash to begin aged: {lines} lines of each reclaim group may hold data, \
         {need} are needed; lower capacity or collection.background_lines"
    )]
    Aged {
        /// Lines of a reclaim group that may hold data.
        lines: u32,
        /// Lines that the host's data need.
        need: u32,
    },
}

impl ConfigError {
    pub(crate) fn range(
        knob: &'static str,
        value: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Range {
            knob,
            value: format!("{value}"),
            expected: expected.into(),
        }
    }
}

/// Longest time of any operation in a drive: far beyond any part, and short enough that sums of
/// such times stay within the clock.
const LONGEST: Ns = Ns::secs(1);
/// Lowest accepted bytes per second of a bus, so that transfer times stay within the clock.
pub(crate) const LEAST_RATE: u64 = 1_000_000;
/// Chances of failure are in millionths.
const MILLION: u32 = 1_000_000;
/// Largest accepted number of streams of reads: each read is compared with all of them.
const MOST_STREAMS: u32 = 256;
/// Largest accepted number of passes of a read beyond the first.
const MOST_PASSES: u32 = 1_000;

pub(crate) fn check_times<const N: usize>(
    times: [(&'static str, Ns); N],
) -> Result<(), ConfigError> {
    let long = times.into_iter().find(|(_, time)| *time > LONGEST);
    long.map_or(Ok(()), |(knob, time)| {
        Err(ConfigError::range(knob, time, format!("at most {LONGEST}")))
    })
}

/// Spare lines that a drive keeps when it is made smaller: eight isolated handles need 28 (see
/// `Layout::check_space`), and the rest is for garbage collection.
const SPARE_LINES: u64 = 40;
/// Capacity above which a drive that is made larger gets larger blocks.
const LARGE: u64 = 8 << 40;
/// Largest number of lines of a drive that is made larger than [`LARGE`].
const MANY_LINES: u64 = 1 << 18;

impl DriveConfig {
    /// The part that the flash is made of.
    ///
    /// # Errors
    /// If the table has no such part.
    pub fn part(&self) -> Result<&'static Part, ConfigError> {
        Part::named(&self.flash.part).ok_or_else(|| ConfigError::Part(self.flash.part.clone()))
    }

    /// Times of the flash: those of the configuration, or else of the part.
    ///
    /// # Errors
    /// As [`DriveConfig::part`], and for times and rates that no flash has.
    pub fn timing(&self) -> Result<Timing, ConfigError> {
        let timing = self.flash.timing.unwrap_or(self.part()?.timing);
        let rate = timing.bus_bytes_per_s;
        if rate < LEAST_RATE {
            let knob = "flash.timing.bus_bytes_per_s";
            return Err(ConfigError::range(
                knob,
                rate,
                format!("at least {LEAST_RATE}"),
            ));
        }
        check_times([
            ("flash.timing.read", timing.read),
            ("flash.timing.program", timing.program),
            ("flash.timing.erase", timing.erase),
            ("flash.timing.command", timing.command),
            ("flash.timing.suspend", timing.suspend),
        ])?;
        Ok(timing)
    }

    /// Rejects firmware costs and failure chances that are out of range.
    pub(crate) fn check_ranges(&self) -> Result<(), ConfigError> {
        check_times([
            ("controller.command", self.controller.command),
            ("controller.dram_per_unit", self.controller.dram_per_unit),
        ])?;
        if let Some(front) = &self.front {
            check_times([
                ("front.dram.latency", front.dram.latency),
                ("front.log.lookup", front.log.lookup),
                ("front.cache.lookup", front.cache.lookup),
            ])?;
        }
        front::check(self)?;
        self.controller.limits.check()?;
        self.check_read_ahead()?;
        let faults = &self.faults;
        let bounds = [
            ("faults.factory_bad_blocks", faults.factory_bad_blocks),
            ("faults.program_failures", faults.program_failures),
            ("faults.erase_failures", faults.erase_failures),
            ("faults.read_retries", faults.read_retries),
        ];
        let bounds = bounds.map(|(knob, value)| (knob, value, MILLION));
        let passes = ("faults.read_passes", faults.read_passes, MOST_PASSES);
        for (knob, value, most) in bounds.into_iter().chain([passes]) {
            if value > most {
                return Err(ConfigError::range(knob, value, format!("at most {most}")));
            }
        }
        Ok(())
    }

    /// Pages of the window of a stream of reads, a power of two, and pages of a row of all planes.
    pub(crate) fn read_window(&self) -> (u64, u64) {
        let (unit, controller) = (self.mapping.unit.0.max(1), &self.controller);
        let window = controller.read_ahead.0 / u64::from(controller.read_streams.max(1)) / unit;
        let row = u64::from(self.geometry.planes) * u64::from(self.geometry.page_bytes);
        let window = window.checked_ilog2().map_or(0, |bits| 1 << bits);
        (window, row / unit)
    }

    /// Streams of reads that are read ahead, with [`DriveConfig::read_window`]; 0 without.
    pub(crate) fn read_streams(&self) -> (u32, (u64, u64)) {
        let is_on = self.controller.read_ahead.0 > 0;
        let streams = u32::from(is_on) * self.controller.read_streams;
        (streams, self.read_window())
    }

    /// Rejects sizes of read-ahead that are out of range.
    fn check_read_ahead(&self) -> Result<(), ConfigError> {
        let (size, streams) = (self.controller.read_ahead, self.controller.read_streams);
        if size.0 == 0 {
            return Ok(());
        }
        if !(1..=MOST_STREAMS).contains(&streams) {
            let expected = format!("1 to {MOST_STREAMS} with controller.read_ahead");
            let knob = "controller.read_streams";
            return Err(ConfigError::range(knob, streams, expected));
        }
        let (window, row) = self.read_window();
        if size.0 > GIB || window < row {
            let least = row.next_power_of_two() * self.mapping.unit.0;
            let least = Bytes(least * u64::from(streams));
            let expected = format!("0, or {least} (a row of pages for each stream) to 1 GiB");
            return Err(ConfigError::range("controller.read_ahead", size, expected));
        }
        Ok(())
    }

    /// Erase cycles that a block is rated for.
    ///
    /// # Errors
    /// As [`DriveConfig::part`].
    pub fn endurance(&self) -> Result<u32, ConfigError> {
        let part = self.part()?;
        Ok(self.flash.endurance.unwrap_or(part.endurance))
    }

    /// This drive with `capacity` for the host: blocks are added or removed, and below 256 lines
    /// they get smaller, so that a small drive still has room to collect garbage. Above 8 TiB they
    /// get larger, so that tables of lines and blocks stay small. Dies, planes, pages and times stay. A very small drive has more spare flash than this one, whatever its
    /// interface. A zoned drive gets whole zones, at least as many as hold `capacity`.
    #[must_use]
    pub fn resized(&self, capacity: Bytes) -> Self {
        if self.zones.is_some() {
            return self.resized_zones(capacity);
        }
        let mut config = self.clone();
        let lines = |c: &Self| u64::from(c.geometry.blocks_per_plane - c.wear.spare_blocks);
        let raw_per_line = |c: &Self| {
            let geometry = &c.geometry;
            let rows = u64::from(geometry.dies()) * u64::from(geometry.planes);
            let block = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes);
            rows.saturating_mul(block)
        };
        let kept = u128::from(self.capacity.0.max(1));
        // Raw bytes in the same ratio to the capacity as before.
        let raw = u128::from(raw_per_line(self)) * u128::from(lines(self)) * u128::from(capacity.0)
            / kept;
        let raw = u64::try_from(raw).unwrap_or(u64::MAX);
        let step = config.geometry.pages_per_program;
        while raw / raw_per_line(&config) < 256 && config.geometry.pages_per_block >= 2 * step {
            let halved = config.geometry.pages_per_block / 2;
            config.geometry.pages_per_block = halved
                .next_multiple_of(step)
                .min(config.geometry.pages_per_block - step);
        }
        while capacity.0 > LARGE && raw / raw_per_line(&config) > MANY_LINES {
            let Some(doubled) = config.geometry.pages_per_block.checked_mul(2) else {
                break;
            };
            config.geometry.pages_per_block = doubled;
        }
        let least = capacity.0.div_ceil(raw_per_line(&config)) + SPARE_LINES;
        let blocks = raw.div_ceil(raw_per_line(&config)).max(least);
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX - self.wear.spare_blocks);
        config.geometry.blocks_per_plane = blocks.saturating_add(self.wear.spare_blocks);
        config.capacity = capacity;
        config
    }
}
