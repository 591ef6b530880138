//! Address remapping: random writes become sequential, under any file system.
//!
//! # The idea
//!
//! Between a file system and an NVMe drive there is a place that every command passes. A
//! layer there that changes addresses and nothing else gives each write the address behind
//! the one before, whatever it was asked for, and notes where it went. So what reaches the
//! drive is sequential, above any file system and below any of its changes. What is written
//! again leaves a hole where it was. Cleaning fills holes with what is at the end of the
//! addresses, in place, until the end is free to append to.
//!
//! The layer is a [`host::BlockPort`] over a [`host::BlockPort`], in three rooms: `target`
//! (read, write, overwrite, discard), metadata (tables in memory, a log, checkpoints), and
//! `cleaning`.
//!
//! # Invariants
//!
//! - A unit of 4 KiB of the medium is free, or held by one original address, or neither
//!   yet: no two addresses share one.
//! - A pair is durable only after its data are; a force is answered once the transaction of
//!   all that came before it is in the log. **The durable point is the log.**
//! - A unit is used again only after what supersedes it has committed, and after the reads
//!   that may have found it have ended.
//! - What is on the medium is believed if its checksum says so, and refused with a sentence
//!   otherwise.
//!
//! # What the paper leaves open, and what was chosen
//!
//! - *"Partitions are filled in order of transformed LBA"*, and tables are searched by the
//!   original one: which partition, then, cannot be known. Partitions are of original
//!   addresses here; the physical side has a map of its own, from the medium back to
//!   original addresses, which is what cleaning sorts by.
//! - *A read of several units* that lie apart is several commands; they are counted.
//! - *The table is updated before the submission* (III-A) and *after the commit* (III-E):
//!   after the commit here. What is not committed is found in the open transaction.
//! - *Force and flush* are not mentioned: data, then the log, then the answer.
//! - *12 bytes an entry* are rows of two addresses; a node of a tree takes 20. Both are
//!   [`Variant`]s, and the metrics say what they take.
//! - *4 KiB of log for 2 MiB* leaves 8 bytes a pair: addresses of units, of 32 bits.
//! - *What was never written* reads as zeros: the layer begins on a fresh format, since
//!   an address that led to itself would meet what is appended.
//! - *Deleting* has no path in the paper: discards do it, in units of 4 KiB.
//! - *Writes of parts of a unit* read the rest first. 4 KiB is the size to ask for.
//! - *Where to append when the end is reached*: in the longest free run. 10 % are not
//!   offered, so that there is one, or can be made.
//! - *When logs are removed*: at a checkpoint, once the log is 80 % full, and at each mount.
//! - *Eight threads share an append point*: units are reserved in the order of the requests
//!   and committed in the order of their ends; transactions follow each other.
//!
//! # Arithmetic
//!
//! A read costs one lookup, and as many commands as it has runs. A write costs an
//! insertion, 8 bytes of log, and 4 bytes of a table at a checkpoint: 0.3 % of the data;
//! and at a checkpoint each page of a table that changed is written as a whole. A unit
//! that cleaning moves is read and written once; a run of free units at the end costs at
//! most as many moves as it has units, so on a full layer a write costs at most one move.
//! Memory: 12 bytes a unit of tables and 4.1 of the physical side, which is 4 MiB for 1
//! GiB of data.
//!
//! # Where to start reading
//!
//! `layout` says what is where, and `format` has the bytes; `target` are the verbs;
//! `commit` has the durable point; `tables` and `paging` what is in memory; `space` the
//! physical side; `cleaning`; `restore` and `mount` what recovery reads; `salvage` opens
//! what is left of a damaged layer; `image` shows a drive at rest.

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
