//! Flows of bytes: from the application's writes through those of the file system to the NAND's
//! programs.

use crate::human;
use crate::page::parts::{Card, Slots, named};
use crate::plot::{Band, Flow, Node, Stage};
use crate::record::Run;
use maud::{Markup, html};

/// Palette slot of the application's own bytes.
const OWN: usize = 0;
/// Names and palette slots of the two interfaces of the drive.
const WAYS: [(&str, usize); 2] = [("blocks", 6), ("lines", 5)];
const DATA: &str = "data";
const HOST: &str = "host";

/// The introduction to all flows, then a flow for each run with any writes.
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
        .map(|n| (n.name, flow(n.run, &purposes, &causes)));
    let mut flows: Vec<_> = flows.collect();
    let full = flows
        .iter()
        .map(|(_, flow)| height(flow))
        .fold(0.0, f64::max);
    flows.retain(|(_, flow)| height(flow) > 0.0);
    let cards = flows.into_iter().enumerate();
    let cards = cards.map(|(i, (name, flow))| card(i, &name, &Flow { full, ..flow }));
    (intro(&purposes, &causes), cards.collect())
}

fn intro(purposes: &Slots, causes: &Slots) -> Markup {
    html! {
        p.lead {
            "Bytes written, from left to right. The part of a bar that no incoming band reaches \
             was added at that level; the part that no outgoing band leaves was not written \
             further. All flows share one scale."
        }
        (purposes.legend_of("Of the file system:"))
        (causes.legend_of("On the NAND:"))
    }
}

fn card(i: usize, name: &str, flow: &Flow) -> Markup {
    let card = Card {
        id: &format!("flow-{i}"),
        title: name,
        legend: html! {},
        reading: &added(flow),
        numbers: Some(numbers(flow)),
    };
    card.with(flow)
}

/// The bytes that the file system and the drive added, in words.
fn added(flow: &Flow) -> String {
    let of = |label: &str, who: &str, own: &str| {
        let stage = flow.stages.iter().find(|stage| stage.label == label)?;
        let others = stage.nodes.iter().filter(|node| node.label != own);
        let parts: Vec<&str> = others.map(|node| node.hint.as_str()).collect();
        Some(match parts.is_empty() {
            true => format!("The {who} added no bytes."),
            false => format!("The {who} added {}.", parts.join(", ")),
        })
    };
    let sentences = [
        of("file system", "file system", DATA),
        of("NAND", "drive", HOST),
    ];
    sentences
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ")
}

fn numbers(flow: &Flow) -> Markup {
    html! {
        table {
            tbody {
                @for stage in &flow.stages {
                    tr.group { th scope="rowgroup" { (stage.label) } td { (stage.note) } }
                    @for node in &stage.nodes {
                        tr { th scope="row" { (node.label) } td data-value=(node.value) { (human::bytes(node.value)) } }
                    }
                }
            }
        }
    }
}

fn height(flow: &Flow) -> f64 {
    flow.stages.iter().map(total).fold(0.0, f64::max)
}

fn total(stage: &Stage) -> f64 {
    stage.nodes.iter().map(|node| node.value).sum()
}

/// The stages of a run, and the bands between neighbouring stages.
fn flow(run: &Run, purposes: &Slots, causes: &Slots) -> Flow {
    let written = run.host.write_bytes as f64;
    let own = Some(written / run.waf.host).filter(|bytes| bytes.is_finite() && *bytes > 0.0);
    let application = own.map(|bytes| stage("application", vec![("application", OWN, bytes)]));
    let used = used(run, purposes, written);
    let system = stage(
        "file system",
        used.iter().map(|u| (u.0, u.1, u.2 + u.3)).collect(),
    );
    let (blocks, lines) = used.iter().fold((0.0, 0.0), |(b, l), u| (b + u.2, l + u.3));
    let ways = [(WAYS[0], blocks), (WAYS[1], lines)];
    let ways: Vec<_> = ways.into_iter().filter(|way| way.1 > 0.0).collect();
    let interface = stage(
        "interface",
        ways.iter()
            .map(|((name, slot), b)| (*name, *slot, *b))
            .collect(),
    );
    let programmed = causes.iter().filter_map(|(name, slot)| {
        let bytes = *run.nand.by_cause.get(name)? as f64;
        (bytes > 0.0).then_some((name, slot, bytes))
    });
    let nand = stage("NAND", programmed.collect());
    let first = usize::from(application.is_some());
    let mut bands = Vec::new();
    if let (Some(bytes), Some(data)) = (own, system.nodes.iter().position(|n| n.label == DATA)) {
        bands.push(band(0, 0, data, bytes.min(system.nodes[data].value)));
    }
    for (i, way) in ways.iter().enumerate() {
        let through = |u: &(&str, usize, f64, f64)| if way.0 == WAYS[0] { u.2 } else { u.3 };
        let bands_of = used.iter().enumerate();
        bands.extend(bands_of.map(|(from, u)| band(first, from, i, through(u))));
    }
    if let Some(host) = nand.nodes.iter().position(|node| node.label == HOST) {
        // The share of each interface that reached the flash is unknown if the drive's DRAM
        // absorbed some: both get the same.
        let share = (nand.nodes[host].value / written).min(1.0);
        bands.extend((0..ways.len()).map(|i| band(first + 1, i, host, ways[i].1 * share)));
    }
    let stages = application.into_iter().chain([system, interface, nand]);
    let (stages, full) = (stages.collect(), 1.0);
    Flow {
        stages,
        bands,
        full,
    }
}

const fn band(column: usize, from: usize, to: usize, value: f64) -> Band {
    Band {
        column,
        from,
        to,
        value,
    }
}

/// Host writes by purpose: name, colour, bytes by blocks and by cache lines. Data comes first.
fn used<'a>(run: &'a Run, purposes: &'a Slots, written: f64) -> Vec<(&'a str, usize, f64, f64)> {
    let used = purposes.iter().filter_map(|(name, slot)| {
        let grain = run.host.by_purpose.get(name)?.write;
        let (blocks, lines) = (grain.block as f64, grain.byte as f64);
        (blocks + lines > 0.0).then_some((name, slot, blocks, lines))
    });
    let used: Vec<_> = used.collect();
    match used.is_empty() && written > 0.0 {
        true => vec![(DATA, OWN, written, 0.0)],
        false => used,
    }
}

fn stage(label: &str, nodes: Vec<(&str, usize, f64)>) -> Stage {
    let total: f64 = nodes.iter().map(|node| node.2).sum();
    let node = |(label, slot, value): (&str, usize, f64)| Node {
        label: label.to_owned(),
        slot,
        value,
        hint: format!(
            "{label}: {} ({})",
            human::bytes(value),
            human::share(value / total)
        ),
    };
    Stage {
        label: label.to_owned(),
        note: human::bytes(total),
        nodes: nodes.into_iter().map(node).collect(),
    }
}
