//! F2FS: the log-structured file system, in the on-disk format of Linux.
//!
//! The **body** knows the format: inodes, nodes, entries of directories, segments and
//! logs. A **strategy** ([`Persist`]), a parameter of the body, persists the tables that locate
//! everything (node addresses, segments, summaries, checkpoints):
//! in place on a port of blocks, as in Linux ([`InPlace`]), or with the tables in conventional
//! zones and the logs in zones that are written in order ([`Zoned`]); [`OnDrive`] is what a
//! drive needs of them. Persimmon brings another one.
//!
//! # Invariants
//!
//! - Nothing that the last checkpoint leads to, or that was written since, is written
//!   over before the next one.
//! - A checkpoint is of one instant: no operation is under way. What a force makes durable
//!   without one is a regular file: its contents and attributes, and its name if it is new.
//!   Recovery lays such files over the checkpoint; other names are as they were then. So
//!   a file that was moved, and not forced since, is lost if a new one is made of its old
//!   name and forced, as in Linux; no directory is, nor what is in it.
//! - Bytes of the medium are not trusted: they are refused with an error, and no walk over
//!   them is longer than the medium is large.
//! - Locks are taken in this order: the cleaner, an operation, the turn of a file, the chain
//!   of nodes.
//!
//! # What is like Linux, and what is not
//!
//! The format is that of `mkfs.f2fs` without optional features, and others with one of
//! them are refused: no checksums of inodes, no creation times, no compression,
//! encryption or quota. As in Linux a file's contents go to one of three logs by its hint,
//! by the ending of its name and by whether cleaning has moved them; what is needed for
//! cleaning is kept from files; logs fill gaps when free sections are few.
//!
//! A force is a checkpoint where it is one in Linux: of what is no regular file or has not
//! just one name, after its names have changed, of a new file in a new directory, and when
//! recovery would have no room for what was there and what was forced. It is one besides
//! where recovery in Linux would leave more than it should: after nodes were taken from
//! the file, and of a new file after a directory was moved or removed. Contents are not
//! flushed before the nodes that lead to them, but both with one flush: if the power goes
//! during a force, a drive of blocks without power-loss protection may have a node with its
//! mark and not the contents, and the file shows what was there before in their place. From
//! zones a mount knows which contents are there, and leaves such a force out.
//!
//! Otherwise than in Linux, only the last node of a force has its mark; blocks are never written in
//! place, not around the cache either; cleaning reads contents from the drive and writes them
//! itself, where Linux looks into the page cache first, and leaves what it moves in the background
//! dirty there; a removed file's blocks are freed at once; the extent in an inode that caches its
//! largest piece is left empty; and blocks of a directory that have become empty stay.
//!
//! # Where to start reading
//!
//! [`format`](self) has one home per byte layout; `fs` what all verbs share; `segments`
//! logs and what is free; `nat` and `nodes` where nodes are, and pages; `dir` and `names`
//! directories; `file` contents; `checkpoint` what makes them durable; `clean` when
//! sections are cleaned and `relocate` how; `recover` what follows a power cut; `inplace`
//! and `zones` the strategies, `turns` which version of a table counts; `check` the checker.

mod body;
mod check;
mod checkpoint;
mod clean;
mod dir;
mod drive;
mod file;
mod format;
mod fs;
mod inplace;
mod mkfs;
mod mount;
mod names;
mod nat;
mod nodes;
mod persist;
mod recover;
mod refusals;
mod relocate;
mod segments;
mod turns;
mod xattrs;
mod zones;

pub use crate::format::superblock::{Geometry, SuperError};
pub use crate::format::{BLOCK, Block};
pub use check::check;
pub use drive::{OnDrive, format_drive, format_zones, mount, mount_drive, mount_zones};
pub use fs::{LfsFs, Private};
pub use inplace::{InPlace, OpenError};
pub use mkfs::{Areas, Blocks, MkfsError, MkfsOptions, format, mkfs, table_segments};
pub use mount::{MountError, MountOptions, mount_with};
pub use persist::{Found, Log, MainArea, Pack, Persist, SectionUse, Table};
pub use recover::Recovery;
pub use turns::Turns;
pub use zones::{MainZones, Zoned, conventional_zones, linear, packing};
