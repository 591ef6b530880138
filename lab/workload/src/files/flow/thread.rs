//! State of one thread of a program.

use crate::files::Fd;
use sim::Rng;

/// File that a thread has open.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenFile {
    pub(super) set: usize,
    pub(super) file: u32,
    /// Offset at which the next sequential request begins.
    pub(super) at: u64,
    /// Whether the thread has deleted the file meanwhile.
    pub(super) deleted: bool,
}

/// Progress within an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Step {
    /// Not begun, or its file has just been opened.
    #[default]
    Start,
    /// Continues at this offset of the whole file.
    Whole { at: u64 },
    /// Continues with the open files of the set from this descriptor on.
    Sync { fd: u32 },
    /// Has a directory open; `more` tells whether entries may be left.
    Listing { more: bool },
    /// Continues with this target.
    Posting { target: usize },
    /// Waits for tokens.
    Taking,
    /// Waits until this many of the thread's asynchronous writes have ended.
    Reaping { ended: u64 },
}

/// Call in progress of a thread, with what its result changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Flight {
    #[default]
    None,
    /// Opens a file of a set in a descriptor; `existed` tells whether the file was there before.
    Open {
        fd: u32,
        set: usize,
        file: u32,
        existed: bool,
    },
    Close {
        fd: u32,
    },
    /// Deletes a file; `own` is the thread's descriptor that has it open.
    Delete {
        set: usize,
        file: u32,
        own: Option<u32>,
    },
    /// Reads the attributes of a picked file.
    Stat {
        set: usize,
        file: u32,
    },
    /// Makes or removes an empty directory of a set.
    Dir {
        set: usize,
        dir: u32,
        makes: bool,
    },
    /// Reads a part of a whole file.
    ReadWhole {
        at: u64,
    },
    /// Writes a part of a whole file; `left` bytes remain after it.
    WriteWhole {
        at: u64,
        left: u64,
    },
    /// Reads once; `moves` tells whether the descriptor's offset advances.
    Read {
        fd: u32,
        moves: bool,
    },
    /// Writes once.
    Write {
        bytes: u64,
    },
    SyncOne {
        fd: u32,
    },
    ListOpen,
    ListRead,
    /// A call that only has to end.
    Plain,
}

/// State of one worker thread.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    /// Index of its group in the program.
    pub(super) spec: usize,
    pub(super) process: u32,
    /// First descriptor number of the thread.
    pub(super) first_fd: u32,
    /// First gate of the thread; there is one for each operation.
    pub(super) first_gate: usize,
    /// Index of the present operation.
    pub(super) op: usize,
    /// Runs of the present operation left; `None` before the number is drawn.
    pub(super) left: Option<u64>,
    pub(super) step: Step,
    pub(super) flight: Flight,
    pub(super) fds: Vec<Option<OpenFile>>,
    /// Descriptor taken last by operations with `opennext`.
    pub(super) rotor: u32,
    /// Descriptor of the present operation, once chosen.
    pub(super) chosen: Option<u32>,
    pub(super) rng: Rng,
    /// Asynchronous writes begun and ended.
    pub(super) aio: (u64, u64),
    /// Operations completed without a turn since the last turn.
    pub(super) idle: u32,
}

impl Worker {
    /// Number of the thread's descriptor `fd` among all threads.
    pub(super) const fn slot(&self, fd: u32) -> Fd {
        Fd(self.first_fd + fd)
    }
}
