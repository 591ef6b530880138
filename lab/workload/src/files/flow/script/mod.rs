//! Parser of filebench's `.f` scripts.
//!
//! Supported: `set`, `define fileset`, `define file`, `define process` with its threads and
//! operations, `define randvar` of the gamma and the uniform kind, `cvar` of the gamma, uniform and
//! exponential kind, `eventgen`, `run` and `psrun`. Commands to the tool itself (`echo`, `debug`,
//! `enable`, `create`, `version`) are skipped. Everything else is refused with its line.
//!
//! Invariants: parsing never panics and takes time linear in the text; a [`super::Flow`] can be
//! made of every program that is accepted.

mod attr;
mod lex;
mod parse;

use super::Program;
use std::fs::File;
use std::io::{self, Read};

/// Bytes of a script that are read.
const MAX_BYTES: u64 = 1 << 20;

/// Reason for which a script is refused.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The operating system could not open or read the file.
    #[error("{file} cannot be read: {source}")]
    Read {
        /// Path of the file.
        file: String,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A line has unexpected text.
    #[error("{file}:{line}: expected {expected}, found {found}")]
    Line {
        /// Path of the file.
        file: String,
        /// Line number, starting from 1.
        line: usize,
        /// Expected text, as a phrase of the error message.
        expected: String,
        /// Text found, as a phrase of the error message.
        found: String,
    },
    /// The script as a whole is inconsistent.
    #[error("{file}: {problem}")]
    Whole {
        /// Path of the file.
        file: String,
        /// Problem, as a sentence.
        problem: String,
    },
}

/// Whether `path` names a script: it ends in `.f`.
#[must_use]
pub fn is_script(path: &str) -> bool {
    path.ends_with(".f")
}

/// Reads and parses the script at `path`.
///
/// # Errors
/// One sentence that names the file, the line and the expectation.
pub fn read(path: &str) -> Result<Program, ScriptError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|f| f.take(MAX_BYTES).read_to_end(&mut bytes));
    read.map_err(|source| ScriptError::Read {
        file: path.to_owned(),
        source,
    })?;
    parse(path, &String::from_utf8_lossy(&bytes))
}

/// Parses `text`; `file` is its name in errors.
///
/// # Errors
/// See [`read`].
pub fn parse(file: &str, text: &str) -> Result<Program, ScriptError> {
    parse::Parser::new(file, lex::tokens(file, text)?).program()
}
