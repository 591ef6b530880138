//! What can be wrong with a trace of memory accesses.

use super::Format;
use std::io;

/// A trace that can not be read further. Each names the file, the place and what was
/// expected there.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The system refused to open or read, or the compression is broken.
    #[error("{name}: {place} can not be read: {source}")]
    Read {
        /// The file.
        name: String,
        /// Which part of it.
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
    #[error("{name}: record {record}: expected {expected}")]
    Record {
        /// The file.
        name: String,
        /// The record, from 1.
        record: u64,
        /// What should stand there.
        expected: String,
    },
    /// The contents do not tell their format.
    #[error(
        "{name}: the contents do not tell the format; name one of {}",
        Format::list()
    )]
    Unknown {
        /// The file.
        name: String,
    },
    /// The contents are compressed in a way that is not read.
    #[error("{name}: compressed by xz, which is not read here; decompress it with xz -d first")]
    Xz {
        /// The file.
        name: String,
    },
}

/// What a parser expected, or what the system said. Whoever drives it knows the place.
#[derive(Debug)]
pub(super) enum Fault {
    Expected(String),
    Io(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Refuses, saying what was expected.
pub(super) fn expected<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Expected(what.into()))
}

/// The beginning of a line, for an error message.
pub(super) fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
    if line.len() > 60 { text + "…" } else { text }
}
