//! Configuration of a CXL-SSD, as configuration files spell it.
//!
//! One knob sets the size of the device's DRAM: the log takes its part and the cache the
//! rest, so designs with and without a log are compared at equal DRAM.

use crate::cache::MOST_WAYS;
use serde::{Deserialize, Serialize};
use ssd::{ConfigError as DriveError, DriveConfig};
use units::{Bytes, MIB, Ns};

/// Most entries of a log: an offset has 26 bits, and one value means "no entry".
pub(crate) const MOST_ENTRIES: u64 = (1 << 26) - 1;
/// Most bytes of DRAM: each cached page takes memory of the simulating machine.
const MOST_DRAM: Bytes = Bytes(64 * units::GIB);
/// Least entries of one half of a log.
const LEAST_ENTRIES: u64 = 8;
/// Bytes of a line.
const LINE: u32 = 64;

/// A CXL-SSD: a drive, the DRAM in front of it, and the parts of SkyByte it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// The drive behind the front: flash, mapping, garbage collection.
    pub drive: DriveConfig,
    /// Size and timing of the device's DRAM.
    #[serde(default)]
    pub dram: DramConfig,
    /// Organisation of the data cache.
    #[serde(default)]
    pub cache: CacheConfig,
    /// The write log; its size is 0 in designs without one.
    #[serde(default)]
    pub log: LogConfig,
    /// Latencies of the look-ups in cache and log.
    #[serde(default)]
    pub lookup: LookupConfig,
    /// Delay hints to the host.
    #[serde(default)]
    pub hints: HintConfig,
    /// Policy that reports hot pages to the host.
    #[serde(default)]
    pub promotion: PromotionConfig,
}

/// The device's DRAM, all of which a battery keeps.
//= skybyte 6.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DramConfig {
    /// Log and cache together; 512 MiB in `skybyte` Table II. The index of the log and
    /// the write buffer of the drive come on top.
    pub bytes: Bytes,
    /// Fixed latency of every access; the timing fields below then have no effect. `None`
    /// (0 in files) for the timing of channels, banks and rows.
    #[serde(with = "zero_is_none")]
    pub fixed: Option<Ns>,
    /// Channels; 2 in Table II.
    pub channels: u32,
    /// Million transfers a second; 3200 in Table II.
    pub mega_transfers: u32,
    /// Width of a channel; 16 bits in LPDDR4, which makes 12.8 GB/s, and the prototype of
    /// `skybyte` 5 reached 11.93.
    pub channel_bits: u32,
    /// Banks of a channel; 8 in LPDDR4.
    pub banks: u32,
    /// Bytes of a row in one channel; 2 KiB in LPDDR4.
    pub row_bytes: u32,
    /// Cycles from a column command to its data; 16 in Table II.
    pub column: u32,
    /// Cycles to open a row; 18 in Table II.
    pub activate: u32,
    /// Cycles to close one; 18 in Table II.
    pub precharge: u32,
}

/// An optional time in formats without a null: zero stands for `None`.
mod zero_is_none {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use units::Ns;

    pub(super) fn serialize<S: Serializer>(time: &Option<Ns>, to: S) -> Result<S::Ok, S::Error> {
        time.unwrap_or_default().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ns>, D::Error> {
        let time = Ns::deserialize(from)?;
        Ok((time != Ns::ZERO).then_some(time))
    }
}

impl Default for DramConfig {
    fn default() -> Self {
        Self {
            bytes: Bytes(512 * MIB),
            fixed: None,
            channels: 2,
            mega_transfers: 3_200,
            channel_bits: 16,
            banks: 8,
            row_bytes: 2_048,
            column: 16,
            activate: 18,
            precharge: 18,
        }
    }
}

/// Which page goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Replacement {
    /// The least recently used page.
    Lru,
    /// A clean page among the least recently used ways, if there is one; else as `Lru`.
    Cflru {
        /// Number of least recently used ways searched for a clean page.
        window: u32,
    },
}

/// Prefetch policy of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Prefetch {
    /// No page is prefetched.
    None,
    /// The pages that follow the one accessed.
    Next {
        /// Pages per prefetch, 1 to 64.
        pages: u32,
    },
    /// Pages at multiples of the offset that would have been timely most often.
    BestOffset {
        /// Pages per prefetch, 1 to 64.
        pages: u32,
        /// The largest offset tried, in pages, 1 to 256.
        largest: u32,
    },
}

