//! Placed files in virtual time: Parakeet's rules say which files go where, Shimmer's
//! core keeps them in zones, an ordinary file system has everything else.
//!
//! This is what `front/shim` does before a real program, as a body of the file API. Both
//! have the same core and the same order of things; here the zones are a drive's, awaited
//! under a virtual clock.
//!
//! # Invariants
//!
//! - A placed file is an empty file of the ordinary file system, with an attribute that says
//!   so: names, permissions and links are that file's. The core calls it by its inode and
//!   generation, so renaming costs the core nothing.
//! - A file is placed exactly if it has the attribute and the core knows it. One that has the
//!   attribute alone was never forced, and is empty after a power cut.
//! - Before anything of the core's log is written, the ordinary file system has made durable
//!   that names are gone whose files the core forgets in it: no name comes back without its
//!   file.
//! - What zones cannot hold (a write to the past, a hole) moves the file to the ordinary file
//!   system first: copied, forced, and only then without the attribute.
//! - Writes to placed files go around the page cache into the core's buffers; reads are
//!   cached, as they are over zonefs.
//!
//! # What the dissertation leaves open, and what was chosen
//!
//! - *Which ordinary file system*: ext4, on conventional zones of the same drive.
//! - *What of it on a drive without zones*: hint-only mode (5.2). Each file that a rule names
//!   gets the kernel's hint for its stream, and the placement handle for it on a drive that
//!   has some, as the dissertation would if there were a way to the drive (6.1.1).
//! - *Times of placed files* become durable when the file is let go of, not with each write:
//!   a write to the ordinary file system for each write to zones would undo what is won.

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
