//! What can be wrong with a trace.

use std::io;

/// A trace that cannot be read further. Each names the file, the place and
/// what was expected there.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused to open or read, or the compression is broken.
    #[error("{name}: {place} cannot be read: {}", why(source))]
    Read {
        /// The file.
        name: String,
        /// Which part of it, for example `line 7`.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// A line says something else than its format prescribes.
    #[error("{name}:{line}: expected {expected}, found {found:?}")]
    Line {
        /// The file.
        name: String,
        /// The line, from 1.
        line: u64,
        /// What should stand there.
        expected: String,
        /// The beginning of what stands there.
        found: String,
    },
    /// A binary record is not what its format prescribes.
    #[error("{name}: {place}: expected {expected}")]
    Record {
        /// The file.
        name: String,
        /// Which record, or where it begins after decompression.
        place: String,
        /// What should stand there.
        expected: String,
    },
    /// The contents are of no format that is read.
    #[error("{name}: {reason}")]
    Format {
        /// The file.
        name: String,
        /// Why not.
        reason: String,
    },
    /// It is not what can be replayed.
    #[error("{name}: expected {expected}, found {found}")]
    Unfit {
        /// The file or folder.
        name: String,
        /// What would do.
        expected: String,
        /// What it is instead.
        found: String,
    },
}

/// What `error` is in the words of who reads a file.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("the file ends too early: {error}"),
        _ => error.to_string(),
    }
}

impl TraceError {
    /// That `place` of the file `name` cannot be read, by what the system said.
    pub fn unreadable(name: &str, place: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let (name, place) = (name.to_owned(), place.into());
        move |source| Self::Read {
            name,
            place,
            source,
        }
    }
}

/// What a parser expected. Whoever drives it knows the file and the place.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected(pub String);

/// What a parser expected, or what the system said while it read on.
#[derive(Debug)]
pub enum Fault {
    /// It is not what the format prescribes.
    Expected(Expected),
    /// The system refused.
    Io(io::Error),
}

impl From<Expected> for Fault {
    fn from(expected: Expected) -> Self {
        Self::Expected(expected)
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Refuses, saying what was expected.
///
/// # Errors
/// Always.
pub fn expected<T, E: From<Expected>>(what: impl Into<String>) -> Result<T, E> {
    Err(Expected(what.into()).into())
}

/// The beginning of `text`, for an error message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const MAX: usize = 60;
    let mut start: String = text.chars().take(MAX).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}
