//! Claims of papers beside what was measured: the document `flashloom.reproduce/1`.
//!
//! Invariants: a measured value is arithmetic on records and nothing else; a field is
//! never renamed or removed within a schema version.

use crate::human::{NOTHING, three};
use crate::record::Run;
use crate::regime::Line;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

mod expectation;
mod measure;
mod verdict;

pub use expectation::{Expectation, TOLERANCE};
pub use measure::{Combine, Form, Measure, Quantity};
pub use verdict::{About, Counts, Tally, Verdict};

/// The schema of [`Reproduction`].
pub const REPRODUCE_SCHEMA: &str = "flashloom.reproduce/1";

/// The reason of a missed claim whose cause has not been found yet.
pub const NOT_FOUND: &str = "not found yet";

/// A record as a JSON document; a [`Quantity`] points into it.
pub type Document = Value;

/// The JSON document of a run's record.
///
/// # Panics
/// Never for a record: all keys of its maps are text.
pub fn document(run: &impl Serialize) -> Document {
    serde_json::to_value(run).expect("the keys of a record's maps are text")
}

/// The documents of `runs` by their keys; for a run that failed, the reason of the failure.
pub fn documents<'k, K: Ord, R: Serialize>(
    keys: &'k [K],
    runs: &[Result<R, String>],
) -> BTreeMap<&'k K, Result<Document, String>> {
    let documents = runs.iter().map(|run| match run {
        Ok(run) => Ok(document(run)),
        Err(why) => Err(why.clone()),
    });
    keys.iter().zip(documents).collect()
}

/// The claims of a paper, and the runs that measured them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction<R = Run> {
    /// Schema of the document: always [`REPRODUCE_SCHEMA`].
    pub schema: String,
    /// The paper's short name, such as `bytefs`.
    pub paper: String,
    /// The paper's full title.
    pub title: String,
    /// Names of the figures that were requested.
    pub figures: Vec<String>,
    /// Name of the scale that the runs had.
    pub scale: String,
    /// Divisor between the sizes of the paper and those of the runs.
    pub factor: u64,
    /// The seed of all runs; the first one if there are several.
    pub seed: u64,
    /// Notes on the set-up and on its deviations from the paper, one sentence each.
    pub notes: Vec<String>,
    /// Counts of the claims, by set-up and verdict.
    #[serde(default)]
    pub counts: Counts,
    /// Lines of the regime: numbers that show whether the experiments are the paper's.
    #[serde(default)]
    pub regimes: Vec<Line>,
    /// The claims, in the order of the figures.
    pub claims: Vec<Claim>,
    /// The records behind the values; runs that failed have none.
    pub runs: Vec<R>,
}

impl<R> Reproduction<R> {
    /// This report, with its runs replaced by `runs`.
    #[must_use]
    pub fn with_runs<N>(self, runs: Vec<N>) -> Reproduction<N> {
        Reproduction {
            schema: self.schema,
            paper: self.paper,
            title: self.title,
            figures: self.figures,
            scale: self.scale,
            factor: self.factor,
            seed: self.seed,
            notes: self.notes,
            counts: self.counts,
            regimes: self.regimes,
            claims: self.claims,
            runs,
        }
    }
}

/// A claim of a paper and its measured value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Identifier in the list of the paper's claims; several claims may share one.
    pub id: String,
    /// Name of the figure whose plan has the claim.
    pub figure: String,
    /// Section, figure or table of the paper that makes the claim.
    pub source: String,
    /// The claimed quantity in a few words.
    pub what: String,
    /// The host that the claim is about; empty if it is about none.
    pub stack: String,
    /// The host to compare `stack` with; empty if the claim is an absolute value.
    pub versus: String,
    /// The combination of several runs, such as `mean of 5`; empty for one run.
    #[serde(default)]
    pub combined: String,
    /// The value, range or trend that the paper states.
    pub expected: Expectation,
    /// The paper's number: the lower end of a range, the bound of a trend; `None` if the paper
    /// gives none.
    pub paper: Option<f64>,
    /// The measured value; `None` if it could not be measured.
    pub measured: Option<f64>,
    /// Measured value over that of the paper; 1 within a range.
    pub ratio: Option<f64>,
    /// Largest distance of the ratio from 1 at which the claim holds; 0 for a trend.
    pub tolerance: f64,
    /// Whether the verdict is [`Verdict::Held`]; `None` if it was not measured.
    pub holds: Option<bool>,
    /// Why the claim was not measured, belongs to another regime, or is missed.
    pub reason: Option<String>,
    /// The verdict of the measured value against the expected one.
    #[serde(default)]
    pub verdict: Verdict,
    /// Name of the set-up that measures the claim.
    #[serde(default)]
    pub set_up: String,
    /// Whether `set_up` is the primary one of its figure; headline counts are over primary set-ups.
    #[serde(default)]
    pub primary: bool,
    /// The system that the claim tests: the paper's, or another one.
    #[serde(default)]
    pub about: About,
    /// The lines of the regime that differ from the paper by more than a factor of two.
    #[serde(default)]
    pub regime: Vec<String>,
    /// The quantity read from each run, as pointers into its record, and the workloads.
    #[serde(default)]
    pub trial: String,
    /// The least and the largest value over the seeds; `None` for one seed.
    #[serde(default)]
    pub spread: Option<(f64, f64)>,
}

