//! The quantities of a finished run, by the names that documents use.

use super::rows::Of;
use crate::error::StackError;
use crate::plan::{Plan, Progress};
use crate::run::run;
use report::record::{JobDirection, JobResult, Latency, Run};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use units::Ns;

/// Quantities of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Quantities of reads, latencies in ns.
    pub read: BTreeMap<String, f64>,
    /// Quantities of writes, latencies in ns.
    pub write: BTreeMap<String, f64>,
    /// Quantities of all requests, or of the commands to zones.
    pub all: BTreeMap<String, f64>,
    /// Quantities of each job, by direction and name, such as `read iops`.
    pub jobs: Vec<BTreeMap<String, f64>>,
}

/// Units of latencies in documents, and their nanoseconds.
const UNITS: [(&str, f64); 3] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6)];

impl Measured {
    /// The quantity `what` in `unit`, of the requests in direction `of`; `None` if the run has no
    /// such quantity.
    #[must_use]
    pub fn value(&self, what: &str, unit: &str, of: Option<Of>) -> Option<f64> {
        let of_direction = match of {
            Some(Of::Read) => &self.read,
            Some(Of::Write) => &self.write,
            None => &self.all,
        };
        let value = of_direction.get(what).or_else(|| self.all.get(what))?;
        let scale = UNITS.iter().find(|(name, _)| *name == unit);
        Some(value / scale.map_or(1.0, |(_, ns)| *ns))
    }
}

/// Runs the jobs of `plan`.
pub(super) fn jobs(plan: &Plan) -> Result<Measured, StackError> {
    let mut windows: Vec<Progress> = Vec::new();
    let run = run(plan, &mut |heard: Progress| {
        let is_new = windows.last().is_none_or(|l| l.windows < heard.windows);
        if heard.windows > 0 && is_new {
            windows.push(heard);
        }
    })?;
    if let Some((reason, count)) = run.errors.iter().next() {
        let op = format!("requests of the jobs ({count} failed: {reason})");
        return Err(StackError::Jobs(op));
    }
    Ok(of_run(&run, plan.drive.capacity.0, &windows))
}

/// The quantities of `run` on a drive of `capacity` bytes, with its windows.
fn of_run(run: &Run, capacity: u64, windows: &[Progress]) -> Measured {
    let mut measured = Measured::default();
    let Some(whole) = run.job_groups.first().or_else(|| run.jobs.first()) else {
        return measured;
    };
    // Percentiles are those of a thread that only probes, if there is one.
    let probe = run.jobs.iter().find(|job| job.name == "probe");
    let timed: &JobResult = probe.unwrap_or(whole);
    latency(&timed.read.latency_ns, &mut measured.read);
    latency(&timed.write.latency_ns, &mut measured.write);
    // Rates are those of all jobs together.
    let parts: &[JobResult] = match run.job_groups.as_slice() {
        [] => &run.jobs,
        groups => &groups[..1],
    };
    let all = &mut measured.all;
    for part in parts {
        add_rates(&part.read, &mut measured.read);
        add_rates(&part.write, &mut measured.write);
        add_rates(&part.read, all);
        add_rates(&part.write, all);
    }
    measured.jobs = run.jobs.iter().map(of_job).collect();
    if run.host.write_bytes > 0 {
        all.insert("waf".to_owned(), run.waf.device);
    }
    if let Some(dwpd) = run.wear.dwpd {
        all.insert("dwpd".to_owned(), dwpd);
    }
    if let Some(bytes) = run.wear.life_host_bytes {
        all.insert("tbw".to_owned(), bytes as f64 / 1e12);
    }
    if let [.., first, last] = windows {
        let span = last.sim_time.since(first.sim_time);
        let steady = last.amplification.filter(|_| span > Ns::ZERO);
        if let Some(amplification) = steady {
            all.insert("waf".to_owned(), amplification);
            let rate = capacity as f64 / span.0 as f64 * 1e3;
            measured.write.insert("bandwidth".to_owned(), rate);
        }
    }
    measured
}

/// The quantities of a job by direction.
fn of_job(job: &JobResult) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (name, direction) in [("read", &job.read), ("write", &job.write)] {
        let mut own = BTreeMap::new();
        latency(&direction.latency_ns, &mut own);
        add_rates(direction, &mut own);
        let own = own.into_iter();
        all.extend(own.map(|(what, value)| (format!("{name} {what}"), value)));
    }
    all
}

fn add_rates(direction: &JobDirection, to: &mut BTreeMap<String, f64>) {
    if direction.ios > 0 {
        *to.entry("iops".to_owned()).or_default() += direction.iops;
        *to.entry("bandwidth".to_owned()).or_default() += direction.bytes_per_s / 1e6;
    }
}

/// Adds the mean and the percentiles of `latency`, in ns.
pub(super) fn latency(latency: &Latency, to: &mut BTreeMap<String, f64>) {
    if latency.count == 0 {
        return;
    }
    let known = [
        ("mean", latency.mean),
        ("p10", quantile(latency, 10)),
        ("p50", latency.p50 as f64),
        ("p90", quantile(latency, 90)),
        ("p95", latency.p95 as f64),
        ("p99", latency.p99 as f64),
        ("p99.9", latency.p99_9 as f64),
        ("p99.99", latency.p99_99 as f64),
    ];
    to.extend(known.map(|(name, ns)| (name.to_owned(), ns)));
}

/// The latency that `percent` of the requests have at most.
fn quantile(latency: &Latency, percent: u64) -> f64 {
    let wanted = (latency.count * percent).div_ceil(100);
    let point = latency.cdf.iter().find(|(_, below)| *below >= wanted);
    point.map_or(latency.max, |(ns, _)| *ns) as f64
}
