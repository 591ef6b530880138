//! Benchmark: MQSim's default workloads through the whole stack, from the plan to the record, in
//! requests per second of wall time on one core.
//!
//! The fixed cost of a run, before its first request and after its last one, is measured beside
//! each workload by the same plan with a single request. The sample traces of MQSim are not part of
//! this repository; if the environment variable `MQSIM` names a checkout of it, they are measured
//! too: replayed in an open loop, many times over.

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput};
use sim::Seed;
use ssd::{DriveMedia, Precondition};
use stack::{Plan, run_on};
use std::hint::black_box;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Directory of the drive file and the workloads.
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mqsim");

/// A plan on MQSim's drive, and the contents of the drive.
struct Case {
    plan: Plan,
    media: DriveMedia,
}

impl Case {
    fn new(past: Precondition, workload: String) -> Self {
        let drive = stack::drive::resolve(&format!("{DOCS}/mqsim.toml"), None);
        let drive = drive.expect("a good drive file");
        let media = past.media(&drive, Seed(1)).expect("a good drive");
        let plan = Plan {
            stack: "raw@block".parse().expect("it is in the table"),
            drive,
            precondition: past,
            used: None,
            workload,
            seed: 1,
            sample: None,
            label: String::new(),
            host: host::HostConfig::default(),
            page_cache: vfs::CacheConfig::default(),
            behaviour: stack::hosts::Behaviour::default(),
            ending: stack::Ending::default(),
            until: stack::Until::default(),
            policies: ssd::Policies::default(),
        };
        Self { plan, media }
    }

    /// Runs `plan` on the drive of this case; returns its number of requests.
    fn run(plan: &Plan, media: DriveMedia) -> (u64, DriveMedia) {
        let (record, left) = run_on(plan, media, &mut |_| ()).expect("a good plan");
        (record.ops, left)
    }

    fn measure(&self, group: &mut BenchmarkGroup<'_, WallTime>, name: &str) {
        let one = Plan {
            workload: "randread:ops=1".to_owned(),
            ..self.plan.clone()
        };
        let (requests, _) = Self::run(&self.plan, self.media.clone());
        for (name, plan, requests) in [
            (name.to_owned(), &self.plan, requests),
            (format!("{name}, start-up alone"), &one, 1),
        ] {
            group.throughput(Throughput::Elements(requests));
            group.bench_function(name, |b| {
                b.iter_batched(
                    || self.media.clone(),
                    |media| black_box(Self::run(plan, media)),
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

fn generated(c: &mut Criterion) {
    let mut group = c.benchmark_group("mqsim");
    group.sample_size(10);
    for (past, name) in [
        (Precondition::Fresh, "random-write"),
        (Precondition::Full, "random-read"),
    ] {
        Case::new(past, format!("{DOCS}/{name}.fio")).measure(&mut group, name);
    }
    group.finish();
}

/// A trace repeated `times` times, each pass a microsecond after the previous one: a single pass is
/// shorter than the start of a run.
fn repeated(path: &Path, times: u64) -> io::Result<NamedTempFile> {
    let text = std::fs::read_to_string(path)?;
    let lines: Vec<(u64, &str)> = text.lines().filter_map(timed).collect();
    let times_of = |end: Option<&(u64, &str)>| end.map_or(0, |&(time, _)| time);
    let (first, last) = (times_of(lines.first()), times_of(lines.last()));
    let file = NamedTempFile::new()?;
    let mut out = BufWriter::new(&file);
    for pass in 0..times {
        for (time, rest) in &lines {
            writeln!(
                out,
                "{} {rest}",
                time - first + pass * (last - first + 1_000)
            )?;
        }
    }
    out.flush()?;
    drop(out);
    Ok(file)
}

/// The time of a line in nanoseconds, and the rest of the line.
fn timed(line: &str) -> Option<(u64, &str)> {
    let (time, rest) = line.trim().split_once(' ')?;
    Some((time.parse().ok()?, rest))
}

fn traces(c: &mut Criterion) {
    let Ok(checkout) = std::env::var("MQSIM") else {
        eprintln!("mqsim: its sample traces are left out: MQSIM does not name a checkout");
        return;
    };
    let mut group = c.benchmark_group("mqsim-traces");
    group.sample_size(10);
    for (name, times) in [("tpcc-small", 40), ("wsrch-small", 20)] {
        let path = format!("{checkout}/traces/{name}.trace");
        match repeated(Path::new(&path), times) {
            Ok(file) => {
                let workload = format!("{}:format=mqsim", file.path().display());
                Case::new(Precondition::Full, workload).measure(&mut group, name);
            }
            Err(error) => eprintln!("mqsim: {name} is left out: {path}: {error}"),
        }
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    generated(&mut criterion);
    traces(&mut criterion);
    criterion.final_summary();
}