/// The data cache, in pages of 4 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Ways of a set; 16 in the paper's simulator and in that of its baseline.
    pub ways: u32,
    /// Replacement policy. The baseline that `skybyte` 6.1 names, `mqsim-cxl`, has `cflru`;
    /// its window is a choice of ours.
    pub replacement: Replacement,
    /// Prefetch policy. `mqsim-cxl` has the best-offset prefetcher with 4 pages and offsets
    /// up to 16.
    pub prefetch: Prefetch,
    /// MSHRs: pages that may be in flight from flash; 2048 in `skybyte` Table II.
    pub mshrs: u32,
    /// Whether evicted clean pages are programmed too, as the paper's simulator does. Has no
    /// effect with a log.
    pub clean_write_back: bool,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            ways: 16,
            replacement: Replacement::Cflru { window: 4 },
            prefetch: Prefetch::BestOffset {
                pages: 4,
                largest: 16,
            },
            mshrs: 2_048,
            clean_write_back: false,
        }
    }
}

/// The write log, in two halves.
//= skybyte 3.2
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// Both halves together; 0 for no log. 64 MiB in `skybyte` Table II, which does not
    /// say whether that is one of the two buffers: with 448 MiB of cache it fills the
    /// DRAM, so here it is both.
    pub bytes: Bytes,
    /// Bytes of an entry. The paper counts 64; a line needs its address beside it to be
    /// found after a power cut, so 72.
    pub entry_bytes: u32,
    /// Pages that compaction has in work at once: 8 a channel, a choice of ours.
    pub pages_in_work: u32,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            bytes: Bytes(0),
            entry_bytes: 72,
            pages_in_work: 128,
        }
    }
}

impl LogConfig {
    /// Capacity of one half in entries, one line each.
    #[must_use]
    pub const fn half_entries(&self) -> u64 {
        match self.entry_bytes {
            0 => 0,
            bytes => self.bytes.0 / 2 / bytes as u64,
        }
    }
}

/// Look-up latencies, as measured on the paper's prototype.
//= skybyte 5
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LookupConfig {
    /// Look-up in the index of the log; 72 ns on the prototype.
    pub log: Ns,
    /// Look-up in the cache's tags; 49 ns on the prototype.
    pub cache: Ns,
    /// Whether a write pays its look-ups before the device accepts it.
    pub before_writes: bool,
}

impl Default for LookupConfig {
    fn default() -> Self {
        Self {
            log: Ns(72),
            cache: Ns(49),
            before_writes: true,
        }
    }
}

/// The queue over which the latency of a flash read is estimated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queue {
    /// All operations of the page's channel, one after the other, as Algorithm 1 says.
    Channel,
    /// Operations of the page's die, and the transfers of reads over the channel's bus.
    Die,
}

/// Delay hints: answers to reads whose estimated latency exceeds a threshold.
//= skybyte 3.1
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HintConfig {
    /// Whether the device sends delay hints.
    pub enabled: bool,
    /// An estimate above this (strictly) sends a hint; 2 µs in `skybyte` 3.1.
    pub threshold: Ns,
    /// Queue that the estimate sums.
    pub queue: Queue,
}

impl Default for HintConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: Ns::us(2),
            queue: Queue::Die,
        }
    }
}

/// Policy that reports hot pages to the host, so that it moves them to its memory.
//= skybyte 3.3
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromotionConfig {
    /// Whether the device reports hot pages.
    pub enabled: bool,
    /// A page with more accesses than this is hot; the maximum where the threshold adapts. 7
    /// in the paper's simulator.
    pub threshold: u16,
    /// Accesses in an epoch; 10,000 in the paper's simulator.
    pub epoch: u32,
    /// Whether the threshold adapts: up when at most 1/4 of the epoch's accesses were to
    /// promoted pages, down when at least 3/4 were.
    pub adapts: bool,
}

impl Default for PromotionConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: 7,
            epoch: 10_000,
            adapts: true,
        }
    }
}

/// Reason why a CXL-SSD cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The configuration of the drive behind the front is invalid.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// A knob is out of its range.
    #[error("{knob}: {value} given, {expected} expected")]
    Range {
        /// Name of the knob in configuration files.
        knob: &'static str,
        /// The rejected value, as text.
        value: String,
        /// The values that are accepted.
        expected: String,
    },
    /// The log leaves the cache no room.
    #[error(
        "log.bytes: a log of {log} in a DRAM of {dram} leaves {rest} to the cache, which needs \
         {least} for a set"
    )]
    Log {
        /// Size of both halves of the log.
        log: Bytes,
        /// Size of the DRAM that log and cache share.
        dram: Bytes,
        /// DRAM left for the cache.
        rest: Bytes,
        /// Least size of the cache: one set of pages.
        least: Bytes,
    },
    /// The media were kept by a device of another configuration.
    #[error("the media hold {what} of a device of another configuration")]
    Media {
        /// The part of the media that does not fit.
        what: &'static str,
    },
}

