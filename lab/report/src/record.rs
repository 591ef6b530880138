//! The record of one run: the JSON document `flashloom.run/1`.
//!
//! Invariants: a field is never renamed or removed within a schema version. Maps are ordered, so
//! that the same run gives the same bytes.

mod file_system;
mod jobs;
mod latency;
mod placement;
mod places;
mod used;

use crate::configuration::{Configuration, Difference, differences};
pub use crate::remapped::Remapped;
pub use file_system::{Cleaning, Extents, FileSystem, LogFacts, Nodes, SwapFacts, TreeFacts};
pub use jobs::{JobDirection, JobResult};
pub use latency::{AtLoad, Latency, LatencySet};
pub use placement::Placement;
pub use places::{Place, Places};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
pub use used::UsedPast;

/// The schema of [`Run`].
pub const RUN_SCHEMA: &str = "flashloom.run/1";
/// The schema of [`Comparison`].
pub const COMPARE_SCHEMA: &str = "flashloom.compare/1";

/// The record of one workload on one stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Schema of the document: always [`RUN_SCHEMA`].
    pub schema: String,
    /// The stack as written, such as `raw@fdp`.
    pub stack: String,
    /// The drive as it was resolved from a preset or a file.
    pub drive: DriveFacts,
    /// The workload as written, with its parameters.
    pub workload: String,
    /// Text that tells runs of one plan file apart, such as `seed=2`; else empty.
    #[serde(default)]
    pub label: String,
    /// State of the drive before the run: `fresh`, `full`, `aged`, or `kept` if it came from a
    /// drive file; or that of the stack, `used` or such as `used:fill=90`.
    pub precondition: String,
    /// Use of the file system before the run; `None` if the run made a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<UsedPast>,
    /// The seed of the run.
    pub seed: u64,
    /// Number of requests completed without error.
    pub ops: u64,
    /// Deviations from the workload as written, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Requests that failed, by reason.
    pub errors: BTreeMap<String, u64>,
    /// Requests completed per second of virtual time.
    pub ops_per_s: f64,
    /// Bytes that calls, or requests of a raw stack, move per second of virtual time; 0 in records
    /// from before the field existed.
    #[serde(default)]
    pub bytes_per_s: f64,
    /// Latency over all requests and by kind.
    pub latency_ns: LatencySet,
    /// The latencies at a load that is the same for all stacks of a comparison; `None` in other runs.
    #[serde(default)]
    pub at_load: Option<AtLoad>,
    /// Time of host processors per completed request, ns; 0 in records from before the field.
    #[serde(default)]
    pub cpu_ns_per_op: f64,
    /// Traffic at the host interface, in bytes and commands.
    pub host: HostTraffic,
    /// Traffic at the NAND, in pages and bytes.
    pub nand: NandTraffic,
    /// Write amplification of host and device.
    pub waf: Waf,
    /// Whether garbage collection had reached its steady state when the run ended: the last two
    /// windows, each of at least the drive's capacity in host writes, agree in device amplification
    /// within 2 %. `None` if nothing was written, or if the drive has zones and moves no data of
    /// its own; also in records from before the field existed.
    #[serde(default)]
    pub steady: Option<bool>,
    /// Number of windows, each of at least the drive's capacity in host writes, that the run
    /// completed.
    #[serde(default)]
    pub windows: u64,
    /// Reasons why numbers of the run may mislead, and what to run instead, one sentence each.
    #[serde(default)]
    pub cautions: Vec<String>,
    /// Counters of garbage collection.
    pub gc: Gc,
    /// Wear of the blocks, and the drive life that follows from it.
    pub wear: Wear,
    /// Busy share of each kind of resource, 0 to 1: `die`, `channel`, `link`, `cpu`.
    pub utilisation: BTreeMap<String, f64>,
    /// Series over virtual time; empty unless requested.
    pub timeline: Vec<Sample>,
    /// Placement handles; empty unless the drive has more than one.
    pub handles: Vec<Handle>,
    /// The policy that named the placement handles; `None` on a drive with at most one handle, and
    /// in records from before the field existed.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// The statistics log of an FDP drive.
    #[serde(default)]
    pub fdp: Option<Fdp>,
    /// Look-ups of a mapping table that is not all in DRAM; `None` for other drives.
    #[serde(default)]
    pub map_cache: Option<MapCache>,
    /// Counters of the log and cache before the flash; `None` for a drive without byte interface.
    #[serde(default)]
    pub front: Option<Front>,
    /// Calls of programs to the file system; `None` without one.
    #[serde(default)]
    pub app: Option<App>,
    /// Recovery after a power cut that followed the last request; `None` without a cut.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// Latencies of operations of a storage engine by kind; empty for other workloads.
    #[serde(default)]
    pub operations: BTreeMap<String, Latency>,
    /// Results of the jobs of a fio file, each with its clones; empty for other workloads.
    #[serde(default)]
    pub jobs: Vec<JobResult>,
    /// Results of the groups of several jobs with `group_reporting`.
    #[serde(default)]
    pub job_groups: Vec<JobResult>,
    /// Facts of the file system at the end; `None` without one.
    #[serde(default)]
    pub file_system: Option<FileSystem>,
    /// State of the zones at the end; `None` for a drive without any.
    #[serde(default)]
    pub zones: Option<ZoneCounts>,
    /// Lines or zones of the drive at the end. `None` for an open-channel drive, whose host keeps
    /// that state, and in records from before the field existed.
    #[serde(default)]
    pub places: Option<Places>,
    /// Counters of a layer that remaps addresses; `None` for a stack without one.
    #[serde(default)]
    pub remap: Option<Remapped>,
    /// Host memory that holds mappings of the drive or of a layer; `None` if there are none.
    #[serde(default)]
    pub host_memory: Option<HostMemory>,
    /// Unmount and mount at the end; `None` unless both were requested.
    #[serde(default)]
    pub remount: Option<Remount>,
    /// Limits that allocations hit, and the holders of each.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// Configuration of the drive and the host, field by field; empty in records from before it
    /// existed.
    #[serde(default)]
    pub configuration: Configuration,
    /// Virtual time from the first request to the last completion, ns.
    pub sim_time_ns: u64,
    /// Events that the kernel ran.
    pub events: u64,
    /// Wall time of the run in seconds; differs between equal runs.
    pub wall_time_s: f64,
    /// Peak resident memory of the process in bytes; differs between equal runs.
    pub peak_rss_bytes: u64,
}

