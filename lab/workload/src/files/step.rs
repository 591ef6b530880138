//! Who makes a call and when; what a recording saw of it.

use super::{Call, Errno, Name};
use units::Ns;

/// A thread of a workload, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// A call that a thread makes. The steps of one thread follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose.
    pub thread: ThreadId,
    /// How long the thread does something else first, counted from the end of
    /// its step before; for its first, from the start of the thread.
    pub think: Ns,
    /// What it asks for.
    pub call: Call,
}

/// A step that was recorded.
///
/// Events come in an order in which the calls could have been made one after
/// the other: those that answer with a descriptor by their end, because the
/// number may have been freed since they began, all others by their beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What was asked for.
    pub step: Step,
    /// When the call began, from the start of the recording.
    pub at: Ns,
    /// How long it took.
    pub took: Ns,
    /// What it answered: bytes for what moves bytes, entries for a read of a
    /// directory, an offset for a seek, else 0.
    pub result: Result<u64, Errno>,
}

impl Event {
    /// When the call ended, from the start of the recording.
    #[must_use]
    pub fn end(&self) -> Ns {
        Ns(self.at.0.saturating_add(self.took.0))
    }
}

/// A thread of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its process, from 0. `exec` makes no new one.
    pub process: u32,
    /// The number that the system gave the process.
    pub pid: u32,
    /// The number that the system gave the thread.
    pub tid: u32,
    /// The thread that started it: by `fork` if it is of another process. The
    /// first has none.
    pub parent: Option<ThreadId>,
    /// When it was first seen, from the start of the recording.
    pub born: Ns,
    /// The program that its process ran first.
    pub program: Name,
}
