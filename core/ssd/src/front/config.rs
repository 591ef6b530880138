//! Configuration of a front, in the form of drive files.

use crate::config::{ConfigError, DriveConfig, LEAST_RATE};
use crate::wlog::{LINES, LogSizes};
use nand::UNIT;
use serde::{Deserialize, Serialize};
use units::{Bytes, GIB, MIB, Ns};

/// Largest log: 16 GiB, so that 32-bit numbers suffice for its slots, with room.
const LOG_MAX: u64 = 16 * GIB;
/// Fewest slots of a log: the largest write, and one page of a transaction that cleaning moves.
const SLOTS_MIN: u64 = 4 * LINES as u64;
/// Largest number of pages that cleaning may work on at once.
const IN_WORK_MAX: u32 = 1 << 16;

/// Memory between the host's cache lines and the flash pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FrontConfig {
    /// Latency and rate of the device's DRAM.
    pub dram: DramConfig,
    /// The write log; absent if its size is 0.
    pub log: LogConfig,
    /// The page cache; absent if its size is 0.
    pub cache: CacheConfig,
    /// The part of the drive's DRAM that survives a power cut.
    #[serde(skip_serializing_if = "Battery::is_all")]
    pub battery: Battery,
}

/// The part of a byte-addressable drive's DRAM that a battery keeps through a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Battery {
    /// Log, page cache and write buffer. The drive reports no volatile cache.
    //= bytefs 4.2
    #[default]
    All,
    /// The write log alone. Blocks are durable after a flush, and so are lines on a drive without a
    /// log.
    Log,
    /// Nothing. Lines and blocks are durable after a flush, and the firmware has no transactions: it
    /// could not complete one that a power cut interrupts.
    None,
}

impl Battery {
    #[allow(
        clippy::trivially_copy_pass_by_ref,
        reason = "serde passes a reference"
    )]
    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

/// The device's DRAM, shared by log, cache, and block transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DramConfig {
    /// Time until the first byte of an access; 100 ns in `bytefs` Table 1.
    pub latency: Ns,
    /// Bytes a second, in either direction. `skybyte` Table 2 has two channels of LPDDR4 with 3,200
    /// million transfers a second, and a channel of LPDDR4 is 16 bits wide.
    pub bytes_per_s: u64,
}

impl Default for DramConfig {
    fn default() -> Self {
        Self {
            latency: Ns(100),
            bytes_per_s: 12_800_000_000,
        }
    }
}

/// A log of cache lines.
//= bytefs 4.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Size of the log, descriptors included; 0, the default, for no log. `bytefs` 4.3 has 256 MiB.
    pub bytes: Bytes,
    /// Size of the commit entries, 4 bytes each; 0 for firmware without transactions. 2 MiB in
    /// `bytefs` 4.3.
    pub commits: Bytes,
    /// Fill level of log or commit entries, in percent, at which cleaning starts in the background.
    /// 85 in `bytefs` 4.3, which states it for the log only.
    pub clean_percent: u32,
    /// Time to look up a page; 89 ns in `bytefs` 4.3, measured on a full log.
    pub lookup: Ns,
    /// Pages that cleaning works on at once. `bytefs` 4.3 fills a write buffer with them and writes
    /// it across the channels; the number is chosen here.
    pub pages_in_work: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            bytes: Bytes(0),
            commits: Bytes(2 * MIB),
            clean_percent: 85,
            lookup: Ns(89),
            pages_in_work: 64,
        }
    }
}

/// A write-back cache of 4 KiB pages with LRU eviction.
//= bytefs 5.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Size of the cache; 0, the default, for no cache. 256 MiB in `bytefs` 5.1.
    pub bytes: Bytes,
    /// Time to look up a page; 49 ns in `skybyte` 5.
    pub lookup: Ns,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            bytes: Bytes(0),
            lookup: Ns(49),
        }
    }
}

impl FrontConfig {
    /// A front with a page cache of 256 MiB.
    //= bytefs 5.1
    #[must_use]
    pub fn page_cache() -> Self {
        let bytes = Bytes(256 * MIB);
        let cache = CacheConfig {
            bytes,
            ..CacheConfig::default()
        };
        Self {
            cache,
            ..Self::default()
        }
    }

    /// A front with a write log of 256 MiB and transactions.
    //= bytefs 4.3
    #[must_use]
    pub fn write_log() -> Self {
        let bytes = Bytes(256 * MIB);
        let log = LogConfig {
            bytes,
            ..LogConfig::default()
        };
        Self {
            log,
            ..Self::default()
        }
    }

