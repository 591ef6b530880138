//! Results of the jobs of a fio file.

use super::Latency;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Results of one job with its clones, or of a reporting group of jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// Name of the job; of a group, the names of its jobs.
    pub name: String,
    /// Number of the reporting group, from 0.
    pub group: u64,
    /// Whether the results of the job are also part of those of its group (`group_reporting`).
    #[serde(default)]
    pub in_group: bool,
    /// Options of the job as its file and the sections `[global]` before it set them; of a group,
    /// those of its first job.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Threads: clones of the job, or all those of the group.
    pub clones: u64,
    /// Virtual time at which measuring began, ns from the first request: the start of the first
    /// thread, after its delay and its ramp.
    pub start_ns: u64,
    /// Virtual time from then to the last completion, ns.
    pub runtime_ns: u64,
    /// Number of requests that failed.
    pub errors: u64,
    /// Reads of the job.
    pub read: JobDirection,
    /// Writes of the job.
    pub write: JobDirection,
    /// Deallocations of the job.
    pub trim: JobDirection,
    /// Latency of the flushes of the job.
    pub flush_ns: Latency,
}

/// Requests of a job in one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobDirection {
    /// Number of requests completed without error.
    pub ios: u64,
    /// Sum of the bytes of these requests.
    pub bytes: u64,
    /// Requests per second of the runtime.
    pub iops: f64,
    /// Bytes per second of the runtime.
    pub bytes_per_s: f64,
    /// Latency of the requests.
    pub latency_ns: Latency,
}

impl JobResult {
    /// The directions with any requests, by name.
    pub fn directions(&self) -> impl Iterator<Item = (&'static str, &JobDirection)> {
        let all = [
            ("read", &self.read),
            ("write", &self.write),
            ("trim", &self.trim),
        ];
        all.into_iter().filter(|(_, direction)| direction.ios > 0)
    }
}
