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

mod access;
mod attr;
mod body;
mod clock;
mod config;
mod dirs;
mod errno;
mod file;
mod flags;
mod inode;
mod locks;
pub mod mem;
pub mod model;
mod names;
mod node;
mod pages;
mod pool;
mod process;
mod radix;
mod range;
mod read;
mod readahead;
mod rename;
mod types;
mod vfs;
mod walk;
mod write;
mod writeback;
mod xattr;

pub use body::{Body, DirtyPage, Loaded, NewInode, Rename};
pub use clock::{Clock, Compute};
pub use config::{CacheConfig, CallCosts};
pub use errno::{Errno, Result};
pub use file::Handle;
pub use flags::{OpenFlags, Source};
pub use inode::Inode;
pub use locks::{LockKind, RecordLock};
pub use pool::CacheStats;
pub use process::{At, Fd, Process, Whence};
pub use read::Advice;
pub use rename::RenameFlags;
/// Takes what a read gives: bytes (`&mut [u8]`), pages as they are kept
/// (`&mut [Payload]`, whole pages only), or nothing but the time (`()`).
pub use ssd::Sink as ReadSink;
pub use types::{
    Access, Attr, DirEntry, FallocateMode, FileKind, Hint, Ino, PAGE, SeekWhat, SetAttr, SetTime,
    StatFs, Timestamp, XattrFlags,
};
pub use vfs::Vfs;
