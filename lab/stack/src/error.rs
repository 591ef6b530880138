//! Errors of a run, one sentence each.

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

/// A run that cannot start, or had to stop.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A stack's name is not of the form HOST@DRIVE.
    #[error("{0:?} is not a stack: expected HOST@DRIVE such as raw@block")]
    Form(String),
    /// A host, drive or switch that does not exist, or an invalid combination of them.
    #[error("{stack}: {reason}")]
    Stack {
        /// The stack as the user wrote it.
        stack: String,
        /// Reason why the stack is invalid.
        reason: String,
    },
    /// A drive that is neither a preset nor a file.
    #[error("expected a drive preset ({known}) or a path to a TOML file, found {0:?}", known = drive::known())]
    Drive(String),
    /// A file that cannot be read, or is malformed.
    #[error(transparent)]
    Document(#[from] DocumentError),
    /// A drive whose configuration is invalid.
    #[error("{drive}: {source}")]
    Config {
        /// Preset or file of the drive.
        drive: String,
        /// Reason why the configuration is invalid.
        source: ConfigError,
    },
    /// An assignment to an unknown knob, or of a value outside its range.
    #[error("{assignment}: {reason}")]
    Knob {
        /// `SETTING=VALUE` as the user wrote it.
        assignment: String,
        /// The values that the knob accepts.
        reason: String,
    },
    /// Knobs of a drive that are each valid but do not fit together.
    #[error(transparent)]
    Knobs(ConfigError),
    /// A precondition that does not exist.
    #[error("expected fresh, full, aged or used, such as used:fill=70")]
    Past,
    /// A share of the capacity that no file system can be filled to.
    #[error("fill: expected a percentage of the capacity from 1 to 95")]
    Fill,
    /// A precondition of a file system, for a drive without one.
    #[error("expected fresh, full or aged: a drive alone has no file system to be used")]
    UsedDrive,
    /// A used stack whose file system cannot hold the files of its past.
    #[error(
        "{stack}: the file system cannot hold the {bytes} of files that {used} puts on a drive of \
         {drive}: {problem}; use a smaller share, such as used:fill={less}"
    )]
    Unfilled {
        /// Name of the stack.
        stack: String,
        /// Use that was asked for.
        used: String,
        /// Bytes of its files.
        bytes: Bytes,
        /// Capacity of the drive.
        drive: Bytes,
        /// The call that failed, and its error.
        problem: String,
        /// A percentage that the file system can hold.
        less: u8,
    },
    /// A file system without room for the files that a workload begins with, or grows to.
    #[error(
        "{stack}: the workload needs room for {needed}, and the file system ({past}) has {free} on \
         a drive of {drive}; use one of about {enough} MiB (--size {enough}MiB)"
    )]
    Room {
        /// Name of the stack.
        stack: String,
        /// State of the stack before the run.
        past: String,
        /// Bytes of the workload's files.
        needed: Bytes,
        /// Bytes that the file system has for them.
        free: Bytes,
        /// Capacity of the drive.
        drive: Bytes,
        /// Capacity in MiB of a drive that would do.
        enough: u64,
    },
    /// A shipped workload that cannot be written to a temporary file.
    #[error(transparent)]
    Shipped(io::Error),
    /// A figure that the paper does not have.
    #[error(transparent)]
    Figure(#[from] NoFigure),
    /// An invalid configuration of the host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// An invalid configuration of the page cache.
    #[error(transparent)]
    PageCache(#[from] CacheError),
    /// A workload that is invalid, or does not fit this drive.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// A trace that cannot be read further.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A request past the end of the drive.
    #[error(
        "request {number} accesses sectors {first} to {last}, past the end of the drive, which has \
         {sectors} ({capacity}); pass fit=wrap to fold the trace onto the drive"
    )]
    PastEnd {
        /// Number of the request, from 1.
        number: u64,
        /// First sector of the request.
        first: u64,
        /// Last sector of the request.
        last: u64,
        /// Capacity of the drive in sectors.
        sectors: u64,
        /// Capacity of the drive in bytes.
        capacity: Bytes,
    },
    /// A request without a matching command of the drive.
    #[error("request {number} is a {op}: {needed}")]
    Command {
        /// Number of the request, from 1.
        number: u64,
        /// Kind of the request.
        op: &'static str,
        /// The requirement that the drive does not meet.
        needed: &'static str,
    },
    /// The tree that a file workload needs cannot be made.
    #[error("{path:?}, an initial file of the workload, could not be created: {problem}")]
    Tree {
        /// Path of the file or directory; empty for the whole tree.
        path: String,
        /// The error of the file system, with the limit that was hit.
        problem: String,
    },
    /// The file system cannot be formatted or mounted.
    #[error("{stack}: the file system cannot be used: {problem}")]
    Mount {
        /// Name of the stack.
        stack: String,
        /// The error of the file system.
        problem: String,
    },
    /// The remapping layer or the host's mapping cannot be used.
    #[error("{stack}: {source}")]
    Attach {
        /// Name of the stack.
        stack: String,
        /// Error of the layer or mapping.
        source: AttachError,
    },
    /// A sequence of file calls that cannot continue.
    #[error("{0}")]
    Calls(String),
    /// A closed loop with too many requests in flight.
    #[error("depth: {depth} given, 1 to {most} expected")]
    Depth {
        /// The depth that was given.
        depth: u32,
        /// Largest depth that is allowed.
        most: u32,
    },
    /// A run that exceeds the limit of virtual time.
    #[error("the run exceeds a year of virtual time, the longest possible, after {ops} requests")]
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
    #[error("the timeline has more than {most} samples: use a longer interval")]
    Samples {
        /// Largest number of samples.
        most: usize,
    },
    /// A timeline without an interval.
    #[error("the interval of the timeline is 0: expected at least 1 ns")]
    Interval,
    /// No event is left although requests are in flight.
    #[error(
        "the drive stalled with {in_flight} requests in flight: garbage collection has no free \
         space on the flash"
    )]
    Stuck {
        /// Requests that never completed.
        in_flight: u64,
    },
    /// A drive on which an experiment cannot be executed.
    #[error("the drive does not execute {0}")]
    Jobs(String),
}
