//! The page of all papers: how many claims hold, and how far each number is off.
//!
//! Invariant: every claim of the document is in a table of the page, whichever rows are shown; only
//! claims with a ratio have dots.

use super::{document, switch};
use crate::claim::{
    About, Claim, Counts, Expectation, Reproduction, TOLERANCE, Tally, Verdict, reasons,
};
use crate::human::{self, NOTHING, three};
use crate::page::parts::Card;
use crate::papers::{PAPERS_SCHEMA, Papers, RULE};
use crate::plot::{Dot, Dots, Row};
use crate::regime::Line;
use maud::{Markup, html};

/// Palette slots of dots: numbers that hold and that do not, and trends by their expected
/// direction.
const HOLDS: usize = 0;
const MISSES: usize = 1;
const UP: usize = 2;
const DOWN: usize = 4;

/// The page of `papers`. `command` as in [`super::comparison()`].
#[must_use]
pub fn papers(papers: &Papers, command: &str) -> String {
    let (all, primary) = (papers.claims().count(), papers.counts().primary);
    let lead = html! {
        p.lead {
            (all) " claims of " (papers.papers.len()) " papers, at the scale "
            code { (papers.scale) } ", seed " (papers.seed) ". In primary set-ups "
            (primary.share()) " held."
        }
        details { summary { "Verdicts" } p.lead { (RULE) } }
        @if let Some(made) = &papers.made { p.lead { "Made by " (made.told()) "." } }
        (switch::claims())
        nav aria-label="Papers" {
            ul.papers { @for paper in &papers.papers { li { a href={ "#" (paper.paper) } { (paper.paper) } } } }
        }
    };
    let body = html! {
        h2 { "Results" }
        (results(papers))
        @for paper in &papers.papers { (chapter(paper)) }
    };
    let foot = html! {
        footer {
            div {
                p { "Made from a document of the schema " code { (PAPERS_SCHEMA) } ", which lies beside this page." }
                @if !command.is_empty() { p { code { (command) } } }
            }
        }
    };
    document("papers beside what is measured", &lead, &body, &[foot])
}

/// The table of results, one row for each paper, with bars of its claims.
fn results(papers: &Papers) -> Markup {
    let (titles, rows) = papers.results();
    let tallies = papers.papers.iter().map(|paper| paper.counts.primary);
    let tallies: Vec<Tally> = tallies.chain([papers.counts().primary]).collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Results by paper" {
            table {
                thead { tr { @for title in titles { th scope="col" { (title) } } th scope="col" { "" } } }
                tbody {
                    @for (cells, tally) in rows.iter().zip(&tallies) {
                        tr {
                            th scope="row" { (cells[0]) }
                            @for cell in &cells[1..] { td { (cell) } }
                            td { (bar(tally)) }
                        }
                    }
                }
            }
        }
        p.lead.below {
            b { "Median factor" } " is the median factor between measured and published number in \
                primary set-ups; ×1.00 is equality."
        }
    }
}

fn bar(tally: &Tally) -> Markup {
    let share = |count: usize| 100.0 * count as f64 / tally.all().max(1) as f64;
    let parts = [
        ("hold", tally.held),
        ("miss", tally.missed),
        ("else", tally.other_regime),
        ("open", tally.not_measured),
    ];
    html! {
        span.bar role="img" aria-label=(tally.told()) {
            @for (class, count) in parts { span class=(class) style={ "width:" (format!("{:.1}", share(count))) "%" } {} }
        }
    }
}

fn chapter(paper: &Reproduction<String>) -> Markup {
    let Counts {
        primary,
        beside,
        apart,
    } = paper.counts;
    html! {
        section id=(paper.paper) {
            h2 { (paper.title) }
            p {
                "Primary set-ups: " (primary.told()) ". "
                @if beside.all() > 0 { "Secondary set-ups: " (beside.told()) ". " }
                @if apart.all() > 0 { "Claims that do not test the paper's systems: " (apart.told()) ". " }
                @match paper.factor {
                    1 => "Sizes of the paper.",
                    factor => { "Sizes of the paper divided by " (factor) "." }
                }
            }
            @if !paper.notes.is_empty() {
                details {
                    summary { "Set-ups" }
                    ul.findings { @for note in &paper.notes { li { (note) } } }
                }
            }
            div.cards {
                @for figure in &paper.figures { (figure_of(paper, figure)) }
            }
        }
    }
}

