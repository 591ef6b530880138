//! From what the application wrote to what the NAND was programmed with.

use crate::human;
use crate::page::charts::writes::parts;
use crate::page::parts::{Card, Slots, named};
use crate::plot::{Flow, Part, Stage};
use crate::record::Run;
use maud::{Markup, html};
use std::collections::BTreeMap;

/// The place in the palette of bytes that are the application's own.
const OWN: usize = 0;
const APPLICATION: &str = "application";

/// What all flows have in common, then a flow for each run that wrote anything.
pub(crate) fn all(runs: &[&Run]) -> (Markup, Vec<Markup>) {
    let purposes = runs
        .iter()
        .flat_map(|r| r.host.by_purpose.keys().map(String::as_str));
    let causes = runs
        .iter()
        .flat_map(|r| r.nand.by_cause.keys().map(String::as_str));
    let purposes = Slots::purposes(&purposes.collect());
    let causes = Slots::causes(&causes.collect());
    let flows = named(runs)
        .into_iter()
        .map(|n| (n.name, stages(n.run, &purposes, &causes)));
    let flows: Vec<_> = flows.collect();
    let full = flows.iter().map(|f| height(&f.1)).fold(0.0, f64::max);
    let drawn = flows
        .into_iter()
        .enumerate()
        .filter(|(_, flow)| height(&flow.1) > 0.0);
    let cards = drawn
        .map(|(i, (name, stages))| card(i, &name, stages, full))
        .collect();
    (intro(&purposes, &causes), cards)
}

fn intro(purposes: &Slots, causes: &Slots) -> Markup {
    html! {
        p.lead {
            "Bytes written, from left to right. The grey band is what a stage passed on; what stands \
             above it was added there. All flows share one scale."
        }
        (purposes.legend_of("At the host interface:"))
        (causes.legend_of("On the NAND:"))
    }
}

fn card(i: usize, name: &str, stages: Vec<Stage>, full: f64) -> Markup {
    let card = Card {
        id: &format!("flow-{i}"),
        title: name,
        legend: html! {},
        reading: &added(&stages),
        numbers: None,
    };
    card.with(&Flow { stages, full })
}

/// What each stage added, in words.
fn added(stages: &[Stage]) -> String {
    let sentence = |stage: &Stage| {
        let parts: Vec<&str> = stage
            .parts
            .iter()
            .skip(1)
            .map(|p| p.hint.as_str())
            .collect();
        match parts.is_empty() {
            true => format!("Nothing added at the {}.", stage.label),
            false => format!("Added at the {}: {}.", stage.label, parts.join(", ")),
        }
    };
    let later = stages.iter().filter(|stage| stage.label != APPLICATION);
    later.map(sentence).collect::<Vec<_>>().join(" ")
}

fn height(stages: &[Stage]) -> f64 {
    stages.iter().map(total).fold(0.0, f64::max)
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
