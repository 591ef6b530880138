//! What can be wrong with a trace.

use super::Format;
use std::io;

/// A trace that can not be read further. Each names the file, the place and
/// what was expected there.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused to open or read, or the compression is broken.
    #[error("{name}: {place} can not be read: {source}")]
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
    #[error("{name}: at byte {offset}: expected {expected}")]
    Record {
        /// The file.
        name: String,
        /// Where the record begins, after decompression.
        offset: u64,
        /// What should stand there.
        expected: String,
    },
    /// The contents are of no known format.
    #[error(
        "{name}: expected a trace in one of the formats {}, found none of them; \
         name the format if it is one",
        Format::list()
    )]
    Unknown {
        /// The file.
        name: String,
    },
}

/// What a parser expected. Whoever drives it knows the file and the place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expected(pub(crate) String);

/// Refuses, saying what was expected.
pub(crate) fn expected<T>(what: impl Into<String>) -> Result<T, Expected> {
    Err(Expected(what.into()))
}

/// The beginning of `text`, for an error message.
pub(crate) fn excerpt(text: &str) -> String {
    const MAX: usize = 60;
    let mut start: String = text.chars().take(MAX).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    start
}
