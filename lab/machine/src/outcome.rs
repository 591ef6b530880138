//! What a run leaves behind: the document `flashloom.memory/1`.
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

/// The schema of [`Outcome`].
pub const MEMORY_SCHEMA: &str = "flashloom.memory/1";

/// Prices of a gigabyte in the summer of 2024: DDR5, and the SSD with ULL flash.
//= skybyte 6.2
const DRAM_USD: f64 = 4.28;
const FLASH_USD: f64 = 0.27;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Always [`MEMORY_SCHEMA`].
    pub schema: String,
    /// The design.
    pub design: String,
    /// The reading of the paper.
    pub profile: String,
    /// The workload.
    pub workload: String,
    /// Threads.
    pub threads: u32,
    /// The seed.
    pub seed: u64,
    /// What was changed of the design.
    pub changes: Vec<String>,
    /// What sizes of the paper were divided by.
    pub factor: u64,
    /// Bytes of memory that the program uses.
    pub footprint_bytes: u64,
    /// The drive's DRAM for log and cache; 0 without a drive.
    pub ssd_dram_bytes: u64,
    /// Of that, the log.
    pub log_bytes: u64,
    /// The host's memory for pages of the drive.
    pub host_bytes: u64,
    /// From the start of measuring to the end of the last thread.
    pub time_ns: u64,
    /// How many times faster than the run it is compared with; none alone.
    pub speed_up: Option<f64>,
    /// The design that it is compared with.
    pub versus: Option<String>,
    /// Instructions.
    pub instructions: u64,
    /// Instructions a cycle and core.
    pub ipc: f64,
    /// Misses of the last cache in a thousand instructions.
    pub mpki: f64,
    /// Stores among loads and stores.
    pub write_share: f64,
    /// The share of cycles that memory bounds.
    pub memory_bound: f64,
    /// Where the time of the cores went.
    pub core_time: Time,
    /// Average time of an access to memory, and its parts.
    pub amat: Amat,
    /// How long accesses to memory took; none in records of before it was told.
    #[serde(default)]
    pub latency: Option<Latency>,
    /// Flash.
    pub flash: Flash,
    /// The front of the drive.
    pub device: Device,
    /// Switches of threads.
    pub switches: Switches,
    /// Pages that moved.
    pub moves: Moves,
    /// Lines of pages that were asked of memory.
    pub lines: Lines,
    /// What such a memory costs.
    pub cost: Cost,
    /// Seconds that the run took here.
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
    /// Instructions that touch no memory.
    pub compute: f64,
    /// Slots of those that do.
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
    /// Loads that could not ask the drive yet, as it had refused as many writes as the host
    /// holds; waiting for the answer to them is among the others. It is no part of `amat`,
    /// which begins when a load asks.
    #[serde(default)]
    pub room: f64,
    /// Fences and meetings.
    pub order: f64,
    /// Switches of threads.
    pub switches: f64,
    /// Interrupts and shootdowns.
    pub kernel: f64,
    /// Without a thread to run.
    pub idle: f64,
}

/// Accesses of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// How many.
    pub count: u64,
    /// Their average time, ns.
    pub mean_ns: f64,
    /// What they add to the average of all, ns.
    pub adds_ns: f64,
}

/// Average time of an access to memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Amat {
    /// Of all that data came for, ns.
    pub mean_ns: f64,
    /// Those that the host's DRAM answered.
    pub host_dram: Part,
    /// Those that the drive's DRAM answered.
    pub ssd_dram: Part,
    /// Those for which flash was read.
    pub flash: Part,
    /// Of the accesses to the drive, the time on the link, ns each.
    pub link_ns: f64,
    /// Lines that were written to the drive.
    pub ssd_writes: u64,
    /// Of all accesses, those for which flash was not read.
    pub share_without_flash: f64,
    /// Accesses in vain, which are in none of the above: a hint was all that came, or they
    /// were squashed before their data came. What they add is time that the others bear.
    #[serde(default)]
    pub in_vain: Part,
    /// The average with what they add, ns.
    #[serde(default)]
    pub with_vain_ns: f64,
}

/// How long accesses to memory took that data came for, from when they left the last cache.
/// They are counted in classes of 12.5 ns, beyond 200 ns in wider ones of an eighth of their times:
/// a percentile is the end of its class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The share of those that took 200 ns or less.
    pub within_200_ns: f64,
    /// The 99th percentile, ns.
    pub p99_ns: f64,
    /// The 99.99th, ns.
    pub p99_99_ns: f64,
    /// The longest, ns.
    pub longest_ns: f64,
}

