//! Persimmon: F2FS without a single write in place.
//!
//! # The idea
//!
//! F2FS appends its data and nodes, and writes its tables and checkpoints in place, so a
//! drive of zones has to bring an area that is written anywhere. Here the body is the same
//! ([`lfs`]), and the other way to persist ([`lfs::Persist`]) is built: the addresses of
//! the tables are virtual. A block of a table is appended to a zone of metadata, and a map
//! leads to it (the MAT); the map is written beside it, page by page. Checkpoints are
//! appended to two zones in turn, and are found from the write pointer.
//!
//! # Invariants
//!
//! - No block is written but at a write pointer, and zone 0 is written once.
//! - A part of the map that is on the medium is a whole state, so it does not matter which
//!   of its pages are read besides the newest one.
//! - What the last checkpoint leads to is not reset before a newer one is durable, or
//!   before what is valid of it is durable elsewhere.
//!
//! # What the paper leaves open, and what was chosen
//!
//! - *The superblock* has to be found and cannot be rewritten: it is written once, to zone
//!   0, which has nothing else. What changes is in checkpoints.
//! - *A page holds "the changes since the last chunk"* and is "idempotent as a whole": page
//!   `i` holds all entries from `1010 i` on, and the checkpoint says where each page is.
//! - *Only the zone that was written last is read at a mount*: all that were written since
//!   the checkpoint are, in the order of their openings, which pages tell in the eight
//!   bytes that the paper leaves of a block (with which part they are, and a checksum).
//! - *Every other block is a page* or *pages follow a batch*: both ([`Pages`]); all blocks
//!   are read, and say themselves what they are.
//! - *The count of a zone's invalid blocks* is that of the zone that the change made less
//!   valid; at a mount the counts follow from the map. Pages count as blocks do.
//! - *Room*: 1.2 times the metadata, and at least what can be valid, the zones that
//!   cleaning keeps free, and one; the formula of Table 4.3 is not given. For cleaning data
//!   as many zones are kept as there are logs, and two.
//! - *The cap on memory* is one on parts of the map: those that are not there are read
//!   from their pages.
//!
//! # Where to start reading
//!
//! `layout` says which zones are for what; `format` has the bytes; `map` the three
//! structures; `log` what is appended, and cleaning; `checkpoint` the two zones; `recover`
//! what a mount reads; `persist` the verbs; `image` shows a drive at rest as one of F2FS.

mod checkpoint;
mod config;
mod format;
mod image;
mod layout;
mod log;
mod map;
mod metrics;
mod mount;
mod persist;
mod recover;
#[cfg(test)]
mod tests;

pub use config::{MkfsOptions, Options, Pages};
pub use image::{Shown, Zones, check};
pub use layout::LayoutError;
pub use metrics::Metrics;
pub use mount::{MkfsError, MountError, format, mount};
pub use persist::Appended;
pub use recover::OpenError;
