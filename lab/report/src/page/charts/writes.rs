//! Bytes programmed, by cause and by origin.

use crate::attribution::UNNAMED;
use crate::human;
use crate::page::parts::{Card, Slots, named};
use crate::plot::{Axis, Bar, Bars, Kind, Part};
use crate::record::Run;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

/// Origins with a colour of their own; the others share one.
const ORIGINS: usize = 7;
const OTHERS: &str = "(others)";

/// A chart by cause, and one by origin where a run names origins.
pub(crate) fn all(runs: &[&Run]) -> Vec<Markup> {
    [by_cause(runs), by_origin(runs)]
        .into_iter()
        .flatten()
        .collect()
}

fn by_cause(runs: &[&Run]) -> Option<Markup> {
    let maps: Vec<_> = runs.iter().map(|run| run.nand.by_cause.clone()).collect();
    let names: BTreeSet<&str> = maps
        .iter()
        .flat_map(|m| m.keys().map(String::as_str))
        .collect();
    let reading = "All causes except host are write amplification: bytes that the drive programmed \
        internally.";
    stacked(
        ("by-cause", "By cause", reading),
        runs,
        &Slots::causes(&names),
        &maps,
    )
}

fn by_origin(runs: &[&Run]) -> Option<Markup> {
    if runs
        .iter()
        .all(|run| run.nand.by_cause_and_origin.is_empty())
    {
        return None;
    }
    let mut maps: Vec<_> = runs.iter().map(|run| origins(run)).collect();
    let names = leading(&maps);
    for map in &mut maps {
        fold(map, &names);
    }
    let others = maps
        .iter()
        .any(|m| m.contains_key(OTHERS))
        .then(|| OTHERS.to_owned());
    let slots = Slots::ordered(names.into_iter().chain(others).collect());
    let reading = "Programmed data by origin, over all causes. If the bar of an origin grows \
        between stacks, the drive relocated more of its data.";
    stacked(
        ("by-origin", "By origin of the data", reading),
        runs,
        &slots,
        &maps,
    )
}

/// Bytes by origin over all causes, bytes without a named origin included.
fn origins(run: &Run) -> BTreeMap<String, u64> {
    let matrix = crate::attribution::Matrix::of(run, usize::MAX);
    matrix
        .origins
        .into_iter()
        .map(|row| (row.origin, row.total))
        .collect()
}

/// The origins with the most bytes over all runs.
fn leading(maps: &[BTreeMap<String, u64>]) -> Vec<String> {
    let mut totals: BTreeMap<String, u64> = BTreeMap::new();
    for (origin, bytes) in maps.iter().flatten() {
        let total = totals.entry(origin.clone()).or_default();
        *total = total.saturating_add(*bytes);
    }
    let unnamed = totals.remove(UNNAMED).map(|_| UNNAMED.to_owned());
    let mut names: Vec<_> = crate::attribution::largest_first(&totals)
        .into_iter()
        .map(|e| e.0)
        .collect();
    names.truncate(ORIGINS - usize::from(unnamed.is_some()));
    names.extend(unnamed);
    names
}

/// Moves all origins that are not in `names` to one entry, [`OTHERS`].
fn fold(map: &mut BTreeMap<String, u64>, names: &[String]) {
    let other: Vec<String> = map.keys().filter(|k| !names.contains(k)).cloned().collect();
    let bytes = crate::attribution::sum(other.iter().filter_map(|k| map.remove(k)));
    if bytes > 0 {
        map.insert(OTHERS.to_owned(), bytes);
    }
}

fn stacked(
    (id, title, reading): (&str, &str, &str),
    runs: &[&Run],
    slots: &Slots,
    maps: &[BTreeMap<String, u64>],
) -> Option<Markup> {
    let totals: Vec<f64> = maps
        .iter()
        .map(|m| m.values().map(|b| *b as f64).sum())
        .collect();
    if totals.iter().all(|t| *t == 0.0) {
        return None;
    }
    let bars = named(runs).into_iter().zip(maps).zip(&totals);
    let bars = bars.map(|((named, map), total)| Bar {
        label: named.name,
        note: human::bytes(*total),
        parts: parts(map, slots, *total),
    });
    let axis = Axis::new("bytes programmed", Kind::Bytes, totals.iter().copied());
    let card = Card {
        id,
        title,
        legend: slots.legend(),
        reading,
        numbers: Some(numbers(runs, slots, maps)),
    };
    Some(card.with(&Bars {
        axis,
        bars: bars.collect(),
    }))
}

pub(crate) fn parts(map: &BTreeMap<String, u64>, slots: &Slots, total: f64) -> Vec<Part> {
    let known = slots
        .iter()
        .filter_map(|(name, slot)| Some((name, slot, *map.get(name)?)));
    let part = |(name, slot, bytes): (&str, usize, u64)| Part {
        slot,
        value: bytes as f64,
        hint: format!(
            "{name}: {} ({})",
            human::bytes(bytes as f64),
            human::share(bytes as f64 / total)
        ),
    };
    known.filter(|k| k.2 > 0).map(part).collect()
}

fn numbers(runs: &[&Run], slots: &Slots, maps: &[BTreeMap<String, u64>]) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "" } @for n in named(runs) { th scope="col" { (n.name) } } } }
            tbody {
                @for (name, _) in slots.iter() {
                    tr {
                        th scope="row" { (name) }
                        @for map in maps {
                            @let bytes = map.get(name).copied().unwrap_or(0);
                            td data-value=(bytes) { (human::bytes(bytes as f64)) }
                        }
                    }
                }
            }
        }
    }
}
