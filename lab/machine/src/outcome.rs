//! Outcome of a run: the document `flashloom.memory/1`.
//!
//! Invariant: a field is never renamed or removed within a schema version.

use crate::setup::Setup;
use memsys::{Accesses, Cause, Metrics, Tick};
use report::json::Document;
use report::store::{Kept, Line};
use serde::{Deserialize, Serialize};
use skybyte::Metrics as DeviceMetrics;
use std::collections::BTreeMap;
use units::{Bytes, Ns};

/// Schema of [`Outcome`].
pub const MEMORY_SCHEMA: &str = "flashloom.memory/1";

/// Prices in US dollars of a gigabyte of DDR5 and of an SSD with ULL flash, summer of 2024.
//= skybyte 6.2
const DRAM_USD: f64 = 4.28;
const FLASH_USD: f64 = 0.27;

/// Record of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Always [`MEMORY_SCHEMA`].
    pub schema: String,
    /// Name of the design.
    pub design: String,
    /// Name of the reading of the paper.
    pub profile: String,
    /// Name of the workload.
    pub workload: String,
    /// Number of threads of the workload.
    pub threads: u32,
    /// Seed of all random choices.
    pub seed: u64,
    /// Changes of the design, as they were given.
    pub changes: Vec<String>,
    /// Divisor of the paper's sizes.
    pub factor: u64,
    /// Bytes of memory that the program uses.
    pub footprint_bytes: u64,
    /// Bytes of the drive's DRAM for log and cache; 0 without a drive.
    pub ssd_dram_bytes: u64,
    /// Bytes of the drive's DRAM for the log.
    pub log_bytes: u64,
    /// Bytes of the host's memory for pages of the drive.
    pub host_bytes: u64,
    /// Nanoseconds from the start of measuring to the end of the last thread.
    pub time_ns: u64,
    /// Speed relative to the run it is compared with; `None` without comparison.
    pub speed_up: Option<f64>,
    /// Design that it is compared with; `None` without comparison.
    pub versus: Option<String>,
    /// Number of instructions executed.
    pub instructions: u64,
    /// Instructions per cycle and core.
    pub ipc: f64,
    /// Misses of the last-level cache per thousand instructions.
    pub mpki: f64,
    /// Share of stores among loads and stores, 0 to 1.
    pub write_share: f64,
    /// Share of cycles that memory bounds, 0 to 1.
    pub memory_bound: f64,
    /// Distribution of the cores' time.
    pub core_time: Time,
    /// Average memory access time, and its parts.
    pub amat: Amat,
    /// Latency distribution of accesses to memory; `None` in records older than this field.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Counters of flash, by cause.
    pub flash: Flash,
    /// Counters of the drive's front end.
    pub device: Device,
    /// Counters of thread switches.
    pub switches: Switches,
    /// Counters of page migration.
    pub moves: Moves,
    /// Distribution of the lines used per page.
    pub lines: Lines,
    /// Price of the memory.
    pub cost: Cost,
    /// Wall time of the simulation, in seconds.
    pub wall_time_s: f64,
}

impl Document for Outcome {
    const SCHEMA: &'static str = MEMORY_SCHEMA;
}

impl Kept for Outcome {
    fn line(&self) -> Line<'_> {
        Line {
            stack: &self.design,
            workload: &self.workload,
            ops_per_s: self.instructions as f64 * 1e9 / self.time_ns.max(1) as f64,
            p99_ns: self.latency.as_ref().map_or(0.0, |latency| latency.p99_ns),
            waf_device: 0.0,
        }
    }
}

/// Shares of the time of all cores, which add up to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// Executing instructions that access no memory.
    pub compute: f64,
    /// Issue slots of instructions that access memory.
    pub memory_instructions: f64,
    /// Waiting for caches.
    pub caches: f64,
    /// Waiting for the host's DRAM.
    pub host_dram: f64,
    /// Waiting for the drive's DRAM.
    pub ssd_dram: f64,
    /// Waiting for flash.
    pub flash: f64,
    /// Waiting for room in the store buffer, whatever its oldest store waits for.
    pub stores: f64,
    /// Loads that could not be issued to the drive yet, since it had refused as many writes as the
    /// host holds; waiting for their data is counted above. This time is no part of `amat`, which
    /// begins when a load is issued.
    #[serde(default)]
    pub room: f64,
    /// Fences and barriers of threads.
    pub order: f64,
    /// Switching threads.
    pub switches: f64,
    /// Interrupts and shootdowns.
    pub kernel: f64,
    /// Idle, without a thread to run.
    pub idle: f64,
}

