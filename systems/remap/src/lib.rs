//! Address remapping: turns random writes into sequential ones, under any file system.
//!
//! # The idea
//!
//! The layer sits between a file system and an NVMe drive and changes nothing but addresses. Each
//! write goes to the address behind the previous write, whatever address it named, and the layer
//! records the mapping. The drive sees sequential writes above any file system, with no change of
//! either. An overwrite leaves a hole at the old place. Cleaning moves the data at the end of the
//! address range into the holes, in place, until the end is free to append to.
//!
//! The layer is a [`host::BlockPort`] over a [`host::BlockPort`], in three parts: `target` (read,
//! write, overwrite, discard), metadata (tables in memory, a log, checkpoints), and `cleaning`.
//!
//! # Invariants
//!
//! - A unit (4 KiB of the medium) is free, or holds one original address, or is held until a commit
//!   or a read lets it go: no two addresses share a unit.
//! - A pair (original address, transformed address) is durable only after its data are. A flush
//!   returns once the transactions with all earlier pairs are in the log. **The durable point is
//!   the log.**
//! - A unit is reused only after the pair that supersedes it has committed and the reads that may
//!   have found the unit have ended.
//! - A metadata block is used only if its checksum holds; otherwise the mount fails with a sentence
//!   that names the block.
//!
//! # What the paper leaves open, and the choice made here
//!
//! - *"Partitions are filled in order of transformed LBA"*, yet tables are searched by the original
//!   one, so a lookup could not know its partition. Partitions cover original addresses here; the
//!   physical side has its own map from units back to original addresses, and cleaning sorts by
//!   that map.
//! - *A read of several units* that lie apart becomes several commands; the metrics count them.
//! - *The table is updated before the submission* (III-A) and *after the commit* (III-E): after the
//!   commit here. Lookups find uncommitted pairs in the open transaction.
//! - *Force and flush* are not mentioned. A flush persists data, then the log, then returns.
//! - *12 bytes an entry* hold two addresses in a sorted row; a tree node takes 20. Both exist as
//!   [`Variant`]s, and the metrics report the memory they take.
//! - *4 KiB of log for 2 MiB* leaves 8 bytes a pair: addresses of units, of 32 bits.
//! - *Unwritten addresses* read as zeros. The layer begins on a fresh format, since an identity
//!   mapping would collide with appended data.
//! - *Deletion* has no path in the paper: discards unmap, in units of 4 KiB.
//! - *Writes of parts of a unit* read the rest first. Hosts should write multiples of 4 KiB.
//! - *At the end of a run*, appending continues in the longest free run. The layer withholds 10 %
//!   of its data area, so that such a run exists or cleaning can make one.
//! - *Logs are removed* at a checkpoint: once the log is 80 % full, and at each mount.
//! - *Eight threads share an append point*: units are reserved in order of the requests and
//!   published in order of completion; transactions commit one at a time.
//!
//! # Arithmetic
//!
//! A read costs a lookup for each unit and one command for each run of units that lie together. A
//! write costs an insertion, 8 bytes of log and 4 bytes of a table at a checkpoint: 0.3 % of the
//! data. A checkpoint rewrites each changed table page as a whole. A unit that cleaning moves is
//! read and written once. A run of free units at the end costs at most as many moves as it has
//! units, so on a full layer a write costs at most one move. Memory: 12 bytes a unit for tables and
//! 4.1 for the physical side, which is 4 MiB for 1 GiB of data.
//!
//! # Where to start reading
//!
//! `layout` places the areas, and `format` has the bytes; `target` has the verbs; `commit` has the
//! durable point; `tables` and `paging` manage tables in memory; `space` is the physical side;
//! `cleaning` makes runs; `restore` and `mount` recover; `salvage` opens a damaged layer read-only;
//! `image` shows a drive at rest.

mod batch;
mod cleaning;
mod commit;
mod config;
mod format;
mod free;
mod image;
mod layout;
mod metrics;
mod mount;
mod paging;
mod port;
mod restore;
mod salvage;
mod space;
mod table;
mod tables;
mod target;
#[cfg(test)]
mod tests;

pub use config::{FormatOptions, Options, Variant};
pub use image::Shown;
pub use layout::LayoutError;
pub use metrics::Metrics;
pub use mount::{FormatError, format, offered, open};
pub use port::Remap;
pub use restore::OpenError;
pub use salvage::salvage;
pub use table::Table;