impl ConfigError {
    fn range(
        knob: &'static str,
        value: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Range {
            knob,
            value: value.to_string(),
            expected: expected.into(),
        }
    }
}

/// A knob, its value, whether it is in range, and the accepted values.
type Check = (&'static str, u64, bool, &'static str);

fn some(knob: &'static str, value: u32, most: u32, expected: &'static str) -> Check {
    (
        knob,
        u64::from(value),
        (1..=most).contains(&value),
        expected,
    )
}

impl DramConfig {
    fn ranges(&self) -> Vec<Check> {
        let (row, bits) = (self.row_bytes, self.channel_bits);
        let whole = row > 0 && row.is_multiple_of(4 * LINE);
        let width = bits >= 8 && bits.is_multiple_of(8) && bits <= 1024;
        let cycles = |knob, cycles: u32| -> Check {
            (knob, u64::from(cycles), cycles <= 1024, "up to 1024")
        };
        let fixed = self.fixed.unwrap_or_default();
        let short = fixed <= Ns::secs(1);
        let bytes = self.bytes;
        vec![
            ("dram.bytes", bytes.0, bytes <= MOST_DRAM, "up to 64 GiB"),
            ("dram.fixed", fixed.0, short, "up to a second"),
            some("dram.channels", self.channels, 64, "1 to 64"),
            some("dram.banks", self.banks, 1024, "1 to 1024"),
            some(
                "dram.mega_transfers",
                self.mega_transfers,
                1 << 20,
                "1 to 1048576",
            ),
            cycles("dram.column", self.column),
            cycles("dram.activate", self.activate),
            cycles("dram.precharge", self.precharge),
            ("dram.row_bytes", u64::from(row), whole, "a multiple of 256"),
            (
                "dram.channel_bits",
                u64::from(bits),
                width,
                "a multiple of 8 up to 1024",
            ),
        ]
    }
}

impl CacheConfig {
    fn ranges(&self) -> Vec<Check> {
        let (ahead, offset) = match self.prefetch {
            Prefetch::None => (1, 1),
            Prefetch::Next { pages } => (pages, 1),
            Prefetch::BestOffset { pages, largest } => (pages, largest),
        };
        vec![
            some("cache.ways", self.ways, MOST_WAYS, "1 to 16"),
            some("cache.mshrs", self.mshrs, 1 << 20, "1 to 1048576"),
            some("cache.prefetch.pages", ahead, 64, "1 to 64"),
            some("cache.prefetch.largest", offset, 256, "1 to 256"),
        ]
    }
}

impl LogConfig {
    fn ranges(&self) -> Vec<Check> {
        let entry = self.entry_bytes;
        let fits = (LINE..=4096).contains(&entry);
        let mut checks = vec![
            ("log.entry_bytes", u64::from(entry), fits, "64 to 4096"),
            some(
                "log.pages_in_work",
                self.pages_in_work,
                1 << 16,
                "1 to 65536",
            ),
        ];
        if self.bytes.0 > 0 {
            let fits = (LEAST_ENTRIES..=MOST_ENTRIES / 2).contains(&self.half_entries());
            let expected = "a log whose halves have 8 to 33554431 entries";
            checks.push(("log.bytes", self.bytes.0, fits, expected));
        }
        checks
    }
}

impl DeviceConfig {
    /// Whether the device has a write log (part W).
    #[must_use]
    pub const fn has_log(&self) -> bool {
        self.log.bytes.0 > 0
    }

    /// Capacity of the cache in pages: the DRAM without the log, in whole sets.
    #[must_use]
    pub fn cached_pages(&self) -> u32 {
        let bytes = self.dram.bytes.0.saturating_sub(self.log.bytes.0);
        let pages = u32::try_from(bytes / 4096).unwrap_or(u32::MAX);
        pages - pages % self.cache.ways.max(1)
    }

    /// The configuration itself, if it can be built.
    ///
    /// # Errors
    /// Names the first knob that is impossible.
    pub fn checked(self) -> Result<Self, ConfigError> {
        ssd::Layout::new(&self.drive)?;
        self.check_drive()?;
        let checks = self.ranges();
        if let Some((knob, value, _, expected)) = checks.into_iter().find(|check| !check.2) {
            return Err(ConfigError::range(knob, value, expected));
        }
        let least = Bytes(u64::from(self.cache.ways) * 4096);
        let (log, dram) = (self.log.bytes, self.dram.bytes);
        let rest = Bytes(dram.0.saturating_sub(log.0));
        if rest < least {
            return Err(ConfigError::Log {
                log,
                dram,
                rest,
                least,
            });
        }
        Ok(self)
    }

