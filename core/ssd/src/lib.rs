//! The drive: firmware over flash.
//!
//! # Structure
//!
//! Every interface of this drive is one page-mapped, log-structured store with placement handles. A
//! *line* (superblock) is one erase block of every plane of every die of a reclaim group. A line is
//! written in *units*, one multi-plane program each, that rotate over the dies. A *frontier* (write
//! point) is an open line that one kind of data is appended to. A conventional drive has one
//! frontier for host data, a multi-stream or FDP drive one for each handle; garbage collection, the
//! mapping and the journal have their own.
//!
//! Two interfaces are exceptions. A zoned drive maps addresses by arithmetic, and only its
//! conventional zones are such a store: see [`Zones`]. An open-channel drive maps nothing and
//! exposes the flash as it is: see [`Chunks`].
//!
//! # Promises at a power cut
//!
//! - Without power-loss protection, every write acknowledged before an acknowledged flush survives;
//!   a later write, or else the version before it, survives. With protection, every acknowledged
//!   write survives.
//! - A page reads as zeros or as some version that was written to it, and never as a version older
//!   than a promised one.
//! - The map is not stored: recovery rebuilds it from spare areas and journal.
//!
//! # Mechanism
//!
//! Each program carries a sequence number, taken at the instant at which the map drops the older
//! versions (the *issue* of the program). The order of sequence numbers is therefore the order of
//! versions, and recovery replays programs in that order. The older version stays on flash until
//! the program that supersedes it has completed: a line is erased only after every program issued
//! up to that instant has completed.

mod ahead;
mod buffer;
mod bytes;
mod collect;
mod command;
mod config;
mod copies;
mod credits;
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
mod jobs;
mod journal;
mod layout;
mod ledger;
mod line;
mod map;
mod mapcache;
mod media;
mod observed;
mod pages;
mod past;
mod policy;
mod poweroff;
mod poweron;
mod precondition;
mod presets;
mod raw;
mod read;
mod recover;
mod running;
mod state;
mod trace;
mod turns;
mod victims;
pub mod wlog;
mod write;
mod zoned;

pub use bytes::{ByteError, lines_of};
pub use config::{
    CacheHolds, Collection, ConfigError, Controller, DriveConfig, Flash, Interface, Limits,
    Mapping, Placements, SpareSplit, VictimPolicy, Wear,
};
pub use dram::Dram;
pub use drive::{Content, Drive, IoError, Sink};
pub use fdp::{FdpEvent, FdpEventKind, FdpEvents, FdpLog};
pub use health::Health;
pub use layout::Layout;
pub use ledger::{ByteStats, Cause, HandleStats, Ledger, ReadCause, Smart, ZoneStats};
pub use line::{LineReport, LineState};
pub use media::DriveMedia;
pub use observed::{Relocation, Waited};
pub use pages::FlashLoad;
pub use policy::{LineView, Policies, PoolView, WriteView, by_demand, coldest, victim};
pub use precondition::Precondition;
pub use presets::{PRESETS, Preset};
pub use raw::{
    ChunkEvent, ChunkInfo, ChunkNotice, ChunkState, Chunks, Found, META, MOST_ADDRESSES, Mark,
    Meta, Noticed, Place, Ppa, RawBlock, RawConfig, RawError, RawGeometry, RawStatus,
    chunk_transition, found,
};
pub use running::{Command, Running};
pub use trace::Trace;
pub use zoned::{
    OpenRoom, Room, Step, Unwritten, ZoneAction, ZoneConfig, ZoneEvent, ZoneFirmware, ZoneInfo,
    ZoneKind, ZoneLayout, ZoneLimits, ZoneState, ZoneStatus, ZoneUse, Zones, transition,
};