/// Reasons of `claims`, each once, with the names of the claims that share it.
pub fn reasons<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Vec<(&'a str, Vec<String>)> {
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    for claim in claims {
        let Some(reason) = &claim.reason else {
            continue;
        };
        let name = match claim.versus.is_empty() {
            true => claim.id.clone(),
            false => format!("{} ({})", claim.id, claim.versus),
        };
        match told.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => told.push((reason, vec![name])),
        }
    }
    told
}

impl Claim {
    /// The unmeasured claim `id` of the plan `figure`: section `source` of the paper states
    /// `expected` for the quantity `what`.
    #[must_use]
    pub fn unmeasured(
        id: &str,
        figure: &str,
        source: &str,
        what: String,
        expected: Expectation,
    ) -> Self {
        Self {
            id: id.to_owned(),
            figure: figure.to_owned(),
            source: source.to_owned(),
            what,
            stack: String::new(),
            versus: String::new(),
            combined: String::new(),
            expected,
            paper: expected.paper(),
            measured: None,
            ratio: None,
            tolerance: expected.tolerance(),
            holds: None,
            reason: None,
            verdict: Verdict::NotMeasured,
            set_up: String::new(),
            primary: true,
            about: About::Paper,
            regime: Vec::new(),
            trial: String::new(),
            spread: None,
        }
    }

    /// The measured value with as many digits as the expected one, and its spread over seeds.
    #[must_use]
    pub fn measured_text(&self) -> String {
        let digits = |x| self.expected.digits(x);
        let value = self.measured.map_or(NOTHING.to_owned(), digits);
        match self.spread {
            Some((least, largest)) => format!("{value} ({} to {})", digits(least), digits(largest)),
            None => value,
        }
    }

    /// This claim with the absolute value `measured`. `known` is the reason for a miss, if it has
    /// been found.
    #[must_use]
    pub fn with(self, measured: f64, known: Option<&str>) -> Self {
        self.judged(measured, false, &[], known)
    }

    /// This claim with the value `measured`, a ratio if `as_ratio`. The lines in `differing` are
    /// those of the regime that are not the paper's; if there are any, the verdict is
    /// [`Verdict::OtherRegime`].
    #[must_use]
    pub fn judged(
        self,
        measured: f64,
        as_ratio: bool,
        differing: &[&Line],
        known: Option<&str>,
    ) -> Self {
        let verdict = match self.expected.holds(measured, as_ratio) {
            _ if !differing.is_empty() => Verdict::OtherRegime,
            true => Verdict::Held,
            false => Verdict::Missed,
        };
        let reason = match verdict {
            Verdict::OtherRegime => Some(another(differing)),
            Verdict::Missed => Some(known.unwrap_or(NOT_FOUND).to_owned()),
            Verdict::Held | Verdict::NotMeasured => None,
        };
        Self {
            measured: Some(measured),
            ratio: self.expected.ratio(measured),
            holds: verdict.holds(),
            reason,
            verdict,
            regime: differing.iter().map(|line| line.what.clone()).collect(),
            ..self
        }
    }
}

impl<R> Reproduction<R> {
    /// This report over several seeds: values of the first seed, and the spread over it and
    /// `others`, whose claims are the same. A claim whose verdict differs between seeds gets none.
    #[must_use]
    pub fn over_seeds(mut self, others: Vec<Self>) -> Self {
        for (index, claim) in self.claims.iter_mut().enumerate() {
            let others: Vec<&Claim> = others.iter().map(|other| &other.claims[index]).collect();
            claim.spread_over(&others);
        }
        self.counts = Counts::of(&self.claims);
        self.runs
            .extend(others.into_iter().flat_map(|other| other.runs));
        self
    }
}

