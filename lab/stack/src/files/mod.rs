//! Calls of programs: threads that execute them on a file system in virtual time.
//!
//! Invariants: each thread is a task that executes its calls one after the other; the source
//! decides which and when. The tree that must exist is made before, untimed, synced, and dropped
//! from the cache. A call allocates nothing here; path strings are those of the source.
//!
//! Data are patterns: the n-th write at one position of one file has a pattern of its own, whatever
//! thread writes it, so that a check can tell versions apart ([`tag`]).

mod act;
mod drive;
mod meter;
mod origins;
mod rare;
mod recovery;
mod remount;
mod room;
mod run;
mod slots;
mod told;
mod tree;
mod words;

pub use drive::Drive;
pub use meter::{FileMeter, Mismatch};
pub(crate) use origins::FILE_SYSTEM;
pub use origins::Origins;
pub(crate) use run::{How, mount, prepare, ready, refused, run_on, unmount, wait};
pub use slots::tag;
pub use tree::make_tree;
