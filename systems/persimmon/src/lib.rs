//! Persimmon: F2FS without a single write in place.
//!
//! # The idea
//!
//! F2FS appends its data and nodes but writes its tables and checkpoints in place, so a
//! zoned drive needs conventional zones for it. Persimmon shares the body ([`lfs`]) and
//! replaces how metadata persist ([`lfs::Persist`]): addresses of tables are virtual. A
//! table block is appended to a metadata zone, and a map (the MAT) holds its address; the
//! map is written beside the block, page by page. Checkpoints are appended to two zones in
//! turn, and a mount finds them from the write pointer.
//!
//! # Invariants
//!
//! - Every write is at a write pointer, and zone 0 is written once.
//! - A page of the map holds the whole state of its part, so replaying older pages before
//!   the newest page does no harm.
//! - A zone that the last checkpoint references is reset only after a newer checkpoint is
//!   durable, or after the zone's valid blocks are durable elsewhere.
//!
//! # Choices where the paper leaves details open
//!
//! - *The superblock* must be at a fixed place and cannot be rewritten: mkfs writes it once,
//!   to zone 0, which holds nothing else. State that changes is in checkpoints.
//! - *A page holds "the changes since the last chunk"* and is "idempotent as a whole": page
//!   `i` holds all entries from `1010 i` on, and the checkpoint has each page's address.
//! - *Only the zone that was written last is read at a mount*: here a mount reads every zone
//!   written since the checkpoint, in the order of their epochs. Pages store the epoch, the
//!   number of the part and a checksum in the eight bytes that the paper leaves of a block.
//! - *Every other block is a page* or *pages follow a batch*: both ([`Pages`]); a mount reads
//!   all blocks and tells pages by their checksum.
//! - *The count of a zone's invalid blocks* is that of the zone in which the change
//!   invalidated a block; a mount recomputes all counts from the map. Pages count as blocks.
//! - *Room*: 1.2 times the metadata, and at least the metadata that can be valid, the zones
//!   that cleaning keeps free, and one; the formula of Table 4.3 is not given. Data cleaning
//!   reserves as many zones as there are logs, and two.
//! - *The cap on memory* limits the parts of the map in memory: parts that were evicted are
//!   read from their pages.
//!
//! # Where to start reading
//!
//! `layout` divides the zones; `format` has the bytes; `map` the three structures in memory;
//! `log` appends and cleans metadata; `checkpoint` has the two checkpoint zones; `recover`
//! finds the state at mount; `persist` is the strategy for the body; `image` presents a drive
//! at rest as an F2FS image.

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
pub use mount::{MkfsError, MountError, format, into_any, mount};
pub use persist::Appended;
pub use recover::OpenError;
