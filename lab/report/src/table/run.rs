//! One run in detail.

use crate::caution;
use crate::human;
use crate::metric::{GROUPS, Unit, Value};
use crate::placement::placement;
use crate::record::{Latency, Run};
use crate::table::Style;
use crate::table::failures;
use crate::table::grid::{Column, Grid, Tone, cell, dim, paint, strong, wrapped};
use crate::table::jobs;
use crate::table::refusals;

/// The inputs of a run, its warnings, every metric with its explanation, latency by kind of
/// request, utilisation.
#[must_use]
pub fn run(run: &Run, style: Style) -> String {
    let mut out = head(run, style);
    if !run.errors.is_empty() {
        out += &paint(&failures(run), Tone::Bad, style);
        out.push('\n');
    }
    out += &refusals::sentences(run, style);
    out += &jobs::jobs(run, style);
    out += &metrics(run, style);
    out += &kinds(run, style);
    out += &utilisation(run, style);
    for sentence in placement(std::slice::from_ref(run)) {
        out += &wrapped(&format!("\n{sentence}"), style.width);
    }
    for caution in caution::lines(&[run]) {
        out += &wrapped(&format!("\n{caution}"), style.width);
    }
    for note in &run.notes {
        out += &wrapped(&format!("\nnote: {note}"), style.width);
    }
    out
}

/// The inputs of a run: the heading of all views of a single run.
pub(crate) fn head(run: &Run, style: Style) -> String {
    let drive = &run.drive;
    let room = style.width.max(40) - 12;
    let stack = human::name(&run.stack, room);
    let mut grid = Grid::new(vec![Column::Left, Column::Left]);
    let mut fact =
        |name: &str, text: String| grid.row(vec![dim(name), cell(human::name(&text, room))]);
    fact(
        "workload",
        format!(
            "{}, seed {}, {} drive",
            run.workload, run.seed, run.precondition
        ),
    );
    fact(
        "drive",
        format!(
            "{} ({}), {} of {} raw, over-provisioning {}",
            drive.name,
            drive.interface,
            human::bytes(drive.capacity_bytes as f64),
            human::bytes(drive.raw_bytes as f64),
            human::share(drive.over_provisioning)
        ),
    );
    if let Some(placement) = &run.placement {
        fact("placement", placement.words());
    }
    let cycles = human::count(drive.endurance_cycles as f64);
    fact(
        "NAND",
        format!("{}, {}, {cycles} cycles", drive.nand, drive.geometry),
    );
    format!(
        "{}\n{}",
        paint(&stack, Tone::Strong, style),
        grid.render(style)
    )
}

fn metrics(run: &Run, style: Style) -> String {
    let mut grid = Grid::new(vec![Column::Left, Column::Right, Column::Left]);
    for group in GROUPS.iter().filter(|group| group.applies(&[run])) {
        grid.heading("");
        grid.heading(group.title);
        for metric in group.metrics {
            let label = format!("  {}", metric.label);
            grid.row(vec![cell(label), cell(metric.show(run)), dim(metric.help)]);
        }
    }
    // On a narrow terminal the explanations are dropped first.
    match grid.width() > style.width {
        true => without_help(run, style),
        false => grid.render(style),
    }
}

fn without_help(run: &Run, style: Style) -> String {
    let mut grid = Grid::new(vec![Column::Left, Column::Right]);
    for group in GROUPS.iter().filter(|group| group.applies(&[run])) {
        grid.heading("");
        grid.heading(group.title);
        for metric in group.metrics {
            grid.row(vec![
                cell(format!("  {}", metric.label)),
                cell(metric.show(run)),
            ]);
        }
    }
    grid.render(style)
}

fn kinds(run: &Run, style: Style) -> String {
    let mut grid = Grid::new([vec![Column::Left], vec![Column::Right; 7]].concat());
    grid.heading("");
    grid.heading("Latency by kind of request");
    let names = [
        "", "requests", "mean", "p50", "p99", "p99.9", "p99.99", "max",
    ];
    grid.row(names.map(strong).to_vec());
    let all = ("all".to_owned(), run.latency_ns.all.clone());
    for (kind, latency) in [all]
        .iter()
        .map(|(k, l)| (k, l))
        .chain(&run.latency_ns.by_op)
    {
        let mut row = vec![cell(format!("  {}", human::name(kind, 24)))];
        row.extend(columns(latency).map(cell));
        grid.row(row);
    }
    grid.render(style)
}

fn columns(latency: &Latency) -> [String; 7] {
    // Requests that never completed have no latency, rather than 0.
    let write = |value: Value| match latency.count {
        0 => human::NOTHING.to_owned(),
        _ => Unit::Ns.write(value),
    };
    let time = |ns: u64| write(Value::Count(ns));
    [
        human::count(latency.count as f64),
        write(Value::Real(latency.mean)),
        time(latency.p50),
        time(latency.p99),
        time(latency.p99_9),
        time(latency.p99_99),
        time(latency.max),
    ]
}

fn utilisation(run: &Run, style: Style) -> String {
    if run.utilisation.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(vec![Column::Left, Column::Right, Column::Left]);
    grid.heading("");
    grid.heading("Busy share");
    for (resource, share) in &run.utilisation {
        let filled = (share.clamp(0.0, 1.0) * 30.0).round() as usize;
        let bar = "█".repeat(filled) + &"·".repeat(30 - filled);
        let name = format!("  {}", human::name(resource, 24));
        grid.row(vec![cell(name), cell(human::share(*share)), dim(bar)]);
    }
    grid.render(style)
}
