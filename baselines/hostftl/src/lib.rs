//! A host-side mapping (FTL) for an open-channel drive: a block port over a raw port.
//!
//! # The idea
//!
//! Each sector of 4 KiB is mapped by itself. A *line* (a superblock) is the same chunk of every
//! parallel unit; it is written in *units*, the minimal writes of the drive, which rotate over the
//! idle chunks of the line. Written data wait in a buffer until they fill a unit, or until a flush
//! pads one. Two lines are open: one for new data, one for sectors that cleaning moves. Linux' pblk
//! works this way, with the differences below.
//!
//! # Guarantees at a power cut
//!
//! - A write acknowledged before an acknowledged flush is durable. A later write is there, or the
//!   version before it, sector by sector.
//! - A deallocated sector reads as zeros or as before.
//!
//! # How that is kept
//!
//! - The metadata of each sector on flash hold its address and its version number. With the table
//!   in memory ([`Home::Dram`]) recovery reads all of them, and the highest number wins. A moved
//!   sector keeps its number. Deallocations are records among the data, with numbers of their own.
//!   A record counts while it is the newest known version of a sector; cleaning merges records. So
//!   sectors and counting records together never outnumber the entries of the table.
//! - With the table in persistent memory ([`Home::Pm`]) the table is authoritative. An entry is
//!   stored, flushed and fenced once its sector is on flash. The table names the geometry of its
//!   drive, and fits no other.
//! - The old version of a sector stays valid until the new one, or the record that deallocates the
//!   sector, is on flash and in the table. Cleaning moves it meanwhile like any other, so a line is
//!   reset only when nothing on it can be needed.
//! - Moved sectors take effect once the whole source line is on flash. So a cut leaves nothing
//!   needed on the new line, and recovery frees that line before any other: cuts that come faster
//!   than a line is cleaned do not use lines up.
//!
//! # How full it may be
//!
//! A mount rejects a drive that is too full: all lines but the reserve and one are closed, and each
//! of them could lack less than a unit of being fully valid, so that cleaning gains nothing. On any
//! other drive, whenever new data wait, some line gains at least a unit. The fuller the drive, the
//! more cleaning moves.
//!
//! # When flash fails
//!
//! The items of a failed program are written elsewhere; its chunk is closed early and goes offline
//! when its line is cleaned. A line has as many chunks as are good. A line with a sector that
//! cleaning cannot read stays as it is. When cleaning gains nothing any more, or has no room for
//! moved sectors, all writes fail.
//!
//! With the table in memory the owner of a block that recovery cannot read is unknown: the block is
//! counted ([`FtlStats::unreadable`]), and its line stays as it is, so that another mount may still
//! find the block. The previous version counts meanwhile, and later writes are newer than the
//! unreadable one. With a table in persistent memory a read of such a sector fails.
//!
//! # What differs from pblk
//!
//! Lines have no metadata of their own, so recovery with the table in memory reads every line as a
//! whole. The mapping rejects drives whose blocks become readable only some writes later.

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
