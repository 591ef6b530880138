//! Claims of a paper beside the measured values, figure by figure.

use crate::claim::{self, About, Claim, Counts, Reproduction, Verdict};
use crate::human::{self, three};
use crate::table::Style;
use crate::table::grid::{Cell, Column, Grid, Tone, cell, dim, paint, strong, toned, wrapped};

/// Widest name of a claim, in columns.
const WIDEST: usize = 52;

/// The table of claims, then the reasons of those that are missed or not measured.
#[must_use]
pub fn claims<R>(reproduction: &Reproduction<R>, style: Style) -> String {
    let mut out = caption(reproduction, style);
    let right = [Column::Right; 3];
    let mut columns = vec![Column::Left, Column::Left, Column::Left, Column::Left];
    columns.extend(right);
    columns.extend([Column::Left, Column::Left]);
    let mut grid = Grid::new(columns);
    let titles = [
        "id", "what", "of", "versus", "paper", "measured", "ratio", "verdict", "set-up",
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
    out += &regime(reproduction, style);
    out += &grid.render(style);
    out += &reasons(reproduction, style);
    out + &told(Counts::of(&reproduction.claims), style)
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
    let verdict = match claim.verdict {
        Verdict::Held => toned("held", Tone::Good),
        Verdict::Missed => toned("missed", Tone::Bad),
        other => dim(other.name()),
    };
    let set_up = match (claim.about, claim.primary) {
        (About::Paper, true) => cell(human::name(&claim.set_up, 16)),
        (About::Paper, false) => dim(human::name(&claim.set_up, 16)),
        (About::Itself, _) => dim("(itself)"),
        (About::Others, _) => dim("(others)"),
        (About::Own, _) => dim("(own)"),
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
        verdict,
        set_up,
    ]
}

/// The reasons, each once, with the claims that share it.
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

/// The table of the regime: numbers that show whether the experiments are the paper's.
fn regime<R>(reproduction: &Reproduction<R>, style: Style) -> String {
    if reproduction.regimes.is_empty() {
        return String::new();
    }
    let mut columns = vec![Column::Left; 3];
    columns.extend([Column::Right; 3]);
    columns.push(Column::Left);
    let mut grid = Grid::new(columns);
    let titles = [
        "regime",
        "of",
        "set-up",
        "paper",
        "measured",
        "ratio",
        "within ×2",
    ];
    grid.row(titles.into_iter().map(strong).collect());
    for line in &reproduction.regimes {
        let number = |value: Option<f64>| cell(value.map_or(human::NOTHING.to_owned(), three));
        let same = match line.same {
            Some(true) => toned("yes", Tone::Good),
            Some(false) => toned("no", Tone::Bad),
            None => dim("not measured"),
        };
        grid.row(vec![
            cell(human::name(&line.what, WIDEST)),
            cell(human::name(&line.stack, 16)),
            cell(human::name(&line.set_up, 16)),
            cell(three(line.paper)),
            number(line.measured),
            number(line.ratio),
            same,
        ]);
    }
    grid.render(style) + "\n"
}

/// The counts of claims, those of primary set-ups first.
fn told(counts: Counts, style: Style) -> String {
    let parts = [
        ("primary set-ups", counts.primary),
        ("secondary set-ups", counts.beside),
        ("claims that do not test the paper's systems", counts.apart),
    ];
    let parts = parts.iter().filter(|(_, tally)| tally.all() > 0);
    parts
        .map(|(name, tally)| wrapped(&format!("{name}: {}", tally.told()), style.width))
        .collect()
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
            counts: Counts::default(),
            regimes: Vec::new(),
            claims: vec![missed, held],
            runs: Vec::new(),
        };
        let text = claims(&reproduction, Style::default());
        let has = |part: &str| assert!(text.contains(part), "{part} is not in\n{text}");
        has("divided by 64");
        has("note: A note.");
        has("B5  throughput  bytefs  ext4      2.5         1    0.4  missed");
        has("B6  throughput  bytefs  ext4      > 1       1.5      –  held");
        has("B5 (ext4): found");
        has("primary set-ups: 1 held, 1 missed, 0 in another regime, 0 not measured");
        assert_eq!(
            crate::parse::<Reproduction>(&crate::to_json(&reproduction)).unwrap(),
            reproduction
        );
    }
}
