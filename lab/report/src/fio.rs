//! Results of the jobs of a fio file in the shape of fio's own JSON, for programs that read it.
//!
//! Invariants: fields have fio's names and units; a field for a quantity that a simulated drive does
//! not have is 0, and the depths, which are not measured, are left out. Smallest latencies and
//! deviations are those of the recorded distribution, which has 100 to 200 points.

use crate::record::{JobDirection, JobResult, Latency, Run};
use serde_json::{Map, Value, json};

/// Version of fio whose shape this is, with ours, as fio adds a build to its version.
const VERSION: &str = concat!("fio-3.36-flashloom-", env!("CARGO_PKG_VERSION"));

/// Percentiles that fio lists by default.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Upper bounds of fio's classes of latency, in ns, µs and ms.
const BOUNDS: [u64; 10] = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1000];

/// The document of `run`; `None` if it ran no jobs of fio.
#[must_use]
pub fn document(run: &Run) -> Option<Value> {
    let alone = run.jobs.iter().filter(|job| !job.in_group);
    let jobs: Vec<Value> = alone.chain(&run.job_groups).map(job).collect();
    (!jobs.is_empty()).then(|| {
        json!({
            "fio version": VERSION,
            "timestamp": 0,
            "timestamp_ms": 0,
            "time": "",
            "jobs": jobs,
        })
    })
}

fn job(job: &JobResult) -> Value {
    let milliseconds = job.runtime_ns / 1_000_000;
    let all = [&job.read, &job.write, &job.trim].map(|direction| &direction.latency_ns);
    let [ns, us, ms] = classes(&all);
    json!({
        "jobname": job.name,
        "groupid": job.group,
        "job_start": job.start_ns / 1_000_000,
        "error": i32::from(job.errors > 0) * 5,
        "total_err": job.errors,
        "eta": 0,
        "elapsed": job.runtime_ns.div_ceil(1_000_000_000),
        "job options": job.options,
        "read": direction(&job.read, milliseconds),
        "write": direction(&job.write, milliseconds),
        "trim": direction(&job.trim, milliseconds),
        "sync": {
            "total_ios": job.flush_ns.count,
            "lat_ns": latency(&job.flush_ns),
        },
        "job_runtime": milliseconds * job.clones,
        "usr_cpu": 0.0,
        "sys_cpu": 0.0,
        "ctx": 0,
        "majf": 0,
        "minf": 0,
        "latency_ns": ns,
        "latency_us": us,
        "latency_ms": ms,
    })
}

fn direction(of: &JobDirection, milliseconds: u64) -> Value {
    let (bandwidth, is_used) = ((of.bytes_per_s as u64) / 1024, of.ios > 0);
    let lat = latency(&of.latency_ns);
    json!({
        "io_bytes": of.bytes,
        "io_kbytes": of.bytes / 1024,
        "bw_bytes": of.bytes_per_s as u64,
        "bw": bandwidth,
        "iops": of.iops,
        "runtime": if is_used { milliseconds } else { 0 },
        "total_ios": of.ios,
        "short_ios": 0,
        "drop_ios": 0,
        "slat_ns": latency(&Latency::default()),
        "clat_ns": lat,
        "lat_ns": lat,
        "bw_min": bandwidth,
        "bw_max": bandwidth,
        "bw_agg": if is_used { 100.0 } else { 0.0 },
        "bw_mean": bandwidth as f64,
        "bw_dev": 0.0,
        "bw_samples": u64::from(is_used),
        "iops_min": of.iops as u64,
        "iops_max": of.iops as u64,
        "iops_mean": of.iops,
        "iops_stddev": 0.0,
        "iops_samples": u64::from(is_used),
    })
}

fn latency(of: &Latency) -> Value {
    let mut value = json!({
        "min": of.cdf.first().map_or(0, |point| point.0),
        "max": of.max,
        "mean": of.mean,
        "stddev": deviation(of),
        "N": of.count,
    });
    if of.count > 0 {
        let at = |percent: f64| {
            let wanted = (of.count as f64 * percent / 100.0).ceil() as u64;
            let point = of.cdf.iter().find(|point| point.1 >= wanted);
            (
                format!("{percent:.6}"),
                point.map_or(of.max, |point| point.0).into(),
            )
        };
        value["percentile"] = Value::Object(PERCENTILES.into_iter().map(at).collect());
    }
    value
}

/// The latencies of a distribution, each with the number of requests.
fn steps(of: &Latency) -> impl Iterator<Item = (u64, u64)> {
    let mut below = 0;
    of.cdf.iter().map(move |&(latency, upto)| {
        let count = upto - below;
        below = upto;
        (latency, count)
    })
}

/// The standard deviation of a distribution.
fn deviation(of: &Latency) -> f64 {
    let square = |(latency, count): (u64, u64)| (latency as f64 - of.mean).powi(2) * count as f64;
    match of.count {
        0 => 0.0,
        count => (steps(of).map(square).sum::<f64>() / count as f64).sqrt(),
    }
}

/// Percentages of the requests in fio's classes of nanoseconds, microseconds and milliseconds.
fn classes(all: &[&Latency]) -> [Value; 3] {
    let total: u64 = all.iter().map(|latency| latency.count).sum();
    let mut counts = [[0_u64; 12]; 3];
    for (latency, count) in all.iter().flat_map(|of| steps(of)) {
        let (unit, scaled) = match latency {
            0..1_000 => (0, latency),
            1_000..1_000_000 => (1, latency / 1_000),
            _ => (2, latency / 1_000_000),
        };
        let of_class = match scaled {
            2_000.. => 11,
            _ => BOUNDS.iter().filter(|bound| scaled >= **bound).count(),
        };
        counts[unit][of_class] += count;
    }
    [0, 1, 2].map(|unit| {
        let share = |count: u64| (count as f64 * 100.0 / total.max(1) as f64).into();
        let names = BOUNDS.iter().map(u64::to_string);
        let more = ["2000", ">=2000"].map(str::to_owned);
        let names = names.chain(more.into_iter().filter(|_| unit == 2));
        let shares = counts[unit].iter().map(|count| share(*count));
        Value::Object(names.zip(shares).collect::<Map<String, Value>>())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_has_the_fields_and_units_of_fio() {
        let latency_ns = Latency {
            count: 100,
            mean: 1_500.0,
            max: 3_000_000_000,
            cdf: vec![(500, 50), (2_500, 99), (3_000_000_000, 100)],
            ..Latency::default()
        };
        let result = JobResult {
            name: "a".to_owned(),
            runtime_ns: 2_500_000_000,
            clones: 2,
            read: JobDirection {
                ios: 100,
                bytes: 409_600,
                iops: 40.0,
                bytes_per_s: 163_840.0,
                latency_ns,
            },
            ..JobResult::default()
        };
        let made = job(&result);
        let at = |path: &str| made.pointer(path).unwrap_or(&Value::Null).clone();
        assert_eq!(at("/read/bw"), 160);
        assert_eq!(
            (at("/read/runtime"), at("/elapsed")),
            (2_500.into(), 3.into())
        );
        assert_eq!(at("/read/clat_ns/percentile/50.000000"), 500);
        assert_eq!(at("/read/lat_ns/percentile/99.500000"), 3_000_000_000_u64);
        assert_eq!(at("/write/total_ios"), 0);
        assert_eq!(at("/write/clat_ns/percentile"), Value::Null);
        assert_eq!(at("/latency_ns/750"), 50.0);
        assert_eq!(at("/latency_us/4"), 49.0);
        assert_eq!(at("/latency_ms/>=2000"), 1.0);
        assert_eq!(at("/job_runtime"), 5_000);
    }
}
