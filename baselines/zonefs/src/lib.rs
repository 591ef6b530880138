//! zonefs: a file system that exposes each zone of a drive as a file.
//!
//! The directories `cnv` and `seq` hold the conventional and the sequential zones, named by their
//! numbers among the zones of their kind. The size of a sequential file is the write position of
//! its zone. Such a file is written at its end only; truncation to 0 resets the zone, and
//! truncation to the capacity finishes it. No file is created, removed or renamed. Rules, errors
//! and format are those of Linux: its documentation, `zonefs.rst`, and where that is silent or
//! outdated `fs/zonefs` of 6.18.
//!
//! # Invariants
//!
//! - The zone that holds the superblock is never a file.
//! - A file changes only under its `turn`, so its size equals the write position of its zone unless
//!   a command is in flight or has failed; after a failure the drive reports the zone.
//! - The state of a file after a failure is [`after`], a function of the mount option `errors=` and
//!   of the condition of the zone.

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
