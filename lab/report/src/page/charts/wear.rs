//! Charts of the victims of garbage collection, and of the wear of blocks.

use crate::human;
use crate::page::parts::{Card, Named, named};
use crate::plot::{Axis, Bin, Histograms, Kind, Strip};
use crate::record::Run;
use maud::{Markup, html};

/// The victims of garbage collection and the wear of blocks.
pub(crate) fn all(runs: &[&Run]) -> Vec<Markup> {
    [victims(runs), wear(runs)].into_iter().flatten().collect()
}

fn victims(runs: &[&Run]) -> Option<Markup> {
    let strips: Vec<Strip> = named(runs).iter().filter_map(victims_of).collect();
    let reading = "Garbage collection is cheap if reclaimed superblocks hold little valid data: \
        distributions further left are better.";
    let axis = Axis::new(
        "valid share of a reclaimed line",
        Kind::Share,
        [1.0].into_iter(),
    );
    card(
        "victims",
        "Reclaimed superblocks, by share of valid data",
        reading,
        axis,
        strips,
    )
}

fn victims_of(named: &Named<'_>) -> Option<Strip> {
    let counts = &named.run.gc.victim_valid_histogram;
    let mean = named.run.gc.mean_valid?;
    let total: f64 = counts.iter().map(|n| *n as f64).sum();
    let edge = |i: usize| i as f64 / counts.len() as f64;
    let bins = counts.iter().enumerate().map(|(i, lines)| Bin {
        from: edge(i),
        to: edge(i + 1),
        share: *lines as f64 / total,
        hint: format!(
            "{:.0}–{:.0} % valid: {} lines",
            edge(i) * 100.0,
            edge(i + 1) * 100.0,
            human::count(*lines as f64)
        ),
    });
    Some(Strip {
        label: named.name.clone(),
        note: format!(
            "{} lines, mean {}",
            human::count(named.run.gc.lines as f64),
            human::share(mean)
        ),
        slot: named.slot,
        bins: bins.collect(),
    })
}

fn wear(runs: &[&Run]) -> Option<Markup> {
    let strips: Vec<Strip> = named(runs).iter().filter_map(wear_of).collect();
    let reading = "A narrow peak is even wear; a long tail to the right wears out first.";
    let most = strips.iter().flat_map(|s| &s.bins).map(|b| b.to);
    let axis = Axis::new("erases of a block", Kind::Number, most);
    card("wear", "Blocks, by number of erases", reading, axis, strips)
}

fn wear_of(named: &Named<'_>) -> Option<Strip> {
    let wear = &named.run.wear;
    let blocks: f64 = wear.histogram.iter().map(|b| b.1 as f64).sum();
    if blocks == 0.0 {
        return None;
    }
    let mut from = 0.0;
    let bins = wear.histogram.iter().map(|&(at_most, count)| {
        // A bin holds whole erases: "at most 3" ends at 4.
        let to = at_most as f64 + 1.0;
        let hint = format!(
            "{from:.0}–{at_most} erases: {} blocks",
            human::count(count as f64)
        );
        let bin = Bin {
            from,
            to,
            share: count as f64 / blocks,
            hint,
        };
        from = to;
        bin
    });
    Some(Strip {
        label: named.name.clone(),
        slot: named.slot,
        bins: bins.collect(),
        note: format!(
            "mean {}, most {}",
            human::factor(wear.mean_erases),
            human::count(wear.max_erases as f64)
        ),
    })
}

fn card(id: &str, title: &str, reading: &str, axis: Axis, strips: Vec<Strip>) -> Option<Markup> {
    if strips.is_empty() {
        return None;
    }
    let numbers = numbers(&strips);
    let card = Card {
        id,
        title,
        legend: html! {},
        reading,
        numbers: Some(numbers),
    };
    Some(card.with(&Histograms { axis, strips }))
}

fn numbers(strips: &[Strip]) -> Markup {
    html! {
        table {
            tbody {
                @for strip in strips {
                    tr.group { th scope="rowgroup" { (strip.label) } td { (strip.note) } }
                    @for bin in strip.bins.iter().filter(|bin| bin.share > 0.0) {
                        @let (name, words) = bin.hint.rsplit_once(": ").unwrap_or((&bin.hint, ""));
                        tr { th scope="row" { (name) } td data-value=(bin.share) { (words) } }
                    }
                }
            }
        }
    }
}
