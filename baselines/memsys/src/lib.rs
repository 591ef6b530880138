//! The memory system of a computer: cores, caches, DRAM, an operating system, and the link
//! to memory on a drive.
//!
//! A [`Program`] supplies the operations of its threads. A [`Machine`] runs them on the
//! computer of a [`Config`], with a [`Far`] device behind the link, and returns [`Metrics`].
//!
//! # How time is kept
//!
//! The machine is no task of the kernel. It processes the earliest of: an event of the
//! kernel, a deferred action of its own, or the next step of a core. A step of a core is one
//! memory operation; the instructions between are arithmetic. Answers of caches and DRAM are
//! arithmetic too and schedule nothing. Before a call to the device the kernel runs up to
//! that instant, so the device's state is exact.
//!
//! # Invariants
//!
//! - Steps of cores and actions happen in the order of their times; among equals,
//!   actions first, then the core of the lower number.
//! - A core retires in order. Unretired instructions can be squashed and executed again.
//! - A load returns the last store of its own thread, and stores of other threads from
//!   before the last barrier ([`Op::Meet`]); see [`Values`].
//! - The time of a core is the sum of its instructions' slots and of its waits by [`Cause`].
//!
//! # Modelling choices
//!
//! - Caches are inclusive: the last one is the directory of all lines, and a line evicted
//!   from it leaves every cache.
//! - The core is a window of instructions, not a pipeline: width, window, MSHRs, dependences
//!   and in-order retirement are modelled; ports, latencies of arithmetic and mispredicted
//!   branches are not.
//! - A store requests its line when its address is known, and writes it after it has
//!   retired. A delay hint before retirement makes the thread yield. After retirement the
//!   instruction is past its exception, so the store buffer retries the line.
//! - There is one queue of threads for all cores.
//!
//! This crate must not know how the device works inside, nor the purpose of a program.

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
