//! The origins of the bytes on the NAND: a matrix of causes and origins, and sentences made of it.
//!
//! Invariant: the cells of a matrix add up to the bytes of its causes. Bytes that the record does
//! not attribute stand under [`UNNAMED`]; they are never dropped.

use crate::human;
use crate::metric::Better;
use crate::norm::Norm;
use crate::record::Run;
use std::collections::{BTreeMap, BTreeSet};

/// The row of bytes for which the record names no origin.
pub const UNNAMED: &str = "(unnamed)";

/// Bytes programmed by cause (columns) and origin (rows), largest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matrix {
    /// Causes with their bytes, largest first; one column each.
    pub causes: Vec<(String, u64)>,
    /// One row for each origin, largest first.
    pub origins: Vec<Row>,
    /// Bytes programmed, over all causes.
    pub total: u64,
}

/// One origin of a [`Matrix`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the origin as the record has it, [`UNNAMED`], or `(N others)` for the folded row.
    pub origin: String,
    /// Bytes of this origin over all causes.
    pub total: u64,
    /// Bytes of this origin by cause, in the order of [`Matrix::causes`].
    pub cells: Vec<u64>,
}

impl Matrix {
    /// The matrix of `run` with at most `rows` origins; the smallest origins are added up in a last
    /// row.
    #[must_use]
    pub fn of(run: &Run, rows: usize) -> Self {
        let causes = largest_first(&run.nand.by_cause);
        let mut cells: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (column, (cause, bytes)) in causes.iter().enumerate() {
            let mut rest = *bytes;
            let named = run.nand.by_cause_and_origin.get(cause);
            for (origin, bytes) in named.into_iter().flatten() {
                rest = rest.saturating_sub(*bytes);
                add(&mut cells, origin, column, causes.len(), *bytes);
            }
            add(&mut cells, UNNAMED, column, causes.len(), rest);
        }
        let mut origins: Vec<Row> = cells.into_iter().map(Row::of).collect();
        origins.retain(|row| row.total > 0);
        origins.sort_by(|a, b| b.total.cmp(&a.total).then(a.origin.cmp(&b.origin)));
        Self {
            total: sum(causes.iter().map(|c| c.1)),
            origins: fold(origins, rows),
            causes,
        }
    }
}

impl Row {
    fn of((origin, cells): (&str, Vec<u64>)) -> Self {
        Self {
            origin: origin.to_owned(),
            total: sum(cells.iter().copied()),
            cells,
        }
    }
}

fn add<'a>(
    cells: &mut BTreeMap<&'a str, Vec<u64>>,
    origin: &'a str,
    column: usize,
    columns: usize,
    bytes: u64,
) {
    let row = cells.entry(origin).or_insert_with(|| vec![0; columns]);
    row[column] = row[column].saturating_add(bytes);
}

/// Adds up the origins past the first `rows - 1` in one row, if there are more than `rows`.
fn fold(mut origins: Vec<Row>, rows: usize) -> Vec<Row> {
    if origins.len() <= rows {
        return origins;
    }
    let rest = origins.split_off(rows.saturating_sub(1));
    let columns = rest[0].cells.len();
    let column = |c: usize| sum(rest.iter().map(|row| row.cells[c]));
    let cells = (0..columns).map(column).collect();
    let mut folded = Row::of(("", cells));
    folded.origin = format!("({} others)", rest.len());
    origins.push(folded);
    origins
}

/// The sum, saturating at `u64::MAX`: records may be forged.
pub(crate) fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}

/// The entries of `map` that are not zero, largest first; equal ones in the order of their names.
#[must_use]
pub fn largest_first(map: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let mut entries: Vec<_> = map.iter().map(|(k, v)| (k.clone(), *v)).collect();
    entries.retain(|entry| entry.1 > 0);
    entries.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    entries
}

/// Explains a cause in a few words, for readers new to it.
#[must_use]
pub fn explain(cause: &str) -> &'static str {
    match cause {
        "host" => "data written by the host",
        "gc" => "valid data moved by garbage collection",
        "wear" => "data moved to even out wear",
        "mapping" => "pages of the mapping table",
        "padding" => "padding of pages that were not full",
        "rmw" => "read-modify-write of pages written in part",
        "summary" => "summary pages at the end of superblocks",
        "journal" => "log of deallocations",
        _ => "other writes of the drive",
    }
}

/// An amplification above this is worth a sentence.
const NOTABLE: f64 = 1.02;