/// One figure of a paper: its dots, its claims, and the reasons of those that are missed.
fn figure_of(paper: &Reproduction<String>, figure: &str) -> Markup {
    let claims: Vec<&Claim> = paper
        .claims
        .iter()
        .filter(|claim| claim.figure == *figure)
        .collect();
    let name = format!("{}/{figure}", paper.paper);
    let told = reasons(claims.iter().copied());
    let rows: Vec<Row> = claims.iter().filter_map(|claim| row(claim)).collect();
    let opens = |line: &&Line| line.figures.iter().any(|name| name == figure);
    let lines: Vec<&Line> = paper.regimes.iter().filter(opens).collect();
    let about = html! {
        @if !lines.is_empty() { (regime(&name, &lines)) }
        (table(&name, &claims))
        @if !told.is_empty() {
            ul.reasons { @for (reason, names) in &told { li { b { (names.join(", ")) } ": " (reason) } } }
        }
    };
    if rows.is_empty() {
        return html! { div.card { h3 { (name) } (about) } };
    }
    let card = Card {
        id: &format!("dots-{}-{figure}", paper.paper),
        title: &name,
        legend: html! {},
        reading: "What was measured over the paper's number; equal steps are equal ratios. Discs held, \
                  squares did not; a triangle is a trend, which has to be on the side to which it points.",
        numbers: None,
    };
    let dots = Dots {
        axis: "measured over paper".to_owned(),
        rows,
        band: Some((1.0 - TOLERANCE, 1.0 + TOLERANCE)),
    };
    html! { div.figure { (card.with(&dots)) div.card { (about) } } }
}

/// The row of dots of a claim; `None` if it has no ratio.
fn row(claim: &Claim) -> Option<Row> {
    let ratio = claim.ratio.filter(|ratio| ratio.is_finite())?;
    let slot = match (claim.expected, claim.holds?) {
        (Expectation::Above(_) | Expectation::More(..), _) => UP,
        (Expectation::Below(_) | Expectation::Less(..), _) => DOWN,
        (_, true) => HOLDS,
        (_, false) => MISSES,
    };
    let label = label(claim);
    let hint = format!("{label}: {ratio:.3} of {}", claim.expected);
    Some(Row {
        note: human::times(ratio),
        class: claim.verdict.class(),
        dots: vec![Dot { ratio, slot, hint }],
        label,
    })
}

fn label(claim: &Claim) -> String {
    let mut label = format!("{} {}", claim.id, claim.what);
    for part in [&claim.stack, &claim.versus]
        .into_iter()
        .filter(|part| !part.is_empty())
    {
        label += &format!(", {part}");
    }
    label
}

fn table(name: &str, claims: &[&Claim]) -> Markup {
    let number = |value: Option<f64>| value.map_or(NOTHING.to_owned(), three);
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Claims of " (name) } {
            table {
                thead {
                    tr {
                        @for title in ["claim", "of", "beside", "set-up", "paper", "here", "ratio", "verdict"] {
                            th scope="col" { (title) }
                        }
                    }
                }
                tbody {
                    @for claim in claims {
                        tr class=(claim.verdict.class()) {
                            th.claim scope="row" {
                                b { (claim.id) } " " (claim.what)
                                @if !claim.combined.is_empty() { " (" (claim.combined) ")" }
                                small { (claim.source) }
                            }
                            td { (claim.stack) } td { (claim.versus) } td { (set_up(claim)) }
                            td { (claim.expected) }
                            td { (claim.measured_text()) }
                            td { (number(claim.ratio.filter(|_| claim.expected.is_a_size()))) }
                            td { @match claim.verdict { Verdict::Missed => b { "missed" }, other => (other.name()) } }
                        }
                    }
                }
            }
        }
    }
}

/// The set-up of `claim`, or a note that it does not test the paper's systems.
fn set_up(claim: &Claim) -> Markup {
    html! {
        @match claim.about {
            About::Paper if claim.primary => { (claim.set_up) " " b { "primary" } }
            About::Paper => (claim.set_up),
            About::Itself => "one core with itself",
            About::Others => "decided by another file system",
            About::Own => "not in the paper",
        }
    }
}

/// The table of the lines of the regime that open a figure.
fn regime(name: &str, lines: &[&Line]) -> Markup {
    let number = |value: Option<f64>| value.map_or(NOTHING.to_owned(), three);
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Regime of " (name) } {
            table {
                thead {
                    tr {
                        @for title in ["regime", "of", "set-up", "paper", "here", "ratio", "within ×2"] {
                            th scope="col" { (title) }
                        }
                    }
                }
                tbody {
                    @for line in lines {
                        tr {
                            th.claim scope="row" { (line.what) small { (line.source) } }
                            td { (line.stack) } td { (line.set_up) }
                            td { (three(line.paper)) } td { (number(line.measured)) } td { (number(line.ratio)) }
                            td { @match line.same { Some(true) => "yes", Some(false) => b { "no" }, None => "not measured" } }
                        }
                    }
                }
            }
        }
    }
}
