//! Errors that prevent a workload from being played.

use rustix::io::Errno;
use std::path::PathBuf;

/// Reason for which a workload cannot be played in a directory.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The directory cannot be opened or read.
    #[error("{}: expected a directory that can be used, found: {error}", dir.display())]
    Directory {
        /// Path of the directory.
        dir: PathBuf,
        /// Error of the system.
        error: Errno,
    },
    /// An entry of the tree before the first call cannot be made.
    #[error("{path:?}, which must be there before the first call, cannot be made: {error}")]
    Setup {
        /// The entry, beneath the directory.
        path: String,
        /// Error of the system.
        error: Errno,
    },
    /// A thread cannot be started.
    #[error("the system gave {given} threads and no more: {error}")]
    Threads {
        /// Number of threads that were started.
        given: usize,
        /// Error of the system.
        error: std::io::Error,
    },
    /// Deadlock: every thread waits for another one.
    #[error("the workload stands still: each of its threads waits for another")]
    StandsStill,
    /// The source of calls ended early.
    #[error("{0}")]
    Source(String),
}
