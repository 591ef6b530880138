//! All papers beside what was measured: the document `flashloom.reproduction/1`, and the
//! same as a text in Markdown.
//!
//! Invariants: the text is a function of the document; of that only what made it, and how long
//! it took, differs from one time to the next.

use crate::claim::{Claim, Expectation, Reproduction, Tally, reasons};
use crate::human::{self, NOTHING, name, three};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The schema of [`Papers`].
pub const PAPERS_SCHEMA: &str = "flashloom.reproduction/1";
/// What stands above and below the table of results, for who copies it.
pub const MARKERS: (&str, &str) = ("<!-- results -->", "<!-- end of results -->");

/// Which program made a report, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// The version of the program.
    pub version: String,
    /// Its checksum, which tells builds of one version apart.
    pub program: String,
    /// Wall time.
    pub wall_time_s: f64,
    /// Runs that the claims were measured by.
    pub runs: usize,
    /// How many of them were kept from before and took no time.
    pub kept: usize,
}

impl Made {
    /// The same in words.
    pub(crate) fn told(&self) -> String {
        let (version, program) = (&self.version, &self.program);
        let (time, runs) = (
            human::time(self.wall_time_s * 1e9),
            human::count(self.runs as f64),
        );
        let kept = match self.kept {
            0 => String::new(),
            kept => format!(", {} of them kept from before", human::count(kept as f64)),
        };
        format!("flashloom {version} (program {program}), in {time}: {runs} runs{kept}")
    }
}

/// Claims of several papers, and the names of the runs that they were measured by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Papers {
    /// Always [`PAPERS_SCHEMA`].
    pub schema: String,
    /// The name of the scale.
    pub scale: String,
    /// The seed of all runs.
    pub seed: u64,
    /// What made this; none in documents from before it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// The papers; of each run only the name of the file that keeps it.
    pub papers: Vec<Reproduction<String>>,
}

impl Papers {
    /// Of `papers`, all at this scale and from this seed.
    #[must_use]
    pub fn new(scale: &str, seed: u64, papers: Vec<Reproduction<String>>) -> Self {
        Self {
            schema: PAPERS_SCHEMA.to_owned(),
            scale: scale.to_owned(),
            seed,
            made: None,
            papers,
        }
    }

    /// The same, and what made it.
    #[must_use]
    pub fn made_by(mut self, made: Made) -> Self {
        self.made = Some(made);
        self
    }

    /// All claims.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.papers.iter().flat_map(|paper| &paper.claims)
    }

    /// The table of results: what its columns are called, and a row a paper.
    #[must_use]
    pub fn results(&self) -> ([&'static str; 7], Vec<[String; 7]>) {
        let titles = [
            "paper",
            "claims",
            "measured",
            "hold",
            "do not",
            "not measured",
            "half are within",
        ];
        let papers = self.papers.iter();
        let papers = papers.map(|p| (&*p.paper, p.claims.iter().collect::<Vec<_>>()));
        let all = ("all", self.claims().collect());
        let row = |(name, claims): (&str, Vec<&Claim>)| {
            let tally = Tally::of(claims.iter().copied());
            let within = middle(&claims).map_or(NOTHING.to_owned(), |x| format!("×{x:.2}"));
            let (all, measured) = (tally.all(), tally.hold + tally.miss);
            let counts = [all, measured, tally.hold, tally.miss, tally.unmeasured];
            let [all, measured, hold, miss, unmeasured] = counts.map(|count| count.to_string());
            let name = name.to_owned();
            [name, all, measured, hold, miss, unmeasured, within]
        };
        (titles, papers.chain([all]).map(row).collect())
    }

    /// All of it as a text in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let (scale, seed) = (text(&self.scale), self.seed);
        let (above, below) = MARKERS;
        let made = self.made.as_ref().map_or(String::new(), |made| {
            format!("By {}.\n\n", text(&made.told()))
        });
        let mut out = format!(
            "# What the papers claim beside what is measured here\n\n\
             Made by `flashloom reproduce --scale {scale} --seed {seed}`. A number holds that is \
             within a third of the paper's, a ratio only if what is better there, by more than \
             5 %, is better here, and a trend that goes its way. *Half are within* says how \
             far the middle one of all numbers is from the paper's: ×1.50 is half as much again, or \
             a third less.\n\n{made}{above}\n{}{below}\n",
            table(self)
        );
        for paper in &self.papers {
            out += &chapter(paper);
        }
        out
    }
}

/// The results as a table in Markdown.
fn table(papers: &Papers) -> String {
    let (titles, rows) = papers.results();
    let mut out = format!(
        "| {} |\n| --- |{}\n",
        titles.join(" | "),
        " ---: |".repeat(6)
    );
    for cells in rows {
        let _ = writeln!(out, "| {} |", cells.map(|cell| text(&cell)).join(" | "));
    }
    out
}

/// How far the middle one of all numbers is from the paper's, as a factor above 1.
fn middle(claims: &[&Claim]) -> Option<f64> {
    let sizes = claims.iter().filter(|claim| claim.expected.is_a_size());
    let mut far: Vec<f64> = sizes.filter_map(|c| Some(c.ratio?.ln().abs())).collect();
    far.sort_by(f64::total_cmp);
    far.get(far.len() / 2).map(|x| x.exp())
}

