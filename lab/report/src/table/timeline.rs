//! Series over virtual time, each as a line of bars.

use crate::human;
use crate::record::{Run, Sample};
use crate::series::{per_second, shortened};
use crate::table::Style;
use crate::table::grid::{Column, Grid, cell, dim, strong};
use crate::table::run::head;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Columns beside the bars, for names and numbers.
const BESIDE: usize = 54;

/// A line for each series: bars between zero and its largest value, then
/// least, mean and most.
#[must_use]
pub fn timeline(run: &Run, style: Style) -> String {
    let head = head(run, style);
    if run.timeline.is_empty() {
        return head + "\nThis run has no timeline; repeat it with --timeline.\n";
    }
    let samples = shortened(
        &run.timeline,
        style.width.saturating_sub(BESIDE).clamp(10, 100),
    );
    let mut grid = Grid::new([vec![Column::Left; 2], vec![Column::Right; 3]].concat());
    let span = human::time(samples[samples.len() - 1].at_ns as f64);
    let axis = format!("0 to {span}");
    grid.row(vec![
        cell(""),
        dim(axis),
        strong("least"),
        strong("mean"),
        strong("most"),
    ]);
    for (label, values, write, mean) in series(&samples) {
        grid.row(line(label, &values, write, mean));
    }
    format!("{head}\n{}", grid.render(style))
}

/// A series: name, values, format of a value, and the mean over the run if it is meaningful.
type Series = (&'static str, Vec<f64>, fn(f64) -> String, Option<f64>);

fn series(samples: &[Sample]) -> Vec<Series> {
    let each = |get: fn(&Sample) -> f64| samples.iter().map(get).collect::<Vec<_>>();
    let sum = |get: fn(&Sample) -> f64| samples.iter().map(get).sum::<f64>();
    let seconds = samples.last().map_or(0.0, |last| last.at_ns as f64 / 1e9);
    let rate = |name, get: fn(&Sample) -> f64, write: fn(f64) -> String| -> Series {
        let mean = (seconds > 0.0).then(|| sum(get) / seconds);
        (name, per_second(samples, get), write, mean)
    };
    let written = sum(|s| s.host_write_bytes as f64);
    let waf = (written > 0.0).then(|| sum(crate::series::programmed) / written);
    let (median, slowest) = (
        each(|s| s.p50_latency_ns as f64),
        each(|s| s.max_latency_ns as f64),
    );
    vec![
        rate("operations/s", |s| s.ops as f64, human::factor),
        rate("host writes/s", |s| s.host_write_bytes as f64, human::bytes),
        rate("host reads/s", |s| s.host_read_bytes as f64, human::bytes),
        rate("programmed/s", crate::series::programmed, human::bytes),
        ("WAF device", each(|s| s.waf), human::factor, waf),
        ("median latency", median, human::time, None),
        ("max latency", slowest, human::time, None),
        (
            "free lines",
            each(|s| s.free_lines as f64),
            human::factor,
            None,
        ),
    ]
}

fn line(
    label: &str,
    values: &[f64],
    write: fn(f64) -> String,
    mean: Option<f64>,
) -> Vec<crate::table::grid::Cell> {
    let most = values.iter().copied().fold(0.0, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let bars: String = values.iter().map(|v| level(*v, most)).collect();
    vec![
        cell(label),
        cell(bars),
        cell(write(least)),
        cell(mean.map_or("–".to_owned(), write)),
        cell(write(most)),
    ]
}

fn level(value: f64, most: f64) -> char {
    if most <= 0.0 {
        return BARS[0];
    }
    BARS[((value / most).clamp(0.0, 1.0) * 7.0).round() as usize]
}
