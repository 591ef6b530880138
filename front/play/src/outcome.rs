//! Results of playing, and their counters.

use crate::answer::{Answer, Miss, errno};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use workload::files::{Call, Errno, ThreadId};

/// Significant digits of latencies.
const DIGITS: u8 = 3;
/// Largest recorded latency in ns: one hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Number of mismatches that are kept in detail.
const KEPT: usize = 20;

/// Results of a played workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Number of threads that played calls.
    pub threads: u32,
    /// Number of calls that were played or skipped.
    pub ops: u64,
    /// Time from the first call to the end of the last, ns.
    pub elapsed_ns: u64,
    /// Calls per second of elapsed time; 0 if no time has passed.
    pub ops_per_s: f64,
    /// Bytes returned by reads.
    pub read_bytes: u64,
    /// Bytes accepted by writes.
    pub write_bytes: u64,
    /// Calls by kind, in the order of their numbers; kinds without calls are left out.
    pub calls: Vec<Kind>,
    /// Number of calls whose result differs from the recording.
    pub mismatches: u64,
    /// The first of these mismatches, at most 20.
    pub first_mismatches: Vec<Mismatch>,
    /// Deviations from the recording (calls that were replaced), and notes of its reader, one
    /// sentence each.
    pub notes: Vec<String>,
}

/// Statistics of one kind of call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kind {
    /// Name of the call.
    pub name: &'static str,
    /// Number of calls, skipped ones included.
    pub count: u64,
    /// Number of calls skipped for want of a safe way to make them.
    pub not_played: u64,
    /// Number of failed calls, by error name.
    pub errors: BTreeMap<String, u64>,
    /// Number of calls whose result differs from the recording.
    pub mismatches: u64,
    /// Latency of the played calls in ns, including the path walk.
    pub latency_ns: Percentiles,
}

/// A distribution of latencies, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Arithmetic mean of the latencies in ns.
    pub mean: f64,
    /// Median latency in ns.
    pub p50: u64,
    /// 99th percentile in ns.
    pub p99: u64,
    /// 99.9th percentile in ns.
    pub p99_9: u64,
    /// 99.99th percentile in ns.
    pub p99_99: u64,
    /// Largest latency in ns.
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

/// A call whose result differs from the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Thread that made the call.
    pub thread: u32,
    /// Kind of the call.
    pub call: &'static str,
    /// Paths among its arguments.
    pub paths: Vec<String>,
    /// Recorded result: a number or an error.
    pub expected: String,
    /// Result of playing it.
    pub found: String,
}

/// Counters of one thread.
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

/// A requested call: its recorded result and its thread.
pub(crate) struct Asked<'a> {
    pub(crate) thread: ThreadId,
    pub(crate) call: &'a Call,
    pub(crate) expect: Option<Result<u64, Errno>>,
}

impl Tally {
    /// Counts a call with result `answer` and latency `took`; returns the result to report to the
    /// source. A mismatch is kept with `paths`.
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

    /// Adds the counters of another thread.
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

    /// Results of `threads` threads that played for `elapsed`.
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
