//! What a run is made of.

use crate::name::StackName;
use host::HostConfig;
use ssd::{DriveConfig, Precondition};
use units::Ns;

/// One run: a function of this and nothing else.
#[derive(Clone, Debug, PartialEq)]
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
    /// Interval of the timeline; none for no timeline.
    pub sample: Option<Ns>,
    /// The host.
    pub host: HostConfig,
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Requests completed.
    pub ops: u64,
    /// Virtual time since the first one.
    pub sim_time: Ns,
}
