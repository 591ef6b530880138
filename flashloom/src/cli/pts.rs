//! `pts`: the industry's tests of SSDs on a model.

use super::Answer;
use super::failure::Failure;
use super::kept::{Kept, Outcome, Wanted};
use super::output::Shown;
use super::validate::number;
use clap::Args;
use report::Style;
use report::claim::document;
use report::table::{Side, listing};
use serde::Serialize;
use stack::drive::resolve;
use stack::pts::{Point, Setup, Test, Tested, tested};
use stack::validate::small;
use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use units::{Bytes, Ns};

/// Test a drive as SNIA's Performance Test Specification and JESD219 have it
///
/// Tests of the PTS for enterprises: IOPS of eight sizes in seven mixes, throughput in order, latency
/// of single requests, and write saturation of an empty drive. The drive is empty before each; before all
/// but saturation its capacity is written twice in order. Then rounds of measurements repeat until
/// the last five are steady (values within 20 % of their average, slope within 10 %), at most 25
/// times; those of saturation write four capacities. Endurance is that of the enterprise workload of JESD219, once write
/// amplification is steady. A measurement takes --point in place of the minute of the specification,
/// since the drive is scaled to 4 GiB or so with all its dies; TBW is that of its own capacity.
#[derive(Args)]
pub(crate) struct Pts {
    /// Preset or drive file, of a drive without zones
    drive: String,
    /// Tests, separated by commas: iops, throughput-128k, throughput-1m, latency, saturation,
    /// endurance [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = named)]
    test: Vec<Test>,
    /// Usable capacity [default: 4GiB, or what holds 320 pages on each plane]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Virtual time of one measurement
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = point)]
    point: Ns,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory of finished tests, which a later command reuses
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Parallel tests [default: one per core]
    #[arg(long, value_name = "N", value_parser = super::some)]
    jobs: Option<NonZeroUsize>,
    #[command(flatten)]
    shown: Shown,
}

/// The test called `name`.
fn named(name: &str) -> Result<Test, String> {
    let found = Test::ALL.into_iter().find(|test| test.name() == name);
    found.ok_or_else(|| {
        let all = Test::ALL.map(Test::name).join(", ");
        format!("expected one of {all}")
    })
}

/// Shortest and longest time of one measurement.
const POINTS: (Ns, Ns) = (Ns::ms(1), Ns::secs(60));

/// A time of one measurement.
fn point(text: &str) -> Result<Ns, String> {
    let time: Ns = text.parse().map_err(|e| format!("{e}"))?;
    match (POINTS.0..=POINTS.1).contains(&time) {
        true => Ok(time),
        false => Err(format!("expected {} to {}", POINTS.0, POINTS.1)),
    }
}

/// JSON document of `pts`.
#[derive(Serialize)]
struct Results {
    drive: String,
    capacity_bytes: u64,
    point_ns: u64,
    seed: u64,
    tests: Vec<Tested>,
}

impl Pts {
    pub(crate) fn run(&self) -> Answer {
        let drive = resolve(&self.drive, self.size)?;
        let product = drive.capacity.0 as f64;
        let drive = match self.size {
            Some(_) => drive,
            None => small(&drive),
        };
        let setup = Setup {
            share: drive.capacity.0 as f64 / product,
            drive,
            point: self.point,
            seed: self.seed,
        };
        let check = setup.check();
        check.map_err(|e| Failure::new(format!("{}: {e}", self.drive)))?;
        let results = Results {
            drive: self.drive.clone(),
            capacity_bytes: setup.drive.capacity.0,
            point_ns: self.point.0,
            seed: self.seed,
            tests: self.tests(&setup)?,
        };
        self.shown
            .answer("flashloom.pts/1", &results, |style| told(&results, style))
    }

    /// The results of the tests that are asked for.
    fn tests(&self, setup: &Setup) -> Result<Vec<Tested>, Failure> {
        let asked = |test: &Test| self.test.is_empty() || self.test.contains(test);
        let tests: Vec<Test> = Test::ALL.into_iter().filter(asked).collect();
        let wanted = tests.iter().map(|test| Wanted {
            name: test.name().to_owned(),
            told: format!("{} {setup:?}", test.name()),
        });
        let wanted: Vec<Wanted> = wanted.collect();
        if let Some(folder) = &self.out {
            std::fs::create_dir_all(folder)?;
        }
        let kept = Kept::new(self.out.as_deref(), false)?;
        let found = kept.found(&wanted);
        let missing = found.missing();
        let make = |turn: usize| {
            let outcome = tested(tests[missing[turn]], setup);
            let outcome: Outcome = outcome.map(|t| document(&t)).map_err(|e| e.to_string());
            (turn, outcome)
        };
        let outcomes = kept.complete(&wanted, found, super::jobs(self.jobs), &make);
        let read = |outcome: Outcome| {
            let tested = outcome.map_err(|e| Failure::new(format!("{}: {e}", self.drive)))?;
            serde_json::from_value(tested).map_err(|e| Failure::new(e.to_string()))
        };
        outcomes.into_iter().map(read).collect()
    }
}

