//! What one run leaves behind: the JSON document `flashloom.run/1`.
//!
//! A field is never renamed or removed within a schema version. Maps are
//! ordered, so that the same run gives the same bytes.

mod file_system;
mod placement;
mod places;

use crate::configuration::{Configuration, Difference, differences};
pub use crate::remapped::Remapped;
pub use file_system::{Cleaning, Extents, FileSystem, LogFacts, Nodes, SwapFacts, TreeFacts};
pub use placement::Placement;
pub use places::{Place, Places};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema of [`Run`].
pub const RUN_SCHEMA: &str = "flashloom.run/1";
/// The schema of [`Comparison`].
pub const COMPARE_SCHEMA: &str = "flashloom.compare/1";

/// One workload on one stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Always [`RUN_SCHEMA`].
    pub schema: String,
    /// The stack as written, such as `raw@fdp`.
    pub stack: String,
    /// The drive as resolved.
    pub drive: DriveFacts,
    /// The workload as written, with its parameters.
    pub workload: String,
    /// What sets it apart from others of one plan file, such as `seed=2`; else empty.
    #[serde(default)]
    pub label: String,
    /// How the drive was prepared: `fresh`, `full`, `aged`, or `kept` where it
    /// came from a drive file.
    pub precondition: String,
    /// The seed of the run.
    pub seed: u64,
    /// Requests completed.
    pub ops: u64,
    /// What of the workload was not taken over as it stands, in sentences.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Requests that failed, by reason.
    pub errors: BTreeMap<String, u64>,
    /// Requests completed per second of virtual time.
    pub ops_per_s: f64,
    /// Latency over all requests and by kind.
    pub latency_ns: LatencySet,
    /// Traffic at the host interface.
    pub host: HostTraffic,
    /// Traffic at the NAND.
    pub nand: NandTraffic,
    /// Write amplification.
    pub waf: Waf,
    /// Whether garbage collection had reached its steady state when the run ended: the last
    /// two windows, each of at least the drive's capacity in host writes, agree in device
    /// amplification within 2 %. None where the question does not arise (nothing was written,
    /// or the drive has zones and moves no data of its own), and in records
    /// from before it was kept.
    #[serde(default)]
    pub steady: Option<bool>,
    /// Windows of at least the drive's capacity in host writes that the run went through.
    #[serde(default)]
    pub windows: u64,
    /// Why numbers of the run may not answer what they seem to, and what to run instead, in
    /// sentences.
    #[serde(default)]
    pub cautions: Vec<String>,
    /// What garbage collection did.
    pub gc: Gc,
    /// Wear and the life that follows from it.
    pub wear: Wear,
    /// Busy share of each kind of resource, 0 to 1: `die`, `channel`, `link`, `cpu`.
    pub utilisation: BTreeMap<String, f64>,
    /// Series over virtual time; empty unless asked for.
    pub timeline: Vec<Sample>,
    /// Placement handles, where the drive has more than one.
    pub handles: Vec<Handle>,
    /// The policy that named the placement handles, where the drive has more than one; none in
    /// records from before it was kept.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// The statistics log of an FDP drive.
    #[serde(default)]
    pub fdp: Option<Fdp>,
    /// Look-ups of a map that is not all in DRAM.
    #[serde(default)]
    pub map_cache: Option<MapCache>,
    /// What stands before the flash of a drive that is read and written by bytes.
    #[serde(default)]
    pub front: Option<Front>,
    /// What programs asked of the file system, where there is one.
    #[serde(default)]
    pub app: Option<App>,
    /// What recovery took, where the power was cut after the last request.
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// Latencies of operations of a storage engine by kind, where the workload is one.
    #[serde(default)]
    pub operations: BTreeMap<String, Latency>,
    /// What the file system said of itself at the end, where there is one.
    #[serde(default)]
    pub file_system: Option<FileSystem>,
    /// How the zones stood at the end, where the drive has any.
    #[serde(default)]
    pub zones: Option<ZoneCounts>,
    /// How the lines of the drive, or its zones, stood at the end; none of an open-channel
    /// drive, whose host knows that, and in records from before it was kept.
    #[serde(default)]
    pub places: Option<Places>,
    /// What a layer that remaps addresses did, where the stack has one.
    #[serde(default)]
    pub remap: Option<Remapped>,
    /// Memory of the host for maps, where the drive or a layer leaves them to it.
    #[serde(default)]
    pub host_memory: Option<HostMemory>,
    /// What unmounting and mounting took, where both were asked for at the end.
    #[serde(default)]
    pub remount: Option<Remount>,
    /// Limits that allocations met, and who held them.
    #[serde(default)]
    pub refusals: Vec<Refusal>,
    /// The drive and the host, field by field; empty in records from before it was kept.
    #[serde(default)]
    pub configuration: Configuration,
    /// Virtual time from the first request to the last completion.
    pub sim_time_ns: u64,
    /// Events that the kernel ran.
    pub events: u64,
    /// Wall time of the run in seconds. Differs from run to run.
    pub wall_time_s: f64,
    /// Peak resident memory of the process. Differs from run to run.
    pub peak_rss_bytes: u64,
}

