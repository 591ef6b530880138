//! The map of lines or zones: the share of valid data in each, and its age.

use crate::human;
use crate::page::parts::{Card, Named, named};
use crate::plot::{Cell, Cells, SHADES};
use crate::record::{Place, Places, Run};
use maud::{Markup, html};

/// Rows of the table of numbers: ranges of the share of valid data.
const STEPS: u64 = 5;

/// A map for each run whose record has its lines or zones.
pub(crate) fn all(runs: &[&Run]) -> Vec<Markup> {
    let named = named(runs);
    let kept = named
        .iter()
        .filter_map(|n| Some((n, n.run.places.as_ref()?)));
    let kept = kept.filter(|(_, places)| !places.each.is_empty());
    kept.map(|(named, places)| card(named, places)).collect()
}

/// The introduction to all maps, with the legend.
pub(crate) fn intro() -> Markup {
    html! {
        p.lead {
            "A square is a line of the drive, or one of its zones, in the order of their numbers. It is \
             filled as far as it holds valid data; of a zone, as far as it is written. The darker, the \
             longer ago it was closed. What has a frame takes writes; what is grey is out of service."
        }
        ul.legend {
            li { b { "Closed:" } }
            @for shade in 0..SHADES {
                li {
                    svg viewBox="0 0 12 12" aria-hidden="true" style="width:12px" {
                        rect x="0" y="0" width="12" height="12" class={ "shade a" (shade) } {}
                    }
                    @if shade == 0 { "lately" } @else if shade + 1 == SHADES { "longest ago" }
                }
            }
        }
    }
}

fn card(named: &Named<'_>, places: &Places) -> Markup {
    let oldest = places.each.iter().map(|place| place.age).max().unwrap_or(0);
    let cells = places
        .each
        .iter()
        .map(|place| cell(place, oldest))
        .collect();
    let card = Card {
        id: &format!("places-{}", named.slot),
        title: &named.name,
        legend: html! {},
        reading: &reading(places),
        numbers: Some(numbers(places)),
    };
    card.with(&Cells { cells })
}

fn cell(place: &Place, oldest: u64) -> Cell {
    Cell {
        full: place.full as f64 / 1000.0,
        shade: (place.age as f64 / oldest.max(1) as f64 * (SHADES as f64 - 0.01)) as usize,
        open: place.state == "open",
        gone: place.state == "gone",
    }
}

/// The number of places by state, and the mean fill of the closed ones.
fn reading(places: &Places) -> String {
    let count = |state: &str| {
        let found = places.each.iter().filter(|place| place.state == state);
        found.count()
    };
    let closed = places.each.iter().filter(|place| place.state == "closed");
    let (n, full) = closed.fold((0u64, 0u64), |(n, full), place| {
        (n + 1, full.saturating_add(place.full))
    });
    let mean = full.checked_div(n).map_or(String::new(), |mean| {
        format!(", on average {} full", human::share(mean as f64 / 1000.0))
    });
    let grouped = match places.per_entry {
        0 | 1 => String::new(),
        many => format!(" Each square stands for {many} neighbours."),
    };
    let (free, open, gone) = (count("free"), count("open"), count("gone"));
    let gone = match gone {
        0 => String::new(),
        gone => format!(", {gone} out of service"),
    };
    format!(
        "{} squares of {}s: {n} closed{mean}, {open} open, {free} free{gone}.{grouped}",
        places.each.len(),
        places.of
    )
}

/// Closed places by their share of valid data, with their mean age.
fn numbers(places: &Places) -> Markup {
    let of = |step: u64| {
        let (low, high) = (step * 1000 / STEPS, (step + 1) * 1000 / STEPS);
        let closed = places.each.iter().filter(|place| place.state == "closed");
        let within = closed.filter(move |p| p.full >= low && (p.full < high || step + 1 == STEPS));
        let ages: Vec<f64> = within.map(|place| place.age as f64).collect();
        let mean = ages.iter().sum::<f64>() / ages.len().max(1) as f64;
        (low / 10, high / 10, ages.len(), mean)
    };
    html! {
        table {
            thead { tr { th scope="col" { "valid" } th scope="col" { "closed" } th scope="col" { "programs since, mean" } } }
            tbody {
                @for (low, high, count, age) in (0..STEPS).map(of) {
                    tr { th scope="row" { (low) "–" (high) " %" } td { (count) } td { (human::count(age.round())) } }
                }
            }
        }
    }
}
