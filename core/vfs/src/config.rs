//! Configuration of the page cache and of the costs of calls.
//!
//! # Sources of the numbers
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | memory | 1 GiB | a choice of ours: small beside a drive, so that a cache is seen to be full |
//! | background ratio | 10 % | default of Linux' `vm.dirty_background_ratio`; here of `memory` |
//! | dirty ratio | 20 % | default of Linux' `vm.dirty_ratio`; here of `memory` |
//! | write-back interval | 5 s | default of Linux' `vm.dirty_writeback_centisecs` |
//! | expiry | 30 s | default of Linux' `vm.dirty_expire_centisecs` |
//! | read-ahead | 128 KiB | default of Linux' `read_ahead_kb` |
//! | batch | 1,024 pages | the least that Linux writes of a file at a turn (4 MiB) |
//! | writers | 4 | a choice of ours: files that are written back at once |
//! | inodes | 65,536 | a choice of ours: inodes kept in memory |
//! | atime | relative | Linux' own default for a mount |
//! | names | 262,144 | a choice of ours: directory entries kept in memory |
//! | system call | 170 ns | measured by `scripts/call-costs.sh`: a call that does nothing |
//! | copied page | 400 ns | a choice of ours: 4 KiB at 10 GB/s, between cache and memory |
//! | name | 650 ns | measured by the same: half of a `stat` of two components that are in memory |
//! | changed name | 20 µs | measured by the same, see below; the same for every file system here |
//!
//! Create, link, rename, unlink, mkdir and rmdir on the kernel's ext4 take 13 to 36 µs, half of them
//! less than 20.
//!
//! Measured on 2 cores of a virtual machine under Debian 12, Linux 6.18.

use serde::{Deserialize, Serialize};
use units::{Bytes, GIB, KIB, Ns};

/// Configuration of the page cache of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheConfig {
    /// Memory for file contents, in whole pages; at least 64 pages are taken.
    pub memory: Bytes,
    /// Per cent of the memory that may be dirty before write-back starts.
    pub dirty_background_ratio: u32,
    /// Per cent of the memory that may be dirty or under write-back before
    /// writers wait; never below the background ratio.
    pub dirty_ratio: u32,
    /// Period at which the write-back task looks for old files.
    pub writeback_interval: Ns,
    /// Age at which a dirty file is written back.
    pub expire: Ns,
    /// Largest window of read-ahead; 0 turns it off.
    pub read_ahead: Bytes,
    /// Pages that are handed to a body at once.
    pub batch: u32,
    /// Files that are written back at once.
    pub writers: u32,
    /// Inodes kept in memory; those in use are kept in any case.
    pub inodes: u32,
    /// Directory entries kept in memory, present ones and absent ones.
    pub names: u32,
    /// Policy for updates of atime by reads of files.
    pub atime: Atime,
    /// Whether reads of directories update atime as those of files do.
    pub diratime: bool,
    /// Processor time of each call.
    pub costs: CallCosts,
}

/// Policy by which a read updates atime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Atime {
    /// Reads leave atime alone: `noatime`.
    Never,
    /// Updates atime if it is not newer than mtime and ctime, or older than a day: `relatime`.
    #[default]
    Relative,
    /// Every read updates atime: `strictatime`.
    Always,
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            memory: Bytes(GIB),
            dirty_background_ratio: 10,
            dirty_ratio: 20,
            writeback_interval: Ns::secs(5),
            expire: Ns::secs(30),
            read_ahead: Bytes(128 * KIB),
            batch: 1_024,
            writers: 4,
            inodes: 65_536,
            names: 262_144,
            atime: Atime::Relative,
            diratime: true,
            costs: CallCosts::default(),
        }
    }
}

/// A knob of [`CacheConfig`] that is out of range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page_cache.{knob}: {value} given, {expected} expected")]
pub struct CacheError {
    knob: &'static str,
    value: String,
    expected: &'static str,
}

/// Upper bound of ages and costs: far beyond any useful value, and short enough that sums of them
/// stay within the clock.
const LONGEST: Ns = Ns::secs(1_000_000);

impl CacheConfig {
    /// Returns the configuration if every knob is in range.
    ///
    /// # Errors
    /// Names the first knob that is out of range.
    pub fn checked(self) -> Result<Self, CacheError> {
        let refused = |knob, value: &dyn std::fmt::Display, expected| CacheError {
            knob,
            value: value.to_string(),
            expected,
        };
        if !(Bytes(256 * KIB)..=Bytes(1024 * GIB)).contains(&self.memory) {
            return Err(refused("memory", &self.memory, "256KiB to 1TiB"));
        }
        let (low, high) = (self.dirty_background_ratio, self.dirty_ratio);
        if high > 100 {
            return Err(refused("dirty_ratio", &high, "0 to 100"));
        }
        if low > high {
            let expected = "a per cent that is not above dirty_ratio";
            return Err(refused("dirty_background_ratio", &low, expected));
        }
        if !(Ns::ms(1)..=LONGEST).contains(&self.writeback_interval) {
            let interval = &self.writeback_interval;
            return Err(refused("writeback_interval", interval, "1ms to 1000000s"));
        }
        let costs = &self.costs;
        let times = [
            ("expire", self.expire),
            ("costs.call", costs.call),
            ("costs.page", costs.page),
            ("costs.name", costs.name),
            ("costs.change", costs.change),
        ];
        for (knob, time) in times {
            if time > LONGEST {
                return Err(refused(knob, &time, "at most 1000000s"));
            }
        }
        let counts = [("batch", self.batch), ("writers", self.writers)];
        for (knob, count) in counts {
            if !(1..=1 << 20).contains(&count) {
                return Err(refused(knob, &count, "1 to 1048576"));
            }
        }
        if self.read_ahead > Bytes(GIB) {
            return Err(refused("read_ahead", &self.read_ahead, "at most 1GiB"));
        }
        Ok(self)
    }
}

/// Processor time of each call, paid once when the call begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CallCosts {
    /// Base cost of any call.
    pub call: Ns,
    /// Cost of each page copied.
    pub page: Ns,
    /// Cost of each component of a path.
    pub name: Ns,
    /// Extra cost of a call that makes, moves or removes a name.
    pub change: Ns,
}

impl Default for CallCosts {
    fn default() -> Self {
        Self {
            call: Ns(170),
            page: Ns(400),
            name: Ns(650),
            change: Ns(20_000),
        }
    }
}

impl CallCosts {
    /// No cost for any call, so that a cache hit takes no event at all.
    pub const FREE: Self = Self {
        call: Ns(0),
        page: Ns(0),
        name: Ns(0),
        change: Ns(0),
    };

    /// Cost of a call that copies `bytes` bytes.
    pub(crate) fn copying(&self, bytes: u64) -> Ns {
        let pages = bytes.div_ceil(crate::PAGE);
        Ns(self.call.0 + self.page.0.saturating_mul(pages))
    }
}
