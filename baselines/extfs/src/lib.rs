//! The extent file system, in the on-disk format of ext4.
//!
//! The **body** knows the format: superblock, groups, bitmaps, inodes, extents,
//! directories. How a change of it persists is a **strategy** ([`Persist`]) that
//! the body takes as a parameter: the block journal of ext4 is one ([`jbd2`]);
//! byte-granular journals ([`lines::undo`]) and transactions in firmware are others. So the body
//! never touches a medium, and nothing but the strategy knows whether it has blocks.
//!
//! # Invariants
//!
//! - Every change of metadata is a range of bytes of a [`Buffer`], made by
//!   [`Persist::write`] within a transaction.
//! - What a transaction frees is not used again before it is durable.
//! - Bytes of the medium are not trusted: they are refused with an error, and no
//!   walk over them is longer than the medium is large.
//! - Whoever needs both opens a handle first and then waits for the turn of a
//!   file, so that a commit that waits for handles never waits for a file.
//!
//! # Where to start reading
//!
//! [`format`](self) has one home per byte layout; `fs` what all verbs share;
//! `alloc` what is free; `extents` and `tree` the map of a file; `dir`, `index`
//! and `readdir` directories; `delayed`, `truncate`, `direct` contents; `names`
//! the verbs that change names; `body` the list of verbs; [`lines`] strategies that
//! store cache lines, of which [`pmfs`] is one.

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
