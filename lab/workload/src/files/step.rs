//! Steps of threads, and events that a recording adds to them.

use super::{Call, Errno, Name};
use units::Ns;

/// Number of a thread of a workload, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// Call of a thread, with the think time before it. The steps of one thread follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Thread that makes the call.
    pub thread: ThreadId,
    /// Think time before the call, from the end of the thread's step before, or from the start of
    /// the thread.
    pub think: Ns,
    /// Call to make.
    pub call: Call,
}

/// Recorded step.
///
/// Events are in an order in which the calls could have been made one after the other: calls that
/// return a descriptor by their end, because the number may have been freed since they began, all
/// others by their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Step that the recording saw.
    pub step: Step,
    /// Beginning of the call, from the start of the recording.
    pub at: Ns,
    /// Duration of the call.
    pub took: Ns,
    /// Result of the call: bytes moved, entries of a directory read, an offset for a seek, else 0.
    pub result: Result<u64, Errno>,
}

impl Event {
    /// End of the call, from the start of the recording.
    #[must_use]
    pub fn end(&self) -> Ns {
        Ns(self.at.0.saturating_add(self.took.0))
    }
}

/// Thread of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Number of its process, from 0. `exec` keeps the number.
    pub process: u32,
    /// Process number given by the operating system.
    pub pid: u32,
    /// Thread number given by the operating system.
    pub tid: u32,
    /// Thread that started it, by `fork` if it is of another process; `None` for the first.
    pub parent: Option<ThreadId>,
    /// Time of its first appearance, from the start of the recording.
    pub born: Ns,
    /// First program that its process ran.
    pub program: Name,
}
