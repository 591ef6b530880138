//! Workloads in the language of files: what a program asks of a file system.
//!
//! Generators and recorded traces speak it alike: a [`Call`] is one POSIX call
//! with its data left out, a [`Step`] says which thread makes it and after how
//! much thinking, an [`Event`] adds what a recording saw of it, and a [`Setup`]
//! is the tree that must be there before the first call.
//!
//! Invariants:
//! - A call is a small value without pointers. Paths and other strings are
//!   [`Name`]s, numbers in the [`Names`] that belong to the workload, so making
//!   or copying a call allocates nothing.
//! - Paths are relative to the root of the workload: no slash at either end, no
//!   empty component, no `.` and no `..`; the root itself is the empty path.
//!   The target of a symbolic link is the only string that is kept as it was.
//! - An [`Fd`] is an open file, not a number of some process. Descriptors that
//!   `dup`, `fork` or `exec` made share their open file and its offset, so they
//!   share the slot, and nobody needs to copy descriptors to replay a trace. A
//!   slot is taken by [`Call::Open`], freed by [`Call::Close`], which stands
//!   for the last close, and may be taken again then.

mod ace;
mod anything;
pub mod beside;
mod cachebench;
mod call;
mod draw;
mod field;
mod fileset;
pub mod flow;
mod iozone;
mod names;
mod personality;
mod placed;
mod presets;
pub mod replay;
mod setup;
mod source;
mod step;
mod streams;
mod tpcc;
pub mod trace;
mod words;
mod workload;
mod ycsb;

pub use call::Call;
pub use draw::Amount;
pub use field::{Field, FieldSink, FieldSource};
pub use fileset::{Access, FilesetSpec};
pub use names::{Name, Names};
pub use placed::placed;
pub use presets::{CALLS, FILE_PRESETS, SCRIPT};
pub use setup::{Entry, EntryKind, Setup};
pub use source::{Source, Turn};
pub use step::{Event, Step, Thread, ThreadId};
pub use units::Hint;
pub use words::{
    Advice, Allocation, Fd, Lock, MsyncHow, NodeKind, OpenFlags, RangeSync, RenameHow, Target,
    XattrHow,
};
pub use words::{Errno, Mode};
pub use workload::{FileWorkload, asks_for_files};
pub(crate) use ycsb::bench::Benchmarks;
