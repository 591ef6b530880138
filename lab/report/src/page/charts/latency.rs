//! Latency plots: the share of requests that took longer.

use crate::page::parts::{Card, legend, named};
use crate::plot::{Axis, Kind, Lines, Mark, Series, TAIL_FLOOR};
use crate::record::{Latency, Run};
use maud::Markup;
use std::collections::BTreeSet;

const READING: &str = "Lower left is better. Where a line crosses p99, one request in a hundred took \
                       longer than the time below; both axes go by powers of ten.";

/// For several runs, a chart for each kind of request with a line for each run; for one run, a
/// single chart with a line for each kind.
pub(crate) fn all(runs: &[&Run]) -> Vec<Markup> {
    if let [run] = runs {
        let kinds = run.latency_ns.by_op.iter();
        let lines: Vec<_> = kinds
            .enumerate()
            .filter_map(|(i, (kind, l))| series(kind, i, l))
            .collect();
        let lines = match lines.is_empty() {
            true => series("all requests", 0, &run.latency_ns.all)
                .into_iter()
                .collect(),
            false => lines,
        };
        return chart("latency", "Latency by kind of request", lines)
            .into_iter()
            .collect();
    }
    let kinds: BTreeSet<&str> = runs
        .iter()
        .flat_map(|r| r.latency_ns.by_op.keys().map(String::as_str))
        .collect();
    let shown = ["read", "write"]
        .into_iter()
        .filter(|kind| kinds.contains(kind));
    let charts: Vec<Markup> = shown.filter_map(|kind| of_kind(runs, kind)).collect();
    match charts.is_empty() {
        true => overall(runs).into_iter().collect(),
        false => charts,
    }
}

fn of_kind(runs: &[&Run], kind: &str) -> Option<Markup> {
    let title = if kind == "read" { "Reads" } else { "Writes" };
    let lines = named(runs)
        .into_iter()
        .filter_map(|n| series(&n.name, n.slot, n.run.latency_ns.by_op.get(kind)?));
    chart(&format!("latency-{kind}"), title, lines.collect())
}

fn overall(runs: &[&Run]) -> Option<Markup> {
    let lines = named(runs)
        .into_iter()
        .filter_map(|n| series(&n.name, n.slot, &n.run.latency_ns.all));
    chart("latency", "All requests", lines.collect())
}

fn chart(id: &str, title: &str, series: Vec<Series>) -> Option<Markup> {
    if series.is_empty() {
        return None;
    }
    let card = Card {
        id,
        title,
        legend: legend(series.iter().map(|s| (s.name.as_str(), s.slot))),
        reading: READING,
        numbers: None,
    };
    let x = Axis::new(
        "latency",
        Kind::LogTime,
        series.iter().flat_map(|s| s.points.iter().map(|p| p.0)),
    );
    let y = Axis::new("percentile of requests", Kind::Tail, [1.0].into_iter());
    Some(card.with(&Lines {
        x,
        y,
        mark: Mark::Step,
        series,
    }))
}

/// The distribution as (latency, share of requests that took longer). The line ends at the floor of
/// the axis.
fn series(name: &str, slot: usize, latency: &Latency) -> Option<Series> {
    let all = latency.cdf.last().map(|p| p.1).filter(|n| *n > 0)? as f64;
    let first = latency.cdf.first()?.0.max(1) as f64;
    let mut points = vec![(first, 1.0)];
    for &(ns, below) in &latency.cdf {
        let longer = 1.0 - below as f64 / all;
        points.push((ns.max(1) as f64, longer.max(TAIL_FLOOR)));
        if longer <= TAIL_FLOOR {
            break;
        }
    }
    let name = name.to_owned();
    Some(Series { name, slot, points })
}