    pub(crate) fn has_log(&self) -> bool {
        self.log.bytes.0 > 0
    }

    pub(crate) fn has_cache(&self) -> bool {
        self.cache.bytes.0 > 0
    }

    pub(crate) fn has_transactions(&self) -> bool {
        self.has_log() && self.log.commits.0 > 0 && self.battery != Battery::None
    }

    /// Whether the battery keeps the log.
    pub(crate) fn keeps_log(&self) -> bool {
        self.has_log() && self.battery != Battery::None
    }

    /// Whether the battery keeps the page cache and the write buffer.
    pub(crate) fn keeps_pages(&self) -> bool {
        self.battery == Battery::All
    }

    /// Whether a line is durable once it is in the DRAM.
    pub(crate) fn keeps_lines(&self) -> bool {
        self.keeps_pages() || self.keeps_log()
    }

    /// Pages that the cache holds.
    pub(crate) fn cached_pages(&self) -> u32 {
        (self.cache.bytes.0 / UNIT as u64) as u32
    }

    pub(crate) fn log_sizes(&self, keep_contents: bool) -> LogSizes {
        LogSizes {
            log: self.log.bytes.0,
            commits: self.log.commits.0,
            keep_contents,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        if !self.has_log() && !self.has_cache() {
            let (knob, expected) = ("front", "front.log.bytes or front.cache.bytes above 0");
            return Err(ConfigError::range(knob, "neither", expected));
        }
        let page = UNIT as u64;
        let slots = LogSizes::slots(self.log.bytes.0);
        let percent = u64::from(self.log.clean_percent);
        let in_work = u64::from(self.log.pages_in_work);
        let least = Bytes(LogSizes::bytes(SLOTS_MIN));
        let checks = [
            (
                "front.dram.bytes_per_s",
                self.dram.bytes_per_s.to_string(),
                self.dram.bytes_per_s >= LEAST_RATE,
                format!("at least {LEAST_RATE}"),
            ),
            (
                "front.log.bytes",
                self.log.bytes.to_string(),
                !self.has_log() || (slots >= SLOTS_MIN && self.log.bytes.0 <= LOG_MAX),
                format!("0, or {least} to {}", Bytes(LOG_MAX)),
            ),
            (
                "front.log.commits",
                self.log.commits.to_string(),
                self.log.commits.0.is_multiple_of(4) && self.log.commits.0 <= LOG_MAX,
                format!("a multiple of 4 up to {}", Bytes(LOG_MAX)),
            ),
            (
                "front.log.clean_percent",
                percent.to_string(),
                (1..=100).contains(&percent),
                "1 to 100".to_owned(),
            ),
            (
                "front.log.pages_in_work",
                in_work.to_string(),
                (1..=u64::from(IN_WORK_MAX)).contains(&in_work),
                format!("1 to {IN_WORK_MAX}"),
            ),
            (
                "front.cache.bytes",
                self.cache.bytes.to_string(),
                self.cache.bytes.0.is_multiple_of(page) && self.cache.bytes.0 <= LOG_MAX,
                format!("a multiple of {} up to {}", Bytes(page), Bytes(LOG_MAX)),
            ),
        ];
        let wrong = checks.into_iter().find(|(_, _, fits, _)| !fits);
        wrong.map_or(Ok(()), |(knob, value, _, expected)| {
            Err(ConfigError::range(knob, value, expected))
        })
    }
}

/// Rejects an impossible front, or one that does not fit the drive behind it.
pub(crate) fn check(config: &DriveConfig) -> Result<(), ConfigError> {
    let Some(front) = &config.front else {
        return Ok(());
    };
    front.check()?;
    let page = Bytes(UNIT as u64);
    if config.mapping.unit != page {
        let expected = format!("{page} behind a front");
        return Err(ConfigError::range(
            "mapping.unit",
            config.mapping.unit,
            expected,
        ));
    }
    if config.mapping.cache.0 > 0 {
        let (knob, value) = ("mapping.cache", config.mapping.cache);
        let expected = "0 behind a front, which needs the whole map";
        return Err(ConfigError::range(knob, value, expected));
    }
    if config.controller.power_loss_protection != front.keeps_pages() {
        let (knob, value) = (
            "controller.power_loss_protection",
            config.controller.power_loss_protection,
        );
        let expected = match front.keeps_pages() {
            true => "true with front.battery=all, which keeps the write buffer",
            false => "false unless front.battery=all, which alone keeps the write buffer",
        };
        return Err(ConfigError::range(knob, value, expected));
    }
    Ok(())
}
