//! Conversion of raw records to a trace.
//!
//! The conversion has two passes. The first follows the records of all threads in the order of
//! time, tracks the descriptors, mappings and working directory of every process, and writes calls
//! on absolute paths to a scratch trace. The second keeps the calls that the options select and
//! makes their paths relative.
//!
//! Invariants:
//! - A slot of the trace is an open file of the system. Descriptors that were duplicated, inherited
//!   or kept over `exec` share the slot; it is closed with the last descriptor and the last mapping
//!   of the file.
//! - Reads and writes have explicit offsets, except writes to a file that is open for appending.
//! - Files that existed before the recording are in the setup with the attributes of their first
//!   sighting.

mod calls;
mod filter;
mod maps;
mod paths;
mod process;
mod resolve;
mod spool;
mod translate;
mod tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use workload::files::trace::{FileSummary, TraceError};

/// Selection of the calls that a conversion keeps.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Keep only calls under this directory, an absolute path.
    pub under: Option<PathBuf>,
    /// Keep every call, also those on files of the system. If this is false and `under` is `None`,
    /// calls are kept under the working directory and under directories in which the program
    /// changed something.
    pub all: bool,
    /// The directory in which the program was started, absolute.
    pub folder: PathBuf,
    /// The recorded command line, copied into the trace.
    pub command: Vec<u8>,
}

/// Result of a conversion.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts of the trace: threads, calls, bytes.
    pub summary: FileSummary,
    /// Activity that the trace lacks, one sentence each.
    pub notes: Vec<String>,
    /// The directory that the paths of the trace are relative to.
    pub root: PathBuf,
}

/// Reasons why a recording cannot be converted to a trace.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The spool cannot be read, or the trace not written.
    #[error("the recording cannot be made a trace: {0}")]
    Io(#[from] io::Error),
    /// The scratch trace of the first pass is broken.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The spool holds no log of any thread.
    #[error(
        "the program left no record: it is linked statically, gains rights when it starts, or \
         could not be started"
    )]
    Nothing,
}

/// Converts all records in the folders `spool` to one trace, written to `out`. The scratch file of
/// the first pass is made in the last folder.
///
/// # Errors
/// [`ConvertError::Nothing`] if there is no record, or an error of the system.
pub fn convert(
    spool: &[&Path],
    options: &Options,
    out: impl Write,
) -> Result<Outcome, ConvertError> {
    let mut records = spool::Merged::open(spool)?;
    let scratch = match spool.last() {
        Some(folder) => tempfile::NamedTempFile::new_in(folder)?,
        None => return Err(ConvertError::Nothing),
    };
    let seen = resolve::run(&mut records, io::BufWriter::new(scratch.as_file()))?;
    filter::run(scratch.path(), &seen, options, out)
}