/// The tables of all tests.
fn told(results: &Results, style: Style) -> String {
    let mut text = format!(
        "{}: {} of capacity, {} a measurement, seed {}\n",
        results.drive,
        Bytes(results.capacity_bytes),
        Ns(results.point_ns),
        results.seed
    );
    for tested in &results.tests {
        let is_of = |test: &Test| test.name() == tested.test;
        let Some(test) = Test::ALL.into_iter().find(is_of) else {
            continue;
        };
        let _ = write!(text, "\n{}", headline(test, tested));
        text += &match test {
            Test::Iops => matrix(&tested.points, style),
            Test::Endurance => life(tested),
            _ => list(&tested.points, style),
        };
    }
    text
}

/// The name of a test, its demand, and whether it was steady.
fn headline(test: Test, tested: &Tested) -> String {
    let state = match tested.steady {
        true => "steady",
        false => "NOT steady",
    };
    let count = tested.rounds.len();
    let rounds = match test {
        Test::Endurance => "capacities of writes",
        _ => "rounds",
    };
    let last = tested
        .rounds
        .last()
        .copied()
        .map_or_else(String::new, number);
    let first = tested
        .rounds
        .first()
        .copied()
        .map_or_else(String::new, number);
    format!(
        "{} ({} in flight): {state} after {count} {rounds}\n  {}: {first} in the first, {last} in the \
         last\n",
        test.name(),
        test.depth(),
        tested.tracked
    )
}

/// A size of requests.
fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// IOPS by size and mix.
fn matrix(points: &[Point], style: Style) -> String {
    let mut mixes: Vec<u8> = points.iter().map(|p| p.read_percent).collect();
    mixes.dedup();
    let mut sizes: Vec<u64> = points.iter().map(|p| p.block_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let titles: Vec<String> = mixes.iter().map(|r| format!("{r}/{}", 100 - r)).collect();
    let mut columns = vec![("read/write", Side::Left)];
    columns.extend(titles.iter().map(|title| (title.as_str(), Side::Right)));
    let row = |bytes: &u64| {
        let of_mix = |mix: &u8| {
            let is_it = |p: &&Point| (p.read_percent, p.block_bytes) == (*mix, *bytes);
            let found = points.iter().find(is_it);
            found.map_or_else(String::new, |p| number(p.iops))
        };
        let mut row = vec![size(*bytes)];
        row.extend(mixes.iter().map(of_mix));
        row
    };
    let rows: Vec<Vec<String>> = sizes.iter().map(row).collect();
    listing(&columns, &rows, style)
}

/// All quantities of each measurement.
fn list(points: &[Point], style: Style) -> String {
    let time = |ns: f64| Ns(ns as u64).to_string();
    let row = |p: &Point| {
        vec![
            size(p.block_bytes),
            format!("{}/{}", p.read_percent, 100 - p.read_percent),
            number(p.iops),
            number(p.mb_per_s),
            time(p.mean_ns),
            time(p.p99_9_ns),
            time(p.max_ns),
        ]
    };
    let columns = [
        ("size", Side::Left),
        ("read/write", Side::Left),
        ("IOPS", Side::Right),
        ("MB/s", Side::Right),
        ("mean", Side::Right),
        ("p99.9", Side::Right),
        ("max", Side::Right),
    ];
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    listing(&columns, &rows, style)
}

/// The life of the drive.
fn life(tested: &Tested) -> String {
    let Some(endurance) = tested.endurance else {
        return String::new();
    };
    let rated = match (endurance.tbw_bytes, endurance.dwpd) {
        (Some(bytes), Some(dwpd)) => {
            let tbw = number(bytes / 1e12);
            format!("TBW {tbw} TB, DWPD {} over five years", number(dwpd))
        }
        _ => "no rated cycles".to_owned(),
    };
    format!("  WAF {}, {rated}\n", number(endurance.waf))
}
