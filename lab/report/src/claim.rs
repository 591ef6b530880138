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
mod verdict;

pub use expectation::{Expectation, TOLERANCE};
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        }
    }

    /// What was measured, with as many digits as what is expected has.
    #[must_use]
    pub fn measured_text(&self) -> String {
        let digits = |x| self.expected.digits(x);
        self.measured.map_or(NOTHING.to_owned(), digits)
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

/// The reason of a claim of another regime.
fn another(differing: &[&Line]) -> String {
    let told = |line: &&Line| {
        let ours = line.measured.map_or(NOTHING.to_owned(), three);
        format!("{} {ours} for {}", line.what, three(line.paper))
    };
    let told: Vec<String> = differing.iter().map(told).collect();
    format!("another experiment than the paper's: {}", told.join("; "))
}

/// A number of a run: a sum, less a sum, over a sum.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// JSON pointers into the record; one that leads to an object stands for all
    /// numbers in it, and for its `total` if it has one.
    pub of: Vec<String>,
    /// What is taken off the sum of those, in the same form.
    #[serde(default)]
    pub less: Vec<String>,
    /// What the rest is divided by, in the same form; nothing for 1.
    #[serde(default)]
    pub over: Vec<String>,
    /// Whether 1 is no effect of it, as of an amplification, so that it is judged as a ratio.
    #[serde(default)]
    pub ratio: bool,
    /// Whether what a record does not have counts as 0, as calls of a kind that nothing made.
    #[serde(default, rename = "absent-is-zero")]
    pub absent_is_zero: bool,
}

impl Quantity {
    /// It in words, by its pointers without their first slash.
    #[must_use]
    pub fn told(&self) -> String {
        let list = |pointers: &[String]| {
            let fields = pointers
                .iter()
                .map(|p| p.trim_start_matches('/').replace('/', "."));
            fields.collect::<Vec<_>>().join(" + ")
        };
        let mut told = list(&self.of);
        for (word, pointers) in [(" less ", &self.less), (" over ", &self.over)] {
            if !pointers.is_empty() {
                told += word;
                told += &list(pointers);
            }
        }
        told
    }

    /// Its value in the record that `document` is.
    ///
    /// # Errors
    /// If a pointer leads to nothing, or if what it would be divided by is 0.
    pub fn value(&self, document: &Document) -> Result<f64, String> {
        let total = |pointers: &[String]| total(pointers, document, self.absent_is_zero);
        let sum = total(&self.of)? - total(&self.less)?;
        if self.over.is_empty() {
            return Ok(sum);
        }
        over(sum, total(&self.over)?)
            .ok_or_else(|| format!("{} is 0 in a run", self.over.join(" + ")))
    }
}

fn total(pointers: &[String], document: &Value, absent_is_zero: bool) -> Result<f64, String> {
    pointers
        .iter()
        .try_fold(0.0, |sum, pointer| match document.pointer(pointer) {
            Some(found) => Ok(sum + numbers(found)),
            None if absent_is_zero => Ok(sum),
            None => Err(format!("a record has nothing at {pointer}")),
        })
}

/// The sum of all numbers in `value`; where a `total` stands beside its parts it alone.
fn numbers(value: &Value) -> f64 {
    match value {
        Value::Number(number) => number.as_f64().unwrap_or_default(),
        Value::Object(map) => match map.get("total") {
            Some(total) => numbers(total),
            None => map.values().map(numbers).sum(),
        },
        _ => 0.0,
    }
}

fn over(a: f64, b: f64) -> Option<f64> {
    (b != 0.0).then(|| a / b)
}

/// What is made of one value, or of two that are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The value of the stack by itself.
    Alone,
    /// The stack's over the other's: of what should be much.
    #[default]
    Gain,
    /// The other's over the stack's: of what should be little.
    Saving,
    /// How much more the stack's is than the other's.
    Excess,
}

impl Form {
    /// What it makes of `stack` and `other`.
    ///
    /// # Errors
    /// If it would divide by 0.
    pub fn of(self, stack: f64, other: f64) -> Result<f64, String> {
        let value = match self {
            Self::Alone => Some(stack),
            Self::Gain => over(stack, other),
            Self::Saving => over(other, stack),
            Self::Excess => Some(stack - other),
        };
        value.ok_or_else(|| "what it is divided by is 0 in a run".to_owned())
    }
}

/// How values of several runs become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The geometric mean, of values above 0.
    Geometric,
    /// The largest.
    Max,
    /// The least.
    Min,
    /// The share of those below 1.
    ShareBelowOne,
}

impl Combine {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Geometric => "geometric mean",
            Self::Max => "largest",
            Self::Min => "least",
            Self::ShareBelowOne => "share below one",
        }
    }

    /// What it makes of `values`; none of none.
    #[must_use]
    pub fn of(self, values: &[f64]) -> Option<f64> {
        let count = values.len() as f64;
        let all = values.iter().copied();
        match self {
            _ if values.is_empty() => None,
            Self::Mean => Some(all.sum::<f64>() / count),
            Self::Geometric => Some((all.map(f64::ln).sum::<f64>() / count).exp()),
            Self::Max => all.reduce(f64::max),
            Self::Min => all.reduce(f64::min),
            Self::ShareBelowOne => Some(all.filter(|&x| x < 1.0).count() as f64 / count),
        }
    }
}

