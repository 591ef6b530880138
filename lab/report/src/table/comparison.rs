//! Stacks side by side: one row for each metric, one column for each stack.

use crate::attribution::{findings, peers, relative_to};
use crate::caution;
use crate::configuration;
use crate::human;
use crate::metric::{Better, GROUPS, Metric, Place};
use crate::norm::Norm;
use crate::placement::placement;
use crate::record::{Comparison, Placement, Run};
use crate::table::Style;
use crate::table::grid::{Cell, Column, Grid, Tone, cell, dim, paint, strong, toned, wrapped};
use std::collections::BTreeSet;

/// Width at which a line of differences is wrapped.
const LINE: usize = 2_000;

/// Placement of the ratios to the first stack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ratios {
    /// In a column beside each value.
    Beside,
    /// On a line of their own, under headline metrics only.
    Below,
}

/// Title of the metrics group that begins with the placement.
const PLACED: &str = "Host interface";

/// All metrics of all stacks. Ratios are to the first of the peers of a stack; if the terminal is
/// too narrow for all stacks, the table continues below and repeats that one.
#[must_use]
pub fn comparison(comparison: &Comparison, style: Style) -> String {
    let runs = &comparison.runs;
    let mut out = caption(comparison, style);
    let Some(first) = runs.first() else {
        return out + "\nNo runs.\n";
    };
    let all: Vec<&Run> = runs.iter().collect();
    let (mut lead, mut rest): (&Run, Vec<&Run>) = (first, all[1..].to_vec());
    loop {
        let beside = rest.iter().take_while(|run| {
            let base = peers(run, &all)[0];
            std::ptr::eq(base, lead) || rest.iter().any(|other| std::ptr::eq(*other, base))
        });
        let (text, taken) = block(lead, &rest[..beside.count()], &all, style);
        out.push('\n');
        out += &text;
        rest.drain(..taken);
        let Some(next) = rest.first() else { break };
        lead = peers(next, &all)[0];
        if std::ptr::eq(lead, *next) {
            rest.remove(0);
        }
    }
    out.push('\n');
    out += &notes(comparison, style);
    out + &answer(comparison, style)
}

pub(super) fn caption(comparison: &Comparison, style: Style) -> String {
    let workload = human::name(&comparison.workload, style.width.max(40) - 24);
    let title = paint(&workload, Tone::Strong, style);
    let seed = paint(&format!("seed {}", comparison.seed), Tone::Dim, style);
    let mut out = format!("{title}  {seed}\n");
    let flash = |run: &Run| {
        let (raw, capacity) = (run.drive.raw_bytes as f64, run.drive.capacity_bytes as f64);
        let over = human::share(run.drive.over_provisioning);
        let (capacity, raw) = (human::bytes(capacity), human::bytes(raw));
        format!(
            "capacity {capacity} on {raw} of {}, over-provisioning {over}",
            run.drive.nand
        )
    };
    let kinds: BTreeSet<String> = comparison.runs.iter().map(flash).collect();
    if let (Some(flash), 1) = (kinds.first(), kinds.len()) {
        out += &paint(flash, Tone::Dim, style);
        out.push('\n');
    }
    out
}

/// A table of `first` and as many stacks of `rest` as fit, at least one; returns their number too.
fn block(first: &Run, rest: &[&Run], all: &[&Run], style: Style) -> (String, usize) {
    let mut taken = rest.len();
    loop {
        let shown: Vec<&Run> = [first]
            .into_iter()
            .chain(rest[..taken].iter().copied())
            .collect();
        for ratios in [Ratios::Beside, Ratios::Below] {
            let grid = grid(&shown, all, ratios);
            if grid.width() <= style.width || (taken <= 1 && ratios == Ratios::Below) {
                return (grid.render(style), taken);
            }
        }
        taken -= 1;
    }
}

fn grid(runs: &[&Run], all: &[&Run], ratios: Ratios) -> Grid {
    let mut columns = vec![Column::Left];
    for _ in runs {
        columns.push(Column::Right);
        if ratios == Ratios::Beside {
            columns.push(Column::Near);
        }
    }
    let mut grid = Grid::new(columns);
    headers(&mut grid, runs, ratios);
    for group in GROUPS.iter().filter(|g| g.compared(all).next().is_some()) {
        grid.heading("");
        grid.heading(group.title);
        if group.title == PLACED && all.iter().any(|run| run.placement.is_some()) {
            placements(&mut grid, runs, ratios);
        }
        for metric in group.compared(all) {
            rows(&mut grid, metric, runs, all, ratios);
        }
    }
    grid
}