fn chapter(paper: &Reproduction<String>) -> String {
    let mut out = format!("\n## {}\n\n", text(&paper.title));
    let _ = match paper.factor {
        1 => writeln!(out, "Sizes of the paper."),
        factor => writeln!(out, "Sizes of the paper divided by {factor}."),
    };
    for note in &paper.notes {
        let _ = write!(out, "\n{}\n", text(note));
    }
    for figure in &paper.figures {
        let claims = paper.claims.iter().filter(|claim| claim.figure == *figure);
        out += &section(
            &format!("{}/{figure}", paper.paper),
            &claims.collect::<Vec<_>>(),
        );
    }
    out
}

fn section(name: &str, claims: &[&Claim]) -> String {
    let mut out = format!(
        "\n### {}\n\n\
         | id | where | what | of | beside | paper | here | ratio | holds |\n\
         | --- | --- | --- | --- | --- | ---: | ---: | ---: | --- |\n",
        text(name)
    );
    for claim in claims {
        out += &row(claim);
    }
    let told = reasons(claims.iter().copied());
    if !told.is_empty() {
        out.push('\n');
    }
    for (reason, names) in told {
        let _ = writeln!(out, "- {}: {}", text(&names.join(", ")), text(reason));
    }
    out
}

fn row(claim: &Claim) -> String {
    let number = |value: Option<f64>| value.map_or(NOTHING.to_owned(), three);
    let what = match claim.combined.is_empty() {
        true => text(&claim.what),
        false => format!("{} ({})", text(&claim.what), claim.combined),
    };
    let holds = match claim.holds {
        Some(true) => "yes",
        Some(false) => "**no**",
        None => "not measured",
    };
    let paper = match claim.expected {
        Expectation::Above(x) => format!("&gt; {}", three(x)),
        Expectation::Below(x) => format!("&lt; {}", three(x)),
        other => other.to_string(),
    };
    let ratio = claim.ratio.filter(|_| claim.expected.is_a_size());
    let cells = [
        text(&claim.id),
        text(&claim.source),
        what,
        text(&claim.stack),
        text(&claim.versus),
        paper,
        claim.measured_text(),
        number(ratio),
        holds.to_owned(),
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// `told` on one line, with nothing that Markdown would take for its own.
fn text(told: &str) -> String {
    let mut out = String::new();
    for c in name(told, usize::MAX).chars() {
        match c {
            '\\' | '|' | '*' | '_' | '`' | '[' | ']' | '#' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::REPRODUCE_SCHEMA;

    fn claim(expected: Expectation) -> Claim {
        let what = "time | of <all>".to_owned();
        Claim::unmeasured("S1", "fig2", "Figure 2", what, expected)
    }

    fn papers(claims: Vec<Claim>) -> Papers {
        let paper = Reproduction {
            schema: REPRODUCE_SCHEMA.to_owned(),
            paper: "skybyte".to_owned(),
            title: "Flash".to_owned(),
            figures: vec!["fig2".to_owned()],
            scale: "small".to_owned(),
            factor: 64,
            seed: 1,
            notes: vec!["A note".to_owned()],
            claims,
            runs: Vec::new(),
        };
        Papers::new("small", 1, vec![paper])
    }

    #[test]
    fn the_table_counts_each_kind() {
        let held = claim(Expectation::Value(2.0)).with(2.5, None);
        let far = claim(Expectation::Value(2.0)).with(8.0, Some("a reason"));
        let wrong = claim(Expectation::Above(2.0)).with(1.0, None);
        let table = table(&papers(vec![held, far, wrong, claim(Expectation::Other)]));
        let row = "| skybyte | 4 | 3 | 1 | 2 | 1 | ×4.00 |";
        assert!(table.lines().any(|line| line == row), "{table}");
        assert!(
            table.lines().any(|line| line.starts_with("| all | 4 |")),
            "{table}"
        );
    }

    #[test]
    fn a_text_has_every_claim_and_nothing_that_breaks_its_tables() {
        let missed = claim(Expectation::Below(0.5)).with(1.0, Some("found *out*"));
        let text = papers(vec![missed]).markdown();
        let row = "| S1 | Figure 2 | time \\| of &lt;all&gt; |  |  | &lt; 0.5 | 1 | – | **no** |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("- S1: found \\*out\\*\n"), "{text}");
        assert!(text.contains(MARKERS.0) && text.contains(MARKERS.1));
    }

    #[test]
    fn the_head_says_what_made_it() {
        let all = papers(vec![claim(Expectation::Above(1.0))]);
        let plain = all.markdown();
        let made = Made {
            version: "1.2.3".to_owned(),
            program: "00ff".to_owned(),
            wall_time_s: 90.0,
            runs: 1_200,
            kept: 3,
        };
        let told = all.made_by(made).markdown();
        let line = "By flashloom 1.2.3 (program 00ff), in 90.0 s: 1,200 runs, 3 of them kept \
                    from before.\n\n";
        assert_eq!(told.replace(line, ""), plain);
        assert!(told.find(line) < told.find(MARKERS.0), "{told}");
    }
}