/// Flash pages, by cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flash {
    /// Read.
    pub read_pages: u64,
    /// The same by cause.
    pub reads: BTreeMap<String, u64>,
    /// Programmed.
    pub program_pages: u64,
    /// The same by cause.
    pub programs: BTreeMap<String, u64>,
    /// Lines of blocks that garbage collection took.
    pub collected_lines: u64,
    /// Mean time of a page that somebody asked for, ns; `skybyte` Table III.
    //= skybyte 6.3
    pub mean_fetch_ns: f64,
}

/// The front of the drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Reads of lines.
    pub reads: u64,
    /// Of those, found in the cache.
    pub cache_hits: u64,
    /// Found in the log.
    pub log_hits: u64,
    /// Writes of lines.
    pub writes: u64,
    /// Times that a write was refused for want of room, that is each time that it came.
    pub stalls: u64,
    /// Time during which there was none, ns.
    pub stall_ns: u64,
    /// Compactions of the log.
    pub compactions: u64,
    /// Their mean time, ns.
    pub mean_compaction_ns: f64,
    /// Pages that a compaction wrote, of all.
    pub compacted_pages: u64,
    /// The most that the index of the log took, bytes.
    pub most_index_bytes: u64,
    /// Pages fetched ahead.
    pub prefetches: u64,
    /// Of those, used.
    pub prefetches_used: u64,
    /// Bytes over the link to the drive.
    pub link_down_bytes: u64,
    /// Bytes from it.
    pub link_up_bytes: u64,
}

/// Switches of threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Switches {
    /// Of all reasons.
    pub all: u64,
    /// Hints of the drive that an access takes long.
    pub hints: u64,
    /// Exceptions because of them.
    pub long_delays: u64,
    /// Of those, by an access that had raised one before.
    pub repeated: u64,
    /// Slices of time that ended.
    pub preemptions: u64,
    /// Operations that were squashed.
    pub squashed: u64,
}

/// Pages that moved between the drive and the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moves {
    /// Pages that the drive called hot.
    pub offers: u64,
    /// Pages that moved to the host.
    pub promotions: u64,
    /// Pages that went back.
    pub demotions: u64,
    /// Lines that went back with them.
    pub demoted_lines: u64,
    /// Rounds of shootdowns.
    pub shootdowns: u64,
    /// Pages that the host holds at the end.
    pub held: u64,
    /// Hits of the host's cache of pages.
    pub page_hits: u64,
    /// Its misses.
    pub page_misses: u64,
}

/// How many lines of a page were asked of memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Pages by how many of their 64 lines were, from 0.
    pub pages: Vec<u64>,
    /// Of the pages of which any was, the share with less than 40 % of theirs.
    pub share_below_40_percent: f64,
    /// Pages that the drive's cache evicted, by how many of their lines were used while they
    /// were there.
    #[serde(default)]
    pub stays: Vec<u64>,
    /// Of those of which any line was, the share with less than 40 % of theirs.
    #[serde(default)]
    pub stays_below_40_percent: f64,
    /// Those of which none was: they were fetched ahead in vain.
    #[serde(default)]
    pub stays_unused: u64,
    /// Of these pages, those that were written back, by how many of their lines were written.
    #[serde(default)]
    pub written: Vec<u64>,
    /// Of those of which any line was, the share with less than 40 % of theirs.
    #[serde(default)]
    pub written_below_40_percent: f64,
}

/// What the memory of the program costs, by the paper's prices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// As DRAM, US dollars.
    pub dram_usd: f64,
    /// As the design has it: the drive's flash, as the paper counts; DRAM without one.
    pub usd: f64,
    /// The same and the DRAM of the drive and of moved pages, which the paper leaves out.
    pub usd_with_dram: f64,
    /// How many times less than DRAM.
    pub cheaper: f64,
    /// That times the performance beside DRAM alone, where it is among the compared.
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

/// Of the pages by how many of their lines were used, 0 to 64, the share with few, of those
/// of which any was.
fn with_few(pages: &[u64]) -> f64 {
    let used = pages.get(1..).unwrap_or_default();
    // 25 of 64 lines are the last below 40 %.
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

/// Sets runs of one workload beside each other: each beside `base`, and its cost beside
/// that of DRAM alone, where there are such runs.
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
    fn pages_of_which_nothing_was_used_have_no_share() {
        //= skybyte 2.3
        let mut pages = vec![0; 65];
        (pages[0], pages[25], pages[26], pages[64]) = (1_000, 3, 4, 1);
        assert!((with_few(&pages) - 3.0 / 8.0).abs() < 1e-12);
        pages.truncate(1);
        assert!(with_few(&pages) == 0.0 && with_few(&[]) == 0.0);
    }
}