/// The host above the drive, so that a column is as narrow as its numbers.
fn headers(grid: &mut Grid, runs: &[&Run], ratios: Ratios) {
    let parts = |run: &Run| match run.stack.split_once('@') {
        Some((host, drive)) => [
            host.to_owned(),
            format!("@{drive}"),
            run.precondition.clone(),
            run.label.clone(),
        ],
        None => [
            run.stack.clone(),
            String::new(),
            run.precondition.clone(),
            run.label.clone(),
        ],
    };
    let labelled = runs.iter().any(|run| !run.label.is_empty());
    for line in 0..if labelled { 4 } else { 3 } {
        let mut row = vec![cell("")];
        for run in runs {
            let text = human::name(&parts(run)[line], if line < 3 { 16 } else { 40 });
            row.push(if line < 2 { strong(text) } else { dim(text) });
            if ratios == Ratios::Beside {
                row.push(cell(""));
            }
        }
        grid.row(row);
    }
}

/// The placement policy of each run, and below it the handles used of those that the drive has.
fn placements(grid: &mut Grid, runs: &[&Run], ratios: Ratios) {
    let policy = |placement: &Placement| human::name(&placement.policy, 10);
    let handles = |placement: &Placement| format!("{} of {}", placement.used, placement.handles);
    let mut add = |title: &str, write: &dyn Fn(&Placement) -> String| {
        let mut row = vec![cell(title)];
        for run in runs {
            row.push(cell(run.placement.as_ref().map_or_else(String::new, write)));
            if ratios == Ratios::Beside {
                row.push(cell(""));
            }
        }
        grid.row(row);
    };
    add("  placement by", &policy);
    add("  handles used", &handles);
}

fn rows(grid: &mut Grid, metric: &Metric, runs: &[&Run], all: &[&Run], ratios: Ratios) {
    let mut values = vec![cell(format!("  {}", metric.label))];
    let mut below = vec![cell("")];
    for run in runs {
        let peers = peers(run, all);
        values.push(toned(metric.show(run), tone(metric, run, &peers)));
        let ratio = ratio(metric, run, &peers);
        match ratios {
            Ratios::Beside => values.push(ratio),
            Ratios::Below => below.push(ratio),
        }
    }
    grid.row(values);
    if ratios == Ratios::Below && metric.place == Place::Headline {
        grid.row(below);
    }
}

fn ratio(metric: &Metric, run: &Run, runs: &[&Run]) -> Cell {
    let base = metric.value(runs[0]);
    match metric.value(run).over(base).filter(|_| metric.is_steady()) {
        Some(ratio) => dim(human::times(ratio)),
        None => cell(""),
    }
}

/// The tone of a value: the best of a row stands out, among runs that did all requests, unless all
/// are equal.
pub(super) fn tone(metric: &Metric, run: &Run, runs: &[&Run]) -> Tone {
    let norm = Norm::of(runs.iter().copied());
    let number = |run: &Run| metric.value(run).number().filter(|_| norm.is_met_by(run));
    let all = || runs.iter().filter_map(|r| number(r));
    let (least, most) = (
        all().fold(f64::INFINITY, f64::min),
        all().fold(f64::NEG_INFINITY, f64::max),
    );
    let best = match metric.better {
        Better::More => most,
        Better::Less => least,
        Better::Neither => return Tone::Plain,
    };
    match number(run) {
        Some(x) if x == best && least < most => Tone::Good,
        _ => Tone::Plain,
    }
}

pub(super) fn notes(comparison: &Comparison, style: Style) -> String {
    let (runs, mut out) = (&comparison.runs, String::new());
    if runs.len() > 1 {
        let base = relative_to(&runs.iter().collect::<Vec<_>>());
        out += &paint(&base, Tone::Dim, style);
        out.push('\n');
    }
    if let Some(line) = configuration::batteries(runs) {
        out += &wrapped(&human::name(&line, LINE), style.width);
    }
    for difference in &comparison.differences {
        let line = format!("differs: {}", difference.line());
        out += &wrapped(&human::name(&line, LINE), style.width);
    }
    for run in runs.iter().filter(|run| !run.errors.is_empty()) {
        out += &paint(&failures(run), Tone::Bad, style);
        out.push('\n');
    }
    for caution in caution::lines(&runs.iter().collect::<Vec<_>>()) {
        out += &wrapped(&caution, style.width);
    }
    let notes: BTreeSet<&String> = runs.iter().flat_map(|run| &run.notes).collect();
    for note in notes {
        out += &wrapped(&format!("note: {note}"), style.width);
    }
    out
}

/// The answer of a comparison: the best stack by each headline metric, and the reasons why handles
/// saved nothing.
pub(super) fn answer(comparison: &Comparison, style: Style) -> String {
    let runs = &comparison.runs;
    let sentences = findings(runs).into_iter().chain(placement(runs));
    sentences
        .map(|sentence| wrapped(&sentence, style.width))
        .collect()
}

/// The failed requests of `run` by reason, in one line.
pub(crate) fn failures(run: &Run) -> String {
    let reasons: Vec<String> = run
        .errors
        .iter()
        .map(|(reason, n)| format!("{} {}", human::count(*n as f64), human::name(reason, 40)))
        .collect();
    let stack = human::name(&run.stack, 40);
    format!("{stack}: failed requests: {}", reasons.join(", "))
}
