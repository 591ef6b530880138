//! All papers beside the measured values: the document `flashloom.reproduction/1`, and its
//! rendering in Markdown.
//!
//! Invariants: the Markdown is a function of the document; of one command, only the fields of
//! [`Made`] differ from one time to the next.

use crate::claim::{About, Claim, Counts, Reproduction, Verdict, reasons};
use crate::human::{self, NOTHING, name, three};
use crate::regime::{FACTOR, Line};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The schema of [`Papers`].
pub const PAPERS_SCHEMA: &str = "flashloom.reproduction/1";
/// Comments above and below the table of results, for scripts that copy it.
pub const MARKERS: (&str, &str) = ("<!-- results -->", "<!-- end of results -->");

/// Number of columns of the table of results.
const COLUMNS: usize = 11;

/// Explains in short how claims are judged and counted.
pub const RULE: &str = "A claimed ratio held if the measured ratio differs from it by at most a \
    third and has between half and twice its effect (its logarithm), in the same direction: \
    a claim of 1.31 held if 1.145 to 1.716 is measured. A claim of similarity held within a tenth, \
    an absolute value within a third, and a trend within its bound. If the experiment \
    differs from the paper's by more than a factor of two in a number that the figure declares, \
    the claim is of another regime: it neither held nor was missed, and counts as measured. \
    Headline counts cover the primary set-up of each figure, as its plan declares it; \
    secondary set-ups, and claims that do not test the paper's systems, are counted separately. \
    Median factor is the median, over primary set-ups, of the measured number over the published \
    one, or of the inverse where that is larger: ×1.50 is 50 % more, or a third less.";

/// The program that made a report, and the effort that it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Version of the program.
    pub version: String,
    /// Checksum of the program, which tells builds of one version apart.
    pub program: String,
    /// Wall time in seconds.
    pub wall_time_s: f64,
    /// Number of runs that measured the claims.
    pub runs: usize,
    /// Number of those runs that were reused from an earlier time and took no time.
    pub kept: usize,
    /// Whether later plans judged the values of an earlier report.
    #[serde(default)]
    pub judged_later: bool,
}

impl Made {
    /// All fields in one sentence.
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
        let later = match self.judged_later {
            false => "",
            true => "; judged later, by other plans",
        };
        format!("flashloom {version} (program {program}), in {time}: {runs} runs{kept}{later}")
    }
}

/// Claims of several papers, and the names of the runs that measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Papers {
    /// Schema of the document: always [`PAPERS_SCHEMA`].
    pub schema: String,
    /// Name of the scale of all runs.
    pub scale: String,
    /// The seed of all runs.
    pub seed: u64,
    /// The program that made this report; `None` in documents from before the field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Made>,
    /// The papers; for each run only the name of its file.
    pub papers: Vec<Reproduction<String>>,
}

impl Papers {
    /// A report on `papers`, all at this scale and from this seed.
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

    /// Claims of all papers, in order.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.papers.iter().flat_map(|paper| &paper.claims)
    }

    /// The counts over all papers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts::of(self.claims())
    }

    /// The table of results: its column titles, and a row for each paper. Counts are of the primary
    /// set-ups; those of secondary set-ups stand in a column of their own.
    #[must_use]
    pub fn results(&self) -> ([&'static str; COLUMNS], Vec<[String; COLUMNS]>) {
        let titles = [
            "system",
            "claims",
            "primary",
            "held",
            "missed",
            "other regime",
            "not measured",
            "held of primary",
            "held of secondary set-ups",
            "held of other claims",
            "median factor",
        ];
        let papers = self.papers.iter();
        let papers = papers.map(|p| (&*p.paper, p.claims.iter().collect::<Vec<_>>()));
        let all = ("all", self.claims().collect());
        let row = |(name, claims): (&str, Vec<&Claim>)| {
            let Counts {
                primary,
                beside,
                apart,
            } = Counts::of(claims.iter().copied());
            let within = middle(&claims).map_or(NOTHING.to_owned(), |x| format!("×{x:.2}"));
            [
                name.to_owned(),
                claims.len().to_string(),
                primary.all().to_string(),
                primary.held.to_string(),
                primary.missed.to_string(),
                primary.other_regime.to_string(),
                primary.not_measured.to_string(),
                primary.share(),
                beside.share(),
                apart.share(),
                within,
            ]
        };
        (titles, papers.chain([all]).map(row).collect())
    }

    /// The whole report in Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let (scale, seed) = (text(&self.scale), self.seed);
        let (above, below) = MARKERS;
        let made = self.made.as_ref().map_or(String::new(), |made| {
            format!("By {}.\n\n", text(&made.told()))
        });
        let mut out = format!(
            "# Claims of the papers and measured values\n\n\
             Made by `flashloom reproduce --scale {scale} --seed {seed}`. {RULE}\n\n\
             {made}{above}\n{}{below}\n",
            table(self)
        );
        for paper in &self.papers {
            out += &chapter(paper);
        }
        out
    }
}

