//! TOML files whose errors name the file, the line and what was expected.

use crate::error::StackError;
use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// A file that has been read.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
}

/// A value of a file, where it stands, and the keys that lead to it.
pub(crate) struct Leaf {
    pub(crate) path: Vec<String>,
    pub(crate) value: Value,
    pub(crate) span: Range<usize>,
}

impl Source {
    pub(crate) fn read(path: &str) -> Result<Self, StackError> {
        let text = std::fs::read_to_string(path).map_err(|source| StackError::Read {
            file: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file: path.to_owned(),
            text,
        })
    }

    /// The error that `problem` at byte `at` of this file is.
    pub(crate) fn error(&self, at: usize, problem: impl Into<String>) -> StackError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let breaks = before.iter().filter(|&&byte| byte == b'\n').count();
        let problem: String = problem.into();
        StackError::File {
            file: self.file.clone(),
            line: breaks + 1,
            problem: problem.lines().collect::<Vec<_>>().join("; "),
        }
    }

    /// The error of the parser, at its place.
    pub(crate) fn syntax(&self, error: &toml::de::Error) -> StackError {
        let at = error.span().map_or(0, |span| span.start);
        self.error(at, error.message())
    }

    /// All values of the file that are no tables, in the order in which they
    /// stand.
    pub(crate) fn leaves(&self) -> Result<Vec<Leaf>, StackError> {
        let table = DeTable::parse(&self.text).map_err(|e| self.syntax(&e))?;
        let values: Table = toml::from_str(&self.text).map_err(|e| self.syntax(&e))?;
        let mut leaves = Vec::new();
        collect(table.get_ref(), &values, &mut Vec::new(), &mut leaves);
        leaves.sort_by_key(|leaf| leaf.span.start);
        Ok(leaves)
    }
}

fn collect(spans: &DeTable<'_>, values: &Table, path: &mut Vec<String>, leaves: &mut Vec<Leaf>) {
    for (key, spanned) in spans {
        let name = key.get_ref().as_ref();
        let Some(value) = values.get(name) else {
            continue;
        };
        path.push(name.to_owned());
        match (spanned.get_ref(), value) {
            (DeValue::Table(inner), Value::Table(table)) => collect(inner, table, path, leaves),
            _ => leaves.push(Leaf {
                path: path.clone(),
                value: value.clone(),
                span: key.span(),
            }),
        }
        path.pop();
    }
}

/// Lays `value` over what `path` leads to in `table`; makes tables on the way.
pub(crate) fn set(table: &mut Table, path: &[String], value: Value) {
    let Some((key, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        table.insert(key.clone(), value);
        return;
    }
    let inner = table
        .entry(key)
        .or_insert_with(|| Value::Table(Table::new()));
    if !inner.is_table() {
        *inner = Value::Table(Table::new());
    }
    if let Value::Table(inner) = inner {
        set(inner, rest, value);
    }
}

/// `base` with `leaf` laid over it; an error says what would have been accepted.
pub(crate) fn overlaid<T: DeserializeOwned>(
    base: &mut Table,
    path: &[String],
    value: Value,
) -> Result<T, String> {
    set(base, path, value);
    let whole = Value::Table(base.clone()).try_into();
    whole.map_err(|e: toml::de::Error| format!("{}: {}", path.join("."), e.message()))
}
