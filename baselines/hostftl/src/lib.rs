//! The mapping of an open-channel drive, held by its host: blocks over a raw port.
//!
//! # The idea
//!
//! Sectors of 4 KiB are mapped one by one. A *line* is the same chunk of every parallel
//! unit; it is written in *units*, the least writes of the drive, which rotate over the
//! units of flash that are idle. What is written waits in a buffer until it fills a unit, or
//! until a flush pads it. There are two open lines: one for what is written, one for what
//! cleaning moves. This is how Linux' pblk works, but for what is said below.
//!
//! # What is promised at a power cut
//!
//! - What was acknowledged before a flush that was acknowledged is there. A later write is
//!   there or the version before it is, sector by sector.
//! - A sector that was deallocated reads as zeros or as it was before.
//!
//! # How that is kept
//!
//! - Beside each sector on flash lie its address and the number of its version. With the
//!   table in memory ([`Home::Dram`]) recovery reads all of these, and the highest number
//!   counts. A sector that is moved keeps its number. Deallocations are records among the
//!   data, with numbers of their own. One counts as long as it is the newest that is known of
//!   a sector; cleaning puts those together. So there are never more of sectors and records
//!   that count than the table has entries.
//! - With the table in persistent memory ([`Home::Pm`]) the table is what counts. An entry
//!   is stored, flushed and fenced once its sector is on flash. It names the shape of its
//!   drive, and is used with no other.
//! - The old version of a sector stays valid until the new one, or the record that
//!   deallocates it, is on flash and the table says so. Cleaning moves it meanwhile as any
//!   other, so a line is reset only when nothing on it can be needed.
//! - What cleaning moves off a line counts once all of it is on flash. So a cut leaves
//!   nothing on the new line that would be needed, and that line is made free again before
//!   any other: cuts that come faster than a line is cleaned do not use lines up.
//!
//! # How full it may be
//!
//! A drive is refused whose lines, all closed but the reserve and one, could each lack less
//! than a unit of being needed from end to end: then cleaning would gain nothing. Any other
//! has, whenever new data wait, a line that gains a unit. The fuller it is, the more is moved.
//!
//! # When flash fails
//!
//! What a failed program held is written elsewhere; its chunk is closed early and goes
//! offline when its line is cleaned. Lines are of as many chunks as are good. A line of
//! which a sector cannot be read when it is to be moved stays as it is. When cleaning gains
//! nothing any more, or has no room for what it moves, everything that writes is refused.
//!
//! With the table in memory nobody knows whose a block was that recovery cannot read: it is
//! counted ([`FtlStats::unreadable`]), and its line stays as it is, so that nothing is erased
//! that another mount may find. The version before counts meanwhile, and whatever is written
//! then is newer than what could not be read. With a table that is kept such a sector gives
//! an error when it is read.
//!
//! # What differs from pblk
//!
//! Lines have no metadata of their own, so recovery with the table in memory reads every
//! line as a whole. Drives whose blocks are readable only some writes later are refused.

mod buffer;
mod collect;
mod config;
mod lasting;
mod lines;
mod meta;
mod mount;
mod pins;
mod policy;
mod port;
mod read;
mod recover;
mod slots;
mod state;
mod table;
mod write;

pub use config::{FtlConfig, FtlError, Home};
pub use slots::{PmBuffer, buffer_bytes};
pub use state::{FtlStats, HostFtl};
pub use table::{PmTable, table_bytes};
