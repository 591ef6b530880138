//! The drive: firmware over flash.
//!
//! # The idea
//!
//! Every interface of this drive is one page-mapped, log-structured store with
//! placement handles. A *line* is one erase block of every plane of every die of
//! a reclaim group; it is written in *units*, one multi-plane program each, that
//! rotate over the dies; a *frontier* is an open line that one kind of data is
//! appended to. A conventional drive has one frontier for host data, a
//! multi-stream or FDP drive one for each handle; garbage collection, mapping
//! and journal have their own.
//!
//! Zones are the exception: a zoned drive maps addresses by arithmetic, and only its
//! conventional zones are such a store. See [`Zones`]. Open channels are the other: such a
//! drive maps nothing, and its host is told the flash as it is. See [`Chunks`].
//!
//! # What is promised at a power cut
//!
//! - Without power-loss protection: every write that was acknowledged before a
//!   flush that was acknowledged is there; a later one is there or the version
//!   before it is. With protection: every acknowledged write is there.
//! - A page reads as zeros or as some version that was written to it, and never
//!   as a version older than a promised one.
//! - The map is rebuilt from spare areas and journal, never kept.
//!
//! # How that is kept
//!
//! Each program carries a sequence number, taken at the instant at which the map
//! forgets the older versions (the *issue* of the program). So the order of
//! sequence numbers is the order of versions, and recovery replays programs in
//! that order. The older version stays on flash until the program that
//! supersedes it has completed: a line is erased only after every program issued
//! up to that instant has.

mod buffer;
mod bytes;
mod collect;
mod command;
mod config;
mod copies;
mod demand;
mod dram;
mod drive;
mod fdp;
mod forget;
pub mod front;
mod frontier;
mod health;
pub mod image;
mod inflight;
mod issue;
mod journal;
mod layout;
mod ledger;
mod line;
mod map;
mod mapcache;
mod media;
mod pages;
mod policy;
mod poweron;
mod precondition;
mod presets;
mod raw;
mod read;
mod recover;
mod state;
pub mod wlog;
mod write;
mod zoned;

pub use bytes::{ByteError, lines_of};
pub use config::{
    Collection, ConfigError, Controller, DriveConfig, Flash, Interface, Mapping, Placements,
    SpareSplit, VictimPolicy, Wear,
};
pub use dram::Dram;
pub use drive::{Content, Drive, IoError, Sink};
pub use fdp::{FdpEvent, FdpEventKind, FdpEvents, FdpLog};
pub use health::Health;
pub use layout::Layout;
pub use ledger::{ByteStats, Cause, HandleStats, Ledger, ReadCause, Smart, ZoneStats};
pub use line::{LineReport, LineState, LineView};
pub use media::DriveMedia;
pub use pages::FlashLoad;
pub use policy::{Policies, PoolView, WriteView, by_demand, coldest, victim};
pub use precondition::Precondition;
pub use presets::{PRESETS, Preset};
pub use raw::{
    ChunkEvent, ChunkInfo, ChunkNotice, ChunkState, Chunks, Found, META, MOST_ADDRESSES, Mark,
    Meta, Noticed, Place, Ppa, RawBlock, RawConfig, RawError, RawGeometry, RawStatus,
    chunk_transition, found,
};
pub use zoned::{
    OpenRoom, Room, Step, Unwritten, ZoneAction, ZoneConfig, ZoneEvent, ZoneInfo, ZoneKind,
    ZoneLayout, ZoneLimits, ZoneState, ZoneStatus, ZoneUse, Zones, transition,
};
