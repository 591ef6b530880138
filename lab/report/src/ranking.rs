//! Stacks ranked for one workload: the document `flashloom.ranking/1`.
//!
//! Invariants: everything is a function of records and of the table of prices; a stack is
//! set beside the first one that did all that was asked, for the same seed; nothing is ranked
//! by a number that one of the two does not have, nor for having done less.

use crate::human;
use crate::norm::Norm;
use crate::record::Run;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The schema of [`Ranking`].
pub const RANKING_SCHEMA: &str = "flashloom.ranking/1";

/// Prices in dollars of a gigabyte of 10^9 bytes, and what they are of. All are of one
/// source, so that they are of one time.
//= bytefs 2.1
pub const PRICES: [(&str, f64); 3] = [("flash", 0.22), ("DRAM", 8.6), ("persistent memory", 3.6)];
/// Where [`PRICES`] come from.
pub const PRICED_BY: &str = "ByteFS (ASPLOS 2025), Table 1";

/// What stacks are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The geometric mean of speed, tail and wear.
    #[default]
    All,
    /// Operations a second.
    Speed,
    /// The 99.9th percentile of latency.
    Tail,
    /// Bytes that the flash programs for each that programs write.
    Wear,
    /// Dollars for a petabyte that programs write.
    Cost,
}

impl By {
    /// All of them with their names, for who asks.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("all", Self::All),
        ("speed", Self::Speed),
        ("tail", Self::Tail),
        ("wear", Self::Wear),
        ("cost", Self::Cost),
    ];
}

/// A number over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

impl Spread {
    /// Of `values`; none if there are none.
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

    /// Whether the two have a value in common.
    #[must_use]
    pub fn meets(&self, other: &Self) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

/// One stack. What is a factor is over the first stack, and more is better.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    /// It.
    pub stack: String,
    /// Why one would try it.
    pub idea: String,
    /// How its drive was prepared.
    pub precondition: String,
    /// What it is ranked by; none if it is not, for which [`Ranked::why`] has the reason.
    pub score: Option<Spread>,
    /// Operations a second, as a factor.
    pub speed: Option<Spread>,
    /// The 99.9th percentile of latency of the first over its own.
    pub tail: Option<Spread>,
    /// Bytes programmed for a byte that programs write, of the first over its own.
    pub wear: Option<Spread>,
    /// The same bytes, not as a factor.
    pub programmed_per_byte: Option<Spread>,
    /// DRAM of the drive, bytes.
    pub drive_dram_bytes: u64,
    /// Memory of the host for maps, bytes.
    pub host_memory_bytes: u64,
    /// Dollars for a terabyte that holds files, with the memory that it takes.
    pub dollars_per_tb: f64,
    /// Dollars for a petabyte that programs write, until the flash is worn out.
    pub dollars_per_pb_written: Option<Spread>,
    /// Years until the flash is worn out, if programs write all day at the pace that they
    /// have on the first stack.
    pub life_years: Option<Spread>,
    /// Why it is better or worse, from the counters; or why it has no score.
    pub why: String,
}

/// A stack that was not ranked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// It.
    pub stack: String,
    /// Why.
    pub reason: String,
}

/// Stacks for one workload, the best one first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranking {
    /// Always [`RANKING_SCHEMA`].
    pub schema: String,
    /// The workload as written.
    pub workload: String,
    /// What others are set beside.
    pub base: String,
    /// What they are ranked by.
    pub by: By,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The stacks, the best one first.
    pub ranked: Vec<Ranked>,
    /// Stacks that cannot do it.
    pub left_out: Vec<LeftOut>,
    /// What follows from it.
    pub advice: String,
}

/// What a stack is called, and why one would try it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub stack: String,
    /// The idea in a line.
    pub idea: String,
}

