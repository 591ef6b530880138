//! Values of a rule file, with their positions for errors.

use super::RuleError;
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use units::did_you_mean;

/// The rule file that is being parsed.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
}

impl Source<'_> {
    pub(crate) fn error(&self, at: usize, problem: impl Into<String>) -> RuleError {
        RuleError::at(self.file, self.text, at, problem)
    }
}

/// A value and its position, a byte offset.
#[derive(Clone, Copy)]
pub(crate) struct Value<'a> {
    source: Source<'a>,
    at: usize,
    value: &'a DeValue<'a>,
}

/// A table whose keys are all known.
pub(crate) struct Entries<'a> {
    source: Source<'a>,
    at: usize,
    map: BTreeMap<&'a str, Value<'a>>,
}

impl<'a> Entries<'a> {
    /// The entries of `table`; a key that is not among `known` is an error.
    pub(crate) fn of(
        source: Source<'a>,
        at: usize,
        table: &'a DeTable<'a>,
        known: &[&str],
    ) -> Result<Self, RuleError> {
        let mut entries: Vec<_> = table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut map = BTreeMap::new();
        for (key, value) in entries {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                let meant = did_you_mean(name, known.iter().copied());
                let all = known.join(", ");
                let problem = format!("expected one of {all}, found {name:?}{meant}");
                return Err(source.error(key.span().start, problem));
            }
            map.insert(name, Value::new(source, value));
        }
        Ok(Self { source, at, map })
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value<'a>> {
        self.map.get(key).copied()
    }

    pub(crate) fn need(&self, key: &str, what: &str) -> Result<Value<'a>, RuleError> {
        let missing = || {
            let problem = format!("expected {key} = {what}, found no {key}");
            self.source.error(self.at, problem)
        };
        self.get(key).ok_or_else(missing)
    }

    /// The value at `key`, converted by `read`; `None` if it is missing.
    pub(crate) fn maybe<T>(
        &self,
        key: &str,
        read: impl FnOnce(Value<'a>) -> Result<T, RuleError>,
    ) -> Result<Option<T>, RuleError> {
        self.get(key).map(read).transpose()
    }

    /// Every value at `key`, converted by `read`; `key` may have one value or a list.
    pub(crate) fn each<T>(
        &self,
        key: &str,
        mut read: impl FnMut(Value<'a>) -> Result<T, RuleError>,
    ) -> Result<Vec<T>, RuleError> {
        let Some(value) = self.get(key) else {
            return Ok(Vec::new());
        };
        let DeValue::Array(list) = value.value else {
            return Ok(vec![read(value)?]);
        };
        if list.is_empty() {
            return Err(value.error("expected one value or more, found an empty list"));
        }
        let list = items(value.source, list);
        list.map(read).collect()
    }
}

fn items<'a>(source: Source<'a>, list: &'a DeArray<'a>) -> impl Iterator<Item = Value<'a>> {
    list.iter().map(move |item| Value::new(source, item))
}

impl<'a> Value<'a> {
    fn new(source: Source<'a>, value: &'a Spanned<DeValue<'a>>) -> Self {
        Self {
            source,
            at: value.span().start,
            value: value.get_ref(),
        }
    }

    pub(crate) fn error(&self, problem: impl Into<String>) -> RuleError {
        self.source.error(self.at, problem)
    }

    fn found(&self, what: &str) -> RuleError {
        let found = self.value.type_str();
        self.error(format!("expected {what}, found {found}"))
    }

    pub(crate) fn text(&self, what: &str) -> Result<&'a str, RuleError> {
        match self.value {
            DeValue::String(text) => Ok(text.as_ref()),
            _ => Err(self.found(what)),
        }
    }

    /// The value as an integer from `low` to `high`.
    pub(crate) fn number(&self, what: &str, low: u64, high: u64) -> Result<u64, RuleError> {
        let DeValue::Integer(integer) = self.value else {
            return Err(self.found(what));
        };
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        let good = number.filter(|number| (low..=high).contains(number));
        good.ok_or_else(|| {
            let found = integer.as_str();
            self.error(format!(
                "expected {what} from {low} to {high}, found {found}"
            ))
        })
    }

    /// Index of the value among `words`.
    pub(crate) fn word(&self, words: &[&str]) -> Result<usize, RuleError> {
        let all = words.join(", ");
        let text = self.text(&format!("one of {all}"))?;
        let place = words.iter().position(|word| *word == text);
        place.ok_or_else(|| {
            let meant = did_you_mean(text, words.iter().copied());
            self.error(format!("expected one of {all}, found {text:?}{meant}"))
        })
    }

    /// The value's text, parsed as a `T`.
    pub(crate) fn parse<T: std::str::FromStr>(&self, what: &str) -> Result<T, RuleError> {
        let text = self.text(what)?;
        let wrong = |_| self.error(format!("expected {what}, found {text:?}"));
        text.parse().map_err(wrong)
    }

    pub(crate) fn entries(&self, what: &str, known: &[&str]) -> Result<Entries<'a>, RuleError> {
        match self.value {
            DeValue::Table(table) => Entries::of(self.source, self.at, table, known),
            _ => Err(self.found(what)),
        }
    }

    pub(crate) fn list(&self, what: &str) -> Result<Vec<Value<'a>>, RuleError> {
        match self.value {
            DeValue::Array(list) => Ok(items(self.source, list).collect()),
            _ => Err(self.found(what)),
        }
    }
}
