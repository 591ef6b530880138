//! Profiles: bundles of options for three readings of the paper (real hardware, the text, and
//! the paper's public simulator).

use crate::config::{
    CacheConfig, DeviceConfig, DramConfig, HintConfig, LogConfig, LookupConfig, Prefetch,
    PromotionConfig, Queue, Replacement,
};
use crate::design::{Design, Migration};
use serde::{Deserialize, Serialize};
use ssd::{DriveConfig, Preset};
use units::{Bytes, KIB, MIB, Ns};

/// A reading of the paper, as a bundle of options for drive and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Real hardware: dies work in parallel over a shared bus, reads have priority, and log
    /// entries carry the address that recovery needs.
    #[default]
    Default,
    /// The paper's text: one in-order queue a channel, as in Algorithm 1; log entries of 64
    /// bytes.
    Paper,
    /// The paper's public simulator: 80 µs a program, clean pages written back, no
    /// prefetching, one latency for all hits.
    Artifact,
}

impl Profile {
    /// Every profile, in order of declaration.
    pub const ALL: [Self; 3] = [Self::Default, Self::Paper, Self::Artifact];

    /// Name of the profile in plans and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Paper => "paper",
            Self::Artifact => "artifact",
        }
    }

    /// The device of a design, at the size of the paper.
    #[must_use]
    pub fn device(self, design: &Design) -> DeviceConfig {
        let log = LogConfig {
            bytes: Bytes(if design.log { 64 * MIB } else { 0 }),
            ..LogConfig::default()
        };
        let hints = HintConfig {
            enabled: design.switches,
            ..HintConfig::default()
        };
        let promotion = PromotionConfig {
            enabled: design.migration == Migration::Counted,
            ..PromotionConfig::default()
        };
        let config = DeviceConfig {
            drive: preset("skybyte"),
            dram: DramConfig::default(),
            cache: CacheConfig::default(),
            log,
            lookup: LookupConfig::default(),
            hints,
            promotion,
        };
        match self {
            Self::Default => config,
            Self::Paper => paper(&config),
            Self::Artifact => artifact(paper(&config)),
        }
    }

    /// The device of a design with 5 MiB on four dies, 32 pages of cache and, if it has a
    /// log, 64 lines in each half of it: evictions, compactions and garbage collection all
    /// happen within some thousand accesses. It keeps contents.
    #[must_use]
    pub fn tiny_device(self, design: &Design) -> DeviceConfig {
        let mut config = self.device(design);
        let drive = &mut config.drive;
        drive.geometry.channels = 2;
        drive.geometry.chips_per_channel = 1;
        drive.geometry.dies_per_chip = 2;
        drive.geometry.blocks_per_plane = 64;
        drive.geometry.pages_per_block = 8;
        drive.capacity = Bytes(5 * MIB);
        drive.controller.write_buffer = Bytes(32 * KIB);
        drive.collection.background_lines = 2;
        drive.flash.keep_contents = true;
        config.cache.ways = 4;
        config.cache.mshrs = 4;
        config.dram.bytes = Bytes(128 * KIB);
        if config.has_log() {
            config.log.bytes = Bytes(2 * 64 * u64::from(config.log.entry_bytes));
            config.dram.bytes = Bytes(144 * KIB);
            config.log.pages_in_work = 3;
        }
        config
    }
}

fn preset(name: &str) -> DriveConfig {
    let preset = Preset::named(name).expect("the preset is in the table");
    (preset.config)()
}

fn paper(config: &DeviceConfig) -> DeviceConfig {
    DeviceConfig {
        drive: preset("skybyte-channel"),
        hints: HintConfig {
            queue: Queue::Channel,
            ..config.hints
        },
        log: LogConfig {
            entry_bytes: 64,
            ..config.log
        },
        ..config.clone()
    }
}

/// The constants of the simulator: 46 ns for a DRAM access, 72 ns for each look-up of a read
/// and none for a write; 80 µs a program; reads wait only for the program in service; with a
/// log, 56 MiB of log and 392 MiB of cache, as an eighth is taken off twice; 72 bytes a log
/// entry.
fn artifact(config: DeviceConfig) -> DeviceConfig {
    let mut drive = config.drive;
    if let Some(timing) = &mut drive.flash.timing {
        timing.program = Ns::us(80);
    }
    drive.flash.reads_first = true;
    drive.flash.bypass_limit = u32::MAX;
    let has_log = config.log.bytes.0 > 0;
    DeviceConfig {
        drive,
        dram: DramConfig {
            bytes: Bytes(if has_log { 448 * MIB } else { 512 * MIB }),
            fixed: Some(Ns(46)),
            ..config.dram
        },
        cache: CacheConfig {
            replacement: Replacement::Lru,
            prefetch: Prefetch::None,
            clean_write_back: true,
            ..config.cache
        },
        log: LogConfig {
            bytes: Bytes(if has_log { 56 * MIB } else { 0 }),
            entry_bytes: 72,
            ..config.log
        },
        lookup: LookupConfig {
            log: Ns(72),
            cache: Ns(72),
            before_writes: false,
        },
        promotion: PromotionConfig {
            adapts: false,
            ..config.promotion
        },
        ..config
    }
}