/// The drive that a run used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveFacts {
    /// Preset or file.
    pub name: String,
    /// The interface: `block`, `streams`, `fdp`, …
    pub interface: String,
    /// Bytes that the host sees.
    pub capacity_bytes: u64,
    /// Bytes of NAND.
    pub raw_bytes: u64,
    /// Raw over usable, minus one.
    pub over_provisioning: f64,
    /// The NAND part, such as `tlc`.
    pub nand: String,
    /// A line of geometry: channels × dies × planes × blocks × pages × page size.
    pub geometry: String,
    /// Program/erase cycles that a block is rated for.
    pub endurance_cycles: u64,
    /// DRAM that the drive needs for map, buffers, log and cache; 0 in records from before
    /// it was told.
    #[serde(default)]
    pub dram_bytes: u64,
}

/// Memory of the host that the stack keeps its maps in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostMemory {
    /// DRAM.
    pub dram_bytes: u64,
    /// Memory that lasts without power.
    pub persistent_bytes: u64,
}

/// Latencies of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// Arithmetic mean, ns.
    pub mean: f64,
    /// Median, ns.
    pub p50: u64,
    /// 95th percentile, ns; 0 in records from before it was kept.
    #[serde(default)]
    pub p95: u64,
    /// 99th percentile, ns.
    pub p99: u64,
    /// 99.9th percentile, ns.
    pub p99_9: u64,
    /// 99.99th percentile, ns.
    pub p99_99: u64,
    /// Largest, ns.
    pub max: u64,
    /// The distribution: (latency in ns, requests at or below it), ascending,
    /// about 100 to 200 points, the last one with all requests.
    pub cdf: Vec<(u64, u64)>,
}

/// Latency over all requests, and by kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySet {
    /// Over all requests.
    #[serde(flatten)]
    pub all: Latency,
    /// By kind: `read`, `write`, `trim`, `flush`; of files, the name of the call.
    pub by_op: BTreeMap<String, Latency>,
}

/// Bytes by granularity of the interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grain {
    /// Through the byte interface.
    pub byte: u64,
    /// Through the block interface.
    pub block: u64,
    /// Through both; 0 in records from before it was kept.
    #[serde(default)]
    pub total: u64,
}

/// Reads and writes of one purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directions {
    /// Bytes read.
    pub read: Grain,
    /// Bytes written.
    pub write: Grain,
}

/// Traffic between host and drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostTraffic {
    /// Bytes read from the drive.
    pub read_bytes: u64,
    /// Bytes written to the drive.
    pub write_bytes: u64,
    /// Of those read, bytes that went through the byte interface.
    #[serde(default)]
    pub byte_read_bytes: u64,
    /// Of those written.
    #[serde(default)]
    pub byte_write_bytes: u64,
    /// Bytes deallocated.
    pub trim_bytes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// By what the host used them for: `data`, `metadata`, `journal`, …
    pub by_purpose: BTreeMap<String, Directions>,
    /// By who asked: a process, a file, a stream.
    pub by_origin: BTreeMap<String, Directions>,
}