impl Run {
    /// The results at the load of a comparison, if it ran to its end there without a failed call.
    #[must_use]
    pub fn loaded(&self) -> Option<&AtLoad> {
        let load = self.at_load.as_ref();
        load.filter(|load| load.errors.is_empty() && load.latency_ns.all.count > 0)
    }
}

/// Facts about the drive that a run used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveFacts {
    /// Name of the preset or file.
    pub name: String,
    /// Name of the interface: `block`, `streams`, `fdp`, …
    pub interface: String,
    /// Capacity that the host sees, in bytes.
    pub capacity_bytes: u64,
    /// Size of the NAND in bytes.
    pub raw_bytes: u64,
    /// Raw over usable bytes, minus one.
    pub over_provisioning: f64,
    /// The NAND part, such as `tlc`.
    pub nand: String,
    /// Geometry: channels × dies × planes × blocks × pages × page size.
    pub geometry: String,
    /// Program/erase cycles that a block is rated for.
    pub endurance_cycles: u64,
    /// DRAM that the drive needs for mapping, buffers, log and cache, in bytes; 0 in records from
    /// before the field existed.
    #[serde(default)]
    pub dram_bytes: u64,
}

/// Host memory that holds the mappings of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// Bytes of volatile memory (DRAM).
    pub dram_bytes: u64,
    /// Bytes of memory that keeps its contents without power.
    pub persistent_bytes: u64,
}

