//! The file API: the calls that programs make, and the interface that a file system implements.
//!
//! # Ownership
//!
//! - A **body** ([`Body`]) is a file system: names, attributes, the map from file to medium, and
//!   how they persist. It never caches file contents.
//! - The **page cache** holds file contents in pages of 4,096 bytes, dirty or clean; it decides
//!   when to read ahead and when to write back.
//! - An **inode** ([`Inode`]) is shared by both: it holds the current attributes while the file is
//!   in use.
//! - A **mount** ([`Vfs`]) puts a body under the cache. Its calls take inode numbers and handles,
//!   as FUSE and NFS do; they check permissions, cache names and inodes, and return the errors of
//!   Linux ([`Errno`]).
//! - A **process** ([`Process`]) owns descriptors, working directory and umask, and resolves paths.
//!
//! The crate also has a body in memory ([`mem::MemFs`]), and the reference model with its judge of
//! crash images ([`model`]), because every crate above uses both.
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
//! # The path of a write
//!
//! A call pays for its processor time, takes the inode lock, announces the pages to the body
//! ([`Body::reserve`]), changes them, marks them dirty and releases the lock. A whole page of a
//! pattern stays a pattern; bytes are copied only while another owner still shares the old ones.
//! Write-back of the page starts once its file has been dirty for the expiry time, once too many
//! pages are dirty, once the cache needs frames, or once a call forces the file. The body then gets
//! the page in [`Body::write_pages`], with the hint and the origin of its inode, and [`Body::sync`]
//! makes it durable.
//!
//! A body whose medium is mapped into memory ([`Body::is_dax`]) has no pages in the cache: its
//! reads and writes, including those of mapped files, are calls of [`Body::read_direct`] and
//! [`Body::write_direct`], of any length.
//!
//! # Invariants
//!
//! - `Face::attr` is current; a body persists it, and never reads an attribute back while the inode
//!   is in memory.
//! - Calls that change a directory hold its inode lock exclusively, so a body sees one change of a
//!   directory at a time. Write-back takes no inode lock, so a body guards its own map of a file.
//! - An inode is in memory once. Two tasks that miss on one inode, name or page share a single
//!   access to the medium.
//! - Cached state is found without waiting: a hit costs at most the one event that pays for the
//!   call.
//! - No call of a body is made while a cache structure is borrowed: every borrow ends before an
//!   await.
//! - A force returns once its data are durable: file contents first, then the metadata that lead to
//!   them.
//! - When nothing is dirty, no task of this crate waits for time to pass.
//!
//! # Differences from Linux
//!
//! Ages, ratios, windows of read-ahead, the order of checks and the rules for times follow Linux;
//! the numbers and their sources are in [`CacheConfig`]. The dirty ratios apply to the configured
//! memory, not to the memory that is free. A clock hand evicts pages and spares those used twice;
//! it stands for the two lists of Linux. A file ages as a whole, as in Linux. Write-back failures
//! are reported as by Linux: once to each open file that forces the file, and once to each that
//! forces the file system. A page that could not be written is clean all the same, and closing a
//! file reports nothing.
//!
//! There are no access control lists, no quotas and no mandatory locks. Pipes, sockets and devices
//! have names and attributes and cannot be opened.

mod access;
mod any;
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
#[doc(hidden)]
pub mod mutant;
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

pub use any::{AnyBody, AnyPrivate};
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
/// Destination of a read: bytes (`&mut [u8]`), pages as they are stored (`&mut [Payload]`, whole
/// pages only), or nothing but the time (`()`).
pub use ssd::Sink as ReadSink;
pub use types::{
    Access, Attr, Cleaning, DirEntry, ExtentCounts, FallocateMode, FileKind, Ino, LogStats,
    MAX_TRANSFER, NodesByTree, PAGE, SeekWhat, SetAttr, SetTime, StatFs, TimeRange, Timestamp,
    TreeStats, XattrFlags,
};
pub use units::Hint;
#[doc(hidden)]
pub use units::pass_on;
pub use vfs::Vfs;
