//! Charts over virtual time.

use crate::page::parts::{Card, Named, Slots, legend};
use crate::plot::{Area, Axis, Kind, Lines, Mark, Pair, Series};
use crate::record::Sample;
use crate::series::{per_second, shortened};
use maud::Markup;
use std::collections::BTreeSet;

/// Points of a line, about as many as a column of a page can show.
const POINTS: usize = 240;

/// The charts of all runs that kept a timeline; empty if there are none.
pub(crate) fn all(runs: &[Named<'_>]) -> Vec<Markup> {
    if runs.is_empty() {
        return Vec::new();
    }
    let mut out = vec![
        chart(runs, &AMPLIFICATION),
        chart(runs, &THROUGHPUT),
        chart(runs, &SLOWEST),
        chart(runs, &FREE),
    ];
    out.extend(runs.first().filter(|_| runs.len() == 1).map(causes));
    out.extend(
        runs.iter()
            .filter(|n| n.run.gc.moved_bytes > 0)
            .map(collection),
    );
    out
}

/// The latencies of a run above the bytes that garbage collection moved at the same time.
fn collection(named: &Named<'_>) -> Markup {
    let samples = shortened(&named.run.timeline, POINTS);
    let times = || samples.iter().map(|s| s.at_ns as f64);
    let line = |name: &str, slot, value: fn(&Sample) -> f64| Series {
        name: name.to_owned(),
        slot,
        points: times().zip(samples.iter().map(value)).collect(),
    };
    let lines = vec![
        line("slowest", 1, |s| s.max_latency_ns as f64),
        line("median", 0, |s| s.p50_latency_ns as f64),
    ];
    let moved = per_second(&samples, |s| {
        s.programmed_bytes.get("gc").copied().unwrap_or(0) as f64
    });
    let layer = Series {
        name: "moved".to_owned(),
        slot: 1,
        points: times().zip(moved.iter().copied()).collect(),
    };
    let latencies = lines.iter().flat_map(|s| s.points.iter().map(|p| p.1));
    let latency = Axis::new("latency", Kind::LogTime, latencies);
    let time = || Axis::new("virtual time", Kind::Time, times());
    let card = Card {
        id: &format!("time-gc-{}", named.slot),
        title: &format!("Collection and latency, {}", named.name),
        legend: legend(lines.iter().map(|s| (s.name.as_str(), s.slot))),
        reading: "Above: the slowest and the median request of each interval. Below: bytes that \
            garbage collection moved in the interval.",
        numbers: None,
    };
    card.with(&Pair {
        above: Lines {
            x: time(),
            y: latency,
            mark: Mark::Line,
            series: lines,
        },
        below: Area {
            x: time(),
            y: Axis::new("moved per second", Kind::Bytes, moved.into_iter()),
            layers: vec![layer],
        },
    })
}

/// One chart: its texts, and the values that it reads from each run's samples.
struct Plan {
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    kind: Kind,
    reading: &'static str,
    values: fn(&[Sample]) -> Vec<f64>,
}

const AMPLIFICATION: Plan = Plan {
    id: "time-waf",
    title: "Device write amplification",
    axis: "bytes programmed per byte written",
    kind: Kind::Number,
    reading: "1 is ideal. A line that has become level is a drive in its steady state.",
    values: |samples| samples.iter().map(|s| s.waf).collect(),
};

const THROUGHPUT: Plan = Plan {
    id: "time-ops",
    title: "Throughput",
    axis: "operations per second",
    kind: Kind::Number,
    reading: "Higher is better. Dips are pauses in which requests waited for the drive.",
    values: |samples| per_second(samples, |s| s.ops as f64),
};

const SLOWEST: Plan = Plan {
    id: "time-max",
    title: "Slowest request",
    axis: "largest latency of the interval",
    kind: Kind::LogTime,
    reading: "Lower is better. The vertical axis goes by powers of ten.",
    values: |samples| samples.iter().map(|s| s.max_latency_ns as f64).collect(),
};

const FREE: Plan = Plan {
    id: "time-free",
    title: "Free lines",
    axis: "erased lines in the pool",
    kind: Kind::Number,
    reading: "Garbage collection begins where the line stops falling.",
    values: |samples| samples.iter().map(|s| s.free_lines as f64).collect(),
};

fn chart(runs: &[Named<'_>], plan: &Plan) -> Markup {
    let series: Vec<Series> = runs.iter().map(|named| series(named, plan)).collect();
    let card = Card {
        id: plan.id,
        title: plan.title,
        legend: legend_of_several(&series),
        reading: plan.reading,
        numbers: None,
    };
    let values =
        |axis: fn(&(f64, f64)) -> f64| series.iter().flat_map(move |s| s.points.iter().map(axis));
    let x = Axis::new("virtual time", Kind::Time, values(|p| p.0));
    let y = Axis::new(plan.axis, plan.kind, values(|p| p.1));
    card.with(&Lines {
        x,
        y,
        mark: Mark::Line,
        series,
    })
}

/// A legend if there are several lines: for a single one the page names the run.
fn legend_of_several(series: &[Series]) -> Markup {
    let shown = if series.len() > 1 { series } else { &[] };
    legend(shown.iter().map(|s| (s.name.as_str(), s.slot)))
}

fn series(named: &Named<'_>, plan: &Plan) -> Series {
    let samples = shortened(&named.run.timeline, POINTS);
    let times = samples.iter().map(|s| s.at_ns as f64);
    Series {
        name: named.name.clone(),
        slot: named.slot,
        points: times.zip((plan.values)(&samples)).collect(),
    }
}

/// Bytes that one run programmed per second, by cause.
fn causes(named: &Named<'_>) -> Markup {
    let samples = shortened(&named.run.timeline, POINTS);
    let names: BTreeSet<&str> = samples
        .iter()
        .flat_map(|s| s.programmed_bytes.keys().map(String::as_str))
        .collect();
    let slots = Slots::causes(&names);
    let layer = |(name, slot): (&str, usize)| {
        let bytes = |s: &Sample| s.programmed_bytes.get(name).copied().unwrap_or(0) as f64;
        let times = samples.iter().map(|s| s.at_ns as f64);
        Series {
            name: name.to_owned(),
            slot,
            points: times.zip(per_second(&samples, bytes)).collect(),
        }
    };
    let card = Card {
        id: "time-causes",
        title: "NAND writes over time, by cause",
        legend: slots.legend(),
        reading: "The height of a layer is the rate at which bytes were programmed for that cause.",
        numbers: None,
    };
    let total = per_second(&samples, crate::series::programmed);
    card.with(&Area {
        x: Axis::new(
            "virtual time",
            Kind::Time,
            samples.iter().map(|s| s.at_ns as f64),
        ),
        y: Axis::new(
            "bytes programmed per second",
            Kind::Bytes,
            total.into_iter(),
        ),
        layers: slots.iter().map(layer).collect(),
    })
}
