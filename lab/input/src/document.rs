//! TOML documents, with errors that name the file, the line and the expectation.

use serde::de::DeserializeOwned;
use std::ops::Range;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

/// Error of reading a document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The operating system could not read the file.
    #[error("{file}: cannot be read: {source}")]
    Read {
        /// Path of the file.
        file: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The file has a fault at one line.
    #[error("{file}:{line}: {problem}")]
    Place {
        /// Name of the file.
        file: String,
        /// Line number, starting from 1.
        line: usize,
        /// Problem, as a phrase.
        problem: String,
    },
}

/// Text of a document that has been read.
#[derive(Debug)]
pub struct Source {
    /// Name of the file in errors.
    pub file: String,
    /// Whole text of the file.
    pub text: String,
}

/// Value of a document, with its path and its place.
pub struct Leaf {
    /// Path of the value, from the outermost key.
    pub path: Vec<String>,
    /// Value that is no table.
    pub value: Value,
    /// Byte range of the value's key in the text.
    pub span: Range<usize>,
}

impl Source {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read.
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

    /// Deserializes the whole document into a `T`.
    ///
    /// # Errors
    /// The line and the reason for which it is no `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        toml::from_str(&self.text).map_err(|e| self.syntax(&e))
    }

    /// Error for `problem` at the line of byte `at`.
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

    /// Error of the TOML parser, at its line.
    fn syntax(&self, error: &toml::de::Error) -> DocumentError {
        let at = error.span().map_or(0, |span| span.start);
        self.error(at, error.message())
    }

    /// All values of the document that are no tables, in the order of the text.
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

/// Sets the value at `path` in `table`, and creates tables on the way.
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

/// Sets the value at `path` in `base` and deserializes the result.
///
/// # Errors
/// The path and the reason for which the result is no `T`.
pub fn overlaid<T: DeserializeOwned>(
    base: &mut Table,
    path: &[String],
    value: Value,
) -> Result<T, String> {
    set(base, path, value);
    let whole = Value::Table(base.clone()).try_into();
    whole.map_err(|e: toml::de::Error| format!("{}: {}", path.join("."), e.message()))
}
