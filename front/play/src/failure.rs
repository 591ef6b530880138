//! Why a workload cannot be played.

use rustix::io::Errno;
use std::path::PathBuf;

/// A directory or a workload that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The directory cannot be opened or read.
    #[error("{}: expected a directory that can be used, found: {error}", dir.display())]
    Directory {
        /// Which.
        dir: PathBuf,
        /// What the system said.
        error: Errno,
    },
    /// An entry of the tree before the first call cannot be made.
    #[error("{path:?}, which must be there before the first call, cannot be made: {error}")]
    Setup {
        /// The entry, beneath the directory.
        path: String,
        /// What the system said.
        error: Errno,
    },
    /// The system gives no more threads.
    #[error("the system gave {given} threads and no more: {error}")]
    Threads {
        /// How many it gave.
        given: usize,
        /// What it said.
        error: std::io::Error,
    },
    /// Every thread waits for another.
    #[error("the workload stands still: each of its threads waits for another")]
    StandsStill,
    /// The source came to an early end.
    #[error("{0}")]
    Source(String),
}