/// Accesses answered at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Number of accesses.
    pub count: u64,
    /// Average time of these accesses, in ns.
    pub mean_ns: f64,
    /// Their contribution to the average over all accesses, in ns.
    pub adds_ns: f64,
}

/// Average memory access time (AMAT).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amat {
    /// Average over all accesses that returned data, in ns.
    pub mean_ns: f64,
    /// Accesses answered by the host's DRAM.
    pub host_dram: Part,
    /// Accesses answered by the drive's DRAM.
    pub ssd_dram: Part,
    /// Accesses for which flash was read.
    pub flash: Part,
    /// Time on the link, in ns per access to the drive.
    pub link_ns: f64,
    /// Lines written to the drive.
    pub ssd_writes: u64,
    /// Share of accesses for which no flash was read, 0 to 1.
    pub share_without_flash: f64,
    /// Wasted accesses, which are counted in none of the above: they returned only a hint, or were
    /// squashed before their data came. Their contribution is time that the other accesses bear.
    #[serde(default)]
    pub in_vain: Part,
    /// Average including the contribution of wasted accesses, in ns.
    #[serde(default)]
    pub with_vain_ns: f64,
}

/// Latency distribution of accesses to memory that returned data, from when they left the
/// last-level cache. Classes are 12.5 ns wide up to 200 ns, and an eighth of their latency beyond;
/// a percentile is the end of its class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Share of accesses within 200 ns, 0 to 1.
    pub within_200_ns: f64,
    /// 99th percentile, in ns.
    pub p99_ns: f64,
    /// 99.99th percentile, in ns.
    pub p99_99_ns: f64,
    /// Longest latency, in ns.
    pub longest_ns: f64,
}

/// Flash pages read and programmed, by cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flash {
    /// Pages read in total.
    pub read_pages: u64,
    /// Pages read, by cause.
    pub reads: BTreeMap<String, u64>,
    /// Pages programmed in total.
    pub program_pages: u64,
    /// Pages programmed, by cause.
    pub programs: BTreeMap<String, u64>,
    /// Lines of blocks (superblocks) that garbage collection has reclaimed.
    pub collected_lines: u64,
    /// Mean time of a page fetch on demand, in ns; `skybyte` Table III.
    //= skybyte 6.3
    pub mean_fetch_ns: f64,
}

/// Counters of the drive's front end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Line reads received.
    pub reads: u64,
    /// Line reads that hit the cache.
    pub cache_hits: u64,
    /// Line reads that hit the log.
    pub log_hits: u64,
    /// Line writes received.
    pub writes: u64,
    /// Refusals of a write for want of room; each attempt counts.
    pub stalls: u64,
    /// Time during which writes were refused, in ns.
    pub stall_ns: u64,
    /// Number of compactions of the log.
    pub compactions: u64,
    /// Mean duration of a compaction, in ns.
    pub mean_compaction_ns: f64,
    /// Pages written by all compactions.
    pub compacted_pages: u64,
    /// Largest size of the log's index, in bytes.
    pub most_index_bytes: u64,
    /// Pages prefetched into the cache.
    pub prefetches: u64,
    /// Prefetched pages that were used.
    pub prefetches_used: u64,
    /// Bytes sent over the link to the drive.
    pub link_down_bytes: u64,
    /// Bytes received over the link from the drive.
    pub link_up_bytes: u64,
}

/// Counters of thread switches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Switches {
    /// Switches for any reason.
    pub all: u64,
    /// Hints of the drive that an access takes long.
    pub hints: u64,
    /// Long-delay exceptions raised by such hints.
    pub long_delays: u64,
    /// Exceptions by an access that had raised one before.
    pub repeated: u64,
    /// Switches at the end of a time slice.
    pub preemptions: u64,
    /// Operations squashed by exceptions.
    pub squashed: u64,
}

