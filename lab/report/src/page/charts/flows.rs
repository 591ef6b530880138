//! From what the application wrote to what the NAND was programmed with.

use crate::human;
use crate::page::charts::writes::parts;
use crate::page::parts::{Card, Slots, named};
use crate::plot::{Flow, Part, Stage};
use crate::record::Run;
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};

const READING: &str = "The grey band is data on its way down; what stands above it was added by that \
                       stage. All stacks share one scale.";
/// The place in the palette of bytes that are the application's own.
const OWN: usize = 0;

/// A flow for each run that wrote anything.
pub(crate) fn all(runs: &[&Run]) -> Vec<Markup> {
    let purposes: BTreeSet<&str> = runs
        .iter()
        .flat_map(|r| r.host.by_purpose.keys().map(String::as_str))
        .collect();
    let causes: BTreeSet<&str> = runs
        .iter()
        .flat_map(|r| r.nand.by_cause.keys().map(String::as_str))
        .collect();
    let rest = purposes
        .into_iter()
        .filter(|p| *p != "data")
        .map(str::to_owned);
    // Data of the application comes first: it is what the band carries on.
    let purposes = Slots::ordered(["data".to_owned()].into_iter().chain(rest).collect());
    let causes = Slots::causes(&causes);
    let flows: Vec<_> = named(runs)
        .into_iter()
        .map(|n| (n.name, stages(n.run, &purposes, &causes)))
        .collect();
    let height = |stages: &[Stage]| stages.iter().map(total).fold(0.0, f64::max);
    let full = flows.iter().map(|f| height(&f.1)).fold(0.0, f64::max);
    let drawn = flows
        .into_iter()
        .enumerate()
        .filter(|(_, flow)| height(&flow.1) > 0.0);
    drawn
        .map(|(i, (name, stages))| card(i, &name, stages, full))
        .collect()
}

fn card(i: usize, name: &str, stages: Vec<Stage>, full: f64) -> Markup {
    let card = Card {
        id: &format!("flow-{i}"),
        title: name,
        legend: html! {},
        reading: READING,
        numbers: Some(numbers(&stages)),
    };
    card.with(&Flow { stages, full })
}

fn total(stage: &Stage) -> f64 {
    stage.parts.iter().map(|p| p.value).sum()
}

fn stages(run: &Run, purposes: &Slots, causes: &Slots) -> Vec<Stage> {
    let written = run.host.write_bytes as f64;
    let own = Some(written / run.waf.host).filter(|bytes| bytes.is_finite());
    let application = own.map(|bytes| {
        stage(
            "application",
            vec![whole("written by the application", bytes)],
        )
    });
    let by_purpose = by_purpose(run);
    let host = match by_purpose.is_empty() {
        true => vec![whole("written by the host", written)],
        false => parts(&by_purpose, purposes, written),
    };
    let programmed = run.nand.by_cause.values().map(|b| *b as f64).sum();
    let nand = stage("NAND", parts(&run.nand.by_cause, causes, programmed));
    application
        .into_iter()
        .chain([stage("host interface", host), nand])
        .collect()
}

fn by_purpose(run: &Run) -> BTreeMap<String, u64> {
    let written = run
        .host
        .by_purpose
        .iter()
        .map(|(purpose, d)| (purpose.clone(), d.write.byte.saturating_add(d.write.block)));
    written.filter(|w| w.1 > 0).collect()
}

fn whole(what: &str, bytes: f64) -> Part {
    Part {
        slot: OWN,
        value: bytes,
        hint: format!("{what}: {}", human::bytes(bytes)),
    }
}

fn stage(label: &str, parts: Vec<Part>) -> Stage {
    let total: f64 = parts.iter().map(|p| p.value).sum();
    Stage {
        label: label.to_owned(),
        note: human::bytes(total),
        parts,
    }
}

fn numbers(stages: &[Stage]) -> Markup {
    html! {
        table {
            tbody {
                @for stage in stages {
                    tr.group { th scope="rowgroup" { (stage.label) } td { (stage.note) } }
                    @for part in &stage.parts {
                        @let (name, words) = part.hint.rsplit_once(": ").unwrap_or((&part.hint, ""));
                        tr { th scope="row" { (name) } td { (words) } }
                    }
                }
            }
        }
    }
}
