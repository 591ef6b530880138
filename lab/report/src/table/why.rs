//! Attribution: the origins and causes of programs and reads, and refused allocations.

use crate::attribution::{Matrix, largest_first, sentences, sum};
use crate::human;
use crate::record::Run;
use crate::table::Style;
use crate::table::grid::{Column, Grid, cell, dim, strong, wrapped};
use crate::table::refusals::refusals;
use crate::table::run::head;

/// Origins in a table before the rest is added up.
const ORIGINS: usize = 14;
/// Width of the longest bar, in columns.
const BAR: f64 = 30.0;

/// Sentences, then tables: limits that were hit, bytes programmed by cause and origin, reads by
/// cause, victims of garbage collection, handles.
#[must_use]
pub fn why(run: &Run, style: Style) -> String {
    let mut out = head(run, style) + "\n";
    for sentence in sentences(run) {
        out += &wrapped(&sentence, style.width);
    }
    out + &refusals(run, style)
        + &causes(run, style)
        + &matrix(run, style)
        + &reads(run, style)
        + &victims(run, style)
        + &handles(run, style)
}

fn causes(run: &Run, style: Style) -> String {
    let written = run.host.write_bytes;
    let mut grid = Grid::new(vec![
        Column::Left,
        Column::Right,
        Column::Right,
        Column::Right,
        Column::Left,
    ]);
    grid.heading("");
    grid.heading("Bytes programmed by cause");
    grid.row(
        ["", "bytes", "share", "per host byte", ""]
            .map(strong)
            .to_vec(),
    );
    let causes = largest_first(&run.nand.by_cause);
    let total = sum(causes.iter().map(|c| c.1));
    for (cause, bytes) in causes {
        let share = bytes as f64 / total as f64;
        let each = if written == 0 {
            f64::NAN
        } else {
            bytes as f64 / written as f64
        };
        grid.row(vec![
            cell(format!("  {}", human::name(&cause, 24))),
            cell(human::bytes(bytes as f64)),
            cell(human::share(share)),
            cell(human::factor(each)),
            dim(bar(share)),
        ]);
    }
    grid.render(style)
}

fn bar(share: f64) -> String {
    "█".repeat((share.clamp(0.0, 1.0) * BAR).round() as usize)
}

fn matrix(run: &Run, style: Style) -> String {
    if run.nand.by_cause_and_origin.is_empty() {
        return String::new();
    }
    let matrix = Matrix::of(run, ORIGINS);
    let columns = matrix.causes.len() + 2;
    let mut grid = Grid::new([vec![Column::Left], vec![Column::Right; columns]].concat());
    grid.heading("");
    grid.heading("Bytes programmed by origin of the data, and cause");
    let mut names = vec![strong(""), strong("all"), strong("share")];
    names.extend(matrix.causes.iter().map(|c| strong(human::name(&c.0, 12))));
    grid.row(names);
    for row in &matrix.origins {
        let mut cells = vec![
            cell(format!("  {}", human::name(&row.origin, 32))),
            cell(human::bytes(row.total as f64)),
            dim(human::share(row.total as f64 / matrix.total.max(1) as f64)),
        ];
        cells.extend(row.cells.iter().map(|bytes| match bytes {
            0 => dim("·"),
            _ => cell(human::bytes(*bytes as f64)),
        }));
        grid.row(cells);
    }
    grid.render(style)
}

fn reads(run: &Run, style: Style) -> String {
    let causes = largest_first(&run.nand.reads_by_cause);
    if causes.is_empty() {
        return String::new();
    }
    let total = sum(causes.iter().map(|c| c.1)) as f64;
    let mut grid = Grid::new(vec![
        Column::Left,
        Column::Right,
        Column::Right,
        Column::Left,
    ]);
    grid.heading("");
    grid.heading("Page reads by cause");
    for (cause, pages) in causes {
        let share = pages as f64 / total;
        grid.row(vec![
            cell(format!("  {}", human::name(&cause, 24))),
            cell(human::count(pages as f64)),
            cell(human::share(share)),
            dim(bar(share)),
        ]);
    }
    grid.render(style)
}

fn victims(run: &Run, style: Style) -> String {
    let bins = &run.gc.victim_valid_histogram;
    let Some(mean) = run.gc.mean_valid else {
        return String::new();
    };
    let total = sum(bins.iter().copied()) as f64;
    let mut grid = Grid::new(vec![
        Column::Left,
        Column::Right,
        Column::Right,
        Column::Left,
    ]);
    grid.heading("");
    grid.heading(&format!(
        "Valid share of reclaimed superblocks: {} on average; {} of {} in the foreground",
        human::share(mean),
        human::count(run.gc.foreground_lines as f64),
        human::count(run.gc.lines as f64)
    ));
    let edge = |i: usize| 100 * i / bins.len();
    for (i, lines) in bins.iter().enumerate() {
        let share = *lines as f64 / total;
        grid.row(vec![
            cell(format!("  {:>2}–{} %", edge(i), edge(i + 1))),
            cell(human::count(*lines as f64)),
            cell(human::share(share)),
            dim(bar(share)),
        ]);
    }
    grid.render(style)
}

fn handles(run: &Run, style: Style) -> String {
    if run.handles.is_empty() {
        return firmware(run, style);
    }
    let mut grid = Grid::new([vec![Column::Left], vec![Column::Right; 4]].concat());
    grid.heading("");
    grid.heading("Placement handles");
    grid.row(
        ["", "host wrote", "programmed", "moved by GC", "WAF"]
            .map(strong)
            .to_vec(),
    );
    let known = |bytes: Option<u64>| bytes.map_or("–".to_owned(), |b| human::bytes(b as f64));
    for handle in run.handles.iter().filter(|handle| handle.is_used()) {
        grid.row(vec![
            cell(format!("  handle {}", handle.id)),
            cell(human::bytes(handle.host_bytes as f64)),
            cell(known(handle.media_bytes)),
            cell(human::bytes(handle.moved_bytes as f64)),
            cell(handle.waf().map_or("–".to_owned(), human::factor)),
        ]);
    }
    grid.render(style) + &firmware(run, style)
}

/// Counters that the drive itself keeps: the FDP statistics, the mapping cache.
fn firmware(run: &Run, style: Style) -> String {
    let mut out = String::new();
    if let Some(fdp) = &run.fdp {
        let [host, media, erased] = [
            fdp.host_bytes_written,
            fdp.media_bytes_written,
            fdp.media_bytes_erased,
        ]
        .map(|bytes| human::bytes(bytes as f64));
        let events = match fdp
            .events
            .iter()
            .map(|(k, n)| format!("{n} of {k}"))
            .collect::<Vec<_>>()
        {
            none if none.is_empty() => "no events".to_owned(),
            some => format!(
                "events: {} and {} dropped",
                some.join(", "),
                fdp.events_dropped
            ),
        };
        let text = format!(
            "\nFDP statistics over the drive's life: {host} of user data written by the host, \
             {media} programmed, {erased} erased; {events}."
        );
        out += &wrapped(&text, style.width);
    }
    if let Some(cache) = run.map_cache {
        let share = cache.hits as f64 / (cache.hits + cache.misses).max(1) as f64;
        let text = format!(
            "\nThe mapping table is paged: {} of {} look-ups found their part of it in DRAM.",
            human::share(share),
            human::count((cache.hits + cache.misses) as f64)
        );
        out += &wrapped(&text, style.width);
    }
    out
}
