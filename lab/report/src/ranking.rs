//! Stacks ranked for one workload: the document `flashloom.ranking/1`.
//!
//! Invariants: everything is a function of records and of the table of prices. A stack is compared
//! with the first one that did all requests, for the same seed. A stack is not ranked by a number
//! that it or that one lacks, nor for having done less.

use crate::human;
use crate::norm::Norm;
use crate::record::Run;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The schema of [`Ranking`].
pub const RANKING_SCHEMA: &str = "flashloom.ranking/1";

/// Prices in dollars per gigabyte of 10^9 bytes, by medium. All are of one source, so that they are
/// of one time.
//= bytefs 2.1
pub const PRICES: [(&str, f64); 3] = [("flash", 0.22), ("DRAM", 8.6), ("persistent memory", 3.6)];
/// The source of [`PRICES`].
pub const PRICED_BY: &str = "ByteFS (ASPLOS 2025), Table 1";

/// The criterion of a ranking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Geometric mean of the factors of speed, tail and wear.
    #[default]
    All,
    /// Completed operations per second.
    Speed,
    /// The 99.9th percentile of latency.
    Tail,
    /// Bytes that the flash programs for each byte that programs write.
    Wear,
    /// Dollars for each petabyte that programs write.
    Cost,
}

impl By {
    /// Every criterion with the name that selects it.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("all", Self::All),
        ("speed", Self::Speed),
        ("tail", Self::Tail),
        ("wear", Self::Wear),
        ("cost", Self::Cost),
    ];
}

/// The spread of a number over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median; the mean of the two middle values if their count is even.
    pub median: f64,
    /// The smallest value over the seeds.
    pub least: f64,
    /// The largest value over the seeds.
    pub most: f64,
}

impl Spread {
    /// The spread of `values`; `None` if there are none.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => return None,
            even if even % 2 == 0 => values[middle - 1].midpoint(values[middle]),
            _ => values[middle],
        };
        let (least, most) = (values[0], values[values.len() - 1]);
        Some(Self {
            median,
            least,
            most,
        })
    }

    /// Whether the two ranges overlap.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

/// One ranked stack. Factors are relative to the base stack, and more is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// Name of the stack, such as `ext4@block`.
    pub stack: String,
    /// The idea behind the stack in a line: a reason to try it.
    pub idea: String,
    /// Precondition of the stack's drive.
    pub precondition: String,
    /// The number that ranks the stack; `None` without a score, for the reason in [`Ranked::why`].
    pub score: Option<Spread>,
    /// Operations per second, as a factor over the base.
    pub speed: Option<Spread>,
    /// The base's 99.9th percentile of latency over that of this stack.
    pub tail: Option<Spread>,
    /// Bytes programmed for each byte that programs write, the base's over that of this stack.
    pub wear: Option<Spread>,
    /// Bytes programmed for each byte that programs write, absolute.
    pub programmed_per_byte: Option<Spread>,
    /// Size of the drive's DRAM in bytes.
    pub drive_dram_bytes: u64,
    /// Host memory for mappings, in bytes.
    pub host_memory_bytes: u64,
    /// Dollars for a terabyte of capacity, with the memory that the stack needs.
    pub dollars_per_tb: f64,
    /// Dollars for each petabyte that programs write, until the flash is worn out.
    pub dollars_per_pb_written: Option<Spread>,
    /// Years until the flash is worn out, if programs write all day at the pace of the base stack.
    pub life_years: Option<Spread>,
    /// Why the stack is better or worse, from its counters; or why it has no score.
    pub why: String,
}

/// A stack that could not be run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Name of the stack.
    pub stack: String,
    /// Reason why the stack could not run the workload.
    pub reason: String,
}

/// The ranking of stacks for one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Schema of the document: always [`RANKING_SCHEMA`].
    pub schema: String,
    /// The workload as the user wrote it.
    pub workload: String,
    /// Name of the base stack, which the others are compared with; empty if none did all requests.
    pub base: String,
    /// The criterion that the stacks are ranked by.
    pub by: By,
    /// The seeds of the base stack's runs.
    pub seeds: Vec<u64>,
    /// The stacks, best first; those without a score last.
    pub ranked: Vec<Ranked>,
    /// Stacks that could not run the workload.
    pub left_out: Vec<LeftOut>,
    /// Recommendation in one or two sentences.
    pub advice: String,
}

