//! Latency distributions of requests and calls.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Latency distribution of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of requests that were measured.
    pub count: u64,
    /// Arithmetic mean of latency, ns.
    pub mean: f64,
    /// Median of latency, ns.
    pub p50: u64,
    /// 95th percentile of latency, ns; 0 in records from before the field existed.
    #[serde(default)]
    pub p95: u64,
    /// 99th percentile of latency, ns.
    pub p99: u64,
    /// 99.9th percentile of latency, ns.
    pub p99_9: u64,
    /// 99.99th percentile of latency, ns.
    pub p99_99: u64,
    /// Largest latency of a request, ns.
    pub max: u64,
    /// The distribution: (latency in ns, requests at or below it), ascending,
    /// about 100 to 200 points, the last one with all requests.
    pub cdf: Vec<(u64, u64)>,
}

/// Latency over all requests, and by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySet {
    /// Latency of all requests together.
    #[serde(flatten)]
    pub all: Latency,
    /// Latency by kind: `read`, `write`, `trim`, `flush`; with a file system, the name of the call.
    pub by_op: BTreeMap<String, Latency>,
}

/// The same workload at another load than the run's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AtLoad {
    /// The load in words: `the recorded pauses`, or `Poisson arrivals`, where the latency of a request
    /// begins when it is due.
    pub pace: String,
    /// Requests completed per second of virtual time.
    pub ops_per_s: f64,
    /// Latency over all requests and by kind.
    pub latency_ns: LatencySet,
    /// Requests that failed, by reason.
    pub errors: BTreeMap<String, u64>,
}
