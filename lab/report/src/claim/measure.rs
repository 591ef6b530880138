//! The measure of a claim: a quantity of records, compared and combined.
//!
//! Invariant: a measured value is arithmetic on records and nothing else.

use super::Document;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A number of a run: a sum, less a sum, over a sum.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantity {
    /// JSON pointers into the record, whose values are added. A pointer to an object stands for its
    /// `total`, or else for the sum of all numbers in it.
    pub of: Vec<String>,
    /// Pointers whose sum is subtracted, in the same form.
    #[serde(default)]
    pub less: Vec<String>,
    /// Pointers to the divisor, in the same form; empty for 1.
    #[serde(default)]
    pub over: Vec<String>,
    /// Whether its neutral value is 1, as for an amplification, so that it is judged as a ratio.
    #[serde(default)]
    pub ratio: bool,
    /// Whether a field missing from a record counts as 0, such as a kind of call never made.
    #[serde(default, rename = "absent-is-zero")]
    pub absent_is_zero: bool,
}

impl Quantity {
    /// The quantity in words, made of its pointers without their first slash.
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

    /// The value of the quantity in the record `document`.
    ///
    /// # Errors
    /// If a pointer leads to nothing, or if the divisor is 0.
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

/// The `total` of an object that has one, or else the sum of all numbers in `value`.
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

/// The comparison of the values of a stack and another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The value of the stack alone.
    Alone,
    /// The stack's value over the other's, for quantities that should be large.
    #[default]
    Gain,
    /// The other's value over the stack's, for quantities that should be small.
    Saving,
    /// The stack's value minus the other's.
    Excess,
}

impl Form {
    /// Compares the value of `stack` with that of `other`.
    ///
    /// # Errors
    /// If the divisor is 0.
    pub fn of(self, stack: f64, other: f64) -> Result<f64, String> {
        let value = match self {
            Self::Alone => Some(stack),
            Self::Gain => over(stack, other),
            Self::Saving => over(other, stack),
            Self::Excess => Some(stack - other),
        };
        value.ok_or_else(|| "the divisor is 0 in a run".to_owned())
    }
}

/// The combination of the values of several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Combine {
    /// The arithmetic mean of all.
    #[default]
    Mean,
    /// Their geometric mean; all are above 0.
    Geometric,
    /// The largest of all values.
    Max,
    /// The smallest of all values.
    Min,
    /// The share of values below 1.
    ShareBelowOne,
}

impl Combine {
    /// Name for readers, as in `mean of 5`.
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

    /// Combines `values`; `None` if there are none.
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

/// The measure of a claim over runs with keys of type `K`.
#[derive(Debug)]
pub struct Measure<K> {
    /// The quantity read from each run.
    pub quantity: Quantity,
    /// The comparison of the two runs of a pair.
    pub form: Form,
    /// The combination of all pairs.
    pub combine: Combine,
    /// Divisor of the result; 1 for none.
    pub unit: f64,
    /// Keys of the runs, each with that of the run to compare it with.
    pub pairs: Vec<(K, Option<K>)>,
}

impl<K: Ord> Measure<K> {
    /// Keys of all runs that the measure needs.
    pub fn runs(&self) -> impl Iterator<Item = &K> {
        let pairs = self.pairs.iter();
        let both = pairs.flat_map(|(run, other)| [Some(run), other.as_ref()]);
        both.flatten()
    }

    /// Whether the neutral value is 1: the measure compares runs, or its quantity is a ratio
    /// itself.
    #[must_use]
    pub fn is_ratio(&self) -> bool {
        let compared = matches!(self.form, Form::Gain | Form::Saving);
        let ratio = compared || (self.form == Form::Alone && self.quantity.ratio);
        ratio && self.unit == 1.0 && self.combine != Combine::ShareBelowOne
    }

    /// The quantity read from each run, and the `workloads`, in words.
    #[must_use]
    pub fn told(&self, workloads: &[String]) -> String {
        format!("{}; {}", self.quantity.told(), workloads.join(", "))
    }

    /// The combination in words: `mean of 5`; empty for a single pair.
    #[must_use]
    pub fn combined(&self) -> String {
        match self.pairs.len() {
            0 | 1 => String::new(),
            count => format!("{} of {count}", self.combine.name()),
        }
    }

    /// The value in `documents`, which must hold each of the runs, multiplied by `times`.
    ///
    /// # Errors
    /// If a run failed or lacks the quantity, or if a divisor is 0.
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
    fn quantity_sums_the_numbers_below_its_pointers() {
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