/// Bytes by the drive's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grain {
    /// Bytes through the byte interface.
    pub byte: u64,
    /// Bytes through the block interface.
    pub block: u64,
    /// Bytes through both interfaces; 0 in records from before the field existed.
    #[serde(default)]
    pub total: u64,
}

/// Reads and writes for one purpose or origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directions {
    /// Bytes read, by interface.
    pub read: Grain,
    /// Bytes written, by interface.
    pub write: Grain,
}

/// Traffic between host and drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostTraffic {
    /// Bytes read from the drive.
    pub read_bytes: u64,
    /// Bytes written to the drive.
    pub write_bytes: u64,
    /// Part of `read_bytes` that went through the byte interface.
    #[serde(default)]
    pub byte_read_bytes: u64,
    /// Part of `write_bytes` that went through the byte interface.
    #[serde(default)]
    pub byte_write_bytes: u64,
    /// Bytes that the host deallocated.
    pub trim_bytes: u64,
    /// Number of flush commands.
    pub flushes: u64,
    /// Bytes by purpose on the host: `data`, `metadata`, `journal`, …
    pub by_purpose: BTreeMap<String, Directions>,
    /// Bytes by origin of the request: a process, a file, a stream.
    pub by_origin: BTreeMap<String, Directions>,
}

/// Traffic at the NAND, in its pages and in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NandTraffic {
    /// Number of page reads.
    pub read_pages: u64,
    /// Number of page programs.
    pub program_pages: u64,
    /// Number of block erases.
    pub erase_blocks: u64,
    /// Bytes of one page.
    pub page_bytes: u64,
    /// Bytes programmed, by cause: `host`, `gc`, `wear`, `mapping`, `padding`,
    /// `rmw`, `retire`, …; they add up to all bytes programmed.
    pub by_cause: BTreeMap<String, u64>,
    /// Bytes programmed, by cause and then by origin of the data.
    pub by_cause_and_origin: BTreeMap<String, BTreeMap<String, u64>>,
    /// Page reads by cause: `host`, `gc`, `mapping`, `rmw`, …
    pub reads_by_cause: BTreeMap<String, u64>,
}

/// Write amplification factors of host and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waf {
    /// Bytes written to the drive over bytes that the application wrote.
    pub host: f64,
    /// Bytes programmed over bytes written to the drive.
    pub device: f64,
    /// Bytes programmed over bytes that the application wrote; 0 in records from before the field
    /// existed.
    #[serde(default)]
    pub total: f64,
}

/// Counters of garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gc {
    /// Number of lines (superblocks) reclaimed.
    pub lines: u64,
    /// Valid bytes that garbage collection moved.
    pub moved_bytes: u64,
    /// Lines among `lines` that were reclaimed while a host write waited.
    pub foreground_lines: u64,
    /// Virtual time for which host data waited for free lines, ns.
    pub stall_ns: u64,
    /// Mean share of valid data in the reclaimed lines, 0 to 1; `None` if there were none.
    #[serde(default)]
    pub mean_valid: Option<f64>,
    /// Number of victims by their share of valid data, in ten equal bins from 0 to 1.
    pub victim_valid_histogram: Vec<u64>,
}

/// Wear of the drive's blocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Mean erases of a block over its life so far.
    pub mean_erases: f64,
    /// Fewest erases of a block.
    pub min_erases: u64,
    /// Most erases of a block.
    pub max_erases: u64,
    /// Blocks by erases: (erases at most, blocks), ascending.
    pub histogram: Vec<(u64, u64)>,
    /// Blocks out of service as bad.
    pub bad_blocks: u64,
    /// Years until the most worn block has used up its rated cycles, at this run's rate of
    /// programs; `None` if nothing was programmed for the host.
    pub life_years: Option<f64>,
    /// Bytes that the host can write until the most worn block has used up its rated cycles, in
    /// writes like this run's: raw bytes in service times cycles, over amplification. The cycles
    /// are the rated ones less the lead of the most worn block over the mean.
    #[serde(default)]
    pub life_host_bytes: Option<u64>,
    /// The part of these that the application writes: `life_host_bytes` over the host's write
    /// amplification.
    #[serde(default)]
    pub life_app_bytes: Option<u64>,
    /// Drive capacities that the application can write each day for five years, in writes like this
    /// run's.
    #[serde(default)]
    pub dwpd: Option<f64>,
}

