//! Errors of calls to a stepped drive, one sentence each.

use crate::error::StackError;
use units::Ns;

/// A call that a stepped drive refuses.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The drive cannot be built.
    #[error(transparent)]
    Setup(#[from] StackError),
    /// A stack with a file system.
    #[error("{0}: expected a stack with the host raw, such as raw@block")]
    Host(String),
    /// A time before the clock's.
    #[error("time {time}: expected at least that of the clock, {now}", time = .time.0, now = .now.0)]
    Past {
        /// The time of the call, in ns.
        time: Ns,
        /// The time of the clock, in ns.
        now: Ns,
    },
    /// A time beyond the longest simulation.
    #[error("time {time}: expected at most a year of 31536000000000000 ns", time = .time.0)]
    TooLate {
        /// The time of the call, in ns.
        time: Ns,
    },
    /// A command past the end of the drive.
    #[error("{op}: sectors {first} to {last} reach past the end of the drive, which has {sectors}")]
    PastEnd {
        /// Name of the command.
        op: &'static str,
        /// First sector of the command.
        first: u64,
        /// Last sector of the command.
        last: u64,
        /// Sectors that the drive has.
        sectors: u64,
    },
    /// A command of a length that no command has.
    #[error("{op}: {found} sectors given, expected 1 to {most}")]
    Length {
        /// Name of the command.
        op: &'static str,
        /// Sectors of the command.
        found: u32,
        /// Largest number of sectors.
        most: u32,
    },
    /// A command that the drive does not have.
    #[error("{op}: {needed}")]
    Command {
        /// Name of the command.
        op: &'static str,
        /// The requirement that the drive does not meet.
        needed: &'static str,
    },
    /// A command of an origin without a name.
    #[error("{op}: origin {found} given, expected one of the {known} that have a name")]
    Origin {
        /// Name of the command.
        op: &'static str,
        /// Origin of the command.
        found: u16,
        /// Number of origins with a name.
        known: usize,
    },
    /// More commands in flight than fit.
    #[error("{most} commands are in flight, the most at a time: take some completions first")]
    TooMany {
        /// Largest number of commands in flight.
        most: u64,
    },
    /// A call that needs an idle drive.
    #[error("{call}: {in_flight} commands are in flight, expected none")]
    InFlight {
        /// Name of the call.
        call: &'static str,
        /// Number of commands in flight.
        in_flight: u64,
    },
    /// A copy that would lack acknowledged data.
    #[error("fork: the volatile write cache may hold data, expected a flush after the last write")]
    Unflushed,
    /// No event is left although commands are in flight.
    #[error(
        "the drive stalled with {in_flight} commands in flight: garbage collection has no free \
         space on the flash"
    )]
    Stalled {
        /// Commands that never complete.
        in_flight: u64,
    },
    /// A call to a drive that was powered off.
    #[error("the drive is off: expected no call after finish")]
    Off,
}