/// The table of results in Markdown, one line for each paper.
fn table(papers: &Papers) -> String {
    let (titles, rows) = papers.results();
    let mut out = format!(
        "| {} |\n| --- |{}\n",
        titles.join(" | "),
        " ---: |".repeat(COLUMNS - 1)
    );
    for cells in rows {
        let _ = writeln!(out, "| {} |", cells.map(|cell| text(&cell)).join(" | "));
    }
    out
}

/// The median distance of all measured sizes from the paper's, as a factor above 1.
fn middle(claims: &[&Claim]) -> Option<f64> {
    let counted = |claim: &&&Claim| claim.primary && claim.about == About::Paper;
    let sizes = claims.iter().filter(counted);
    let sizes = sizes.filter(|claim| claim.expected.is_a_size());
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
    let counts = Counts::of(&paper.claims);
    let _ = writeln!(out, "\nPrimary set-ups: {}.", counts.primary.told());
    for (name, tally) in [
        ("Secondary set-ups", counts.beside),
        ("Claims that do not test the paper's systems", counts.apart),
    ] {
        if tally.all() > 0 {
            let _ = writeln!(out, "\n{name}: {}.", tally.told());
        }
    }
    for figure in &paper.figures {
        let claims = paper.claims.iter().filter(|claim| claim.figure == *figure);
        let opens = |line: &&Line| line.figures.contains(figure);
        out += &section(
            &format!("{}/{figure}", paper.paper),
            &paper.regimes.iter().filter(opens).collect::<Vec<_>>(),
            &claims.collect::<Vec<_>>(),
        );
    }
    out
}

/// The lines of the regime that open a figure, as a table in Markdown.
fn regime(lines: &[&Line]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "| regime | of | set-up | paper | here | ratio | within ×{FACTOR} | from |\n\
         | --- | --- | --- | ---: | ---: | ---: | --- | --- |\n"
    );
    let number = |value: Option<f64>| value.map_or(NOTHING.to_owned(), three);
    for line in lines {
        let same = match line.same {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "not measured",
        };
        let (paper, here, ratio) = (three(line.paper), number(line.measured), number(line.ratio));
        let [what, stack, set_up, source] =
            [&line.what, &line.stack, &line.set_up, &line.source].map(|told| text(told));
        let _ = writeln!(
            out,
            "| {what} | {stack} | {set_up} | {paper} | {here} | {ratio} | {same} | {source} |"
        );
    }
    out + "\n"
}