/// Page migration between the drive and the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moves {
    /// Pages that the drive offered as hot.
    pub offers: u64,
    /// Pages moved to the host.
    pub promotions: u64,
    /// Pages moved back to the drive.
    pub demotions: u64,
    /// Lines written back with these pages.
    pub demoted_lines: u64,
    /// Rounds of TLB shootdowns.
    pub shootdowns: u64,
    /// Pages that the host holds at the end.
    pub held: u64,
    /// Hits in the host's page cache.
    pub page_hits: u64,
    /// Misses in the host's page cache.
    pub page_misses: u64,
}

/// Distribution of the lines used per page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Number of pages, by the lines accessed in memory, 0 to 64.
    pub pages: Vec<u64>,
    /// Share of pages with less than 40 % of their lines accessed, among those with any.
    pub share_below_40_percent: f64,
    /// Number of pages evicted from the drive's cache, by the lines used during their stay.
    #[serde(default)]
    pub stays: Vec<u64>,
    /// Share of evicted pages with less than 40 % of their lines used, among those with any.
    #[serde(default)]
    pub stays_below_40_percent: f64,
    /// Evicted pages without a used line: prefetches in vain.
    #[serde(default)]
    pub stays_unused: u64,
    /// Number of written-back pages, by the lines written during their stay.
    #[serde(default)]
    pub written: Vec<u64>,
    /// Share of written-back pages with less than 40 % of their lines written, among those with
    /// any.
    #[serde(default)]
    pub written_below_40_percent: f64,
}

/// Price of the program's memory, by the paper's prices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Price of all memory as DRAM, in US dollars.
    pub dram_usd: f64,
    /// Price of the design in US dollars: the drive's flash, as the paper counts; DRAM without a
    /// drive.
    pub usd: f64,
    /// Price of the design with the DRAM of the drive and of moved pages, which the paper leaves
    /// out, in US dollars.
    pub usd_with_dram: f64,
    /// Price of DRAM over the price of the design.
    pub cheaper: f64,
    /// `cheaper` times the performance relative to `dram-only`; `None` if that design is not among
    /// the runs.
    pub cost_effectiveness: Option<f64>,
}

pub(crate) fn outcome(
    setup: &Setup,
    (threads, footprint): (u32, Bytes),
    metrics: &Metrics,
    drive: Option<&(DeviceMetrics, DeviceMetrics)>,
) -> Outcome {
    let cycles = metrics.time.0 as f64 * setup.machine().hertz as f64 / 1e9;
    let cores = setup.machine().cores as f64;
    let (ssd_dram, log) = match setup.design.drive {
        true => (setup.device().dram.bytes.0, setup.device().log.bytes.0),
        false => (0, 0),
    };
    let host = match setup.machine().tiering {
        memsys::Tiering::Cached(cache) => cache.size.0,
        other => other.moves().map_or(0, |moves| moves.limit.0),
    };
    Outcome {
        schema: MEMORY_SCHEMA.to_owned(),
        design: setup.design.name.to_owned(),
        profile: setup.profile.name().to_owned(),
        workload: setup.workload.name(),
        threads,
        seed: setup.seed,
        changes: setup.changes.clone(),
        factor: setup.factor,
        footprint_bytes: footprint.0,
        ssd_dram_bytes: ssd_dram,
        log_bytes: log,
        host_bytes: host,
        time_ns: metrics.time.0,
        speed_up: None,
        versus: None,
        instructions: metrics.instructions,
        ipc: metrics.instructions as f64 / (cycles * cores).max(1.0),
        mpki: metrics.mpki(),
        write_share: metrics.write_share(),
        memory_bound: metrics.memory_bound(),
        core_time: time(metrics),
        amat: amat(metrics),
        latency: Some(latency(metrics)),
        flash: drive.map_or_else(Flash::default, flash),
        device: device(metrics, drive),
        switches: switches(metrics),
        moves: moves(metrics),
        lines: lines(metrics, drive),
        cost: cost(setup, footprint.0, ssd_dram + host),
        wall_time_s: 0.0,
    }
}

