//! Latency histograms of requests.
//!
//! Invariants: count, mean and maximum are exact; quantiles are those of a histogram with three
//! significant digits, and never above the maximum.

use hdrhistogram::Histogram;
use report::record;
use ssd::IoError;
use std::borrow::Cow;
use std::collections::BTreeMap;
use units::Ns;
use workload::Op;

/// Latency histogram of one kind of request.
#[derive(Clone)]
pub(crate) struct Tally {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            histogram: Histogram::new(3).expect("three digits are allowed"),
            sum: 0,
            max: 0,
        }
    }
}

impl Tally {
    pub(crate) fn add(&mut self, latency: Ns) {
        self.histogram
            .record(latency.0)
            .expect("the histogram grows by itself");
        self.sum += u128::from(latency.0);
        self.max = self.max.max(latency.0);
    }

    /// Adds the requests of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("the histogram grows by itself");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
        (self.sum, self.max) = (0, 0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.len()
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    pub(crate) fn quantile(&self, quantile: f64) -> u64 {
        self.histogram.value_at_quantile(quantile).min(self.max)
    }

    pub(crate) fn record(&self) -> record::Latency {
        let count = self.count();
        record::Latency {
            count,
            mean: if count == 0 {
                0.0
            } else {
                self.sum as f64 / count as f64
            },
            p50: self.quantile(0.5),
            p95: self.quantile(0.95),
            p99: self.quantile(0.99),
            p99_9: self.quantile(0.999),
            p99_99: self.quantile(0.9999),
            max: self.max,
            cdf: self.distribution(),
        }
    }

    /// Points of the cumulative distribution, denser towards the tail.
    fn distribution(&self) -> Vec<(u64, u64)> {
        let count = self.count();
        let mut points = Vec::new();
        let mut wanted = steps(count);
        let mut next = wanted.next();
        let mut below = 0;
        for value in self.histogram.iter_recorded() {
            below += value.count_since_last_iteration();
            if next.is_some_and(|next| below >= next) {
                points.push((value.value_iterated_to().min(self.max), below));
                while next.is_some_and(|next| below >= next) {
                    next = wanted.next();
                }
            }
        }
        points
    }
}

/// The counts at which a distribution of `count` requests gets a point: every percent up to 90 %,
/// then ever finer, and the total.
fn steps(count: u64) -> impl Iterator<Item = u64> {
    let hundredths = (1..90).map(|i| i * 10_000);
    let rest = (0..36).map(|i| 900_000 + i * 2_500);
    let tail = (0..18).map(|i| 990_000 + i * 500);
    let end = (0..10).map(|i| 999_000 + i * 100);
    let shares = hundredths.chain(rest).chain(tail).chain(end);
    let share = move |million: u64| {
        let share = (u128::from(count) * u128::from(million)).div_ceil(1_000_000);
        (share as u64).max(1)
    };
    shares.chain([1_000_000]).map(share)
}

/// Latencies and errors of all requests of a run.
#[derive(Default)]
pub(crate) struct Meter {
    tallies: [Tally; Op::ALL.len()],
    /// Latencies since the last sample; `None` without a timeline.
    pub(crate) interval: Option<Tally>,
    pub(crate) errors: BTreeMap<&'static str, u64>,
    /// Time of the last completion, since the start of the run.
    pub(crate) last: Ns,
    pub(crate) completed: u64,
}

impl Meter {
    /// An empty meter, which also tallies each interval if `sampled`.
    pub(crate) fn new(sampled: bool) -> Self {
        Self {
            interval: sampled.then(Tally::default),
            ..Self::default()
        }
    }

    pub(crate) fn add(&mut self, op: Op, latency: Ns, now: Ns, result: Result<(), IoError>) {
        self.last = now;
        if let Err(error) = result {
            *self.errors.entry(reason(error)).or_default() += 1;
            return;
        }
        self.completed += 1;
        self.tallies[op as usize].add(latency);
        if let Some(interval) = &mut self.interval {
            interval.add(latency);
        }
    }

    pub(crate) fn latencies(&self) -> record::LatencySet {
        let names = Op::ALL.iter().map(|op| Cow::Borrowed(op.name()));
        latencies(names.zip(&self.tallies))
    }
}

/// The latencies of all kinds together, and of each kind with any requests.
pub(crate) fn latencies<'a>(
    tallies: impl Iterator<Item = (Cow<'static, str>, &'a Tally)>,
) -> record::LatencySet {
    let mut all = Tally::default();
    let mut by_op = BTreeMap::new();
    for (name, tally) in tallies.filter(|(_, tally)| tally.count() > 0) {
        all.merge(tally);
        by_op.insert(name.into_owned(), tally.record());
    }
    record::LatencySet {
        all: all.record(),
        by_op,
    }
}

const fn reason(error: IoError) -> &'static str {
    match error {
        IoError::OutOfRange { .. } => "out of range",
        IoError::Media(_) => "unrecovered read",
        IoError::Placement(..) => "unknown placement",
        IoError::ReadOnly => "drive read-only",
        IoError::Zone(status) => status.name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_kept_by_their_number() {
        assert!(Op::ALL.iter().enumerate().all(|(i, op)| *op as usize == i));
    }

    #[test]
    fn a_distribution_ascends_to_all_requests_at_the_maximum() {
        let mut tally = Tally::default();
        (0..100_000).for_each(|i| tally.add(Ns(10_000 + i * i % 77_777)));
        let record = tally.record();
        assert!(record.cdf.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        assert!(
            (100..=200).contains(&record.cdf.len()),
            "{}",
            record.cdf.len()
        );
        assert_eq!(record.cdf.last(), Some(&(record.max, 100_000)));
        let mut one = Tally::default();
        one.add(Ns(7));
        assert_eq!(one.record().cdf, [(7, 1)]);
    }
}
