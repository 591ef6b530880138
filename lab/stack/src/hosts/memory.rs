//! Memory that survives power cuts, as hosts of open-channel drives have it, and its switches.
//!
//! Invariant: what is kept there follows from the switches and the drive alone, so whoever
//! finds it knows what to look for.

use super::Switch;
use host::{PmConfig, PmMedia};
use hostftl::FtlConfig;
use hyfim::HyfimConfig;
use ssd::DriveConfig;
use units::{Bytes, KIB, Ns};

/// The write buffer of the host's mapping is there.
//= hyfim 4
pub(super) const BUFFER: Switch = (
    "pmbuffer",
    "the write buffer of its mapping is in persistent memory: what is forced is not padded",
);

/// It takes the time of a real part.
pub(super) const OPTANE: Switch = (
    "optane",
    "its memory takes 300 ns to load and 100 ns to flush, not none as in its paper",
);

/// It takes longer than any part does.
pub(super) const SLOW: Switch = (
    "slow",
    "its memory takes 20 us to flush a line, so that a cut can meet cleaning meanwhile",
);

/// What a flush takes of memory as slow as no part is: publications take as long then as
/// cleaning does.
const SLOW_FLUSH: Ns = Ns::us(20);

/// Memory that survives power cuts, as a host wants it.
#[derive(Clone, Copy, Debug)]
pub struct Persistent {
    /// How long it takes.
    pub pm: PmConfig,
    /// Whether pages are exchanged: the table and journals are there.
    swaps: bool,
    buffer: bool,
    lean: bool,
}

/// What is kept there for a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Keeps {
    /// All that HyFiM has.
    Swaps(HyfimConfig),
    /// The write buffer of a mapping whose table is not there.
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

    /// That of a host which exchanges pages.
    pub(super) fn swapping(switches: &[String]) -> Self {
        Self::of(switches, true)
    }

    /// That of a host which has its write buffer there, if it has.
    pub(super) fn buffering(switches: &[String]) -> Option<Self> {
        Some(Self::of(switches, false)).filter(|memory| memory.buffer)
    }

    /// What is kept there for a drive.
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

/// What memory that survives power cuts holds.
#[derive(Clone, Debug, Default)]
pub enum Memory {
    /// Nothing yet.
    #[default]
    Blank,
    /// What was left.
    Left(PmMedia),
}

impl Memory {
    /// That of a host without any.
    pub(crate) const NONE: (Option<Persistent>, Self) = (None, Self::Blank);
}
