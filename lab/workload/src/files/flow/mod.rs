//! Workloads in filebench's terms: sets of files, and threads that repeat a list of operations.
//!
//! The built-in personalities and `.f` scripts both become a [`Program`], and [`Flow`] turns it
//! into calls. Operations follow filebench 1.5 in the files that they pick, the amounts that they
//! draw and the conditions that they wait for.
//!
//! Deliberate differences:
//! - An append is one write at the end of the file as the generator knows it, so that two threads
//!   that append to one file do not overwrite each other.
//! - A file written as a whole gets the size that was drawn for it.
//! - A thread waits if all files of the wanted kind are busy, and also if there are none, unless
//!   the run ends with the first or the last such thread.
//! - Asynchronous writes are made by helper threads, as in the C library: at most [`HELPERS`] a
//!   process, one at a time for a descriptor.
//! - A loop of `hog` takes a nanosecond a turn and no core.

mod aio;
mod gate;
mod land;
mod op;
mod run;
pub mod script;
mod thread;

pub use run::Flow;

use super::{Amount, FilesetSpec};
use units::Ns;

/// Descriptors of a thread in filebench; number 0 serves operations without an `fd`.
pub(super) const DESCRIPTORS: u32 = 129;

/// Helper threads of a process that writes asynchronously: the default of the
/// GNU C library (`aio_init`, member `aio_threads`).
pub const HELPERS: u32 = 20;

/// Upper bound on the threads of a program, which bounds memory.
pub const MOST_THREADS: u32 = 16_384;

/// A workload in filebench's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Sets of files, in the order of definition.
    pub filesets: Vec<FilesetSpec>,
    /// Groups of threads.
    pub threads: Vec<ThreadSpec>,
    /// Behaviour of a thread that finds no file.
    pub mode: Mode,
    /// Upper bound on the calls of a run.
    pub ops: u64,
    /// Virtual time after which no more calls are made; `None` for no end by time.
    pub until: Option<Ns>,
    /// Events a second that `eventlimit` waits for, of all threads together; 0 for no limit.
    pub rate: u64,
    /// Settings that were accepted but change nothing, one sentence each.
    pub notes: Vec<String>,
}

/// Behaviour of a thread that finds no file of the wanted kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The thread waits for such a file.
    #[default]
    Timeout,
    /// The run ends.
    FirstDone,
    /// The thread ends.
    AllDone,
}

/// Group of threads with equal operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Processes with such threads.
    pub processes: u32,
    /// Threads of each process.
    pub instances: u32,
    /// Operations of a thread, repeated in this order.
    pub ops: Vec<FlowOp>,
}

/// An operation with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOp {
    /// Kind of the operation.
    pub kind: OpKind,
    /// Name, by which other operations target it.
    pub name: String,
    /// Index of the set of files in [`Program::filesets`].
    pub fileset: Option<usize>,
    /// Descriptor of the thread; 0 for the common one.
    pub fd: u32,
    /// Descriptor whose file gives a whole write its size; 0 for the written file.
    pub srcfd: u32,
    /// Whether each run of the operation takes another descriptor.
    pub opennext: bool,
    /// Bytes of one request; 0 for the whole file at once.
    pub iosize: Amount,
    /// Whether requests go to random places.
    pub random: bool,
    /// Whether the file is opened with `O_SYNC`.
    pub dsync: bool,
    /// Whether the file is opened past the page cache.
    pub direct: bool,
    /// Bytes from the start of the file that are used; 0 for all. Sequential requests begin again
    /// there.
    pub workingset: u64,
    /// Runs of the operation before the next one.
    pub iters: Amount,
    /// Turns of a hog, seconds of a delay, tokens, or a limit.
    pub value: Amount,
    /// Tokens that posters may be ahead of the operation.
    pub highwater: u64,
    /// Whether a post waits until its targets have room.
    pub blocking: bool,
    /// Name of the operation to post to, to wake or to count.
    pub target: Option<String>,
}

