//! The plan of a run.

use crate::hosts::Behaviour;
use crate::name::StackName;
use crate::past::{Past, Used};
use host::HostConfig;
use serde::{Deserialize, Serialize};
use ssd::{DriveConfig, Policies, Precondition};
use std::str::FromStr;
use units::Ns;
use vfs::CacheConfig;

/// One run: its record is a function of this and nothing else.
///
/// As a document a plan has neither policies nor rules of a caller, which are not data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Text that tells the plan from others of one file; else empty.
    pub label: String,
    /// Name of the stack.
    pub stack: StackName,
    /// The drive, resolved from a preset or file.
    pub drive: DriveConfig,
    /// State of the drive before the run, or before the file system of a used stack was made.
    pub precondition: Precondition,
    /// Use of the file system before the run; `None` if the run makes a new one.
    #[serde(default)]
    pub used: Option<Used>,
    /// The workload, as [`workload::Workload::parse`] reads it.
    pub workload: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// Sampling of the timeline; `None` for no timeline.
    pub sample: Option<Sampling>,
    /// Configuration of the host.
    pub host: HostConfig,
    /// Configuration of the page cache; unused without a file system.
    pub page_cache: CacheConfig,
    /// Options of the file system; unused without one.
    pub behaviour: Behaviour,
    /// Condition that ends the repetition of the workload.
    #[serde(default)]
    pub until: Until,
    /// Action after the last request.
    pub ending: Ending,
    /// Policies of a caller that replace those of the drive's firmware.
    #[serde(skip)]
    pub policies: Policies,
}

impl Plan {
    /// State of the stack before the run.
    #[must_use]
    pub fn past(&self) -> Past {
        match self.used {
            None => Past::Drive(self.precondition),
            Some(used) => Past::Used(used),
        }
    }
}

/// The condition that ends the repetition of a request workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The workload runs once.
    #[default]
    End,
    /// The workload repeats with different random choices, until garbage collection is steady or
    /// the host has written the drive's capacity 32 times.
    Steady,
}

impl Until {
    /// Every condition, in the order of help texts.
    pub const ALL: [Self; 2] = [Self::End, Self::Steady];

    /// Name in plans and options.
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
        named.ok_or_else(|| "expected steady or end".to_owned())
    }
}

/// The action after the last request of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// Unmounts a file system, and lets the drive write out its buffers.
    #[default]
    Unmount,
    /// Cuts the power and recovers; for file systems only. Writes still pending are not in the
    /// counters.
    PowerCut,
    /// Syncs, unmounts and mounts again a file system, and measures the last two; for file systems
    /// only. Their traffic is in the counters.
    Remount,
}

/// The times at which a timeline is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sampling {
    /// Initial virtual time between two samples.
    pub interval: Ns,
    /// Number of samples after which the interval doubles; `None` for never.
    pub doubles_after: Option<u32>,
}

impl Sampling {
    /// A sample after each `interval`, which never doubles.
    #[must_use]
    pub const fn each(interval: Ns) -> Self {
        Self {
            interval,
            doubles_after: None,
        }
    }

    /// Sampling for runs of unknown length: a few hundred samples for a second or a day of virtual
    /// time.
    #[must_use]
    pub const fn widening() -> Self {
        Self {
            interval: Ns::ms(10),
            doubles_after: Some(64),
        }
    }
}

/// Progress of a run, for its observers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Number of requests completed.
    pub ops: u64,
    /// Virtual time since the first request.
    pub sim_time: Ns,
    /// Windows completed, each of the drive's capacity in host writes.
    pub windows: u32,
    /// Device write amplification of the last window; `None` before the first.
    pub amplification: Option<f64>,
    /// While the stack is put to use before the run: the bytes that its files were written with so
    /// far. Windows and amplification are then those of programs' bytes.
    pub past: Option<u64>,
}
