//! Claims of a paper beside what was measured, figure by figure.

use crate::claim::{self, Claim, Reproduction, Tally};
use crate::human::{self, three};
use crate::table::Style;
use crate::table::grid::{Cell, Column, Grid, Tone, cell, dim, paint, strong, toned, wrapped};

/// Widest name of a claim.
const WIDEST: usize = 52;

/// Each claim on a line, then why those that are missed are, and why those that were
/// not measured were not.
#[must_use]
pub fn claims<R>(reproduction: &Reproduction<R>, style: Style) -> String {
    let mut out = caption(reproduction, style);
    let right = [Column::Right; 3];
    let mut columns = vec![Column::Left, Column::Left, Column::Left, Column::Left];
    columns.extend(right);
    columns.push(Column::Left);
    let mut grid = Grid::new(columns);
    let titles = [
        "id", "what", "of", "versus", "paper", "measured", "ratio", "holds",
    ];
    grid.row(titles.into_iter().map(strong).collect());
    let mut figure = "";
    for claim in &reproduction.claims {
        if claim.figure != figure {
            figure = &claim.figure;
            grid.heading(&format!("{}/{figure}", reproduction.paper));
        }
        grid.row(row(claim));
    }
    out += &grid.render(style);
    out += &reasons(reproduction, style);
    out += &wrapped(&tally(&reproduction.claims), style.width);
    out
}

fn caption<R>(reproduction: &Reproduction<R>, style: Style) -> String {
    let Reproduction {
        title,
        scale,
        factor,
        seed,
        ..
    } = reproduction;
    let title = paint(&human::name(title, style.width), Tone::Strong, style);
    let scale = match factor {
        1 => format!("scale {scale}: sizes of the paper; seed {seed}"),
        _ => format!("scale {scale}: sizes of the paper divided by {factor}; seed {seed}"),
    };
    let mut out = format!("{title}\n{}\n\n", paint(&scale, Tone::Dim, style));
    for note in &reproduction.notes {
        out += &wrapped(&format!("note: {note}"), style.width);
    }
    out + "\n"
}

fn row(claim: &Claim) -> Vec<Cell> {
    let number = |value: Option<f64>| cell(value.map_or(human::NOTHING.to_owned(), three));
    let holds = match claim.holds {
        Some(true) => toned("yes", Tone::Good),
        Some(false) => toned("no", Tone::Bad),
        None => dim("not measured"),
    };
    let ratio = claim.ratio.filter(|_| claim.expected.is_a_size());
    vec![
        cell(human::name(&claim.id, 8)),
        cell(human::name(&claim.what, WIDEST)),
        cell(human::name(&claim.stack, 16)),
        cell(human::name(&claim.versus, 24)),
        cell(claim.expected.to_string()),
        cell(claim.measured_text()),
        number(ratio),
        holds,
    ]
}

/// Reasons, each once, with the claims that have it.
fn reasons<R>(reproduction: &Reproduction<R>, style: Style) -> String {
    let line = |(reason, names): &(&str, Vec<String>)| {
        wrapped(&format!("{}: {reason}", names.join(", ")), style.width)
    };
    let told = claim::reasons(&reproduction.claims);
    let lines: String = told.iter().map(line).collect();
    match lines.is_empty() {
        true => lines,
        false => format!("\n{lines}\n"),
    }
}

fn tally(claims: &[Claim]) -> String {
    let tally = Tally::of(claims);
    format!(
        "{} claims hold, {} do not, {} were not measured",
        tally.hold, tally.miss, tally.unmeasured
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Expectation, REPRODUCE_SCHEMA};

    fn claim(id: &str, expected: Expectation) -> Claim {
        Claim {
            stack: "bytefs".to_owned(),
            versus: "ext4".to_owned(),
            ..Claim::unmeasured(id, "fig6", "Figure 6", "throughput".to_owned(), expected)
        }
    }

    #[test]
    fn a_claim_is_shown_with_its_reason() {
        let missed = claim("B5", Expectation::Value(2.5)).with(1.0, Some("found\u{1b} out"));
        let held = claim("B6", Expectation::Above(1.0)).with(1.5, None);
        let reproduction = Reproduction {
            schema: REPRODUCE_SCHEMA.to_owned(),
            paper: "bytefs".to_owned(),
            title: "A title".to_owned(),
            figures: vec!["fig6".to_owned()],
            scale: "small".to_owned(),
            factor: 64,
            seed: 1,
            notes: vec!["A note.".to_owned()],
            claims: vec![missed, held],
            runs: Vec::new(),
        };
        let text = claims(&reproduction, Style::default());
        let has = |part: &str| assert!(text.contains(part), "{part} is not in\n{text}");
        has("divided by 64");
        has("note: A note.");
        has("B5  throughput  bytefs  ext4      2.5         1    0.4  no");
        has("B6  throughput  bytefs  ext4      > 1       1.5      –  yes");
        has("B5 (ext4): found");
        has("1 claims hold, 1 do not, 0 were not measured");
        assert_eq!(
            crate::parse::<Reproduction>(&crate::to_json(&reproduction)).unwrap(),
            reproduction
        );
    }
}