fn section(name: &str, lines: &[&Line], claims: &[&Claim]) -> String {
    let mut out = format!(
        "\n### {}\n\n{}\
         | id | where | what | of | beside | set-up | paper | here | ratio | verdict |\n\
         | --- | --- | --- | --- | --- | --- | ---: | ---: | ---: | --- |\n",
        text(name),
        regime(lines)
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
    let verdict = match claim.verdict {
        Verdict::Missed => "**missed**".to_owned(),
        other => other.name().to_owned(),
    };
    let set_up = match (claim.about, claim.primary) {
        (About::Paper, true) => format!("{} (primary)", claim.set_up),
        (About::Paper, false) => claim.set_up.clone(),
        (About::Itself, _) => "compares one core with itself".to_owned(),
        (About::Others, _) => "decided by another file system".to_owned(),
        (About::Own, _) => "not in the paper".to_owned(),
    };
    let ratio = claim.ratio.filter(|_| claim.expected.is_a_size());
    let cells = [
        text(&claim.id),
        text(&claim.source),
        what,
        text(&claim.stack),
        text(&claim.versus),
        text(&set_up),
        text(&claim.expected.to_string()),
        claim.measured_text(),
        number(ratio),
        verdict,
    ];
    format!("| {} |\n", cells.join(" | "))
}

/// `told` on one line, with Markdown's special characters escaped.
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
    use crate::claim::{Expectation, REPRODUCE_SCHEMA};

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
            counts: Counts::of(&claims),
            regimes: Vec::new(),
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
        let row = "| skybyte | 4 | 4 | 1 | 2 | 0 | 1 | 1 of 3 (33 %) | 0 of 0 | 0 of 0 | ×4.00 |";
        assert!(table.lines().any(|line| line == row), "{table}");
        assert!(
            table.lines().any(|line| line.starts_with("| all | 4 |")),
            "{table}"
        );
    }

    /// Fails if set-ups are added up, or if another regime counts as not measured.
    #[test]
    fn table_counts_primary_set_ups_and_shares_of_all_measured() {
        let held = claim(Expectation::Value(2.0)).with(2.5, None);
        let line = Line::of(&held, Some(9.0), Vec::new());
        let other = claim(Expectation::Value(2.0)).judged(2.0, false, &[&line], None);
        let beside = Claim {
            primary: false,
            ..held.clone()
        };
        let table = table(&papers(vec![held, other, beside]));
        let row = "| skybyte | 3 | 2 | 1 | 0 | 1 | 0 | 1 of 2 (50 %) | 1 of 1 (100 %) | 0 of 0 |";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn figure_opens_with_its_regime() {
        let mut all = papers(vec![claim(Expectation::Above(1.0)).with(2.0, None)]);
        let misses = Claim {
            what: "misses".to_owned(),
            ..claim(Expectation::Value(39.4))
        };
        all.papers[0].regimes = vec![Line {
            figures: vec!["fig2".to_owned()],
            ..Line::of(&misses, Some(119.0), Vec::new())
        }];
        let text = all.markdown();
        let row = "| misses |  |  | 39.4 | 119 | 3.02 | **no** | Figure 2 |";
        assert!(
            text.find(row) < text.find("| S1 |") && text.contains(row),
            "{text}"
        );
    }

    #[test]
    fn a_text_has_every_claim_and_nothing_that_breaks_its_tables() {
        let missed = claim(Expectation::Below(0.5)).with(1.0, Some("found *out*"));
        let text = papers(vec![missed]).markdown();
        let row = "| S1 | Figure 2 | time \\| of &lt;all&gt; |  |  |  (primary) | &lt; 0.5 | 1 | – | **missed** |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("- S1: found \\*out\\*\n"), "{text}");
        assert!(text.contains(MARKERS.0) && text.contains(MARKERS.1));
    }

    #[test]
    fn markdown_head_names_the_program_that_made_it() {
        let all = papers(vec![claim(Expectation::Above(1.0))]);
        let plain = all.markdown();
        let made = Made {
            version: "1.2.3".to_owned(),
            program: "00ff".to_owned(),
            wall_time_s: 90.0,
            runs: 1_200,
            kept: 3,
            judged_later: false,
        };
        let told = Papers {
            made: Some(made),
            ..all
        };
        let told = told.markdown();
        let line = "By flashloom 1.2.3 (program 00ff), in 90.0 s: 1,200 runs, 3 of them kept \
                    from before.\n\n";
        assert_eq!(told.replace(line, ""), plain);
        assert!(told.find(line) < told.find(MARKERS.0), "{told}");
    }
}