impl FlowOp {
    /// An operation of this kind with filebench's defaults.
    #[must_use]
    pub fn new(kind: OpKind) -> Self {
        Self {
            kind,
            name: String::new(),
            fileset: None,
            fd: 0,
            srcfd: 0,
            opennext: false,
            iosize: Amount::Fixed(0),
            random: false,
            dsync: false,
            direct: false,
            workingset: 0,
            iters: Amount::Fixed(1),
            value: Amount::Fixed(0),
            highwater: 1,
            blocking: false,
            target: None,
        }
    }
}

/// Declares the kinds of operations with their words in scripts.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $word:literal,)*) => {
        /// Kind of an operation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OpKind {
            $($(#[$doc])* $kind,)*
        }

        impl OpKind {
            /// Every kind, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Word of the kind in scripts.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)* }
            }
        }
    };
}

kinds! {
    /// Opens a file that exists.
    OpenFile "openfile",
    /// Creates a file that does not exist, and keeps it open.
    CreateFile "createfile",
    /// Closes a descriptor.
    CloseFile "closefile",
    /// Deletes a file that exists and that no thread has open.
    DeleteFile "deletefile",
    /// Reads the attributes of a file.
    StatFile "statfile",
    /// Reads a file from its start until there is no more.
    ReadWholeFile "readwholefile",
    /// Writes a file from its start to its size.
    WriteWholeFile "writewholefile",
    /// Writes at the end of a file.
    AppendFile "appendfile",
    /// Writes at the end of a file; each length below `iosize` is equally likely.
    AppendFileRand "appendfilerand",
    /// Reads once, at most `iosize` bytes.
    Read "read",
    /// Writes `iosize` bytes once.
    Write "write",
    /// Makes a file durable.
    Fsync "fsync",
    /// Makes all files of a set durable that the thread has open.
    FsyncSet "fsyncset",
    /// Makes an empty directory of the set.
    MakeDir "makedir",
    /// Removes an empty directory of the set.
    RemoveDir "removedir",
    /// Lists the next directory of the set.
    ListDir "listdir",
    /// Queues a write for a helper, without waiting.
    AioWrite "aiowrite",
    /// Waits for half of the thread's asynchronous writes in flight.
    AioWait "aiowait",
    /// Computes for `value` turns of a loop.
    Hog "hog",
    /// Sleeps for seconds.
    Delay "delay",
    /// Takes tokens, and waits for them.
    SemBlock "semblock",
    /// Gives tokens to every instance of its target.
    SemPost "sempost",
    /// Waits for a wakeup.
    Block "block",
    /// Wakes every instance of its target.
    Wakeup "wakeup",
    /// Waits for the next event of the event generator.
    EventLimit "eventlimit",
    /// Limit of operations a second; ignored.
    OpsLimit "opslimit",
    /// Limit of requests a second; ignored.
    IopsLimit "iopslimit",
    /// Limit of bytes a second; ignored.
    BwLimit "bwlimit",
    /// Ends the thread after `value` operations.
    FinishOnCount "finishoncount",
    /// Ends the thread after `value` bytes.
    FinishOnBytes "finishonbytes",
}

impl OpKind {
    /// Kind with the script word `word`.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    /// Whether the operation needs a set of files; others may use an open descriptor instead.
    #[must_use]
    pub const fn needs_files(self) -> bool {
        matches!(
            self,
            Self::OpenFile
                | Self::CreateFile
                | Self::FsyncSet
                | Self::MakeDir
                | Self::RemoveDir
                | Self::ListDir
        )
    }

    /// Whether the operation needs a request size above 0.
    #[must_use]
    pub const fn needs_iosize(self) -> bool {
        matches!(
            self,
            Self::AppendFile | Self::AppendFileRand | Self::Read | Self::Write | Self::AioWrite
        )
    }

    /// Whether the operation needs a target.
    #[must_use]
    pub const fn needs_target(self) -> bool {
        matches!(self, Self::SemPost | Self::Wakeup)
    }
}