impl Claim {
    fn spread_over(&mut self, others: &[&Self]) {
        let values = || {
            others
                .iter()
                .filter_map(|other| other.measured)
                .chain(self.measured)
        };
        let Some(least) = values().reduce(f64::min).filter(|_| !others.is_empty()) else {
            return;
        };
        let largest = values().fold(least, f64::max);
        self.spread = Some((least, largest));
        if others.iter().any(|other| other.verdict != self.verdict) {
            let (least, largest) = (three(least), three(largest));
            let seeds = others.len() + 1;
            self.reason = Some(format!(
                "no verdict inside the spread of {seeds} seeds, {least} to {largest}"
            ));
            (self.verdict, self.holds) = (Verdict::NotMeasured, None);
        }
    }
}

/// The reason of a claim of another regime: the differing lines with both values.
fn another(differing: &[&Line]) -> String {
    let told = |line: &&Line| {
        let ours = line.measured.map_or(NOTHING.to_owned(), three);
        format!("{} {ours} for {}", line.what, three(line.paper))
    };
    let told: Vec<String> = differing.iter().map(told).collect();
    format!("another experiment than the paper's: {}", told.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(expected: Expectation) -> Claim {
        Claim::unmeasured("S21", "fig23", "VI-H", String::new(), expected)
    }

    /// Fails if `holds` is set for another verdict than held or missed.
    #[test]
    fn verdict_of_a_claim_sets_its_field_holds() {
        let of = |measured: f64| {
            let judged = claim(Expectation::Value(1.31)).judged(measured, true, &[], None);
            (judged.verdict, judged.holds)
        };
        assert_eq!(of(1.2), (Verdict::Held, Some(true)));
        assert_eq!(of(1.0008), (Verdict::Missed, Some(false)));
        let open = claim(Expectation::Value(1.31));
        assert_eq!((open.verdict, open.holds), (Verdict::NotMeasured, None));
        let turned = claim(Expectation::Value(1.1)).judged(0.92, true, &[], Some("it costs more"));
        assert_eq!(turned.reason.as_deref(), Some("it costs more"));
    }

    /// Fails if nearness to the paper's value outweighs a difference of the experiment.
    #[test]
    fn claim_of_another_regime_neither_held_nor_was_missed() {
        let mpki = claim(Expectation::Value(39.4));
        let line = Line::of(&mpki, Some(119.0), Vec::new());
        for measured in [1.31, 5.0] {
            let judged = claim(Expectation::Value(1.31)).judged(measured, true, &[&line], None);
            assert_eq!(
                (judged.verdict, judged.holds),
                (Verdict::OtherRegime, Some(false))
            );
            assert!(judged.reason.unwrap().contains("119 for 39.4"));
        }
    }

    /// Fails if a verdict is given that another seed reverses.
    #[test]
    fn claim_whose_seeds_disagree_has_a_spread_and_no_verdict() {
        let of = |values: [f64; 2]| {
            let [first, second] = values.map(|value| Reproduction::<()> {
                claims: vec![claim(Expectation::Value(1.31)).judged(value, true, &[], None)],
                ..Reproduction::default()
            });
            first.over_seeds(vec![second]).claims.remove(0)
        };
        let agreed = of([1.2, 1.25]);
        assert_eq!(
            (agreed.verdict, agreed.measured),
            (Verdict::Held, Some(1.2))
        );
        assert_eq!(agreed.spread, Some((1.2, 1.25)));
        let split = of([1.2, 1.1]);
        assert_eq!((split.verdict, split.holds), (Verdict::NotMeasured, None));
        assert!(split.reason.unwrap().contains("2 seeds, 1.1 to 1.2"));
    }

    #[test]
    fn counts_keep_set_ups_and_claims_of_others_apart() {
        let held = claim(Expectation::Above(1.0)).with(2.0, None);
        let missed = claim(Expectation::Above(1.0)).with(0.5, None);
        let beside = Claim {
            primary: false,
            ..held.clone()
        };
        let apart = Claim {
            about: About::Itself,
            ..held.clone()
        };
        let all = [held, missed, claim(Expectation::Other), beside, apart];
        let counts = Counts::of(&all);
        let tally = |counts: Tally| (counts.held, counts.missed, counts.not_measured);
        assert_eq!(tally(counts.primary), (1, 1, 1));
        assert_eq!(
            (tally(counts.beside), tally(counts.apart)),
            ((1, 0, 0), (1, 0, 0))
        );
        assert_eq!(counts.primary.share(), "1 of 2 (50 %)");
    }
}
