//! SkyByte: memory on flash behind CXL, and the mechanisms of drive and host that hide the
//! latency of flash from programs. This crate has the drive's side; `memsys` has the host of
//! every design.
//!
//! # The idea
//!
//! A processor loads and stores lines of 64 bytes; flash reads and programs pages of
//! 4,096, in microseconds. Each part of SkyByte addresses one of three problems:
//!
//! - **C, coordinated context switch.** A load that needs flash stalls its core for
//!   microseconds. The drive estimates its latency from the flash queues (Algorithm 1,
//!   [`estimate()`]). If that exceeds a context switch, the drive answers with a delay hint at
//!   once and the host runs another thread. The load is retried when its thread runs again.
//! - **W, the write log.** A store of one line makes a page cache fetch, hold and program a
//!   whole page. With the log, lines go to a circular buffer, indexed by a hash table of pages
//!   with a hash table of lines each. A full half is compacted: each page with new lines is
//!   read if need be, and programmed once.
//! - **P, adaptive page migration.** The drive reports hot pages to the host, which moves
//!   them to its own memory; the drive then drops them.
//!
//! [`DESIGNS`] lists the parts of each design; a [`Profile`] is a reading of the paper.
//! [`CxlSsd`] is the device: `memsys::Far` over a page-mapped drive.
//!
//! # Invariants
//!
//! - Accesses that hit the device's DRAM are computed by arithmetic; only flash accesses are
//!   tasks, so a hit costs tens of nanoseconds of the simulating machine.
//! - At every instant the value of a line is that of the first place below that has it: an
//!   MSHR of a page in flight, the cache, the newer half of the log, the older half, the
//!   drive's write buffer, flash. Each move between places is atomic in simulated time.
//! - A battery backs all of the DRAM, so accepted writes survive a power cut at any event
//!   ([`DeviceMedia`]). The exception is a page that the host holds: its newest lines were
//!   in the host's memory.
//! - The DRAM never holds more pages than its capacity, pages in flight included.
//! - With a log no page of the cache is dirty; without one, only cache and MSHRs hold lines
//!   that the drive does not have.
//! - The drive behind knows nothing of lines. It reads and writes pages, and exposes the load
//!   of its queues.
//!
//! # What the paper leaves open, and what was chosen
//!
//! - **Parallelism.** Its Table II has 1,024 dies, its Algorithm 1 and its public
//!   simulator one queue a channel, which is 64 times less to program with. Two drives:
//!   `skybyte` ([`Profile::Default`]) and `skybyte-channel` ([`Profile::Paper`],
//!   [`Profile::Artifact`]).
//! - **The queue of the estimate.** The channel's queue, or the die's with the bus
//!   ([`Queue`]). The threshold is exclusive. A read that joins a fetch in flight is judged by
//!   the rest of that fetch's estimate. Garbage collection blocks a page on a superblock (a
//!   "line" of blocks in the drive) under collection, or on a die that is to erase.
//! - **The program time**: 100 µs, or 80 µs as the simulator has it ([`Profile::Artifact`]).
//! - **The baseline's cache.** The paper refers to published designs; its simulator has no
//!   prefetcher, and programs every evicted page, written or not. Here: clean pages first
//!   among the least recently used, best-offset prefetching, and only dirty pages are
//!   programmed; the alternative is [`CacheConfig::clean_write_back`].
//! - **The log's size.** 64 MiB are both halves, out of 512 MiB of DRAM; the index comes on
//!   top. An entry has 72 bytes, as it must carry the address of its line for recovery after
//!   a power cut. While both halves are full, writes are refused.
//! - **Compaction.** The paper's mean of 146 µs cannot be the time of a log of that size, so
//!   it is no target. A cached page is written with its newer lines; the next compaction
//!   writes those again. An unwritten page is not read. A bounded number of pages is compacted
//!   at once; read priority over their programs is an option of the drive.
//! - **Stores.** The device takes lines that are written back. The host decides whether a
//!   store that misses reads its line first, as caches do, or is written at once, as in the
//!   simulator.
//! - **A write without a log** to a missing page starts a fetch and is merged when the page
//!   arrives. The write is accepted at once, as it holds an MSHR until then.
//! - **Hot pages.** The counts and the threshold of `flatflash`: more than 7 accesses, or
//!   fewer where most accesses go to promoted pages. A page is reported at most once in an
//!   epoch of 10,000 accesses, even if the host deferred its move.
//! - **A dropped page** with lines that flash does not have: the drive returns their mask to
//!   the host, as the paper lets the drive drop them. The host must write these lines back
//!   even if unchanged.
//! - **Garbage collection** begins with a fifth of the superblocks free and goes on for 19 of
//!   128, as Table II says. The paper's text says that its runs collect, its data that none
//!   does. The precondition of the media sets how full and how old the flash is at the start.
//! - **The clock of the DRAM** is that of Table II; banks and rows are those of LPDDR4.
//!   Page transfers between flash and DRAM yield to line accesses.

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
