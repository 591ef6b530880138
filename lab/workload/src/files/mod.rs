//! Workloads of file calls: the calls that programs make to a file system.
//!
//! Generators and recorded traces use the same types: a [`Call`] is one POSIX call without its
//! data, a [`Step`] adds its thread and the think time before it, an [`Event`] adds its recorded
//! time and result, and a [`Setup`] is the tree that must exist before the first call.
//!
//! Invariants:
//! - A call is a small value without pointers. Paths and other strings are [`Name`]s, numbers in
//!   the [`Names`] of the workload, so making or copying a call allocates nothing.
//! - Paths are relative to the root of the workload: no slash at either end, no empty component, no
//!   `.` and no `..`; the root itself is the empty path. The target of a symbolic link is the only
//!   string that is kept verbatim.
//! - An [`Fd`] is an open file, not a number of some process. Descriptors made by `dup`, `fork` or
//!   `exec` share their open file and its offset, so they share the slot, and a replay need not
//!   copy descriptors. A slot is taken by [`Call::Open`] and freed by [`Call::Close`], which stands
//!   for the last close; then it may be taken again.

mod ace;
pub mod ageing;
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
