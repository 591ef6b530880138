//! The file API: what a program asks of a file system, and what a file system
//! has to do for it.
//!
//! # Who owns what
//!
//! - A **body** ([`Body`]) is a file system: names, attributes, the map from file
//!   to medium, and how they persist. It never caches file contents.
//! - The **page cache** holds file contents in pages of 4,096 bytes, dirty or
//!   clean; it decides when to read ahead and when to write back.
//! - An **inode** ([`Inode`]) is what both share: the truth about attributes while
//!   the file is in use.
//! - A **process** owns descriptors, working directory and umask, and walks paths.
//!
//! # Invariants
//!
//! - `Inode::attr` is the newest truth; a body writes it down, and never reads an
//!   attribute back while the inode is in memory.
//! - Calls that change a directory hold its lock exclusively, so a body sees one
//!   change of a directory at a time; write-back takes no inode lock, so a body
//!   guards its own map of a file.
//! - Whatever is forced is durable when the call returns: file contents first,
//!   then what leads to them.

mod body;
mod errno;
mod inode;
mod types;

pub use body::{Body, DirtyPage, Loaded, NewInode, Rename};
pub use errno::{Errno, Result};
pub use inode::Inode;
pub use types::{
    Access, Attr, DirEntry, FallocateMode, FileKind, Hint, Ino, PAGE, SeekWhat, SetAttr, SetTime,
    StatFs, Timestamp, XattrFlags,
};
