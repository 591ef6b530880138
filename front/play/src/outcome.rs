//! What came out of playing.

use crate::answer::{Answer, Miss, errno};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use workload::files::{Call, Errno, ThreadId};

/// Digits that a latency keeps.
const DIGITS: u8 = 3;
/// Longest latency that is told apart: an hour, in ns.
const LONGEST: u64 = 3_600_000_000_000;
/// Mismatches that are kept with their call.
const KEPT: usize = 20;

/// What playing came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Threads that played.
    pub threads: u32,
    /// Calls that were played or tried.
    pub ops: u64,
    /// Time from the first call to the end of the last, ns.
    pub elapsed_ns: u64,
    /// Calls per second.
    pub ops_per_s: f64,
    /// Bytes that reads gave.
    pub read_bytes: u64,
    /// Bytes that writes took.
    pub write_bytes: u64,
    /// Calls by kind, in the order of their numbers; kinds that were never
    /// asked for are left out.
    pub calls: Vec<Kind>,
    /// Calls that answered otherwise than recorded.
    pub mismatches: u64,
    /// The first of those.
    pub first_mismatches: Vec<Mismatch>,
    /// What was played otherwise than asked for, and what the source says.
    pub notes: Vec<String>,
}

/// Calls of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// How many.
    pub count: u64,
    /// How many of them were not played, for want of a safe way.
    pub not_played: u64,
    /// How many failed, by error.
    pub errors: BTreeMap<String, u64>,
    /// How many answered otherwise than recorded.
    pub mismatches: u64,
    /// How long those took that were played, the walk to their file included.
    pub latency_ns: Percentiles,
}

/// A distribution of latencies, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
    /// 99.99th percentile.
    pub p99_99: u64,
    /// Largest.
    pub max: u64,
}

impl Percentiles {
    fn of(histogram: &Histogram<u64>) -> Self {
        Self {
            mean: histogram.mean(),
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p99_9: histogram.value_at_quantile(0.999),
            p99_99: histogram.value_at_quantile(0.9999),
            max: histogram.max(),
        }
    }
}

/// A call that answered otherwise than recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Whose call.
    pub thread: u32,
    /// Its kind.
    pub call: &'static str,
    /// The paths in it.
    pub paths: Vec<String>,
    /// What was recorded: a number or an error.
    pub expected: String,
    /// What it answered.
    pub found: String,
}

/// Counts as a thread plays.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    kinds: BTreeMap<u8, KindTally>,
    read_bytes: u64,
    write_bytes: u64,
    mismatches: Vec<Mismatch>,
    stand_ins: BTreeSet<&'static str>,
}

#[derive(Debug)]
struct KindTally {
    name: &'static str,
    count: u64,
    not_played: u64,
    errors: BTreeMap<Errno, u64>,
    mismatches: u64,
    latency: Histogram<u64>,
}

impl KindTally {
    fn new(name: &'static str) -> Self {
        let latency = Histogram::new_with_max(LONGEST, DIGITS).expect("bounds that are legal");
        Self {
            name,
            count: 0,
            not_played: 0,
            errors: BTreeMap::new(),
            mismatches: 0,
            latency,
        }
    }

    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.not_played += other.not_played;
        for (&errno, count) in &other.errors {
            *self.errors.entry(errno).or_default() += count;
        }
        self.mismatches += other.mismatches;
        self.latency.add(&other.latency).expect("equal bounds");
    }

    fn result(self) -> Kind {
        let errors = self.errors.into_iter();
        Kind {
            name: self.name,
            count: self.count,
            not_played: self.not_played,
            errors: errors.map(|(errno, n)| (errno.to_string(), n)).collect(),
            mismatches: self.mismatches,
            latency_ns: Percentiles::of(&self.latency),
        }
    }
}

/// What a thread expects of a call, and for whom it plays.
pub(crate) struct Asked<'a> {
    pub(crate) thread: ThreadId,
    pub(crate) call: &'a Call,
    pub(crate) expect: Option<Result<u64, Errno>>,
}

impl Tally {
    /// Counts a call that answered `answer` after `took`, and gives the answer
    /// that the source is told. `paths` are told with a mismatch.
    pub(crate) fn count(
        &mut self,
        asked: &Asked<'_>,
        answer: Answer,
        took: Duration,
        paths: [&[u8]; 2],
    ) -> Result<u64, Errno> {
        let call = asked.call;
        let kind = self.kinds.entry(call.number());
        let kind = kind.or_insert_with(|| KindTally::new(call.name()));
        kind.count += 1;
        let result = match answer {
            Err(Miss::NotPlayed) => {
                kind.not_played += 1;
                return asked.expect.unwrap_or(Ok(0));
            }
            Err(Miss::Refused(error)) => Err(errno(error)),
            Ok(number) => Ok(number),
        };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        kind.latency.saturating_record(ns);
        if let Err(errno) = result {
            *kind.errors.entry(errno).or_default() += 1;
        }
        let mismatch = asked.expect.filter(|&expected| expected != result);
        kind.mismatches += u64::from(mismatch.is_some());
        self.move_bytes(call, result);
        self.stand_ins.extend(crate::stand_in(call));
        if let Some(expected) = mismatch
            && self.mismatches.len() < KEPT
        {
            self.mismatches.push(told(asked, expected, result, paths));
        }
        result
    }

    fn move_bytes(&mut self, call: &Call, result: Result<u64, Errno>) {
        let moved = result.unwrap_or(0);
        match call {
            Call::Read { .. } | Call::Pread { .. } | Call::Load { .. } => self.read_bytes += moved,
            Call::Write { .. } | Call::Pwrite { .. } | Call::Store { .. } => {
                self.write_bytes += moved;
            }
            _ => {}
        }
    }

    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: Self) {
        for (number, theirs) in other.kinds {
            let ours = self.kinds.entry(number);
            ours.or_insert_with(|| KindTally::new(theirs.name))
                .add(&theirs);
        }
        self.read_bytes += other.read_bytes;
        self.write_bytes += other.write_bytes;
        self.mismatches.extend(other.mismatches);
        self.stand_ins.extend(other.stand_ins);
    }

    /// The outcome of `threads` threads that played for `elapsed`.
    pub(crate) fn outcome(mut self, threads: u32, elapsed: Duration) -> Outcome {
        self.mismatches.truncate(KEPT);
        let calls: Vec<Kind> = self.kinds.into_values().map(KindTally::result).collect();
        let ops = calls.iter().map(|kind| kind.count).sum();
        let seconds = elapsed.as_secs_f64();
        Outcome {
            threads,
            ops,
            elapsed_ns: u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX),
            ops_per_s: if seconds > 0.0 {
                ops as f64 / seconds
            } else {
                0.0
            },
            read_bytes: self.read_bytes,
            write_bytes: self.write_bytes,
            mismatches: calls.iter().map(|kind| kind.mismatches).sum(),
            calls,
            first_mismatches: self.mismatches,
            notes: self.stand_ins.into_iter().map(str::to_owned).collect(),
        }
    }
}

fn told(
    asked: &Asked<'_>,
    expected: Result<u64, Errno>,
    found: Result<u64, Errno>,
    paths: [&[u8]; 2],
) -> Mismatch {
    let paths = paths.into_iter().filter(|path| !path.is_empty());
    let text = |result: Result<u64, Errno>| match result {
        Ok(number) => number.to_string(),
        Err(errno) => errno.to_string(),
    };
    Mismatch {
        thread: asked.thread.0,
        call: asked.call.name(),
        paths: paths
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect(),
        expected: text(expected),
        found: text(found),
    }
}