    fn check_drive(&self) -> Result<(), ConfigError> {
        let drive = &self.drive;
        let refuse = |knob, value: String, expected: &str| {
            Err(ConfigError::range(knob, value, expected.to_owned()))
        };
        if drive.front.is_some() || drive.zones.is_some() || drive.raw.is_some() {
            let knob = "drive.interface";
            return refuse(
                knob,
                drive.name.clone(),
                "a drive of blocks without a front",
            );
        }
        if drive.mapping.unit != Bytes(4096) || drive.mapping.cache.0 > 0 {
            let knob = "drive.mapping";
            let value = format!(
                "{} with a cache of {}",
                drive.mapping.unit, drive.mapping.cache
            );
            return refuse(knob, value, "4KiB with the whole map in DRAM");
        }
        if !drive.controller.power_loss_protection {
            let knob = "drive.controller.power_loss_protection";
            return refuse(knob, "false".to_owned(), "true, as the DRAM has a battery");
        }
        Ok(())
    }

    fn ranges(&self) -> Vec<Check> {
        let mut checks = self.dram.ranges();
        checks.extend(self.cache.ranges());
        checks.extend(self.log.ranges());
        let threshold = self.promotion.threshold;
        let fits = threshold > 0;
        checks.push((
            "promotion.threshold",
            u64::from(threshold),
            fits,
            "at least 1",
        ));
        let lookups = [
            ("lookup.log", self.lookup.log),
            ("lookup.cache", self.lookup.cache),
        ];
        let short = |(knob, time): (_, Ns)| (knob, time.0, time <= Ns::secs(1), "up to a second");
        checks.extend(lookups.map(short));
        let epoch = self.promotion.epoch;
        checks.push(("promotion.epoch", u64::from(epoch), epoch > 0, "at least 1"));
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::design::Design;
    use crate::profile::Profile;

    fn says(change: impl FnOnce(&mut DeviceConfig)) -> String {
        let full = Design::named("skybyte-full").unwrap();
        let mut config = Profile::Default.device(full);
        change(&mut config);
        config.checked().unwrap_err().to_string()
    }

    #[test]
    fn impossible_configuration_is_rejected_by_knob_name() {
        assert!(says(|c| c.log.bytes = Bytes(512 * MIB)).contains("leaves 0"));
        assert!(says(|c| c.log.bytes = Bytes(100)).contains("8 to 33554431 entries"));
        assert!(says(|c| c.log.entry_bytes = 0).contains("log.entry_bytes: 0 given"));
        assert!(says(|c| c.dram.bytes = Bytes(16 << 40)).contains("up to 64 GiB"));
        assert!(says(|c| c.dram.channels = 0).contains("dram.channels: 0 given"));
        assert!(says(|c| c.dram.row_bytes = 100).contains("dram.row_bytes"));
        assert!(says(|c| c.cache.ways = 17).contains("1 to 16"));
        assert!(says(|c| c.cache.mshrs = 0).contains("cache.mshrs"));
        assert!(says(|c| c.lookup.log = Ns(u64::MAX)).contains("lookup.log"));
        assert!(says(|c| c.dram.fixed = Some(Ns(u64::MAX))).contains("dram.fixed"));
        assert!(says(|c| c.promotion.epoch = 0).contains("promotion.epoch"));
        assert!(says(|c| c.drive.geometry.channels = 0).contains("channels is 0"));
        assert!(says(|c| c.drive.mapping.cache = Bytes(MIB)).contains("whole map"));
        let cached = |c: &mut DeviceConfig| c.drive = ssd_preset("byte");
        assert!(says(cached).contains("without a front"));
    }

    fn ssd_preset(name: &str) -> DriveConfig {
        (ssd::Preset::named(name).unwrap().config)()
    }

    #[test]
    fn a_configuration_comes_back_from_its_file() {
        for profile in Profile::ALL {
            for design in crate::DESIGNS.iter().filter(|design| design.drive) {
                let config = profile.device(design).checked().unwrap();
                let text = toml::to_string(&config).unwrap();
                assert_eq!(toml::from_str::<DeviceConfig>(&text).unwrap(), config);
            }
        }
        assert!(toml::from_str::<LogConfig>("size = 5").is_err());
    }
}
