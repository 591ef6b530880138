//! Placed files in virtual time: Parakeet's rules decide where files go, Shimmer's core keeps
//! placed ones in zones, and an ordinary file system has all others.
//!
//! As a body of the file API this is the counterpart of `front/shim`, which serves real programs.
//! Both use the same core in the same order of operations; here the zones are a drive's, awaited
//! under a virtual clock.
//!
//! # Invariants
//!
//! - A placed file is an empty file of the ordinary file system with a mark, an extended attribute:
//!   names, permissions and links are that file's. Its key in the core is its inode and generation,
//!   so renaming costs the core nothing.
//! - A file is placed exactly if it has the mark and the core knows it. A file with the mark alone
//!   was never forced, and is empty after a power cut.
//! - Before the core writes a batch of its log that forgets files, the ordinary file system has
//!   made the removal of their names durable: no name comes back without its file.
//! - An operation that zones cannot hold (a write to the past, a hole) first moves the file to the
//!   ordinary file system: it is copied, forced, and only then loses the mark.
//! - Writes to placed files go around the page cache into the core's buffers; reads are
//!   cached, as they are over zonefs.
//!
//! # Choices where the dissertation is open
//!
//! - *The ordinary file system*: ext4, on conventional zones of the same drive.
//! - *A drive without zones*: hint-only mode (5.2). Each file with a matching rule gets the
//!   kernel's hint for its stream, and on a drive with handles the placement handle for it, which
//!   the dissertation would do if there were an interface (6.1.1).
//! - *Times of placed files* become durable when the file is closed, not with each write: a write
//!   to the ordinary file system for each write to zones would undo the gain.

mod body;
mod choose;
mod names;
mod ordinary;
mod state;
mod volume;
mod zones;

pub use body::{MARK, Placed};
pub use choose::{Chooser, Policy};
pub use ordinary::Ordinary;
pub use volume::{VolumeError, check, format};
pub use zones::{Reader, reports};
