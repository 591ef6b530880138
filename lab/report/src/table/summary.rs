//! Stacks side by side in short: one line for each stack, in two tables of 100 columns at most.

use crate::attribution::peers;
use crate::human::{self, NOTHING};
use crate::metric::{self, Metric, Value};
use crate::norm::Norm;
use crate::record::{AtLoad, Comparison, Run};
use crate::table::Style;
use crate::table::comparison::{answer, caption, notes, tone};
use crate::table::grid::{Cell, Column, Grid, Tone, cell, dim, strong, toned, wrapped};

/// Columns for the name of a stack; the first one that the width of the table allows is taken.
const NAMES: [usize; 4] = [28, 20, 16, 12];
/// Most columns for the precondition and label of a run.
const STATE: usize = 24;

/// A column of numbers: its group and title, the path of its metric, and whether the ratio to the
/// reference stands beside it.
struct Number {
    group: &'static str,
    title: &'static str,
    path: &'static str,
    has_ratio: bool,
}

const fn number(
    (group, title): (&'static str, &'static str),
    path: &'static str,
    has_ratio: bool,
) -> Number {
    Number {
        group,
        title,
        path,
        has_ratio,
    }
}

/// The speed, latency, amplification and life of a stack.
const RESULTS: [Number; 8] = [
    number(("speed", "ops/s"), "/ops_per_s", true),
    number(("", "MB/s"), "/bytes_per_s", false),
    number(("latency", "p50"), LATENCY[0], false),
    number(("", "p99"), LATENCY[1], false),
    number(("", "p99.9"), LATENCY[2], false),
    number(("WAF", "total"), "/waf/total", true),
    number(("life", "TBW"), "/wear/life_app_bytes", false),
    number(("", "DWPD"), "/wear/dwpd", false),
];

/// Paths of the latencies of a run, which stand for those at the even load if there is one.
const LATENCY: [&str; 3] = ["/latency_ns/p50", "/latency_ns/p99", "/latency_ns/p99_9"];
const AT_LOAD: [&str; 3] = [
    "/at_load/latency_ns/p50",
    "/at_load/latency_ns/p99",
    "/at_load/latency_ns/p99_9",
];

/// The sources of a stack's amplification, and the memory and processor time that it takes.
const COSTS: [Number; 8] = [
    number(("WAF", "host"), "/waf/host", false),
    number(("", "drive"), "/waf/device", false),
    number(("written", "by host"), "/host/write_bytes", false),
    number(("", "by GC"), "/gc/moved_bytes", false),
    number(("memory", "drive"), "/drive/dram_bytes", false),
    number(("", "host"), "/host_memory/dram_bytes", false),
    number(("", "host PM"), "/host_memory/persistent_bytes", false),
    number(("CPU", "per op"), "/cpu_ns_per_op", false),
];

/// The answer in sentences, then the results and costs of each stack, one line each.
#[must_use]
pub fn summary(comparison: &Comparison, style: Style) -> String {
    let all: Vec<&Run> = comparison.runs.iter().collect();
    let mut out = caption(comparison, style);
    if all.is_empty() {
        return out + "\nNo runs.\n";
    }
    let answer = answer(comparison, style);
    if !answer.is_empty() {
        out += &format!("\n{answer}");
    }
    let is_even = all.iter().any(|run| run.loaded().is_some());
    for numbers in [&RESULTS, &COSTS] {
        out.push('\n');
        out += &fitting(numbers, &all, is_even, style).render(style);
    }
    out.push('\n');
    for line in legend(&all) {
        out += &wrapped(&line, style.width);
    }
    out + &notes(comparison, style)
}