fn time(metrics: &Metrics) -> Time {
    let whole = metrics.core_time.0.max(1) as f64;
    let share = |part: Tick| part.0 as f64 / whole;
    let spent = |cause| share(metrics.spent_on(cause));
    Time {
        compute: share(metrics.compute),
        memory_instructions: share(metrics.memory_slots),
        caches: spent(Cause::Cache),
        host_dram: spent(Cause::Host),
        ssd_dram: spent(Cause::Device),
        flash: spent(Cause::Flash),
        stores: spent(Cause::Stores),
        room: spent(Cause::Room),
        order: spent(Cause::Order),
        switches: spent(Cause::Switch),
        kernel: spent(Cause::Kernel),
        idle: spent(Cause::Idle),
    }
}

fn ns(ticks: Tick) -> f64 {
    ticks.0 as f64 / Tick::PER_NS as f64
}

fn amat(metrics: &Metrics) -> Amat {
    let kinds = [metrics.host, metrics.device, metrics.flash];
    let all: u64 = kinds.iter().map(|kind| kind.count).sum();
    let part = |kind: &Accesses| {
        let time = ns(kind.outside) + ns(kind.device);
        Part {
            count: kind.count,
            mean_ns: time / kind.count.max(1) as f64,
            adds_ns: time / all.max(1) as f64,
        }
    };
    let far = metrics.device.count + metrics.flash.count;
    Amat {
        mean_ns: metrics.amat(),
        host_dram: part(&metrics.host),
        ssd_dram: part(&metrics.device),
        flash: part(&metrics.flash),
        link_ns: ns(metrics.device.outside + metrics.flash.outside) / far.max(1) as f64,
        ssd_writes: metrics.counts.far_writes,
        share_without_flash: (all - metrics.flash.count) as f64 / all.max(1) as f64,
        in_vain: part(&metrics.in_vain),
        with_vain_ns: metrics.amat_with_vain(),
    }
}

//= skybyte 2.3
fn latency(metrics: &Metrics) -> Latency {
    let all = metrics.latencies();
    Latency {
        within_200_ns: all.share_within(Tick::of(Ns(200))),
        p99_ns: ns(all.percentile(0.99)),
        p99_99_ns: ns(all.percentile(0.9999)),
        longest_ns: ns(all.longest()),
    }
}

fn flash((before, after): &(DeviceMetrics, DeviceMetrics)) -> Flash {
    let by_cause = |after: [(&str, u64); 3], before: [(&str, u64); 3]| {
        let pairs = after.into_iter().zip(before);
        pairs
            .map(|((cause, after), (_, before))| (cause.to_owned(), after - before))
            .collect::<BTreeMap<String, u64>>()
    };
    let reads = by_cause(after.flash_reads(), before.flash_reads());
    let programs = by_cause(after.flash_programs(), before.flash_programs());
    let (front, past) = (&after.front, &before.front);
    let fetches = front.fetches - past.fetches;
    Flash {
        read_pages: reads.values().sum(),
        reads,
        program_pages: programs.values().sum(),
        programs,
        collected_lines: after.drive.lines_collected - before.drive.lines_collected,
        mean_fetch_ns: (front.fetch_time.0 - past.fetch_time.0) as f64 / fetches.max(1) as f64,
    }
}

fn device(metrics: &Metrics, drive: Option<&(DeviceMetrics, DeviceMetrics)>) -> Device {
    let Some((before, after)) = drive else {
        return Device::default();
    };
    let (front, past) = (&after.front, &before.front);
    let compactions = front.compactions - past.compactions;
    let compacting = (front.compaction_time.0 - past.compaction_time.0) as f64;
    Device {
        reads: front.reads - past.reads,
        cache_hits: front.cache_hits - past.cache_hits,
        log_hits: front.log_hits - past.log_hits,
        writes: front.writes - past.writes,
        stalls: front.stalls - past.stalls,
        stall_ns: front.stall_time.0 - past.stall_time.0,
        compactions,
        mean_compaction_ns: compacting / compactions.max(1) as f64,
        compacted_pages: front.compacted_pages - past.compacted_pages,
        most_index_bytes: after.most_index_bytes,
        prefetches: front.prefetches - past.prefetches,
        prefetches_used: front.prefetches_used - past.prefetches_used,
        link_down_bytes: metrics.link.down,
        link_up_bytes: metrics.link.up,
    }
}

