//! A computer's memory system: cores, caches, DRAM, an operating system, and the link
//! to memory that lies on a drive.
//!
//! A [`Program`] says what its threads do; a [`Machine`] runs them on a computer made
//! by a [`Config`], with a [`Far`] for what lies behind the link, and tells
//! [`Metrics`].
//!
//! # How time is kept
//!
//! The machine is no task of the kernel. It takes what comes first: an event of the
//! kernel, an action that it put down for later, or the core whose next step is due.
//! A step of a core is one memory operation; the instructions between are arithmetic.
//! What caches and DRAM answer is arithmetic too and schedules nothing. Before the
//! device is called the kernel is run up to that moment, so that its state is exact.
//!
//! # What holds
//!
//! - Steps of cores and actions happen in the order of their times; among equals,
//!   actions first, then the core of the lower number.
//! - A core retires in order. What has not retired can be given up and done again.
//! - A load returns what its thread stored last, and what others stored before the
//!   threads met; see [`Values`].
//! - The time of a core is the sum of its instructions' slots and of what it waited
//!   for, by [`Cause`].
//!
//! # What is chosen here
//!
//! - Caches include those before them: so the last one is the directory of who has
//!   what, and what leaves it leaves the machine.
//! - The core is a window of instructions, not a pipeline: width, window, registers of
//!   misses, dependences and in-order retirement are there; ports, latencies of
//!   arithmetic and mispredicted branches are not.
//! - A store asks for its line when its address is known, and is written once it has
//!   retired. A hint that comes before makes the thread yield; later it cannot, as the
//!   instruction is past its exception, and the buffer asks again.
//! - There is one queue of threads for all cores.
//!
//! It must not know what the device is made of, and what a program computes.

mod buddy;
mod cache;
mod config;
mod dram;
mod far;
mod hierarchy;
mod issues;
mod latencies;
mod link;
mod machine;
mod metrics;
mod misses;
pub mod model;
mod op;
mod pages;
mod plain;
mod tick;
mod tiering;
mod tlb;
mod window;

pub use config::{
    CacheConfig, Config, Invalid, LastIndex, NodeConfig, OsConfig, PageSize, Place, Policy,
    Prefetch, StoreMiss, TlbConfig,
};
pub use dram::{Dram, DramConfig, DramCounts, Row, Served};
pub use far::{Far, FarEvent, Line, LineData, PageData, ReadReply, Tag};
pub use hierarchy::CacheCounts;
pub use latencies::Latencies;
pub use link::{Link, LinkBytes, LinkConfig, Ndr, Request, Response};
pub use machine::{Machine, RunError, TimeOnly, Values, stored_value};
pub use metrics::{Accesses, Counts, Metrics};
pub use op::{Op, Program};
pub use plain::PlainDram;
pub use tick::Tick;
pub use tiering::{Demote, Moves, Offer, PageCache, Promote, Sampling, TakeAll, Tiering};
pub use window::{CAUSES, Cause};
