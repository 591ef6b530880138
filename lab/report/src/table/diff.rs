//! Two runs side by side.

use crate::human;
use crate::metric::{Better, GROUPS, Metric, Unit, Value};
use crate::record::Run;
use crate::table::Style;
use crate::table::grid::{Cell, Column, Grid, Tone, cell, dim, strong, toned};
use std::collections::BTreeMap;

/// A change of at least this share is marked as notable. Runs are deterministic, so smaller changes
/// are real too.
const NOTABLE: f64 = 0.05;

/// Reads an input of a run.
type Words = fn(&Run) -> String;
/// Reads a breakdown of a run.
type ByCause = fn(&Run) -> &BTreeMap<String, u64>;

/// All metrics of `a` and `b` with the ratio of `b` to `a`, then the bytes programmed by cause. A
/// sentence says if the runs are identical in all but wall time and memory.
#[must_use]
pub fn diff(a: &Run, b: &Run, style: Style) -> String {
    let mut out = premises(a, b, style);
    out += &match steady(a) == steady(b) {
        true => "The runs are identical, except for their wall time and memory.\n".to_owned(),
        false => verdict(a, b),
    };
    out.push('\n');
    out + &grid(a, b).render(style)
}

/// `run` without the parts that differ between equal runs.
fn steady(run: &Run) -> Run {
    Run {
        wall_time_s: 0.0,
        peak_rss_bytes: 0,
        ..run.clone()
    }
}

/// The inputs of both runs, with the differing ones marked.
fn premises(a: &Run, b: &Run, style: Style) -> String {
    let mut grid = Grid::new(vec![Column::Left; 3]);
    let room = style.width.saturating_sub(16).max(24) / 2;
    grid.row(vec![cell(""), strong("A"), strong("B")]);
    let facts: [(&str, Words); 6] = [
        ("stack", |r| r.stack.clone()),
        ("drive", |r| {
            format!("{} {}", r.drive.name, r.drive.geometry)
        }),
        ("capacity", |r| human::bytes(r.drive.capacity_bytes as f64)),
        ("workload", |r| r.workload.clone()),
        ("precondition", |r| r.precondition.clone()),
        ("seed", |r| r.seed.to_string()),
    ];
    for (name, get) in facts {
        let (a, b) = (human::name(&get(a), room), human::name(&get(b), room));
        let other = if a == b {
            dim("same")
        } else {
            toned(b, Tone::Strong)
        };
        grid.row(vec![dim(name), cell(a), other]);
    }
    grid.render(style) + "\n"
}

fn verdict(a: &Run, b: &Run) -> String {
    let runs = [a, b];
    let metrics = || crate::metric::of(&runs).filter(|m| m.is_steady());
    let changed = metrics().filter(|m| m.value(a) != m.value(b)).count();
    match changed {
        0 => "All metrics agree; the runs differ in inputs, distributions or attribution.\n"
            .to_owned(),
        n => format!("{n} of {} metrics differ.\n", metrics().count()),
    }
}

fn grid(a: &Run, b: &Run) -> Grid {
    use Column::{Left, Right};
    let mut grid = Grid::new(vec![Left, Right, Right, Right, Left]);
    grid.row(["", "A", "B", "B / A", ""].map(strong).to_vec());
    for group in GROUPS.iter().filter(|group| group.applies(&[a, b])) {
        grid.heading("");
        grid.heading(group.title);
        for metric in group.metrics {
            grid.row(metric_row(metric, a, b));
        }
    }
    let kinds: [(&str, Unit, ByCause); 2] = [
        ("Bytes programmed by cause", Unit::Bytes, |r| {
            &r.nand.by_cause
        }),
        ("Page reads by cause", Unit::Count, |r| {
            &r.nand.reads_by_cause
        }),
    ];
    for (title, unit, map) in kinds {
        map_rows(&mut grid, title, unit, [map(a), map(b)]);
    }
    grid
}

fn metric_row(metric: &Metric, a: &Run, b: &Run) -> Vec<Cell> {
    let better = if metric.is_steady() {
        metric.better
    } else {
        Better::Neither
    };
    row(
        metric.label,
        metric.unit,
        better,
        [metric.value(a), metric.value(b)],
    )
}

fn map_rows(grid: &mut Grid, title: &str, unit: Unit, maps: [&BTreeMap<String, u64>; 2]) {
    let keys: std::collections::BTreeSet<&String> = maps.iter().flat_map(|m| m.keys()).collect();
    if keys.is_empty() {
        return;
    }
    grid.heading("");
    grid.heading(title);
    for key in keys {
        let values = maps.map(|m| Value::Count(m.get(key).copied().unwrap_or(0)));
        let better = if key == "host" {
            Better::Neither
        } else {
            Better::Less
        };
        grid.row(row(&human::name(key, 24), unit, better, values));
    }
}

fn row(label: &str, unit: Unit, better: Better, [a, b]: [Value; 2]) -> Vec<Cell> {
    let ratio = b.over(a);
    let (word, tone) = mark(a, b, ratio, better);
    vec![
        cell(format!("  {label}")),
        cell(unit.write(a)),
        cell(unit.write(b)),
        dim(ratio.map_or(human::NOTHING.to_owned(), human::times)),
        toned(word, tone),
    ]
}

fn mark(a: Value, b: Value, ratio: Option<f64>, better: Better) -> (&'static str, Tone) {
    if a == b {
        return ("", Tone::Plain);
    }
    let Some(ratio) = ratio else {
        return ("● differs", Tone::Strong);
    };
    if (ratio - 1.0).abs() < NOTABLE {
        return ("·", Tone::Dim);
    }
    match (ratio > 1.0, better) {
        (true, Better::More) => ("▲ better", Tone::Good),
        (true, Better::Less) => ("▲ worse", Tone::Bad),
        (true, Better::Neither) => ("▲", Tone::Plain),
        (false, Better::More) => ("▼ worse", Tone::Bad),
        (false, Better::Less) => ("▼ better", Tone::Good),
        (false, Better::Neither) => ("▼", Tone::Plain),
    }
}
