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
//!   data, with numbers of their own; cleaning moves those that still say something.
//! - With the table in persistent memory ([`Home::Pm`]) the table is what counts. An entry
//!   is stored, flushed and fenced once its sector is on flash.
//! - The old version of a sector stays valid until the new one, or the record that
//!   deallocates it, is on flash and the table says so. Cleaning moves it meanwhile as any
//!   other, so a line is reset only when nothing on it can be needed.
//!
//! # When flash fails
//!
//! What a failed program held is written elsewhere; its chunk is closed early and goes
//! offline when its line is cleaned. Lines are of as many chunks as are good. A line of
//! which a sector cannot be read when it is to be moved stays as it is. When cleaning gains
//! nothing any more and no line is free, everything that writes is refused.
//!
//! # What differs from pblk
//!
//! Lines have no metadata of their own, so recovery with the table in memory reads every
//! line as a whole. Drives whose blocks are readable only some writes later are refused.

mod buffer;
mod collect;
mod config;
mod lines;
mod meta;
mod mount;
mod pins;
mod policy;
mod port;
mod read;
mod state;
mod table;
mod write;

pub use config::{FtlConfig, FtlError, Home};
pub use policy::quota;
pub use state::{FtlStats, HostFtl};
pub use table::{PmTable, entry_bytes};