/// A stack to rank, and a reason to try it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Name of the stack, which its runs have.
    pub stack: String,
    /// The idea behind the stack in a line.
    pub idea: String,
}

impl Ranking {
    /// Ranks `candidates` by their `runs`, one for each seed. The base is the first candidate that
    /// did all requests.
    #[must_use]
    pub fn new(
        workload: &str,
        by: By,
        candidates: &[Candidate],
        runs: &[Run],
        left_out: Vec<LeftOut>,
    ) -> Self {
        let mut of: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
        for run in runs {
            of.entry(&run.stack).or_default().push(run);
        }
        let named = candidates.iter().filter(|c| of.contains_key(&*c.stack));
        let named: Vec<&Candidate> = named.collect();
        let norm = Norm::of(runs);
        let is_sound = |c: &&&Candidate| of[&*c.stack].iter().all(|run| norm.is_met_by(run));
        let first = named.iter().find(is_sound).or(named.first());
        let base = first.map_or_else(Vec::new, |c| of[&*c.stack].clone());
        let ranked = named
            .iter()
            .map(|c| ranked(c, (&of[&*c.stack], &base), by, &norm));
        let mut ranked: Vec<Ranked> = ranked.collect();
        // A stable sort: equal stacks stay in the order of the table.
        ranked.sort_by(better);
        let mut seeds: Vec<u64> = base.iter().map(|run| run.seed).collect();
        seeds.dedup();
        let first = first.map_or("", |c| &c.stack);
        let advice = advice(&ranked, by, first, seeds.len());
        Self {
            schema: RANKING_SCHEMA.to_owned(),
            workload: workload.to_owned(),
            base: first.to_owned(),
            by,
            seeds,
            ranked,
            left_out,
            advice,
        }
    }
}

/// Orders by median score, larger first; stacks without a score last.
fn better(a: &Ranked, b: &Ranked) -> Ordering {
    let score = |ranked: &Ranked| ranked.score.map_or(f64::NEG_INFINITY, |s| s.median);
    score(b).total_cmp(&score(a))
}

/// Bytes that programs wrote: through the file system, or to the drive if there is none.
fn asked(run: &Run) -> u64 {
    match &run.app {
        Some(app) => app.write_bytes,
        None => run.host.write_bytes,
    }
}

/// Bytes programmed for each byte that programs wrote; `None` if nothing was written.
fn programmed_per_byte(run: &Run) -> Option<f64> {
    let programmed: u64 = run.nand.by_cause.values().sum();
    let asked = asked(run);
    (asked > 0).then(|| programmed as f64 / asked as f64)
}

/// Dollars for all flash and memory of the stack, host and drive.
fn dollars(run: &Run) -> f64 {
    let [flash, dram, persistent] = PRICES.map(|(_, price)| price / 1e9);
    let host = run.host_memory.unwrap_or_default();
    let dram_bytes = run.drive.dram_bytes + host.dram_bytes;
    run.drive.raw_bytes as f64 * flash
        + dram_bytes as f64 * dram
        + host.persistent_bytes as f64 * persistent
}

/// Bytes that programs can write in all until the rated cycles are used up: rated bytes over the
/// programmed bytes for each. Counts every programmed byte as wear.
fn writable(run: &Run) -> Option<f64> {
    let rated = run.drive.raw_bytes as f64 * run.drive.endurance_cycles as f64;
    programmed_per_byte(run)
        .filter(|&x| x > 0.0)
        .map(|x| rated / x)
}

fn dollars_per_pb(run: &Run) -> Option<f64> {
    writable(run).map(|bytes| dollars(run) / bytes * 1e15)
}

/// Nanoseconds in a year of 365.25 days.
const YEAR_NS: f64 = 365.25 * 86_400e9;

/// Years that the flash of `run` lasts at the write rate of `base`.
fn life_years(run: &Run, base: &Run) -> Option<f64> {
    let pace = asked(base) as f64 / base.sim_time_ns as f64;
    let years = writable(run)? / pace / YEAR_NS;
    years.is_finite().then_some(years)
}

fn tail(run: &Run) -> Option<f64> {
    Some(run.latency_ns.all.p99_9 as f64).filter(|&ns| ns > 0.0)
}

fn speed(run: &Run) -> Option<f64> {
    Some(run.ops_per_s).filter(|&rate| rate > 0.0)
}

/// A quantity of a run; `None` if the run lacks it.
type Quantity = fn(&Run) -> Option<f64>;