/// Two or three plain sentences: the causes of the device's write amplification, the origins of the
/// data, and the writes that the host added above the drive.
#[must_use]
pub fn sentences(run: &Run) -> Vec<String> {
    let mut out = vec![device(run)];
    out.extend(moved(run));
    out.extend(host(run));
    out
}

fn device(run: &Run) -> String {
    let programmed = sum(run.nand.by_cause.values().copied());
    let written = run.host.write_bytes;
    if programmed == 0 || written == 0 {
        return match programmed {
            0 => "No page was programmed, so that there is no write amplification.".to_owned(),
            _ => "The host wrote nothing; the drive programmed pages for its own metadata and \
                maintenance."
                .to_owned(),
        };
    }
    let parts: Vec<String> = largest_first(&run.nand.by_cause)
        .iter()
        .take(4)
        .map(|(cause, bytes)| {
            let each = human::factor(*bytes as f64 / written as f64);
            format!("{each} {} ({})", human::name(cause, 24), explain(cause))
        })
        .collect();
    let factor = programmed as f64 / written as f64;
    format!(
        "For each byte that the host wrote, the drive programmed {} bytes: {}.",
        human::factor(factor),
        parts.join(", ")
    )
}

fn moved(run: &Run) -> Option<String> {
    if run.waf.device < NOTABLE {
        return None;
    }
    let (cause, bytes) = largest_first(&run.nand.by_cause)
        .into_iter()
        .find(|(cause, _)| cause != "host")?;
    let origins = largest_first(run.nand.by_cause_and_origin.get(&cause)?);
    let (origin, of_origin) = origins.first()?;
    let mut text = format!(
        "The largest addition is {} ({}); {} of it is data of {}",
        human::name(&cause, 24),
        human::bytes(bytes as f64),
        human::share(*of_origin as f64 / bytes as f64),
        match origin.as_str() {
            "unnamed" => "no process of this run, such as data from the precondition".to_owned(),
            named => human::name(named, 48),
        }
    );
    if let Some(valid) = run.gc.mean_valid.filter(|_| cause == "gc") {
        text += &format!(
            "; superblocks were about {} valid when they were reclaimed",
            human::share(valid)
        );
    }
    Some(text + ".")
}

fn host(run: &Run) -> Option<String> {
    if run.waf.host < NOTABLE {
        return None;
    }
    let written = |d: &crate::record::Directions| d.write.byte.saturating_add(d.write.block);
    let purposes = run.host.by_purpose.iter();
    let added = purposes
        .map(|(purpose, d)| (purpose, written(d)))
        .filter(|(purpose, bytes)| *purpose != "data" && *bytes > 0)
        .max_by_key(|(_, bytes)| *bytes);
    let mut text = format!(
        "Above the drive, the host wrote {} bytes for each byte of the application",
        human::factor(run.waf.host)
    );
    if let Some((purpose, bytes)) = added {
        text += &format!(
            "; {} of its writes are {}",
            human::share(bytes as f64 / run.host.write_bytes.max(1) as f64),
            human::name(purpose, 24)
        );
    }
    Some(text + ".")
}

/// The display name of each run among `runs`: its stack, and the precondition and label where one
/// stack ran more than once.
#[must_use]
pub fn names(runs: &[&Run]) -> Vec<String> {
    let stacks: BTreeSet<&str> = runs.iter().map(|run| run.stack.as_str()).collect();
    let distinct = stacks.len() == runs.len();
    let name = |run: &&Run| match (distinct, run.label.as_str()) {
        (true, _) => run.stack.clone(),
        (false, "") => format!("{} ({})", run.stack, run.precondition),
        (false, label) => format!("{} ({}, {label})", run.stack, run.precondition),
    };
    runs.iter().map(name).collect()
}

/// The runs to compare `run` fairly with, itself among them: the runs with the same precondition
/// and label; if there is no other such run, those with the same precondition; else all. Ratios are
/// relative to the first of them.
#[must_use]
pub fn peers<'a>(run: &Run, runs: &[&'a Run]) -> Vec<&'a Run> {
    let past = |other: &&&Run| other.precondition == run.precondition;
    let alike = |other: &&&Run| past(other) && other.label == run.label;
    let of = |kept: Vec<&'a Run>| (kept.len() > 1).then_some(kept);
    let closest = of(runs.iter().filter(alike).copied().collect());
    let wider = || of(runs.iter().filter(past).copied().collect());
    closest.or_else(wider).unwrap_or_else(|| runs.to_vec())
}