/// One point of the timeline. Rates cover the time since the previous sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Virtual time, ns from the first request.
    pub at_ns: u64,
    /// Requests completed since the previous sample.
    pub ops: u64,
    /// Bytes written by the host since the previous sample.
    pub host_write_bytes: u64,
    /// Bytes read by the host since the previous sample.
    pub host_read_bytes: u64,
    /// Bytes programmed since the previous sample, by cause.
    pub programmed_bytes: BTreeMap<String, u64>,
    /// Device write amplification over the interval.
    pub waf: f64,
    /// Largest latency of the interval, ns.
    pub max_latency_ns: u64,
    /// Median latency of the interval, ns.
    pub p50_latency_ns: u64,
    /// Erased lines in the free pool.
    pub free_lines: u64,
}

/// Statistics over an FDP drive's life, as NVMe defines them, and its events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fdp {
    /// Host bytes with metadata written.
    pub host_bytes_written: u64,
    /// Media bytes with metadata written.
    pub media_bytes_written: u64,
    /// Media bytes erased, MBE of the log.
    pub media_bytes_erased: u64,
    /// Events in the log since power-on, by type number in hexadecimal, such as `0x80`.
    pub events: BTreeMap<String, u64>,
    /// Events dropped because the log was full.
    pub events_dropped: u64,
}

/// Look-ups of a mapping table that is paged from flash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCache {
    /// Look-ups that found their part of the table, a translation page or an entry, in DRAM.
    pub hits: u64,
    /// Look-ups that did not find it. They read its translation page from flash, if it is there.
    pub misses: u64,
    /// Evictions of a dirty part, each of which wrote a translation page; 0 in records from before
    /// the field existed.
    #[serde(default)]
    pub write_backs: u64,
    /// Dirty entries in these write-backs; 0 if the cache holds whole translation pages.
    #[serde(default)]
    pub written_entries: u64,
}

/// Counters of the log and the page cache of a drive with a byte interface. Cache lines have 64
/// bytes, pages 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Front {
    /// Cache lines loaded from the drive's memory.
    pub load_hits: u64,
    /// Cache lines whose load had to read the flash.
    pub load_misses: u64,
    /// Number of cache lines stored.
    pub stored_lines: u64,
    /// Number of committed transactions.
    pub commits: u64,
    /// Number of log cleanings.
    pub cleanings: u64,
    /// Pages that log cleaning wrote.
    pub cleaned_pages: u64,
    /// Uncommitted cache lines that cleaning moved within the log.
    pub migrated_lines: u64,
    /// Pages fetched from flash into the cache.
    pub fetched_pages: u64,
    /// Dirty pages that the cache wrote back.
    pub evicted_pages: u64,
    /// Virtual time for which stores and commits waited for log space, summed, ns.
    pub stall_ns: u64,
}

/// Calls of programs to a file system, and the page cache below them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Bytes read by calls.
    pub read_bytes: u64,
    /// Bytes written by calls.
    pub write_bytes: u64,
    /// Pages read that were in the page cache.
    pub cache_hits: u64,
    /// Pages read that were not in the page cache.
    pub cache_misses: u64,
    /// Number of pages read ahead.
    pub read_ahead_pages: u64,
    /// Dirty pages written back, also after the last call.
    pub written_back_pages: u64,
    /// Clean pages evicted from the page cache; 0 in records from before the field existed.
    #[serde(default)]
    pub evicted_pages: u64,
    /// Virtual time for which writers were throttled because too many pages were dirty, ns.
    pub throttled_ns: u64,
    /// Results that differ from those of a recording, by kind of difference.
    pub mismatches: BTreeMap<String, u64>,
}