fn switches(metrics: &Metrics) -> Switches {
    let counts = &metrics.counts;
    Switches {
        all: counts.switches,
        hints: counts.hints,
        long_delays: counts.long_delays,
        repeated: counts.repeated_delays,
        preemptions: counts.preemptions,
        squashed: counts.squashed,
    }
}

fn moves(metrics: &Metrics) -> Moves {
    let counts = &metrics.counts;
    Moves {
        offers: counts.offers,
        promotions: counts.promotions,
        demotions: counts.demotions,
        demoted_lines: counts.demoted_lines,
        shootdowns: counts.shootdowns,
        held: metrics.held,
        page_hits: counts.page_hits,
        page_misses: counts.page_misses,
    }
}

/// Share of pages with less than 40 % of their lines used, among pages with any; `pages` counts
/// pages by the lines used, 0 to 64.
fn with_few(pages: &[u64]) -> f64 {
    let used = pages.get(1..).unwrap_or_default();
    // 25 of 64 lines are the last count below 40 %.
    let few: u64 = used.iter().take(25).sum();
    few as f64 / used.iter().sum::<u64>().max(1) as f64
}

//= skybyte 2.3
fn lines(metrics: &Metrics, drive: Option<&(DeviceMetrics, DeviceMetrics)>) -> Lines {
    let since = |of: fn(&DeviceMetrics) -> &Vec<u64>| {
        let pairs = drive.map(|(before, after)| of(after).iter().zip(of(before)));
        let counts = pairs.into_iter().flatten();
        counts.map(|(after, before)| after - before).collect()
    };
    let stays: Vec<u64> = since(|device| &device.stays.used);
    let written: Vec<u64> = since(|device| &device.stays.written);
    Lines {
        share_below_40_percent: with_few(&metrics.touched),
        pages: metrics.touched.clone(),
        stays_below_40_percent: with_few(&stays),
        stays_unused: stays.first().copied().unwrap_or_default(),
        stays,
        written_below_40_percent: with_few(&written),
        written,
    }
}

//= skybyte 6.2
fn cost(setup: &Setup, footprint: u64, dram: u64) -> Cost {
    let gigabytes = |bytes: u64| (bytes * setup.factor) as f64 / 1e9;
    let dram_usd = gigabytes(footprint) * DRAM_USD;
    let (usd, extra) = match setup.design.drive {
        true => (gigabytes(footprint) * FLASH_USD, gigabytes(dram) * DRAM_USD),
        false => (dram_usd, 0.0),
    };
    Cost {
        dram_usd,
        usd,
        usd_with_dram: usd + extra,
        cheaper: dram_usd / usd,
        cost_effectiveness: None,
    }
}

/// Compares the runs of one workload: each with the run of `base`, and its cost with that of
/// `dram-only`, if those runs are there.
pub fn compare(runs: &mut [Outcome], base: &str) {
    let time = |runs: &[Outcome], design: &str| {
        let found = runs.iter().find(|run| run.design == design);
        found.map(|run| run.time_ns.max(1) as f64)
    };
    let (base_time, dram_time) = (time(runs, base), time(runs, "dram-only"));
    for run in runs {
        let own = run.time_ns.max(1) as f64;
        run.speed_up = base_time.map(|base| base / own);
        run.versus = base_time.map(|_| base.to_owned());
        run.cost.cost_effectiveness = dram_time.map(|dram| run.cost.cheaper * dram / own);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_pages_do_not_count_in_the_share() {
        //= skybyte 2.3
        let mut pages = vec![0; 65];
        (pages[0], pages[25], pages[26], pages[64]) = (1_000, 3, 4, 1);
        assert!((with_few(&pages) - 3.0 / 8.0).abs() < 1e-12);
        pages.truncate(1);
        assert!(with_few(&pages) == 0.0 && with_few(&[]) == 0.0);
    }
}
