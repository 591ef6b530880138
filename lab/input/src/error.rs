//! Errors of reading traces.

use std::io;

/// Error that ends the reading of a trace. It names the file, the place and the expectation.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be opened or read, or its compression is broken.
    #[error("{name}: {place} cannot be read: {}", why(source))]
    Read {
        /// Name of the file.
        name: String,
        /// Place in the file, such as `line 7`.
        place: String,
        /// Error of the operating system or of the decompressor.
        source: io::Error,
    },
    /// A line violates its format.
    #[error("{name}:{line}: expected {expected}, found {found:?}")]
    Line {
        /// Name of the file.
        name: String,
        /// Line number, starting from 1.
        line: u64,
        /// Expected text, as a phrase.
        expected: String,
        /// Beginning of the line.
        found: String,
    },
    /// A binary record violates its format.
    #[error("{name}: {place}: expected {expected}")]
    Record {
        /// Name of the file.
        name: String,
        /// Number of the record, or its offset after decompression.
        place: String,
        /// Expected contents, as a phrase.
        expected: String,
    },
    /// The format of the contents is unknown or ambiguous.
    #[error("{name}: {reason}")]
    Format {
        /// Name of the file.
        name: String,
        /// Reason, as a sentence.
        reason: String,
    },
    /// The trace is valid but cannot be replayed.
    #[error("{name}: expected {expected}, found {found}")]
    Unfit {
        /// Path of the file or folder.
        name: String,
        /// Property that a replay needs.
        expected: String,
        /// Property that the trace has instead.
        found: String,
    },
}

/// Text of `error`, with a plain explanation of an early end of the file.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => format!("the file ends too early: {error}"),
        _ => error.to_string(),
    }
}

impl TraceError {
    /// Conversion of an I/O error at `place` of the file `name` into [`Self::Read`].
    pub fn unreadable(name: &str, place: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let (name, place) = (name.to_owned(), place.into());
        move |source| Self::Read {
            name,
            place,
            source,
        }
    }
}

/// Expectation that the input of a parser violated. The caller adds file and place.
#[derive(Debug, PartialEq, Eq)]
pub struct Expected(pub String);

/// Fault of a parser that reads its input itself.
#[derive(Debug)]
pub enum Fault {
    /// The input violates the format.
    Expected(Expected),
    /// The input could not be read.
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

/// Returns an error with the expectation `what`.
///
/// # Errors
/// Always.
pub fn expected<T, E: From<Expected>>(what: impl Into<String>) -> Result<T, E> {
    Err(Expected(what.into()).into())
}

/// First 60 characters of `text`, for an error message.
#[must_use]
pub fn excerpt(text: &str) -> String {
    const MAX: usize = 60;
    let mut start: String = text.chars().take(MAX).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}
