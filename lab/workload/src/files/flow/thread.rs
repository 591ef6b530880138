//! What one thread of a program is in the middle of.

use crate::files::Fd;
use sim::Rng;

/// A file that a thread has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub(super) set: usize,
    pub(super) file: u32,
    /// Where a request goes on that names no place.
    pub(super) at: u64,
    /// Whether it has been deleted since.
    pub(super) deleted: bool,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// It has not begun, or its file has just been opened.
    #[default]
    Start,
    /// It goes on at this offset of the whole file.
    Whole { at: u64 },
    /// It goes on with this descriptor of those that it syncs.
    Sync { fd: u32 },
    /// It has a directory open, of which there may be more.
    Listing { more: bool },
    /// It goes on with this target.
    Posting { target: usize },
    /// It waits for tokens.
    Taking,
    /// It waits until so many writes of the thread have ended.
    Reaping { ended: u64 },
}

/// The call that a thread waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flight {
    #[default]
    None,
    /// Opens a file of a set in a descriptor; it was there before or not.
    Open {
        fd: u32,
        set: usize,
        file: u32,
        existed: bool,
    },
    Close {
        fd: u32,
    },
    /// Deletes a file, which may be open in a descriptor of the thread's own.
    Delete {
        set: usize,
        file: u32,
        own: Option<u32>,
    },
    /// Looks at a file that it has picked.
    Stat {
        set: usize,
        file: u32,
    },
    /// Makes or removes an empty directory.
    Dir {
        set: usize,
        dir: u32,
        makes: bool,
    },
    /// Part of a file that is read as a whole.
    ReadWhole {
        at: u64,
    },
    /// Part of a file that is written as a whole, and how much is left then.
    WriteWhole {
        at: u64,
        left: u64,
    },
    /// One read of a descriptor, whose offset it moves or not.
    Read {
        fd: u32,
        moves: bool,
    },
    /// One write.
    Write {
        bytes: u64,
    },
    SyncOne {
        fd: u32,
    },
    ListOpen,
    ListRead,
    /// Whatever needs no more than to have ended.
    Plain,
}

/// A thread.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    /// Which of the program's threads it is like.
    pub(super) spec: usize,
    pub(super) process: u32,
    /// The number of its first descriptor among all.
    pub(super) first_fd: u32,
    /// The first of its gates, one an operation.
    pub(super) first_gate: usize,
    /// The operation that it is at.
    pub(super) op: usize,
    /// How many more times it does it; none if it has not been drawn.
    pub(super) left: Option<u64>,
    pub(super) step: Step,
    pub(super) flight: Flight,
    pub(super) fds: Vec<Option<OpenFile>>,
    /// The descriptor before, of operations that take another one each time.
    pub(super) rotor: u32,
    /// The descriptor of the operation that it is at, once chosen.
    pub(super) chosen: Option<u32>,
    pub(super) rng: Rng,
    /// Writes that it did not wait for: begun and ended.
    pub(super) aio: (u64, u64),
    /// Operations since its last turn that asked for nothing.
    pub(super) idle: u32,
}

impl Worker {
    /// The slot of its descriptor `fd`.
    pub(super) const fn slot(&self, fd: u32) -> Fd {
        Fd(self.first_fd + fd)
    }
}
