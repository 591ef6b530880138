//! Persistent memory of the hosts of open-channel drives, and its switches.
//!
//! Invariant: the layout of the memory follows from the switches and the drive alone, so that a
//! later mount knows it.

use super::Switch;
use host::{PmConfig, PmMedia};
use hostftl::FtlConfig;
use hyfim::HyfimConfig;
use ssd::DriveConfig;
use units::{Bytes, KIB, Ns};

/// Puts the write buffer of the host's mapping into persistent memory.
//= hyfim 4
pub(super) const BUFFER: Switch = (
    "pmbuffer",
    "the write buffer of the mapping is in persistent memory, so that synced writes need no \
     padding",
);

/// Gives the memory the access times of a real part.
pub(super) const OPTANE: Switch = (
    "optane",
    "persistent memory takes 300 ns to load and 100 ns to flush a line, instead of 0 as in the \
     paper",
);

/// Makes the memory slower than any real part.
pub(super) const SLOW: Switch = (
    "slow",
    "persistent memory takes 20 us to flush a line, so that power cuts can hit a cleaning in \
     progress",
);

/// Flush time of the slow memory: publications take as long as cleaning does.
const SLOW_FLUSH: Ns = Ns::us(20);

/// Persistent memory, as the switches of a host configure it.
#[derive(Clone, Copy, Debug)]
pub struct Persistent {
    /// Access times and size of the memory.
    pub pm: PmConfig,
    /// Whether pages are exchanged: then the table and journals are in this memory.
    swaps: bool,
    buffer: bool,
    lean: bool,
}

/// The structures that persistent memory holds for a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keeps {
    /// The table and journals of HyFiM, and its write buffer if that is persistent.
    Swaps(HyfimConfig),
    /// The write buffer of a mapping whose table is in DRAM.
    Buffer(FtlConfig),
}

impl Persistent {
    fn of(switches: &[String], swaps: bool) -> Self {
        let has = |of: Switch| switches.iter().any(|switch| switch == of.0);
        let mut pm = PmConfig::default();
        if has(OPTANE) {
            pm = pm.optane();
        }
        if has(SLOW) {
            pm.flush = SLOW_FLUSH;
        }
        Self {
            pm,
            swaps,
            buffer: has(BUFFER),
            lean: switches.iter().any(|switch| switch == "lean"),
        }
    }

    /// The memory of a host that exchanges pages.
    pub(super) fn swapping(switches: &[String]) -> Self {
        Self::of(switches, true)
    }

    /// The memory of a host with a persistent write buffer; `None` without the switch.
    pub(super) fn buffering(switches: &[String]) -> Option<Self> {
        Some(Self::of(switches, false)).filter(|memory| memory.buffer)
    }

    /// The structures that the memory holds for `drive`.
    pub(crate) const fn keeps(&self, drive: &DriveConfig) -> Keeps {
        let ftl = FtlConfig::of(drive);
        if !self.swaps {
            return Keeps::Buffer(ftl);
        }
        let config = HyfimConfig {
            lasting: self.buffer,
            ..HyfimConfig::new(ftl)
        };
        if !self.lean {
            return Keeps::Swaps(config);
        }
        Keeps::Swaps(HyfimConfig {
            ftl: FtlConfig {
                hidden: 128,
                ..config.ftl
            },
            journal: Bytes(64 * KIB),
            ..config
        })
    }
}

/// Contents of a host's persistent memory at power-on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// No contents: new memory.
    #[default]
    Blank,
    /// The contents at the last power-off or power cut.
    Left(PmMedia),
}

impl Memory {
    /// The memory of a host without persistent memory.
    pub(crate) const NONE: (Option<Persistent>, Self) = (None, Self::Blank);
}
