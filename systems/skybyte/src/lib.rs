//! SkyByte: memory that lies on flash behind CXL, and what drive and host do together so
//! that programs do not notice. This crate has the drive's side; the host of whatever
//! design is in `memsys`.
//!
//! # The idea
//!
//! A processor loads and stores lines of 64 bytes; flash reads and programs pages of
//! 4,096, in microseconds. Three things are in the way, and a part of SkyByte is against
//! each:
//!
//! - **C, coordinated context switch.** A load that needs flash holds its core for
//!   microseconds. The drive estimates how long from what waits at the flash (Algorithm 1,
//!   [`estimate()`]), and if that is longer than a switch it answers at once that it takes
//!   long. The page comes meanwhile; the thread asks again when it runs again.
//! - **W, the write log.** A store of one line makes a cache of pages fetch a page, keep
//!   all of it, and program all of it. Lines go to a circular log instead, with a hash
//!   table of pages that each have a hash table of lines. A full half of it is compacted:
//!   each page with new lines is read if need be, and programmed once.
//! - **P, adaptive page migration.** Pages that are asked for often are told to the host,
//!   which moves them to its own memory; the drive then forgets them.
//!
//! [`DESIGNS`] says which design has which; a [`Profile`] says by which reading of the
//! paper. [`CxlSsd`] is the device: `memsys::Far` over a page-mapped drive.
//!
//! # Invariants
//!
//! - What is in the device's DRAM is answered by arithmetic; only what needs flash is a
//!   task, so a hit costs some tens of nanoseconds of the simulating machine.
//! - A line is at any instant what the first of these has of it that has any: a register
//!   of a page on its way, the cache, the newer half of the log, the older half, the
//!   drive's write buffer, flash. Each step from one to another is one instant.
//! - All of the DRAM has a battery, so what was accepted survives a power cut at any event
//!   ([`DeviceMedia`]). The exception is a page that the host holds: its newest lines were
//!   in the host's memory.
//! - The DRAM holds as many pages as it has room for, those on their way included.
//! - With a log no page of the cache is dirty; without one, the cache alone has what flash
//!   has not.
//! - The drive behind knows nothing of lines. It gives pages and takes pages, and lets its
//!   queues be looked at.
//!
//! # What the paper leaves open, and what was chosen
//!
//! - **Parallelism.** Its Table II has 1,024 dies, its Algorithm 1 and its public
//!   simulator one queue a channel, which is 64 times less to program with. Two drives:
//!   `skybyte` ([`Profile::Default`]) and `skybyte-channel` ([`Profile::Paper`],
//!   [`Profile::Artifact`]).
//! - **What is estimated over.** The channel's queue, or the die's with the bus
//!   ([`Queue`]). Longer than the threshold is more than it. What joins a page on its way
//!   is told what is left of its time. Collection is in the way if the page lies on a line
//!   that is being collected or on a die that is to erase.
//! - **The program time**: 100 µs, or 80 µs as the simulator has it ([`Profile::Artifact`]).
//! - **The baseline's cache.** The paper says that it has what was published before; its
//!   simulator has no prefetcher, and programs a page each time one leaves, whether
//!   written or not. Here: clean first among the oldest, best offset, and only dirty pages
//!   are programmed; the other way is [`CacheConfig::clean_write_back`].
//! - **The log's size.** 64 MiB are both halves, of the 512 MiB of DRAM; its index lies
//!   beside them. An entry has 72 bytes, as a line must say which one it is after a power
//!   cut. Where both halves are full, writes are refused until one is free.
//! - **Compaction.** Its 146 µs on average cannot be the time of a log of that size, so
//!   it is no target. A page of the cache is written as it is, newer lines included; those
//!   are written again by the next compaction. A page that is nowhere is not read. A
//!   bounded number of pages is in work at once; whether reads go before its programs is
//!   an option of the drive.
//! - **What a store is.** The device takes lines that are written back. Whether a store
//!   that misses reads its line first, as caches do, or is written at once, as in the
//!   simulator, is the host's to decide.
//! - **A write without a log** to a page that is not there fetches the page and is merged
//!   with it as that comes; it is accepted at once, as it holds a register until then.
//! - **Which pages are hot.** The counts and the threshold of `flatflash`: more than 7
//!   accesses, or fewer where most accesses go to pages that leave; a page is told of once
//!   in 10,000 accesses, also if the host put it off.
//! - **A page that leaves** with lines that flash does not have: the host is told which,
//!   as the paper lets the drive drop them. It has to give these back even unchanged.
//! - **Garbage collection** begins with a fifth of the lines free and goes on for 19 of
//!   128, as Table II says. The paper says that its runs collect, its data that none does:
//!   how full and how old the flash is at the start is the past of the media.
//! - **The clock of the DRAM** is that of Table II; banks and rows are those of LPDDR4.
//!   Pages on their way between flash and DRAM give way to lines.

mod cache;
mod compact;
mod config;
mod design;
mod device;
mod dram;
mod estimate;
mod fetch;
pub mod host;
mod log;
mod media;
mod metrics;
mod mshr;
mod prefetch;
mod profile;
mod promote;
mod scale;
mod state;

pub use cache::Stays;
pub use config::{
    CacheConfig, ConfigError, DeviceConfig, DramConfig, HintConfig, LogConfig, LookupConfig,
    Prefetch, PromotionConfig, Queue, Replacement,
};
pub use design::{DESIGNS, Design, Migration};
pub use device::CxlSsd;
pub use estimate::{Estimate, estimate, is_long};
pub use media::DeviceMedia;
pub use metrics::{Counters, Metrics};
pub use profile::Profile;