impl Ranking {
    /// Ranks `candidates` by the `runs` that they have, one a seed each; those of the first
    /// one that did all that was asked are what the others are set beside.
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
        // Stable, so that those alike stay in the order of the table.
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

/// The better one first, by the middle one of its scores; those without any last.
fn better(a: &Ranked, b: &Ranked) -> Ordering {
    let score = |ranked: &Ranked| ranked.score.map_or(f64::NEG_INFINITY, |s| s.median);
    score(b).total_cmp(&score(a))
}

/// Bytes that programs wrote.
fn asked(run: &Run) -> u64 {
    match &run.app {
        Some(app) => app.write_bytes,
        None => run.host.write_bytes,
    }
}

/// Bytes programmed for each that programs wrote; none where nothing was written.
fn programmed_per_byte(run: &Run) -> Option<f64> {
    let programmed: u64 = run.nand.by_cause.values().sum();
    let asked = asked(run);
    (asked > 0).then(|| programmed as f64 / asked as f64)
}

/// Dollars of all that the stack keeps its data and its maps in.
fn dollars(run: &Run) -> f64 {
    let [flash, dram, persistent] = PRICES.map(|(_, price)| price / 1e9);
    let host = run.host_memory.unwrap_or_default();
    let dram_bytes = run.drive.dram_bytes + host.dram_bytes;
    run.drive.raw_bytes as f64 * flash
        + dram_bytes as f64 * dram
        + host.persistent_bytes as f64 * persistent
}

/// Bytes that programs can write in all until the rated cycles are used up, if each program
/// is of a byte that wears: what is rated over what a byte costs.
fn writable(run: &Run) -> Option<f64> {
    let rated = run.drive.raw_bytes as f64 * run.drive.endurance_cycles as f64;
    programmed_per_byte(run)
        .filter(|&x| x > 0.0)
        .map(|x| rated / x)
}

fn dollars_per_pb(run: &Run) -> Option<f64> {
    writable(run).map(|bytes| dollars(run) / bytes * 1e15)
}

/// Nanoseconds of a year of 365.25 days.
const YEAR_NS: f64 = 365.25 * 86_400e9;

/// Years that the flash of `run` lasts at the pace at which `base` is written to.
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

/// A quantity of a run, if it has it.
type Quantity = fn(&Run) -> Option<f64>;

/// How many times as good a run is as that of the first stack, if both have any of the
/// quantity: to nothing there is no ratio.
fn gain(quantity: Quantity, less_is_better: bool, run: &Run, base: &Run) -> Option<f64> {
    let some = |run| quantity(run).filter(|&x| x > 0.0);
    let (here, there) = (some(run)?, some(base)?);
    Some(match less_is_better {
        true => there / here,
        false => here / there,
    })
}

/// What `run` is ranked by, beside `base`.
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
    // What did not do all that was asked with one of the seeds is compared with none.
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

/// Why a stack with these `runs` has no score.
fn unscored((runs, base): (&[&Run], &[&Run]), by: By, norm: &Norm<'_>) -> String {
    if let Some(short) = runs.iter().find(|run| !norm.is_met_by(run)) {
        return failed(&norm.beyond(short));
    }
    let lacking = |runs: &[&Run]| runs.iter().find_map(|run| lacks(by, run));
    match (lacking(runs), lacking(base), base.first()) {
        (Some(what), ..) => format!("not scored: {what}"),
        (None, Some(what), Some(base)) => format!("not scored: on {} {what}", base.stack),
        _ => "not scored: there is no run to set beside it".to_owned(),
    }
}

/// What a run did not do of what it was asked for, by reason.
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

/// What stands in the way of ranking `run`, if it has none of what it would be ranked by.
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

/// How much a factor has to be for a word about it.
const WORTH_A_WORD: f64 = 1.05;

/// What differs most between two runs, each as a factor over the other's.
fn why(run: &Run, base: &Run) -> String {
    if std::ptr::eq(run, base) {
        return "what others are set beside".to_owned();
    }
    let parts: [(&str, Option<f64>, Option<f64>); 5] = [
        (
            "host writes a byte",
            Some(run.waf.host),
            Some(base.waf.host),
        ),
        (
            "programs a host write",
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
        true => "nothing that is counted differs by 5 %".to_owned(),
        false => told.join(", "),
    }
}

fn some(count: u64) -> Option<f64> {
    Some(count as f64)
}

/// Which stack to take, and how sure that is.
fn advice(ranked: &[Ranked], by: By, base: &str, seeds: usize) -> String {
    let scored: Vec<(&Ranked, Spread)> =
        ranked.iter().filter_map(|r| Some((r, r.score?))).collect();
    let Some(&(best, score)) = scored.first() else {
        return "No stack could be ranked.".to_owned();
    };
    let what = match by {
        By::All => "speed, 99.9th percentile and wear together",
        By::Speed => "operations a second",
        By::Tail => "the 99.9th percentile",
        By::Wear => "bytes programmed",
        By::Cost => "dollars for what is written",
    };
    let range = match seeds {
        0 | 1 => "one seed, which tells nothing of chance".to_owned(),
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
        (true, _) => " No other one comes as near with any seed.".to_owned(),
        (false, _) => format!(" Within that are {} too.", alike.join(", ")),
    };
    let gain = human::times(score.median);
    match best.stack == base {
        true => format!("Stay with {base}: by {what} nothing is better ({range}).{tie}"),
        false => format!(
            "Take {}: {gain} of {base} by {what} ({range}).{tie}",
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
