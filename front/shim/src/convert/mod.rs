//! From raw records to a trace.
//!
//! Two passes. The first follows the records of all threads in the order of
//! time, keeps for every process what its descriptors, mappings and working
//! directory are, and writes calls on absolute paths to a scratch trace; the
//! second keeps the calls that are asked for and makes their paths relative.
//!
//! Invariants:
//! - A slot of the trace is an open file of the system: descriptors that were
//!   copied, inherited or kept over `exec` share it, and it is closed when the
//!   last descriptor and the last mapping of it are gone.
//! - Reads and writes have explicit offsets, but those to a file that is open
//!   for appending.
//! - What existed before the recording is in the setup as it was when it was
//!   first seen.

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

/// What is kept of what was seen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only what happens under this directory, absolute.
    pub under: Option<PathBuf>,
    /// Everything, files of the system too. Otherwise, and without `under`,
    /// what happens under the working directory and under directories in which
    /// the program changed something.
    pub all: bool,
    /// The directory in which the program was started, absolute.
    pub folder: PathBuf,
    /// The command, for the trace to say.
    pub command: Vec<u8>,
}

/// What became of a recording.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The trace in numbers.
    pub summary: FileSummary,
    /// What it lacks, a sentence each.
    pub notes: Vec<String>,
    /// The directory that its paths are relative to.
    pub root: PathBuf,
}

/// A recording that cannot be made a trace.
#[derive(Debug, thiserror::Error)]
pub enum ConvertError {
    /// The spool cannot be read, or the trace not written.
    #[error("the recording cannot be made a trace: {0}")]
    Io(#[from] io::Error),
    /// The scratch trace of the first pass is broken.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// Nothing was recorded.
    #[error(
        "the program left no record: it is linked statically, gains rights when it starts, or \
         could not be started"
    )]
    Nothing,
}

/// Makes one trace of all records in the folders `spool`, of which the last has
/// room for a scratch file.
///
/// # Errors
/// If there is none, or the system refuses.
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
