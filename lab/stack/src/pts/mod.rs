//! The tests of SSDs that their makers publish results of: SNIA's Solid State Storage Performance
//! Test Specification (PTS 2.0.2, for enterprises) and the enterprise workload of JEDEC's JESD219.
//!
//! Each test of the PTS begins with a drive that is empty ("purged") and writes its capacity twice
//! in order, then repeats rounds of its measurements until the tracked quantity is steady
//! ([`is_steady`]) and enough was written for that to last ([`Test::is_settled`]). The result is
//! the average of the last five rounds. The power is off between two rounds.
//!
//! Differences from the specification: a measurement takes [`Setup::point`] in place of a minute,
//! on a drive that may be smaller than the product, so that a round writes about the same share of
//! the drive; requests in flight, which the tester may choose, are given by the test.

mod rule;
mod test;

pub use rule::{MOST_ROUNDS, ROUNDS, is_steady};
pub use test::Test;

use crate::error::StackError;
use crate::plan::{Plan, Until};
use crate::run::{media, run, run_on};
use crate::validate;
use report::record::{JobDirection, JobResult, Run};
use serde::{Deserialize, Serialize};
use ssd::{DriveConfig, Precondition};
use std::cell::Cell;
use units::Ns;

/// The drive of a test, and the length of its measurements.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The drive, which takes random writes.
    pub drive: DriveConfig,
    /// Capacity of the drive, as a share of that of the product whose life is of interest.
    pub share: f64,
    /// Virtual time of one measurement.
    pub point: Ns,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Result of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tested {
    /// Name of the test, as [`Test::name`].
    pub test: String,
    /// Whether the tracked quantity was steady at the end, and the writes enough to tell.
    pub steady: bool,
    /// The tracked quantity, in words with its unit.
    pub tracked: String,
    /// The tracked quantity in each round.
    pub rounds: Vec<f64>,
    /// Averages of the last rounds, in the order of measuring.
    pub points: Vec<Point>,
    /// Life of the drive; of the endurance test alone.
    pub endurance: Option<Endurance>,
}

/// One measurement of a round, averaged over the last rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Percentage of reads among the requests.
    pub read_percent: u8,
    /// Size of the requests in bytes.
    pub block_bytes: u64,
    /// Requests completed per second.
    pub iops: f64,
    /// Bytes per second, in 10^6.
    pub mb_per_s: f64,
    /// Mean latency of all requests, ns.
    pub mean_ns: f64,
    /// Latency that 99.9 % of the requests have at most, ns.
    pub p99_9_ns: f64,
    /// Longest latency of all of the last rounds, ns.
    pub max_ns: f64,
}

/// Life of a drive under the enterprise workload of JESD219.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Endurance {
    /// Write amplification of the last window, of one capacity of writes.
    pub waf: f64,
    /// Bytes that the host can write to the product before its rated cycles are used up; `None`
    /// without a rating.
    pub tbw_bytes: Option<f64>,
    /// Capacities a day over five years; `None` without a rating.
    pub dwpd: Option<f64>,
}

impl Setup {
    /// Whether the drive takes the requests of the tests.
    ///
    /// # Errors
    /// If it takes no random writes of blocks.
    pub fn check(&self) -> Result<(), StackError> {
        plan(self, String::new()).map(|_| ())
    }
}

/// Runs `test` to its steady state.
///
/// # Errors
/// If the drive takes no random writes, or fails.
pub fn tested(test: Test, setup: &Setup) -> Result<Tested, StackError> {
    match test {
        Test::Endurance => endured(setup),
        _ => measured(test, setup),
    }
}

/// A plan of the jobs `text` on the drive of `setup`.
fn plan(setup: &Setup, text: String) -> Result<Plan, StackError> {
    let refused = || StackError::Jobs("random writes of blocks".to_owned());
    if setup.drive.zones.is_some() {
        return Err(refused());
    }
    let made = validate::plan(setup.drive.clone(), Precondition::Fresh, text);
    made.map_err(|_| refused())
}

