//! All stacks at a glance: the main metrics, relative to the first run with the same past.

use crate::attribution::peers;
use crate::human;
use crate::metric::{self, Metric};
use crate::page::parts::{Card, legend, named};
use crate::plot::{Dot, Dots, Row};
use crate::record::Run;
use maud::Markup;

/// Paths of the metrics shown.
const SHOWN: [&str; 7] = [
    "/ops_per_s",
    "/latency_ns/p99",
    "/latency_ns/p99_9",
    "/host/write_bytes",
    "/waf/device",
    "/gc/moved_bytes",
    "/wear/life_host_bytes",
];

/// One figure for several runs; empty for a single run, or if no metric can be compared.
pub(crate) fn all(runs: &[&Run]) -> Vec<Markup> {
    let metrics = metric::of(runs).filter(|metric| SHOWN.contains(&metric.path));
    let rows: Vec<Row> = metrics.map(|metric| row(metric, runs)).collect();
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.dots.len() > 1).collect();
    if rows.is_empty() || runs.len() < 2 {
        return Vec::new();
    }
    let entries = named(runs);
    let card = Card {
        id: "glance",
        title: "All stacks at a glance",
        legend: legend(
            entries
                .iter()
                .map(|named| (named.name.as_str(), named.slot)),
        ),
        reading: "Each value is divided by that of the first stack with the same precondition; \
            equal steps are equal ratios. Higher is better for operations and TBW, lower \
            for the other metrics.",
        numbers: None,
    };
    vec![card.with(&Dots {
        axis: "over the first stack".to_owned(),
        rows,
        band: None,
    })]
}

fn row(metric: &Metric, runs: &[&Run]) -> Row {
    let dots = named(runs).into_iter().filter_map(|named| {
        let first = peers(named.run, runs)[0];
        let value = metric.value(named.run);
        let ratio = value.over(metric.value(first))?;
        let hint = format!(
            "{}: {}, {}",
            named.name,
            metric.write(named.run),
            human::times(ratio)
        );
        let slot = named.slot;
        (ratio.is_finite() && ratio > 0.0).then_some(Dot { ratio, slot, hint })
    });
    Row {
        label: metric.label.to_owned(),
        note: String::new(),
        class: "",
        dots: dots.collect(),
    }
}
