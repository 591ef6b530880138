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

/// What a claim says where nobody has found out yet why it is missed.
pub const NOT_FOUND: &str = "not found yet";

/// A record as its JSON document is read: what [`Quantity`] points into.
pub type Document = Value;

/// The document of a run's record.
///
/// # Panics
/// Never of a record: it has no map whose keys are not text.
pub fn document(run: &impl Serialize) -> Document {
    serde_json::to_value(run).expect("the keys of a record's maps are text")
}

/// The documents of `runs`, each by its key; of a run that failed why it did.
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

/// The claims of a paper, and the runs that they were measured by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reproduction<R = Run> {
    /// Always [`REPRODUCE_SCHEMA`].
    pub schema: String,
    /// The paper's short name.
    pub paper: String,
    /// Its title.
    pub title: String,
    /// Names of the figures that were asked for.
    pub figures: Vec<String>,
    /// The name of the scale.
    pub scale: String,
    /// What sizes of the paper were divided by.
    pub factor: u64,
    /// The seed of all runs.
    pub seed: u64,
    /// What was set up, and where it differs from the paper, in sentences.
    pub notes: Vec<String>,
    /// Counts of the claims, by set-up and verdict.
    #[serde(default)]
    pub counts: Counts,
    /// Numbers that say whether the experiments are the paper's.
    #[serde(default)]
    pub regimes: Vec<Line>,
    /// The claims, figure by figure.
    pub claims: Vec<Claim>,
    /// The records that the values come from, but for those of runs that failed.
    pub runs: Vec<R>,
}

impl<R> Reproduction<R> {
    /// It, with `runs` in the place of its own.
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

/// A claim, and what was measured of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// Its number in the list of the paper's claims; several may have one number.
    pub id: String,
    /// The figure whose plan it belongs to.
    pub figure: String,
    /// Where the paper says it.
    pub source: String,
    /// What is claimed, in a few words.
    pub what: String,
    /// The host that it is claimed of; empty where it is of none.
    pub stack: String,
    /// What that is compared with; empty where it is with nothing.
    pub versus: String,
    /// How values of several runs became one: `mean of 5`; empty where there is one.
    #[serde(default)]
    pub combined: String,
    /// What is expected.
    pub expected: Expectation,
    /// The number of the paper: of a range its lower end, of a trend its bound; none
    /// where the paper gives none.
    pub paper: Option<f64>,
    /// What was measured.
    pub measured: Option<f64>,
    /// Measured over paper; within a range 1.
    pub ratio: Option<f64>,
    /// How far the ratio may be from 1; of a trend 0.
    pub tolerance: f64,
    /// Whether its verdict is [`Verdict::Held`]; none where it was not measured.
    pub holds: Option<bool>,
    /// Why it was not measured, of which other regime it is, or why it is missed.
    pub reason: Option<String>,
    /// What became of it.
    #[serde(default)]
    pub verdict: Verdict,
    /// The set-up that it is measured in.
    #[serde(default)]
    pub set_up: String,
    /// Whether that is the primary set-up of its figure, which headline counts are of.
    #[serde(default)]
    pub primary: bool,
    /// Which system it is a test of.
    #[serde(default)]
    pub about: About,
    /// The lines of the regime that differ by more than a factor of two.
    #[serde(default)]
    pub regime: Vec<String>,
    /// The quantity that is read of each run, as pointers into its record, and the workloads.
    #[serde(default)]
    pub trial: String,
    /// The least and the largest value over the seeds that were run; none of one seed.
    #[serde(default)]
    pub spread: Option<(f64, f64)>,
}

/// Reasons of `claims`, each once, with the names of the claims that have it.
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
    /// Claim `id` of the plan `figure`, as the paper has it in `source`: that of `what`
    /// there is what is `expected`. Nothing was measured of it.
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

    /// What was measured, with as many digits as what is expected has, and its spread.
    #[must_use]
    pub fn measured_text(&self) -> String {
        let digits = |x| self.expected.digits(x);
        let value = self.measured.map_or(NOTHING.to_owned(), digits);
        match self.spread {
            Some((least, largest)) => format!("{value} ({} to {})", digits(least), digits(largest)),
            None => value,
        }
    }

    /// This claim with the absolute value `measured` beside it; `known` is why it is missed, if
    /// it is and the reason has been found.
    #[must_use]
    pub fn with(self, measured: f64, known: Option<&str>) -> Self {
        self.judged(measured, false, &[], known)
    }

    /// This claim with `measured` beside it, which is a ratio or not, in a regime of which the
    /// lines in `differing` are not the paper's.
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
    /// It over several seeds: values of the first, and the spread over it and `others`, which have
    /// the same claims. Where the verdicts of the seeds differ there is none.
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

/// The reason of a claim of another regime.
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

    /// Fails where `holds` says more than whether a claim held.
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

    /// Fails where nearness to the paper's value outweighs another experiment.
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

    /// Fails where a verdict is told that another seed turns.
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