/// Runs the rounds of `test` until the tracked quantity is steady.
fn measured(test: Test, setup: &Setup) -> Result<Tested, StackError> {
    let mut plan = plan(setup, test.before())?;
    let mut contents = media(&plan)?;
    // Bytes written before the first round and in each round.
    let mut written = vec![0];
    if !plan.workload.is_empty() {
        let (run, after) = run_on(&plan, contents, &mut |_| {})?;
        written[0] = run.host.write_bytes;
        contents = after;
    }
    plan.workload = test.round(setup.point);
    let (mut tracked, mut rounds): (Vec<f64>, Vec<Vec<Point>>) = (Vec::new(), Vec::new());
    let is_done = |tracked: &[f64], written: &[u64]| {
        is_steady(tracked) && test.is_settled(written, setup.drive.capacity.0)
    };
    while tracked.len() < test.most_rounds()
        && (test == Test::Saturation || !is_done(&tracked, &written))
    {
        // Each round has addresses of its own.
        plan.seed = setup.seed.wrapping_add(tracked.len() as u64);
        let (run, after) = run_on(&plan, contents, &mut |_| {})?;
        contents = after;
        written.push(run.host.write_bytes);
        let points = points(test, &run)?;
        tracked.push(test.tracked(&points));
        rounds.push(points);
    }
    let last = &rounds[rounds.len().saturating_sub(ROUNDS)..];
    Ok(Tested {
        test: test.name().to_owned(),
        steady: is_done(&tracked, &written),
        tracked: test.tracks().to_owned(),
        rounds: tracked,
        points: averages(last),
        endurance: None,
    })
}

/// The measurements of the round `run`.
fn points(test: Test, run: &Run) -> Result<Vec<Point>, StackError> {
    if let Some((reason, count)) = run.errors.iter().next() {
        let what = format!("requests of the test ({count} failed: {reason})");
        return Err(StackError::Jobs(what));
    }
    let all = test.measurements().into_iter().zip(&run.jobs);
    let all = all.map(|((read_percent, block_bytes), job)| point(read_percent, block_bytes, job));
    Ok(all.collect())
}

/// The measurement of `job`.
fn point(read_percent: u8, block_bytes: u64, job: &JobResult) -> Point {
    let parts: [&JobDirection; 2] = [&job.read, &job.write];
    let ios: u64 = parts.iter().map(|part| part.ios).sum();
    let total: f64 = parts
        .iter()
        .map(|part| part.latency_ns.mean * part.latency_ns.count as f64)
        .sum();
    let most = |of: fn(&JobDirection) -> u64| parts.map(of).into_iter().max().unwrap_or(0) as f64;
    Point {
        read_percent,
        block_bytes,
        iops: parts.iter().map(|part| part.iops).sum(),
        mb_per_s: parts.iter().map(|part| part.bytes_per_s).sum::<f64>() / 1e6,
        mean_ns: total / ios.max(1) as f64,
        p99_9_ns: most(|part| part.latency_ns.p99_9),
        max_ns: most(|part| part.latency_ns.max),
    }
}

/// The average of each measurement over `rounds`.
fn averages(rounds: &[Vec<Point>]) -> Vec<Point> {
    let Some(first) = rounds.first() else {
        return Vec::new();
    };
    let average = |index: usize| {
        let all = || rounds.iter().map(move |round| &round[index]);
        let mean = |of: fn(&Point) -> f64| all().map(of).sum::<f64>() / rounds.len() as f64;
        Point {
            iops: mean(|p| p.iops),
            mb_per_s: mean(|p| p.mb_per_s),
            mean_ns: mean(|p| p.mean_ns),
            p99_9_ns: mean(|p| p.p99_9_ns),
            max_ns: all().map(|p| p.max_ns).fold(0.0, f64::max),
            ..first[index]
        }
    };
    (0..first.len()).map(average).collect()
}

/// Runs the workload of JESD219 on a drive whose every page was overwritten at random, until
/// amplification is steady.
fn endured(setup: &Setup) -> Result<Tested, StackError> {
    let mut plan = plan(setup, Test::Endurance.round(setup.point))?;
    plan.precondition = Precondition::Aged;
    plan.until = Until::Steady;
    plan.seed = setup.seed;
    let (windows, rounds) = (Cell::new(0), Cell::new(Vec::new()));
    let run = run(&plan, &mut |heard| {
        if heard.windows > windows.get() {
            windows.set(heard.windows);
            let mut all = rounds.take();
            all.push(heard.amplification.unwrap_or_default());
            rounds.set(all);
        }
    })?;
    let rounds = rounds.take();
    let waf = rounds.last().copied().unwrap_or(run.waf.device);
    // The life of the run counts its first windows too.
    let life = |part: f64| part * run.waf.device / waf;
    Ok(Tested {
        test: Test::Endurance.name().to_owned(),
        steady: run.steady == Some(true),
        tracked: Test::Endurance.tracks().to_owned(),
        rounds,
        points: Vec::new(),
        endurance: Some(Endurance {
            waf,
            tbw_bytes: run
                .wear
                .life_host_bytes
                .map(|bytes| life(bytes as f64) / setup.share),
            dwpd: run.wear.dwpd.map(life),
        }),
    })
}
