//! What can be wrong with a run, one sentence each.

use crate::attached::AttachError;
use crate::drive;
use host::HostError;
use input::document::DocumentError;
use report::figure::NoFigure;
use ssd::ConfigError;
use std::io;
use units::Bytes;
use vfs::CacheError;
use workload::WorkloadError;
use workload::trace::TraceError;

/// A run that cannot be had, or that had to stop.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// Not of the form HOST@DRIVE.
    #[error("{0:?} is not a stack: expected HOST@DRIVE such as raw@block")]
    Form(String),
    /// A host, drive or switch that this version does not have, or a combination
    /// that makes no sense.
    #[error("{stack}: {reason}")]
    Stack {
        /// The stack as given.
        stack: String,
        /// Why not.
        reason: String,
    },
    /// Neither a preset nor a file.
    #[error("expected a drive preset ({known}) or a path to a TOML file, found {0:?}", known = drive::known())]
    Drive(String),
    /// A file that cannot be read, or that says something else than it should.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A drive that cannot be built.
    #[error("{drive}: {source}")]
    Config {
        /// Its name or file.
        drive: String,
        /// Why not.
        source: ConfigError,
    },
    /// An assignment to a knob that is not there, or of a value that it does not take.
    #[error("{assignment}: {reason}")]
    Knob {
        /// `KNOB=VALUE` as given.
        assignment: String,
        /// What was expected.
        reason: String,
    },
    /// Knobs of a drive that are right one by one and not together.
    #[error(transparent)]
    Knobs(ConfigError),
    /// No past that a drive can have.
    #[error("expected fresh, full or aged")]
    Past,
    /// What comes along cannot be laid into a file.
    #[error(transparent)]
    Shipped(io::Error),
    /// A figure that is not there.
    #[error(transparent)]
    Figure(#[from] NoFigure),
    /// A host that cannot be.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A page cache that cannot be.
    #[error(transparent)]
    PageCache(#[from] CacheError),
    /// A workload that cannot be had on this drive.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A trace that cannot be read further.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A request past the end of the drive.
    #[error(
        "request {number} asks for sectors {first} to {last}, past the end of the drive, which \
         has {sectors} ({capacity}); a trace is folded onto the drive with fit=wrap"
    )]
    PastEnd {
        /// Which one, from 1.
        number: u64,
        /// Its first sector.
        first: u64,
        /// Its last sector.
        last: u64,
        /// Sectors of the drive.
        sectors: u64,
        /// Its capacity.
        capacity: Bytes,
    },
    /// A request that the drive has no command for.
    #[error("request {number} is a {op}, for which {needed}")]
    Command {
        /// Which one, from 1.
        number: u64,
        /// What it asks for.
        op: &'static str,
        /// What would have to be so.
        needed: &'static str,
    },
    /// The tree that a workload of files needs cannot be made.
    #[error("{path:?}, which the workload needs at first, cannot be made: {problem}")]
    Tree {
        /// Which file or directory; empty for all together.
        path: String,
        /// What the file system said, with the limit that was met.
        problem: String,
    },
    /// The file system cannot be made or mounted.
    #[error("{stack}: the file system cannot be used: {problem}")]
    Mount {
        /// The stack.
        stack: String,
        /// What it said.
        problem: String,
    },
    /// The layer that remaps addresses cannot be made or used.
    #[error("{stack}: {source}")]
    Attach {
        /// The stack.
        stack: String,
        /// Why not.
        source: AttachError,
    },
    /// Calls of files that cannot go on.
    #[error("{0}")]
    Calls(String),
    /// A closed loop with too many requests in flight.
    #[error("depth: {depth} given, 1 to {most} expected")]
    Depth {
        /// As given.
        depth: u32,
        /// Most that can be.
        most: u32,
    },
    /// A run that takes longer than its clock should go.
    #[error(
        "the run passes a year of virtual time after {ops} requests; that is as long as one may be"
    )]
    TooLong {
        /// Requests completed by then.
        ops: u64,
    },
    /// A run that its caller stopped.
    #[error("the run was stopped after {ops} requests")]
    Stopped {
        /// Requests completed by then.
        ops: u64,
    },
    /// A timeline that would fill the memory.
    #[error("the timeline has more than {most} samples; a longer interval is needed")]
    Samples {
        /// Most that can be.
        most: usize,
    },
    /// A timeline without an interval.
    #[error("the interval of the timeline is 0; at least 1 ns is needed")]
    Interval,
    /// Nothing moves any more although requests are in flight.
    #[error(
        "the drive came to rest with {in_flight} requests in flight; its flash has no room to collect garbage in"
    )]
    Stuck {
        /// Requests that were never answered.
        in_flight: u64,
    },
}
