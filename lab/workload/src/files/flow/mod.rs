//! Workloads as filebench describes them: sets of files, and threads that go
//! through a list of operations again and again.
//!
//! The built-in personalities and `.f` scripts become the same [`Program`], and
//! [`Flow`] turns it into calls. What each operation does follows filebench
//! 1.5: which file it picks, what it draws, when it waits.
//!
//! Where this differs, on purpose:
//! - An append is one write at the end of the file as the generator knows it, so
//!   that two threads that append to one file do not write over each other.
//! - A file written as a whole gets the size that was drawn for it.
//! - A thread that finds all files of the kind it wants busy waits for one; so
//!   does one that finds none, unless the run ends with the first or the last
//!   such thread.
//! - Asynchronous writes are made by helper threads, which is how the C library
//!   does it: at most [`HELPERS`] a process, one at a time for a descriptor.
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

/// Descriptors of a thread, as filebench has them; number 0 is the one of
/// operations that name none.
pub(super) const DESCRIPTORS: u32 = 129;

/// Helper threads of a process that writes asynchronously: the default of the
/// GNU C library (`aio_init`, member `aio_threads`).
pub const HELPERS: u32 = 20;

/// Most threads of a program, which bounds memory.
pub const MOST_THREADS: u32 = 16_384;

/// A workload in filebench's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The files.
    pub filesets: Vec<FilesetSpec>,
    /// Who uses them.
    pub threads: Vec<ThreadSpec>,
    /// When the run ends if a thread finds no file.
    pub mode: Mode,
    /// Calls after which no more are made.
    pub ops: u64,
    /// Virtual time after which no more calls are made.
    pub until: Option<Ns>,
    /// Events a second that `eventlimit` waits for, of all threads together; 0
    /// for no limit.
    pub rate: u64,
    /// What was accepted but changes nothing here, in sentences.
    pub notes: Vec<String>,
}

/// What happens when a thread finds no file of the kind that it wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It waits for one.
    #[default]
    Timeout,
    /// The run ends.
    FirstDone,
    /// The thread ends.
    AllDone,
}

/// Threads that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadSpec {
    /// Processes that have such threads.
    pub processes: u32,
    /// How many each of them has.
    pub instances: u32,
    /// What each does, again and again.
    pub ops: Vec<FlowOp>,
}

/// An operation with its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOp {
    /// What it does.
    pub kind: OpKind,
    /// Its name, for those who name it as their target.
    pub name: String,
    /// The set of files, by its place in [`Program::filesets`].
    pub fileset: Option<usize>,
    /// Which descriptor of the thread; 0 for the common one.
    pub fd: u32,
    /// Which descriptor's file a whole write takes its size from; 0 for its own.
    pub srcfd: u32,
    /// Each time another descriptor.
    pub opennext: bool,
    /// Bytes of one request; 0 takes the whole file at once.
    pub iosize: Amount,
    /// At a random place.
    pub random: bool,
    /// Written through (`O_SYNC`).
    pub dsync: bool,
    /// Past the page cache.
    pub direct: bool,
    /// Bytes from the start of the file that are used; 0 for all. Requests in
    /// order begin again there.
    pub workingset: u64,
    /// How many times it is done before the next one.
    pub iters: Amount,
    /// Turns of a hog, seconds of a delay, tokens, or a limit.
    pub value: Amount,
    /// Tokens that may be ahead of those who take them.
    pub highwater: u64,
    /// Whether posting waits for those who take.
    pub blocking: bool,
    /// The name of the operation that it acts on.
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
        /// What an operation does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OpKind {
            $($(#[$doc])* $kind,)*
        }

        impl OpKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Its word in a script.
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
    /// Makes a file that does not exist, and keeps it open.
    CreateFile "createfile",
    /// Closes a descriptor.
    CloseFile "closefile",
    /// Deletes a file that exists and that nobody has open.
    DeleteFile "deletefile",
    /// Asks for the attributes of a file.
    StatFile "statfile",
    /// Reads a file from its start until there is no more.
    ReadWholeFile "readwholefile",
    /// Writes a file from its start to its size.
    WriteWholeFile "writewholefile",
    /// Writes at the end of a file.
    AppendFile "appendfile",
    /// Writes at the end of a file, each length below `iosize` as likely as any
    /// other.
    AppendFileRand "appendfilerand",
    /// Reads once.
    Read "read",
    /// Writes once.
    Write "write",
    /// Makes a file durable.
    Fsync "fsync",
    /// Makes all files of a set durable that the thread has open.
    FsyncSet "fsyncset",
    /// Makes an empty directory.
    MakeDir "makedir",
    /// Removes an empty directory.
    RemoveDir "removedir",
    /// Lists a directory.
    ListDir "listdir",
    /// Writes without waiting.
    AioWrite "aiowrite",
    /// Waits for half of what was written without waiting.
    AioWait "aiowait",
    /// Computes.
    Hog "hog",
    /// Sleeps for seconds.
    Delay "delay",
    /// Takes tokens, waiting for them.
    SemBlock "semblock",
    /// Gives tokens to every instance of its target.
    SemPost "sempost",
    /// Waits to be woken.
    Block "block",
    /// Wakes every instance of its target.
    Wakeup "wakeup",
    /// Waits for an event of the generator of events.
    EventLimit "eventlimit",
    /// Limits operations a second, of which there is no limit here.
    OpsLimit "opslimit",
    /// Limits requests a second, of which there is no limit here.
    IopsLimit "iopslimit",
    /// Limits bytes a second, of which there is no limit here.
    BwLimit "bwlimit",
    /// Ends the thread after so many operations.
    FinishOnCount "finishoncount",
    /// Ends the thread after so many bytes.
    FinishOnBytes "finishonbytes",
}

impl OpKind {
    /// The kind that scripts call `word`.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    /// Whether it needs a set of files, unless a descriptor is open.
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

    /// Whether it needs a request size above 0.
    #[must_use]
    pub const fn needs_iosize(self) -> bool {
        matches!(
            self,
            Self::AppendFile | Self::AppendFileRand | Self::Read | Self::Write | Self::AioWrite
        )
    }

    /// Whether it does something about another operation.
    #[must_use]
    pub const fn needs_target(self) -> bool {
        matches!(self, Self::SemPost | Self::Wakeup)
    }
}