/// The factor by which `run` is better than `base`; `None` if one of them lacks the quantity or has
/// 0.
fn gain(quantity: Quantity, less_is_better: bool, run: &Run, base: &Run) -> Option<f64> {
    let some = |run| quantity(run).filter(|&x| x > 0.0);
    let (here, there) = (some(run)?, some(base)?);
    Some(match less_is_better {
        true => there / here,
        false => here / there,
    })
}

/// The factor of `run` over `base` by the criterion `by`.
fn score(by: By, run: &Run, base: &Run) -> Option<f64> {
    let speed = || gain(speed, false, run, base);
    let tail = || gain(tail, true, run, base);
    let wear = || gain(programmed_per_byte, true, run, base);
    match by {
        By::Speed => speed(),
        By::Tail => tail(),
        By::Wear => wear(),
        By::Cost => gain(dollars_per_pb, true, run, base),
        By::All => {
            let parts = [speed()?, tail()?, wear().unwrap_or(1.0)];
            Some(parts.iter().product::<f64>().cbrt())
        }
    }
}

fn ranked(
    candidate: &Candidate,
    (runs, base): (&[&Run], &[&Run]),
    by: By,
    norm: &Norm<'_>,
) -> Ranked {
    // A stack that failed requests with one of the seeds is compared with none.
    let counted = match runs.iter().all(|run| norm.is_met_by(run)) {
        true => runs,
        false => &[],
    };
    let pairs = || {
        let same = |run: &&Run| base.iter().find(|other| other.seed == run.seed).copied();
        counted
            .iter()
            .filter_map(move |run| Some((*run, same(run)?)))
    };
    let gains = |quantity, less| {
        Spread::of(
            pairs()
                .filter_map(|(run, base)| gain(quantity, less, run, base))
                .collect(),
        )
    };
    let of_own =
        |quantity: Quantity| Spread::of(counted.iter().filter_map(|r| quantity(r)).collect());
    let first = runs[0];
    let memory = first.host_memory.unwrap_or_default();
    let score = Spread::of(
        pairs()
            .filter_map(|(run, base)| score(by, run, base))
            .collect(),
    );
    let reason = || pairs().next().map(|(run, base)| why(run, base));
    Ranked {
        stack: candidate.stack.clone(),
        idea: candidate.idea.clone(),
        precondition: first.precondition.clone(),
        why: score
            .and_then(|_| reason())
            .unwrap_or_else(|| unscored((runs, base), by, norm)),
        score,
        speed: gains(speed, false),
        tail: gains(tail, true),
        wear: gains(programmed_per_byte, true),
        programmed_per_byte: of_own(programmed_per_byte),
        drive_dram_bytes: first.drive.dram_bytes,
        host_memory_bytes: memory.dram_bytes + memory.persistent_bytes,
        dollars_per_tb: dollars(first) / first.drive.capacity_bytes.max(1) as f64 * 1e12,
        dollars_per_pb_written: of_own(dollars_per_pb),
        life_years: Spread::of(
            pairs()
                .filter_map(|(run, base)| life_years(run, base))
                .collect(),
        ),
    }
}

/// The reason why a stack with these `runs` has no score.
fn unscored((runs, base): (&[&Run], &[&Run]), by: By, norm: &Norm<'_>) -> String {
    if let Some(short) = runs.iter().find(|run| !norm.is_met_by(run)) {
        return failed(&norm.beyond(short));
    }
    let lacking = |runs: &[&Run]| runs.iter().find_map(|run| lacks(by, run));
    match (lacking(runs), lacking(base), base.first()) {
        (Some(what), ..) => format!("not scored: {what}"),
        (None, Some(what), Some(base)) => format!("not scored: on {} {what}", base.stack),
        _ => "not scored: the reference has no run".to_owned(),
    }
}

/// A sentence on the failures beyond those of the workload, by reason.
fn failed(beyond: &BTreeMap<&str, u64>) -> String {
    let count = |count: u64| human::count(count as f64);
    let requests = match crate::attribution::sum(beyond.values().copied()) {
        0 => return "no request was completed".to_owned(),
        1 => "1 request".to_owned(),
        more => format!("{} requests", count(more)),
    };
    let reason = |(reason, of): (&&str, &u64)| match beyond.len() {
        1 => human::name(reason, 40),
        _ => format!("{} {}", count(*of), human::name(reason, 40)),
    };
    let reasons: Vec<String> = beyond.iter().map(reason).collect();
    format!("{requests} failed: {}", reasons.join(", "))
}