/// A sentence that names the run to which ratios are relative; empty without runs.
#[must_use]
pub fn relative_to(runs: &[&Run]) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    if peers(first, runs).len() == runs.len() {
        return format!("× is relative to {}", human::name(&names(runs)[0], 40));
    }
    let group = match runs.iter().all(|run| run.label.is_empty()) {
        true => "the same precondition",
        false => "the same precondition and variant",
    };
    let bases: BTreeSet<&str> = runs
        .iter()
        .map(|run| peers(run, runs)[0].stack.as_str())
        .collect();
    match bases.len() {
        1 => format!(
            "× is relative to {} with {group}",
            human::name(&first.stack, 40)
        ),
        _ => format!("× is relative to the first column with {group}"),
    }
}

/// Up to three sentences for each precondition: the run with the most operations per second, the
/// lowest p99 latency and the fewest pages programmed, each against the first run. Only runs count
/// that did all requests.
#[must_use]
pub fn findings(runs: &[Run]) -> Vec<String> {
    let p99 = match runs.iter().any(|run| run.loaded().is_some()) {
        true => "/at_load/latency_ns/p99",
        false => "/latency_ns/p99",
    };
    let asked = [
        ("/ops_per_s", "completes the most operations per second"),
        (p99, "has the lowest p99 latency"),
        ("/nand/program_pages", "programs the fewest pages"),
    ];
    let all: Vec<&Run> = runs.iter().collect();
    let norm = Norm::of(runs);
    let mut found = Vec::new();
    for run in runs {
        let past = |other: &Run| other.precondition == run.precondition;
        let alike = |other: &&&Run| past(other) && norm.is_met_by(other);
        let group: Vec<&Run> = all.iter().filter(alike).copied().collect();
        if group.len() > 1 && std::ptr::eq(group[0], run) {
            let find = |(path, claim)| finding(&group, &all, path, claim);
            found.extend(asked.into_iter().filter_map(find));
        }
    }
    found
}

/// Whether a table would print `ratio` as 1.00.
fn is_one(ratio: f64) -> bool {
    (ratio - 1.0).abs() < 0.005
}

/// A sentence about the run in `runs` that does best by the metric at `path`; `None` if they do
/// alike.
fn finding(runs: &[&Run], all: &[&Run], path: &str, claim: &str) -> Option<String> {
    let metric = crate::metric::all().find(|m| m.path == path)?;
    let value = |run: &Run| metric.value(run);
    let sign = if metric.better == Better::More {
        -1.0
    } else {
        1.0
    };
    let rank = |run: &Run| value(run).number().map_or(f64::INFINITY, |x| x * sign);
    let ascending = |a: &&(&Run, String), b: &&(&Run, String)| rank(a.0).total_cmp(&rank(b.0));
    let of_group = |(run, _): &(&Run, String)| runs.iter().any(|r| std::ptr::eq(*r, *run));
    let named: Vec<_> = all
        .iter()
        .copied()
        .zip(names(all))
        .filter(of_group)
        .collect();
    let (best, worst) = (
        named.iter().min_by(ascending)?,
        named.iter().max_by(ascending)?,
    );
    let apart = value(best.0).over(value(worst.0));
    if rank(best.0) == rank(worst.0) || apart.is_some_and(is_one) {
        return None;
    }
    let short = |name: &str| human::name(name, 40);
    let text = format!("{} {claim}: {}", short(&best.1), metric.write(best.0));
    Some(match value(best.0).over(value(runs[0])) {
        Some(ratio) if !is_one(ratio) => {
            format!(
                "{text}, {} that of {}.",
                human::times(ratio),
                short(&named[0].1)
            )
        }
        _ => text + ".",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(origin: &str, total: u64) -> Row {
        Row {
            origin: origin.to_owned(),
            total,
            cells: vec![total],
        }
    }

    #[test]
    fn small_origins_are_added_up() {
        let rows = vec![row("a", 9), row("b", 3), row("c", 2), row("d", 1)];
        let folded = fold(rows.clone(), 2);
        assert_eq!(folded, [row("a", 9), row("(3 others)", 6)]);
        assert_eq!(fold(rows.clone(), 4), rows);
    }

    #[test]
    fn forged_sums_stop_at_the_largest_number() {
        assert_eq!(sum([u64::MAX, 1].into_iter()), u64::MAX);
    }

    #[test]
    fn entries_are_sorted_largest_first_without_zeros() {
        let map = [("a", 1), ("b", 5), ("c", 0), ("d", 5)].map(|(k, v)| (k.to_owned(), v));
        let names: Vec<String> = largest_first(&map.into())
            .into_iter()
            .map(|e| e.0)
            .collect();
        assert_eq!(names, ["b", "d", "a"]);
    }
}
