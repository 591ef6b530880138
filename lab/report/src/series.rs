//! Timelines: rates from samples, and the shortening of long series.
//!
//! Invariant: shortening keeps every total and every largest latency.

use crate::record::Sample;

/// Merges neighbours so that at most `points` samples cover the same time.
#[must_use]
pub fn shortened(timeline: &[Sample], points: usize) -> Vec<Sample> {
    let group = timeline.len().div_ceil(points.max(1)).max(1);
    timeline.chunks(group).map(merged).collect()
}

fn merged(group: &[Sample]) -> Sample {
    let mut out = Sample::default();
    for sample in group {
        out.ops = out.ops.saturating_add(sample.ops);
        out.host_write_bytes = out.host_write_bytes.saturating_add(sample.host_write_bytes);
        out.host_read_bytes = out.host_read_bytes.saturating_add(sample.host_read_bytes);
        out.max_latency_ns = out.max_latency_ns.max(sample.max_latency_ns);
        for (cause, bytes) in &sample.programmed_bytes {
            let sum = out.programmed_bytes.entry(cause.clone()).or_default();
            *sum = sum.saturating_add(*bytes);
        }
    }
    let last = &group[group.len() - 1];
    out.at_ns = last.at_ns;
    out.free_lines = last.free_lines;
    out.p50_latency_ns = median(group);
    out.waf = amplification(group, &out);
    out
}

/// The median of the intervals' medians, each weighted by its requests.
fn median(group: &[Sample]) -> u64 {
    let mut medians: Vec<_> = group.iter().map(|s| (s.p50_latency_ns, s.ops)).collect();
    medians.sort_unstable();
    let half = medians.iter().map(|m| u128::from(m.1)).sum::<u128>() / 2;
    let mut seen = 0;
    let middle = medians.iter().find(|(_, ops)| {
        seen += u128::from(*ops);
        seen > half
    });
    middle.map_or(medians[0].0, |m| m.0)
}

fn amplification(group: &[Sample], whole: &Sample) -> f64 {
    if let [one] = group {
        return one.waf;
    }
    match whole.host_write_bytes {
        0 => 0.0,
        written => programmed(whole) / written as f64,
    }
}

/// All bytes programmed in the interval of `sample`.
#[must_use]
pub fn programmed(sample: &Sample) -> f64 {
    sample.programmed_bytes.values().map(|b| *b as f64).sum()
}

/// The rate of `amount` in each sample, per second since the previous sample.
pub fn per_second(timeline: &[Sample], amount: impl Fn(&Sample) -> f64) -> Vec<f64> {
    let mut before = 0;
    let rate = |sample: &Sample| {
        let span = sample.at_ns.saturating_sub(before);
        before = sample.at_ns;
        match span {
            0 => 0.0,
            ns => amount(sample) * 1e9 / ns as f64,
        }
    };
    timeline.iter().map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ns: u64, ops: u64, p50: u64, max: u64) -> Sample {
        Sample {
            at_ns,
            ops,
            host_write_bytes: ops * 4096,
            p50_latency_ns: p50,
            max_latency_ns: max,
            programmed_bytes: [("host".to_owned(), ops * 8192)].into(),
            ..Sample::default()
        }
    }

    #[test]
    fn merging_keeps_totals_and_peaks() {
        let long: Vec<_> = (1..=10).map(|i| sample(i * 100, i, i, 1000 - i)).collect();
        let short = shortened(&long, 3);
        assert_eq!(short.len(), 3);
        assert_eq!(short.iter().map(|s| s.ops).sum::<u64>(), 55);
        assert_eq!(short[0].max_latency_ns, 999);
        assert_eq!(short[2].at_ns, 1000);
        assert_eq!(short[1].waf, 2.0);
        assert_eq!(short[0].p50_latency_ns, 3);
    }

    #[test]
    fn rates_cover_the_interval_before() {
        let series = [sample(1_000_000, 5, 0, 0), sample(3_000_000, 5, 0, 0)];
        assert_eq!(per_second(&series, |s| s.ops as f64), [5000.0, 2500.0]);
    }
}
