//! zonefs: each zone of a drive as a file.
//!
//! The directories `cnv` and `seq` hold the conventional and the sequential zones, named
//! by their numbers among those of their kind. The size of a sequential one is how far it
//! is written; it is written at its end alone, is cut to nothing, which resets the zone,
//! or is made as long as the zone can be, which finishes it. Nothing is made, removed or
//! renamed. Rules, numbers of errors and format are those of Linux: its documentation,
//! `zonefs.rst`, and where that is silent or older `fs/zonefs` of 6.18.
//!
//! # Invariants
//!
//! - The zone that holds the superblock is never a file.
//! - A file changes under its turn alone, so its size is where its zone is written to
//!   unless a command is under way or has failed; after a failure the drive is asked.
//! - What becomes of a file after a failure is [`after`], a function of how the file
//!   system is mounted and of what the zone can still do.

mod body;
mod errors;
mod file;
mod fs;
mod mount;
mod superblock;
mod zones;

pub use body::Place;
pub use errors::{After, Condition, Length, OnError, after};
pub use file::{Attributes, Group};
pub use fs::{How, ZoneFs};
pub use mount::{MountError, Options, mkfs};
pub use superblock::{BLOCK, Superblock, SuperblockError};
pub use zones::{Holder, Told, ZoneRow};
