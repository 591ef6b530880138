//! filebench's `.f` scripts.
//!
//! Read: `set`, `define fileset`, `define file`, `define process` with its
//! threads and operations, `define randvar` of the gamma and the uniform kind,
//! `cvar` of the gamma, uniform and exponential kind, `eventgen`, `run` and
//! `psrun`. What is about the tool itself (`echo`, `debug`, `enable`, `create`,
//! `version`) is passed over. All else is refused with its line.
//!
//! Invariants: reading never panics and ends in time linear in the text; what is
//! accepted can be made a [`super::Flow`] of.

mod attr;
mod lex;
mod parse;

use super::Program;
use std::fs::File;
use std::io::{self, Read};

/// A script is read up to this size.
const MAX_BYTES: u64 = 1 << 20;

/// A script that is refused.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The system refused to read it.
    #[error("{file} cannot be read: {source}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line is not what it should be.
    #[error("{file}:{line}: expected {expected}, found {found}")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// It does not hold together as a whole.
    #[error("{file}: {problem}")]
    Whole {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
}

/// Whether `path` is a script, by its name.
#[must_use]
pub fn is_script(path: &str) -> bool {
    path.ends_with(".f")
}

/// Reads the script at `path`.
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

/// Reads `text`, called `file` in errors.
///
/// # Errors
/// See [`read`].
pub fn parse(file: &str, text: &str) -> Result<Program, ScriptError> {
    parse::Parser::new(file, lex::tokens(file, text)?).program()
}
