//! What a run is made of.

use crate::hosts::Behaviour;
use crate::name::StackName;
use host::HostConfig;
use serde::{Deserialize, Serialize};
use ssd::{DriveConfig, Policies, Precondition};
use std::str::FromStr;
use units::Ns;
use vfs::CacheConfig;

/// One run: a function of this and nothing else.
///
/// As a document it has neither policies nor rules of the user's own, which are no data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What sets it apart from others of one plan file; else empty.
    pub label: String,
    /// The stack.
    pub stack: StackName,
    /// Its drive, resolved.
    pub drive: DriveConfig,
    /// The drive's past.
    pub precondition: Precondition,
    /// The workload, as [`workload::Workload::parse`] reads it.
    pub workload: String,
    /// The seed of all chance.
    pub seed: u64,
    /// The timeline; none for none.
    pub sample: Option<Sampling>,
    /// The host.
    pub host: HostConfig,
    /// The page cache of a stack with a file system.
    pub page_cache: CacheConfig,
    /// How the file system behaves, where there is one.
    pub behaviour: Behaviour,
    /// When the workload has been repeated enough.
    #[serde(default)]
    pub until: Until,
    /// What comes after the last request.
    pub ending: Ending,
    /// What chooses instead of the drive's firmware.
    #[serde(skip)]
    pub policies: Policies,
}

/// When a workload of requests is repeated no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// It runs once.
    #[default]
    End,
    /// It runs again, with other chance each time, until garbage collection is steady or the
    /// host has written the drive's capacity 32 times.
    Steady,
}

impl Until {
    /// Both.
    pub const ALL: [Self; 2] = [Self::End, Self::Steady];

    /// The name in plans and options.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Steady => "steady",
        }
    }
}

impl FromStr for Until {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|until| until.name() == text);
        named.ok_or_else(|| "expected steady, or end".to_owned())
    }
}

/// What comes after the last request of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// A file system is unmounted, and the drive writes out what it has acknowledged.
    #[default]
    Unmount,
    /// The power is cut, and what is left recovers; of file systems only. What was
    /// still to be written is not in the counters.
    PowerCut,
    /// A file system is made durable, unmounted and mounted again, as it is measured how
    /// long the two take; of file systems only. Their traffic is in the counters.
    Remount,
}

/// When samples of a timeline are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Virtual time between two samples, at first.
    pub interval: Ns,
    /// The interval doubles after so many samples; none for never.
    pub doubles_after: Option<u32>,
}

impl Sampling {
    /// A sample each `interval`.
    #[must_use]
    pub const fn each(interval: Ns) -> Self {
        Self {
            interval,
            doubles_after: None,
        }
    }

    /// For runs of unknown length: a few hundred samples, whether it takes a
    /// second or a day of virtual time.
    #[must_use]
    pub const fn widening() -> Self {
        Self {
            interval: Ns::ms(10),
            doubles_after: Some(64),
        }
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Requests completed.
    pub ops: u64,
    /// Virtual time since the first one.
    pub sim_time: Ns,
    /// Windows of the drive's capacity in host writes.
    pub windows: u32,
    /// Device write amplification of the last window; none before the first.
    pub amplification: Option<f64>,
}