/// Explains the columns, one group a line.
fn legend(all: &[&Run]) -> [String; 3] {
    let even: Vec<&AtLoad> = all.iter().filter_map(|run| run.loaded()).collect();
    let rates = || even.iter().map(|load| load.ops_per_s);
    let load = match even.first() {
        Some(first) => format!(
            "speed: without pauses; latency: with {} ({} operations/s)",
            human::name(&first.pace, 24),
            range(
                rates().fold(f64::INFINITY, f64::min),
                rates().fold(0.0, f64::max)
            )
        ),
        None => "speed and latency: at the load of the workload itself".to_owned(),
    };
    [
        load,
        "WAF host: bytes written to the drive / bytes written by the program; WAF drive: bytes \
         programmed / bytes written to the drive; total = host × drive"
            .to_owned(),
        "TBW and DWPD (over five years) count the bytes written by the program; memory: of the \
         simulated drive and host; CPU: processor time of the simulated host"
            .to_owned(),
    ]
}

/// Two numbers as a range, or one if a table would show them alike.
fn range(least: f64, most: f64) -> String {
    let (least, most) = (human::count(least.round()), human::count(most.round()));
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

/// The table of `numbers` with the longest names for which it is not too wide.
fn fitting(numbers: &[Number], all: &[&Run], is_even: bool, style: Style) -> Grid {
    let mut grids = NAMES
        .map(|names| grid(numbers, all, is_even, names))
        .into_iter();
    let last = grids.next_back();
    let fits = grids.find(|grid| grid.width() <= style.width);
    fits.or(last).expect("a table for each length of names")
}

fn grid(numbers: &[Number], all: &[&Run], is_even: bool, names: usize) -> Grid {
    let norm = Norm::of(all.iter().copied());
    let shown: Vec<(&Number, &Metric)> = numbers
        .iter()
        .filter_map(|number| Some((number, metric_of(number, is_even)?)))
        .filter(|(_, metric)| all.iter().any(|run| metric.value(run) != Value::Absent))
        .collect();
    let has_state = all.iter().any(|run| state(run) != state(all[0]));
    let mut columns = vec![Column::Left; 1 + usize::from(has_state)];
    for (number, _) in &shown {
        columns.push(Column::Right);
        columns.extend(number.has_ratio.then_some(Column::Near));
    }
    let mut grid = Grid::new(columns);
    let titles = |title: fn(&Number) -> &'static str, first: [&str; 2]| {
        let mut row = vec![strong(first[0])];
        row.extend(has_state.then(|| strong(first[1])));
        for (number, _) in &shown {
            row.push(dim(title(number)));
            row.extend(number.has_ratio.then(|| cell("")));
        }
        row
    };
    grid.row(titles(|number| number.group, ["", ""]));
    grid.row(titles(|number| number.title, ["stack", "state"]));
    for run in all {
        let mut row = vec![cell(human::name(&run.stack, names))];
        row.extend(has_state.then(|| cell(state(run))));
        let peers = peers(run, all);
        for (number, metric) in &shown {
            row.extend(cells(number, metric, run, &peers, &norm));
        }
        grid.row(row);
    }
    grid
}

/// The metric of a column; latencies are those at the even load, if there is one.
fn metric_of(number: &Number, is_even: bool) -> Option<&'static Metric> {
    let place = LATENCY.iter().position(|path| *path == number.path);
    let path = match (place, is_even) {
        (Some(place), true) => AT_LOAD[place],
        _ => number.path,
    };
    metric::all().find(|metric| metric.path == path)
}

fn state(run: &Run) -> String {
    let state = match run.label.as_str() {
        "" => run.precondition.clone(),
        label => format!("{} {label}", run.precondition),
    };
    human::name(&state, STATE)
}

/// The value of a column and its ratio. A run with failed calls did less work than the others and
/// shows none.
fn cells(
    number: &Number,
    metric: &Metric,
    run: &Run,
    peers: &[&Run],
    norm: &Norm<'_>,
) -> Vec<Cell> {
    let is_whole = norm.is_met_by(run);
    let value = match is_whole {
        true => toned(metric.show(run), tone(metric, run, peers)),
        false => toned(NOTHING, Tone::Dim),
    };
    let ratio = || {
        let base = metric.value(peers[0]);
        let ratio = metric.value(run).over(base).filter(|_| is_whole);
        ratio.map_or_else(|| cell(""), |ratio| dim(human::times(ratio)))
    };
    let mut cells = vec![value];
    cells.extend(number.has_ratio.then(ratio));
    cells
}
