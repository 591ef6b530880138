//! Documents in TOML, whose errors name the file, the line and what was expected.

use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// What is wrong with a document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A file that the system refused to read.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A place in a file that says something else than it should.
    #[error("{file}:{line}: {problem}")]
    Place {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What was expected.
        problem: String,
    },
}

/// A file that has been read.
#[derive(Debug)]
pub struct Source {
    /// What it is called.
    pub file: String,
    /// What it says.
    pub text: String,
}

/// A value of a file, where it stands, and the keys that lead to it.
pub struct Leaf {
    /// The keys.
    pub path: Vec<String>,
    /// The value.
    pub value: Value,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

impl Source {
    /// The file at `path`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn read(path: &str) -> Result<Self, DocumentError> {
        let text = std::fs::read_to_string(path).map_err(|source| DocumentError::Read {
            file: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file: path.to_owned(),
            text,
        })
    }

    /// All of it as a `T`.
    ///
    /// # Errors
    /// Says at which line it is none, and why.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        toml::from_str(&self.text).map_err(|e| self.syntax(&e))
    }

    /// The error that `problem` at byte `at` of this file is.
    pub fn error(&self, at: usize, problem: impl Into<String>) -> DocumentError {
        let before = &self.text.as_bytes()[..at.min(self.text.len())];
        let breaks = before.iter().filter(|&&byte| byte == b'\n').count();
        let problem: String = problem.into();
        DocumentError::Place {
            file: self.file.clone(),
            line: breaks + 1,
            problem: problem.lines().collect::<Vec<_>>().join("; "),
        }
    }

    /// The error of the parser, at its place.
    fn syntax(&self, error: &toml::de::Error) -> DocumentError {
        let at = error.span().map_or(0, |span| span.start);
        self.error(at, error.message())
    }

    /// All values of the file that are no tables, in the order in which they
    /// stand.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn leaves(&self) -> Result<Vec<Leaf>, DocumentError> {
        let table = DeTable::parse(&self.text).map_err(|e| self.syntax(&e))?;
        let values: Table = self.parse()?;
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
fn set(table: &mut Table, path: &[String], value: Value) {
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

/// `base` with `value` laid over what `path` leads to.
///
/// # Errors
/// Says what would have been accepted there.
pub fn overlaid<T: DeserializeOwned>(
    base: &mut Table,
    path: &[String],
    value: Value,
) -> Result<T, String> {
    set(base, path, value);
    let whole = Value::Table(base.clone()).try_into();
    whole.map_err(|e: toml::de::Error| format!("{}: {}", path.join("."), e.message()))
}