/// Recovery after a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Virtual time from power-on until the file system is mounted, ns.
    pub time_ns: u64,
    /// Part of `time_ns` until the drive accepts commands, ns.
    pub power_on_ns: u64,
    /// Pages that the drive read for the file system's recovery, those of its power-on excluded.
    pub read_pages: u64,
    /// Pages that the drive programmed for the file system's recovery, those of its power-on
    /// excluded.
    pub program_pages: u64,
}

/// A limit that allocations hit. Amounts are in the limit's own unit; the free amount and those of
/// all holders add up to the total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The resource that ran out: `blocks`, `inodes`, `open zones`, …
    pub limit: String,
    /// Number of refused allocations.
    pub times: u64,
    /// Time of the first refusal, ns from the first request. All amounts below are of that time.
    pub first_ns: u64,
    /// Amount that the allocation requested.
    pub asked: u64,
    /// Amount that exists in total.
    pub total: u64,
    /// Amount without a holder.
    pub free: u64,
    /// Part of `free` that was reserved from this allocation.
    pub reserve: u64,
    /// Holders of the amount that is not free.
    pub held_by: Vec<Holder>,
}

/// A holder of a resource that ran out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The holder in words: `files`, `zone 3, closed`.
    pub who: String,
    /// Origin for which the resource is held; `None` if unknown.
    pub origin: Option<String>,
    /// Amount held at the first refusal.
    pub amount: u64,
}

/// The sequentially written zones of a drive, by their fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCounts {
    /// Number of sequential zones.
    pub total: u64,
    /// Capacity of these zones together, in bytes.
    pub capacity_bytes: u64,
    /// Zones with any data.
    pub used: u64,
    /// Zones that accept no further writes.
    pub full: u64,
    /// Bytes written, over all these zones.
    pub written_bytes: u64,
    /// Number of conventional zones, which the other counts exclude.
    pub conventional: u64,
}

/// An unmount with all data durable already, and the mount that followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remount {
    /// Virtual time of the unmount, ns.
    pub unmount_ns: u64,
    /// Bytes written by the unmount.
    pub unmount_write_bytes: u64,
    /// Virtual time of the mount, ns.
    pub mount_ns: u64,
    /// Bytes read by the mount.
    pub mount_read_bytes: u64,
}

/// Counters of one placement handle over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handle {
    /// Index of the handle as the host uses it.
    pub id: u16,
    /// Bytes that the host wrote through the handle.
    pub host_bytes: u64,
    /// Bytes programmed for the handle, moves included; `None` if the drive mixes moved data of
    /// several handles.
    pub media_bytes: Option<u64>,
    /// Bytes that garbage collection moved out of the handle's lines.
    pub moved_bytes: u64,
}

impl Handle {
    /// Bytes programmed over bytes written by the host; `None` if either is unknown or nothing was
    /// written.
    #[must_use]
    pub fn waf(&self) -> Option<f64> {
        let media = self.media_bytes?;
        (self.host_bytes > 0).then(|| media as f64 / self.host_bytes as f64)
    }

    /// Whether anything was written through the handle or moved out of its lines.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.host_bytes > 0 || self.moved_bytes > 0
    }
}

/// Several runs of one workload, to be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Schema of the document: always [`COMPARE_SCHEMA`].
    pub schema: String,
    /// The workload as the user wrote it.
    pub workload: String,
    /// The seed of all runs.
    pub seed: u64,
    /// One run for each stack and precondition, in the requested order.
    pub runs: Vec<Run>,
    /// The differences between the runs' configurations, their interface aside.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

impl Comparison {
    /// A comparison of `runs` of one workload, with the differences between them.
    #[must_use]
    pub fn new(workload: &str, seed: u64, runs: Vec<Run>) -> Self {
        Self {
            schema: COMPARE_SCHEMA.to_owned(),
            workload: workload.to_owned(),
            seed,
            differences: differences(&runs),
            runs,
        }
    }
}
