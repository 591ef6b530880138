//! Btrfs: the copy-on-write file system of trees, in the on-disk format of Linux.
//!
//! The **body** knows the format: trees of nodes of 16 KiB that hold inodes, names, pieces of
//! files, extents with their references, sums of contents and chunks of the device. A
//! **strategy** ([`Persist`]), which the body takes as a parameter, persists overwrites and
//! changed nodes. [`Btrfs`] works as Linux does: nodes are copied up to the root and committed
//! with a superblock, contents are copied or written in place. Another strategy may replace
//! contents at once through the mapping of the drive, and change nodes in place.
//!
//! # Invariants
//!
//! - Nothing that the last commit or a later force leads to is overwritten before the next
//!   commit, unless the strategy says so.
//! - A commit captures one instant, with no operation under way. A force without a commit
//!   makes one regular file durable: its contents and attributes, and its name if it is new.
//!   Recovery applies such files on top of the commit.
//! - A commit never runs out of space: each operation first holds the space it may need.
//! - Bytes of the medium are not trusted: a node is read with its sum, address, level,
//!   generation and first key, contents with their sums; what does not fit is an error, and
//!   no walk is longer than the medium is large.
//! - Locks are taken in this order: the turn of a file, the publishing lock, an operation.
//!
//! # What is like Linux, and what is not
//!
//! The format is that of `mkfs.btrfs` with sectors of 4,096 bytes, nodes of 16,384, crc32c,
//! one device, and the features skinny metadata, no holes and extended references; space
//! that is free follows from the tree of extents, and no tree of it is kept. File systems
//! with others are refused, and so is packed content. Metadata have one copy unless two are
//! requested: that was the default on flash.
//!
//! As in Linux an extent is at most 128 MiB, and stays as a whole as long as any part of it is
//! used; contents of up to 2,048 bytes lie in an item; what is written is allocated at write-back;
//! nothing is joined across write-backs; chunks are made on demand, a tenth of the device or a GiB;
//! references settle with the commit; a force goes by the log of its subvolume, with all names and
//! attributes of the file and the pieces that have changed. Files share ranges that are copied
//! whole, nodes and extents are shared by snapshots, and a change to a shared one copies it.
//!
//! Otherwise than in Linux, a force is a commit after any name of the file has changed since the
//! last one, but for its making; of what is no regular file; of a new file in a new directory; of a
//! file whose name another file was moved away from; and if nodes have little room for a log.
//! Numbers of inodes below subvolumes carry the subvolume in their high bits. The space of a log is
//! free once a commit has ended. Inodes and references are written with each change, not delayed.
//! Of two copies of a node the first is read, and the second if that is damaged; neither is
//! repaired. A file that is forced after its last name went makes a commit. A snapshot is one of
//! the first subvolume, in its root directory, made and dropped while no cache is over the body;
//! what was a snapshot in it is not seen.
//!
//! # Where to start reading
//!
//! [`format`](self) has one home per byte layout; `fs` what all verbs share; `nodes` and
//! `forest` nodes and how they come to be changed; `walk` and `edit` items; `refs` and
//! `space` extents; `names`, `inodes`, `xattrs` and `pieces` files; `write`, `read` and
//! `range` contents; `clone` and `snapshot` what is shared; `commit` and `forced` what makes them
//! durable; `replay` what follows a power cut; `persist` the strategies; `check` the checker.

mod body;
mod check;
mod chunks;
mod clone;
mod commit;
mod edit;
mod forced;
mod forest;
mod format;
mod fs;
mod inodes;
mod mkfs;
mod mount;
mod names;
mod nodes;
mod persist;
mod pieces;
mod range;
mod read;
mod refs;
mod refusals;
mod replay;
mod snapshot;
mod space;
mod staged;
mod stats;
mod sums;
mod take_in;
mod walk;
mod write;
mod xattrs;

pub use crate::format::superblock::SuperError;
pub use crate::format::{Block, NODE, SECTOR};
pub use check::{Inspector, ROOT, check};
pub use fs::{CowFs, Private};
pub use mkfs::{Blocks, MkfsError, MkfsOptions, format, mkfs};
pub use mount::{MountError, MountOptions, Recovery, mount, mount_with};
pub use nodes::TreeKind;
pub use persist::{
    Batch, Btrfs, ChangedNode, FreshNode, Overwrite, Persist, Reason, Replacement, Ticket,
    publish_copies, purpose, write_nodes, write_run,
};
pub use snapshot::{Snapshots, snapshots};