/// Traffic of the NAND, in pages of the part and in bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NandTraffic {
    /// Page reads.
    pub read_pages: u64,
    /// Page programs.
    pub program_pages: u64,
    /// Block erases.
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

/// Write amplification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waf {
    /// Bytes written to the drive over bytes that the application wrote.
    pub host: f64,
    /// Bytes programmed over bytes written to the drive.
    pub device: f64,
}

/// Garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gc {
    /// Lines reclaimed.
    pub lines: u64,
    /// Bytes of valid data moved.
    pub moved_bytes: u64,
    /// Of `lines`, those reclaimed while a host write waited.
    pub foreground_lines: u64,
    /// Virtual time during which data of the host waited for free lines, ns.
    pub stall_ns: u64,
    /// Mean share of valid data of the lines that were reclaimed, 0 to 1.
    #[serde(default)]
    pub mean_valid: Option<f64>,
    /// How full of valid data the victims were: counts over ten equal bins.
    pub victim_valid_histogram: Vec<u64>,
}

/// Wear.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Wear {
    /// Mean erases of a block over its life so far.
    pub mean_erases: f64,
    /// Fewest and most erases of a block.
    pub min_erases: u64,
    /// Most erases of a block.
    pub max_erases: u64,
    /// Blocks by erases: (erases at most, blocks), ascending.
    pub histogram: Vec<(u64, u64)>,
    /// Blocks out of service.
    pub bad_blocks: u64,
    /// Years until the most worn block has used up its rated cycles at this run's rate of
    /// programs; none if nothing was programmed for the host.
    pub life_years: Option<f64>,
    /// Bytes that the host can write until then, in writes like this run's: raw bytes in
    /// service times cycles, over amplification. The cycles are the rated ones less the lead
    /// of the most worn block over the mean.
    #[serde(default)]
    pub life_host_bytes: Option<u64>,
}

/// One point of the timeline. Rates cover the time since the sample before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Virtual time, ns from the first request.
    pub at_ns: u64,
    /// Requests completed since the sample before.
    pub ops: u64,
    /// Bytes written by the host since the sample before.
    pub host_write_bytes: u64,
    /// Bytes read by the host since the sample before.
    pub host_read_bytes: u64,
    /// Bytes programmed since the sample before, by cause.
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
    /// Media bytes erased.
    pub media_bytes_erased: u64,
    /// Events in the log since power-on, by number as in `0x80`.
    pub events: BTreeMap<String, u64>,
    /// Events that the log had no room for.
    pub events_dropped: u64,
}

/// Look-ups of a paged map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MapCache {
    /// Those that found their translation page in DRAM.
    pub hits: u64,
    /// Those that did not.
    pub misses: u64,
}

/// What log and page cache of a drive did that is read and written by bytes. Lines are of
/// 64 bytes, pages of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Front {
    /// Lines that were loaded from the drive's memory.
    pub load_hits: u64,
    /// Lines for which the flash was read.
    pub load_misses: u64,
    /// Lines that were stored.
    pub stored_lines: u64,
    /// Transactions that have committed.
    pub commits: u64,
    /// Times that the log was cleaned.
    pub cleanings: u64,
    /// Pages that cleaning wrote.
    pub cleaned_pages: u64,
    /// Lines that cleaning moved within the log, as they had not committed.
    pub migrated_lines: u64,
    /// Pages that came into the cache from flash.
    pub fetched_pages: u64,
    /// Pages that the cache wrote back.
    pub evicted_pages: u64,
    /// Virtual time for which stores and commits waited for room in the log, summed, ns.
    pub stall_ns: u64,
}