/// What it takes to measure a claim, of runs that are called by `K`.
#[derive(Debug)]
pub struct Measure<K> {
    /// What is read of each run.
    pub quantity: Quantity,
    /// What becomes of two runs.
    pub form: Form,
    /// What becomes of all pairs.
    pub combine: Combine,
    /// What the value is divided by.
    pub unit: f64,
    /// Runs, each with the one that it is compared with.
    pub pairs: Vec<(K, Option<K>)>,
}

impl<K: Ord> Measure<K> {
    /// The runs that it takes.
    pub fn runs(&self) -> impl Iterator<Item = &K> {
        let pairs = self.pairs.iter();
        let both = pairs.flat_map(|(run, other)| [Some(run), other.as_ref()]);
        both.flatten()
    }

    /// Whether the value is a ratio: of what is compared, or of a quantity that is one, so that
    /// 1 is no effect.
    #[must_use]
    pub fn is_ratio(&self) -> bool {
        let compared = matches!(self.form, Form::Gain | Form::Saving);
        let ratio = compared || (self.form == Form::Alone && self.quantity.ratio);
        ratio && self.unit == 1.0 && self.combine != Combine::ShareBelowOne
    }

    /// What is read of each run, under which `workloads`.
    #[must_use]
    pub fn told(&self, workloads: &[String]) -> String {
        format!("{}; {}", self.quantity.told(), workloads.join(", "))
    }

    /// How values become one, if there are several: `mean of 5`.
    #[must_use]
    pub fn combined(&self) -> String {
        match self.pairs.len() {
            0 | 1 => String::new(),
            count => format!("{} of {count}", self.combine.name()),
        }
    }

    /// The value in `documents`, which hold each of the runs, `times` as large.
    ///
    /// # Errors
    /// If a run failed or has nothing of the quantity, or if there would be a division
    /// by 0.
    pub fn of(
        &self,
        documents: &BTreeMap<&K, Result<Document, String>>,
        times: f64,
    ) -> Result<f64, String> {
        let value = |run: &K| match &documents[run] {
            Ok(document) => self.quantity.value(document),
            Err(why) => Err(format!("a run of it failed: {why}")),
        };
        let mut values = Vec::new();
        for (run, other) in &self.pairs {
            let other = other.as_ref().map_or(Ok(1.0), value)?;
            values.push(self.form.of(value(run)?, other)?);
        }
        let combined = self.combine.of(&values);
        Ok(combined.ok_or("there is no run of it")? * times / self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

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

    #[test]
    fn a_quantity_sums_what_is_below_its_pointers() {
        let record = json!({"host": {
            "inode": {"read": {"byte": 1, "block": 2}, "write": {"byte": 4, "block": 8}},
            "data": {"read": {"byte": 0, "block": 100}, "write": {"byte": 0, "block": 0}},
        }, "name": "7", "none": 0});
        let list = |pointers: &[&str]| pointers.iter().map(|&p| p.to_owned()).collect();
        let quantity = |of: &[&str], over: &[&str]| Quantity {
            of: list(of),
            over: list(over),
            less: Vec::new(),
            ratio: false,
            absent_is_zero: false,
        };
        let value = |of: &[&str], over: &[&str]| quantity(of, over).value(&record);
        let less = Quantity {
            less: list(&["/host/inode/read"]),
            ..quantity(&["/host/inode"], &["/host/data"])
        };
        assert_eq!(less.value(&record), Ok(12.0 / 100.0));
        assert_eq!(value(&["/host/inode"], &[]), Ok(15.0));
        assert_eq!(value(&["/host/inode/write", "/host/data"], &[]), Ok(112.0));
        assert_eq!(value(&["/host/inode/read"], &["/host"]), Ok(3.0 / 115.0));
        let totalled = json!({"data": {"write": {"byte": 1, "block": 2, "total": 3}}, "all": 6});
        let share = quantity(&["/data/write"], &["/all"]).value(&totalled);
        assert_eq!(share, Ok(0.5), "parts and their total are counted once");
        assert!(value(&["/host"], &["/none"]).unwrap_err().contains("/none"));
        assert!(value(&["/hosts"], &[]).unwrap_err().contains("/hosts"));
        let absent = Quantity {
            absent_is_zero: true,
            ..quantity(&["/hosts"], &["/host"])
        };
        assert_eq!(absent.value(&record), Ok(0.0));
    }

    #[test]
    fn values_are_compared_and_combined() {
        assert_eq!(Form::Gain.of(6.0, 2.0), Ok(3.0));
        assert_eq!(Form::Saving.of(2.0, 6.0), Ok(3.0));
        assert_eq!(Form::Alone.of(2.0, 0.0), Ok(2.0));
        assert_eq!(Form::Excess.of(2.0, 0.0), Ok(2.0));
        assert!(Form::Gain.of(1.0, 0.0).is_err() && Form::Saving.of(0.0, 1.0).is_err());
        let combined = |how: Combine| how.of(&[0.5, 1.0, 3.0]).unwrap();
        assert_eq!(combined(Combine::Mean), 1.5);
        assert_eq!((combined(Combine::Max), combined(Combine::Min)), (3.0, 0.5));
        assert_eq!(combined(Combine::ShareBelowOne), 1.0 / 3.0);
        let geometric = Combine::Geometric.of(&[2.0, 4.0, 8.0]).unwrap();
        assert!((geometric - 4.0).abs() < 1e-12);
        assert_eq!(Combine::Mean.of(&[]), None);
    }
}
