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
//! - A **mount** ([`Vfs`]) puts a body under the cache. Its calls take numbers of
//!   inodes and handles, as FUSE and NFS ask; they check permissions, keep names
//!   and inodes in memory, and give the errors of Linux ([`Errno`]).
//! - A **process** ([`Process`]) owns descriptors, working directory and umask,
//!   and walks paths.
//!
//! Two more things live here because everybody above needs them: a body in memory
//! ([`mem::MemFs`]), and the reference model with its judge of crashes
//! ([`model`]).
//!
//! ```
//! use sim::Kernel;
//! use units::{Bytes, MIB};
//! use vfs::{Access, CacheConfig, Clock, Compute, OpenFlags, Process, Source, Vfs};
//!
//! let kernel = Kernel::new();
//! let body = vfs::mem::MemFs::new(Bytes(MIB));
//! let (config, clock) = (CacheConfig::default(), Clock::default());
//! let vfs = Vfs::mount(&kernel.sim(), body, config, clock, Compute::unlimited());
//! let process = Process::new(&vfs, Access::root());
//! let bytes = kernel.block_on(async move {
//!     let flags = OpenFlags::BOTH | OpenFlags::CREATE;
//!     let fd = process.open(b"/hello", flags, 0o644).await?;
//!     process.write(fd, Source::Bytes(b"world")).await?;
//!     process.fsync(fd).await?;
//!     process.read_bytes(fd, 0, 5).await
//! });
//! assert_eq!(bytes, Ok(b"world".to_vec()));
//! ```
//!
//! # The way of a write
//!
//! A call pays for its processor time, takes the inode's lock, tells the body
//! which pages are about to be dirty ([`Body::reserve`]), changes the pages and
//! lets go. A whole page of a pattern stays a pattern; bytes are copied only when
//! somebody else still holds the old ones. From then on the page is written back
//! once its file has been dirty for long, once too much is dirty, once memory is
//! wanted, or once somebody forces it: then the body gets it in
//! [`Body::write_pages`], with the hint and the origin of its inode, and
//! [`Body::sync`] makes it durable.
//!
//! A body whose medium is mapped into memory ([`Body::is_dax`]) has no pages here:
//! its reads and writes, those of mapped files among them, are calls of
//! [`Body::read_direct`] and [`Body::write_direct`], of any length.
//!
//! # Invariants
//!
//! - `Face::attr` is the newest truth; a body writes it down, and never reads an
//!   attribute back while the inode is in memory.
//! - Calls that change a directory hold its lock exclusively, so a body sees one
//!   change of a directory at a time; write-back takes no inode lock, so a body
//!   guards its own map of a file.
//! - An inode is in memory once, and two tasks that want the same inode, name or
//!   page meet one look at the medium.
//! - What is in memory is found without waiting: a hit costs at most the one event
//!   that pays for the call.
//! - A body is never asked by a call that holds a cache structure: whatever is
//!   borrowed is given back before anybody waits.
//! - Whatever is forced is durable when the call returns: file contents first,
//!   then what leads to them.
//! - When nothing is dirty, no task of this crate is waiting for time to pass.
//!
//! # What is like Linux, and what is not
//!
//! Ages, ratios, windows of read-ahead, the order of checks and the rules for
//! times follow Linux; the numbers and their sources are in [`CacheConfig`]. The
//! share that may be dirty is one of the configured memory, not of what happens to
//! be free. Pages are taken away by a clock hand that spares what was used twice,
//! which stands for the two lists of Linux. A file ages as a whole, as in Linux.
//! A failure of write-back is told as by Linux: once to each open file that forces
//! the file, and once to each that forces the file system; a page that could not be
//! written is clean all the same, and closing a file tells of nothing.
//! There are no access control lists, no quotas and no mandatory locks; pipes,
//! sockets and devices have names and attributes and cannot be opened.

mod access;
mod attr;
mod body;
mod clock;
mod config;
pub mod direct;
mod dirs;
mod errno;
mod failure;
mod file;
mod finding;
mod flags;
mod inode;
mod known;
mod locks;
pub mod mem;
pub mod model;
mod names;
mod node;
mod observe;
mod pages;
mod pass;
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

pub use body::{Body, Change, DirtyPage, NewInode, Rename};
pub use clock::{Clock, Compute};
pub use config::{Atime, CacheConfig, CacheError, CallCosts};
pub use errno::{Errno, Result};
pub use file::Handle;
pub use finding::{Finding, Findings};
pub use flags::{OpenFlags, Source};
pub use inode::{Face, Inode};
pub use locks::{LockKind, RecordLock};
pub use observe::{Act, Observer};
pub use pool::CacheStats;
pub use process::{At, Fd, Process, Whence};
pub use read::Advice;
pub use rename::RenameFlags;
/// Takes what a read gives: bytes (`&mut [u8]`), pages as they are kept
/// (`&mut [Payload]`, whole pages only), or nothing but the time (`()`).
pub use ssd::Sink as ReadSink;
pub use types::{
    Access, Attr, Cleaning, DirEntry, ExtentCounts, FallocateMode, FileKind, Ino, LogStats,
    MAX_TRANSFER, NodesByTree, PAGE, SeekWhat, SetAttr, SetTime, StatFs, Timestamp, TreeStats,
    XattrFlags,
};
pub use units::Hint;
#[doc(hidden)]
pub use units::pass_on;
pub use vfs::Vfs;