/// What programs asked of a file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct App {
    /// Bytes that calls read.
    pub read_bytes: u64,
    /// Bytes that calls wrote.
    pub write_bytes: u64,
    /// Pages read that the page cache had.
    pub cache_hits: u64,
    /// Pages read that it did not have.
    pub cache_misses: u64,
    /// Pages read ahead.
    pub read_ahead_pages: u64,
    /// Pages written back, also after the last call.
    pub written_back_pages: u64,
    /// Clean pages that the page cache let go to make room; 0 in records from before
    /// they were counted.
    #[serde(default)]
    pub evicted_pages: u64,
    /// Virtual time for which writers waited because too much was dirty, ns.
    pub throttled_ns: u64,
    /// Answers that are not those of the recording, by what differs.
    pub mismatches: BTreeMap<String, u64>,
}

/// Recovery after a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Virtual time from power-on until the file system is mounted, ns.
    pub time_ns: u64,
    /// Of that, until the drive answers, ns.
    pub power_on_ns: u64,
    /// Pages of the map's size that the drive read, but for those of its power-on.
    pub read_pages: u64,
    /// Those that it programmed.
    pub program_pages: u64,
}

/// A limit that allocations met. Amounts are in what the limit is of, and what is free
/// and what holders have add up to the total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What there was too little of: `blocks`, `inodes`, `open zones`, …
    pub limit: String,
    /// Allocations that were refused.
    pub times: u64,
    /// When the first one was, ns from the first request. All else is of then.
    pub first_ns: u64,
    /// How much it asked for.
    pub asked: u64,
    /// How much there was.
    pub total: u64,
    /// How much nobody held.
    pub free: u64,
    /// How much of that was kept from who asked.
    pub reserve: u64,
    /// Who held the rest.
    pub held_by: Vec<Holder>,
}

/// Who held some of what there was too little of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// It, in words: `files`, `zone 3, closed`.
    pub who: String,
    /// On whose behalf, where that is known.
    pub origin: Option<String>,
    /// How much it held.
    pub amount: u64,
}

/// Zones of a drive that are written in order, by how far they are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneCounts {
    /// All of them.
    pub total: u64,
    /// Bytes that they hold together.
    pub capacity_bytes: u64,
    /// Those that hold anything.
    pub used: u64,
    /// Those that nothing more can be written to.
    pub full: u64,
    /// Bytes that are written, of all.
    pub written_bytes: u64,
    /// Conventional zones, which are none of these.
    pub conventional: u64,
}

/// An unmount of what was durable already, and the mount that followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remount {
    /// Virtual time of the unmount, ns.
    pub unmount_ns: u64,
    /// Bytes that it wrote.
    pub unmount_write_bytes: u64,
    /// Virtual time of the mount, ns.
    pub mount_ns: u64,
    /// Bytes that it read.
    pub mount_read_bytes: u64,
}

/// A placement handle over the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Handle {
    /// Index as the host names it.
    pub id: u16,
    /// Bytes that the host wrote to it.
    pub host_bytes: u64,
    /// Bytes programmed for it, moves included; none where the drive mixes moved
    /// data of several handles.
    pub media_bytes: Option<u64>,
    /// Bytes moved out of its lines by garbage collection.
    pub moved_bytes: u64,
}

impl Handle {
    /// Bytes programmed over bytes written by the host, if both are known.
    #[must_use]
    pub fn waf(&self) -> Option<f64> {
        let media = self.media_bytes?;
        (self.host_bytes > 0).then(|| media as f64 / self.host_bytes as f64)
    }

    /// Whether anything was written to it or moved out of it.
    #[must_use]
    pub const fn is_used(&self) -> bool {
        self.host_bytes > 0 || self.moved_bytes > 0
    }
}

/// Several runs of one workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Always [`COMPARE_SCHEMA`].
    pub schema: String,
    /// The workload as written.
    pub workload: String,
    /// The seed.
    pub seed: u64,
    /// One run a stack and precondition, in the order asked for.
    pub runs: Vec<Run>,
    /// What the runs differ in besides the interface of their drives.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

impl Comparison {
    /// `runs` of a workload, and what they differ in.
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
