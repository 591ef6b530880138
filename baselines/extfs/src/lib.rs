//! The extent file system, in the on-disk format of ext4.
//!
//! The **body** knows the format: superblock, groups, bitmaps, inodes, extents,
//! directories. A **strategy** ([`Persist`]), a parameter of the body, makes changes
//! durable: the block journal of ext4 ([`jbd2`]), a byte-granular journal
//! ([`lines::undo`]) or transactions in firmware. So the body never touches a medium,
//! and only the strategy knows whether the medium has blocks.
//!
//! # Invariants
//!
//! - Every change of metadata is a range of bytes of a [`Buffer`], made by
//!   [`Persist::write`] within a transaction.
//! - Blocks that a transaction frees are not reused before the transaction is durable.
//! - Bytes of the medium are not trusted: damaged ones are rejected with an error, and
//!   no walk over them is longer than the medium is large.
//! - A task that needs a handle and the inode lock of a file (its `turn`) opens the
//!   handle first, so a commit that waits for handles never waits for a file.
//!
//! # Where to start reading
//!
//! [`format`](self) has one home per byte layout; `fs` the state that all verbs share; `alloc` free
//! space; `extents` and `tree` the map of a file; `dir`, `index` and `readdir` directories;
//! `delayed`, `truncate`, `direct` contents; `names` the verbs that change names; `body` the list
//! of verbs; [`lines`] the strategies that store cache lines, such as [`pmfs`].

mod alloc;
mod body;
mod buffer;
mod check;
mod delayed;
mod dir;
mod direct;
pub mod ext4;
mod extents;
mod format;
mod fs;
mod geometry;
mod image;
mod index;
mod inode;
mod inspect;
pub mod jbd2;
mod journal;
pub mod lines;
mod mkfs;
mod mount;
mod names;
mod nojournal;
mod orphan;
mod persist;
mod placer;
pub mod pmfs;
mod readdir;
mod refusals;
mod tree;
mod truncate;
mod xattrs;

pub use buffer::{BLOCK, Buffer, Cache};
pub use check::{Finding, Subject, check};
pub use fs::{ExtFs, Private};
pub use geometry::MountError;
pub use image::Image;
pub use inspect::Inspector;
pub use journal::{JournalPlace, find_journal};
pub use mkfs::{Blocks, MkfsError, MkfsOptions, mkfs};
pub use mount::MountOptions;
pub use nojournal::NoJournal;
pub use persist::{DataWrite, Persist, Run, TxId};
pub use placer::Placer;
