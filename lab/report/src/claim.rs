//! Claims of papers beside what was measured: the document `flashloom.reproduce/1`.
//!
//! Invariants: a measured value is arithmetic on records and nothing else; a field is
//! never renamed or removed within a schema version.

use crate::human::NOTHING;
use crate::record::Run;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

mod expectation;

pub use expectation::{Expectation, TOLERANCE};

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
    /// Whether it holds; none where it was not measured.
    pub holds: Option<bool>,
    /// Why it was not measured, or why it is missed.
    pub reason: Option<String>,
}

/// How many claims there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// That hold.
    pub hold: usize,
    /// That were measured and do not.
    pub miss: usize,
    /// That were not measured.
    pub unmeasured: usize,
}

impl Tally {
    /// That of `claims`.
    pub fn of<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Self {
        let mut tally = Self::default();
        for claim in claims {
            match claim.holds {
                Some(true) => tally.hold += 1,
                Some(false) => tally.miss += 1,
                None => tally.unmeasured += 1,
            }
        }
        tally
    }

    /// All of them.
    #[must_use]
    pub const fn all(self) -> usize {
        self.hold + self.miss + self.unmeasured
    }
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
        }
    }

    /// What was measured, with as many digits as what is expected has.
    #[must_use]
    pub fn measured_text(&self) -> String {
        let digits = |x| self.expected.digits(x);
        self.measured.map_or(NOTHING.to_owned(), digits)
    }

    /// This claim with `measured` beside it; `known` is why it is missed, if it is
    /// and somebody has found out.
    #[must_use]
    pub fn with(self, measured: f64, known: Option<&str>) -> Self {
        let holds = self.expected.holds(measured);
        self.judged(measured, holds, known)
    }

    /// As [`Self::with`], where it compares two values, `measured` being the one over the
    /// other: where the paper says that one is better, it has to be.
    #[must_use]
    pub fn compared(self, measured: f64, known: Option<&str>) -> Self {
        let expected = self.expected;
        let holds = expected.holds(measured) && !expected.is_contradicted_by(measured);
        self.judged(measured, holds, known)
    }

    fn judged(self, measured: f64, holds: bool, known: Option<&str>) -> Self {
        let why = || known.unwrap_or(NOT_FOUND).to_owned();
        Self {
            measured: Some(measured),
            ratio: self.expected.ratio(measured),
            holds: Some(holds),
            reason: (!holds).then(why),
            ..self
        }
    }
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
}

impl Quantity {
    /// Its value in the record that `document` is.
    ///
    /// # Errors
    /// If a pointer leads to nothing, or if what it would be divided by is 0.
    pub fn value(&self, document: &Document) -> Result<f64, String> {
        let sum = total(&self.of, document)? - total(&self.less, document)?;
        if self.over.is_empty() {
            return Ok(sum);
        }
        over(sum, total(&self.over, document)?)
            .ok_or_else(|| format!("{} is 0 in a run", self.over.join(" + ")))
    }
}

fn total(pointers: &[String], document: &Value) -> Result<f64, String> {
    pointers.iter().try_fold(0.0, |sum, pointer| {
        let found = document.pointer(pointer);
        let found = found.ok_or_else(|| format!("a record has nothing at {pointer}"))?;
        Ok(sum + numbers(found))
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

    /// Whether the value is a ratio of what is compared, so that 1 is as good as the other.
    #[must_use]
    pub fn compares(&self) -> bool {
        let ratio = matches!(self.form, Form::Gain | Form::Saving);
        ratio && self.unit == 1.0 && self.combine != Combine::ShareBelowOne
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

    #[test]
    fn a_ratio_near_the_papers_is_missed_where_what_was_better_is_worse() {
        let claim = || {
            let expected = Expectation::Value(1.1);
            Claim::unmeasured("S21", "fig23", "VI-H", String::new(), expected)
        };
        assert_eq!(claim().with(0.92, None).holds, Some(true));
        let turned = claim().compared(0.92, Some("it costs more"));
        assert_eq!(turned.holds, Some(false));
        assert_eq!(turned.reason.as_deref(), Some("it costs more"));
        assert_eq!(claim().compared(1.02, None).holds, Some(true));
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
            less: Vec::new(),
            over: list(over),
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
