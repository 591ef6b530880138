//! Records as one self-contained HTML file: no network, no script, no font. Light and dark, from
//! 360 px up.
//!
//! Invariants: every text of a record is escaped, also inside the embedded
//! JSON; a policy in the head forbids scripts and requests, so that a hostile
//! name stays inert even if an escape were missed; every cell of the metrics
//! table carries its raw value in `data-value` and its JSON pointer in
//! `data-path`, so that a page can be checked against the document.

mod charts;
mod papers;
mod parts;
mod sheet;
mod switch;
mod tables;

pub use papers::papers;
pub use sheet::{Line, Sheet, SheetCell, Stacks, sheet};

use crate::attribution::{findings, sentences};
use crate::caution;
use crate::configuration::{self, Difference};
use crate::human;
use crate::json::{Document, to_json};
use crate::placement::placement;
use crate::ranking::LeftOut;
use crate::record::{Comparison, Run};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// Content security policy: a browser may apply the page's own styles, nothing else.
pub const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The page of a comparison, with the stacks `left_out` of it. The footer shows `command`, the
/// command line that made it; empty for none.
#[must_use]
pub fn comparison(comparison: &Comparison, left_out: &[LeftOut], command: &str) -> String {
    let runs: Vec<&Run> = comparison.runs.iter().collect();
    let stacks = runs.len();
    let lead = html! {
        p.lead {
            (stacks) @if stacks == 1 { " stack" } @else { " stacks" }
            ", seed " (comparison.seed) @if let Some(run) = runs.first() { " · " (drive(run)) }
        }
        (list(&findings(&comparison.runs)))
        (list(&placement(&comparison.runs)))
        @if let Some(line) = configuration::batteries(&comparison.runs) {
            p { (line) "." }
        }
        @if !comparison.differences.is_empty() {
            p { "Besides the interface of their drives the stacks differ in:" }
            (list(&comparison.differences.iter().map(Difference::line).collect::<Vec<_>>()))
        }
        (failures(&runs))
        (list(&caution::lines(&runs)))
        @for LeftOut { stack, reason } in left_out {
            p.bad { "Left out: " (human::name(stack, 80)) ": " (human::name(reason, 400)) }
        }
    };
    let body = html! {
        h2 { "Summary" }
        (tables::metrics(&runs))
        (section("Comparison", &charts::glance::all(&runs)))
        (figures(&runs))
        (handles(&runs))
    };
    let foot = footer(Comparison::SCHEMA, comparison.seed, command);
    document(
        &comparison.workload,
        &lead,
        &body,
        &[foot, embedded(comparison)],
    )
}

/// The page of one run; `command` as in [`comparison()`].
#[must_use]
pub fn run(run: &Run, command: &str) -> String {
    let title = format!("{} · {}", run.stack, run.workload);
    let runs = [run];
    let lead = html! {
        p.lead { "Seed " (run.seed) ", " (run.precondition) " drive · " (drive(run)) }
        (list(&sentences(run)))
        (list(&placement(std::slice::from_ref(run))))
        (failures(&runs))
        (list(&caution::lines(&runs)))
    };
    let body = html! {
        h2 { "Summary" }
        (tables::details(run))
        (figures(&runs))
        (tables::matrix(run))
        (handles(&runs))
    };
    let foot = footer(Run::SCHEMA, run.seed, command);
    document(&title, &lead, &body, &[foot, embedded(run)])
}

/// A page made of these parts; `last` follows its main part.
fn document(title: &str, lead: &Markup, body: &Markup, last: &[Markup]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { "Flashloom: " (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the summary" }
                header { (switch::theme()) h1 { (title) } (lead) }
                main #main tabindex="-1" { (body) }
                @for part in last { (part) }
            }
        }
    };
    page.into_string()
}

fn embedded<D: Document>(record: &D) -> Markup {
    embedded_text(&to_json(record))
}

/// Escapes a document so that no text in it can end the script element or open a comment: JSON
/// reads `\u003c` as `<`, HTML does not.
fn embedded_text(json: &str) -> Markup {
    let text = json
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026");
    html! { script #record type="application/json" { (PreEscaped(text)) } }
}

fn drive(run: &Run) -> String {
    let drive = &run.drive;
    format!(
        "{} of {}, {}, {} cycles",
        human::bytes(drive.raw_bytes as f64),
        drive.nand,
        drive.geometry,
        human::count(drive.endurance_cycles as f64)
    )
}

fn list(sentences: &[String]) -> Markup {
    html! {
        @if !sentences.is_empty() {
            ul.findings { @for sentence in sentences { li { (sentence) } } }
        }
    }
}

fn failures(runs: &[&Run]) -> Markup {
    html! {
        @for run in runs.iter().filter(|run| !run.errors.is_empty()) {
            p.bad { (crate::table::failures(run)) }
        }
    }
}

/// The sections of plots, for pages of one or several runs.
fn figures(runs: &[&Run]) -> Markup {
    let timed: Vec<_> = parts::named(runs)
        .into_iter()
        .filter(|n| !n.run.timeline.is_empty())
        .collect();
    html! {
        (section("Latency", &charts::latency::all(runs)))
        (section("Page programs by cause", &charts::writes::all(runs)))
        @let (intro, flows) = charts::flows::all(runs);
        @if !flows.is_empty() {
            h2 { "From the application to the NAND" }
            (intro)
            div.cards { @for flow in &flows { (flow) } }
        }
        (section("Over time", &charts::time::all(&timed)))
        @let places = charts::places::all(runs);
        @if !places.is_empty() {
            h2 { "Placement of data at the end of the run" }
            (charts::places::intro())
            div.cards { @for map in &places { (map) } }
        }
        (section("Garbage collection and wear", &charts::wear::all(runs)))
    }
}

/// A heading with its figures; nothing if no run has data for them.
fn section(title: &str, figures: &[Markup]) -> Markup {
    html! {
        @if !figures.is_empty() {
            h2 { (title) }
            div.cards { @for figure in figures { (figure) } }
        }
    }
}

fn handles(runs: &[&Run]) -> Markup {
    html! {
        @if runs.iter().any(|run| !run.handles.is_empty()) {
            h2 { "Placement handles" }
            div.cards {
                @for named in parts::named(runs).iter().filter(|n| !n.run.handles.is_empty()) {
                    (tables::handles(named))
                }
            }
        }
    }
}

fn footer(schema: &str, seed: u64, command: &str) -> Markup {
    html! {
        footer {
            div {
                p {
                    "Schema " code { (schema) } ", seed " code { (seed) } ". "
                    "Everything but wall time and memory is the same for the same command and seed."
                }
                @if !command.is_empty() {
                    p { code { (command) } }
                }
                p { "The record itself is embedded as JSON in the element " code { "#record" } "." }
            }
        }
    }
}