/// The reason why `run` cannot be ranked by `by`; `None` if it has all quantities.
fn lacks(by: By, run: &Run) -> Option<&'static str> {
    const UNTIMED: &str = "requests took no time";
    const UNWORN: &str = "nothing was programmed";
    let (quantities, reason): (&[Quantity], _) = match by {
        By::All => (&[speed, tail], UNTIMED),
        By::Speed => (&[speed], UNTIMED),
        By::Tail => (&[tail], UNTIMED),
        By::Wear => (&[programmed_per_byte], UNWORN),
        By::Cost => (&[dollars_per_pb], UNWORN),
    };
    let has = |quantity: &Quantity| quantity(run).is_some_and(|x| x > 0.0);
    (!quantities.iter().all(has)).then_some(reason)
}

/// A factor at least this large is mentioned among the reasons.
const WORTH_A_WORD: f64 = 1.05;

/// The largest differences between two runs in words, as factors over `base`.
fn why(run: &Run, base: &Run) -> String {
    if std::ptr::eq(run, base) {
        return "the reference".to_owned();
    }
    let parts: [(&str, Option<f64>, Option<f64>); 5] = [
        (
            "host writes per byte",
            Some(run.waf.host),
            Some(base.waf.host),
        ),
        (
            "programs per host write",
            Some(run.waf.device),
            Some(base.waf.device),
        ),
        (
            "host reads",
            some(run.host.read_bytes),
            some(base.host.read_bytes),
        ),
        (
            "median latency",
            some(run.latency_ns.all.p50),
            some(base.latency_ns.all.p50),
        ),
        ("flushes", some(run.host.flushes), some(base.host.flushes)),
    ];
    let factors = parts.into_iter().filter_map(|(name, here, there)| {
        let (here, there) = (here?, there?);
        (here > 0.0 && there > 0.0).then(|| (name, here / there))
    });
    let far = |x: f64| x.ln().abs();
    let mut factors: Vec<(&str, f64)> = factors.filter(|f| far(f.1) >= WORTH_A_WORD.ln()).collect();
    factors.sort_by(|a, b| far(b.1).total_cmp(&far(a.1)));
    let told = factors.iter().take(3);
    let told = told.map(|(name, x)| format!("{} {name}", human::times(*x)));
    let told: Vec<String> = told.collect();
    match told.is_empty() {
        true => "no counter differs by 5 % or more".to_owned(),
        false => told.join(", "),
    }
}

fn some(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// Names the stack to take, and says how sure that is over the seeds.
fn advice(ranked: &[Ranked], by: By, base: &str, seeds: usize) -> String {
    let scored: Vec<(&Ranked, Spread)> =
        ranked.iter().filter_map(|r| Some((r, r.score?))).collect();
    let Some(&(best, score)) = scored.first() else {
        return "No stack could be ranked.".to_owned();
    };
    let what = match by {
        By::All => "speed, 99.9th percentile and wear together",
        By::Speed => "operations per second",
        By::Tail => "the 99.9th percentile",
        By::Wear => "bytes programmed",
        By::Cost => "cost per byte written",
    };
    let range = match seeds {
        0 | 1 => "one seed only, so that the spread is unknown".to_owned(),
        _ => format!(
            "{} to {} over {seeds} seeds",
            human::times(score.least),
            human::times(score.most)
        ),
    };
    let alike = scored
        .iter()
        .skip(1)
        .filter(|(_, other)| other.meets(&score));
    let alike: Vec<&str> = alike.map(|(r, _)| &*r.stack).collect();
    let tie = match (alike.is_empty(), seeds) {
        (_, 0 | 1) => String::new(),
        (true, _) => " No other stack reaches this range.".to_owned(),
        (false, _) => format!(" Also in this range: {}.", alike.join(", ")),
    };
    let gain = human::times(score.median);
    match best.stack == base {
        true => format!("Stay with {base}: no other stack is better in {what} ({range}).{tie}"),
        false => format!(
            "Use {}: {gain} of {base} in {what} ({range}).{tie}",
            best.stack
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_middle_and_its_ends() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0, 10.0]).unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (1.0, 2.5, 10.0));
        assert_eq!(Spread::of(Vec::new()), None);
        let far = Spread::of(vec![11.0]).unwrap();
        assert!(!spread.meets(&far) && spread.meets(&spread));
    }
}
