//! Builds the record of a run from its counters.
//!
//! Invariant: nothing is estimated here: causes add up to all bytes programmed, purposes and
//! origins to all bytes of the host.

use crate::configuration::configuration;
use crate::hosts::{self, Keeps};
use crate::placement;
use crate::run::Outcome;
use host::{Purpose, Traffic};
use report::record::{
    Directions, DriveFacts, Fdp, Front, Gc, Grain, Handle, Holder, HostMemory, HostTraffic,
    MapCache, NandTraffic, RUN_SCHEMA, Refusal, Remapped, Run, Waf, Wear, ZoneCounts,
};
use ssd::{
    ByteStats, Cause, DriveConfig, FdpLog, Interface, Ledger, ReadCause, ZoneKind, ZoneState, Zones,
};
use std::collections::BTreeMap;
use units::{NoSpace, Ns, Origin, Refused, SECTOR};
use workload::Labels;

/// Nanoseconds in a year of 365.25 days.
const YEAR: f64 = 31_557_600e9;
/// Days of a warranty of five years, over which drives are rated.
const WARRANTY_DAYS: f64 = 1_826.25;
/// Bytes that one entry of a host's mapping covers.
const MAPPED: u64 = 4_096;
/// Largest number of steps in the histogram of wear.
const WEAR_STEPS: u64 = 20;

/// The record of a finished run.
pub(crate) fn record(outcome: &Outcome) -> Run {
    let drive = outcome.device.drive();
    let ledger = drive.ledger().since(&outcome.before.drive);
    let (page, served) = (drive.layout().page_bytes(), &outcome.served);
    let (span, host) = (served.span, host(outcome));
    let handles = handles(&ledger, page, &outcome.plan.drive);
    let waf = waf(&host, asked(outcome), ledger.programmed_pages() * page);
    let mut run = Run {
        schema: RUN_SCHEMA.to_owned(),
        stack: outcome.plan.stack.to_string(),
        drive: facts(&outcome.plan.drive),
        workload: outcome.workload.clone(),
        label: outcome.plan.label.clone(),
        precondition: outcome.plan.past().to_string(),
        used: None,
        seed: outcome.plan.seed,
        ops: served.ops,
        notes: outcome.notes.clone(),
        errors: served.errors.clone(),
        ops_per_s: rate(served.ops, span),
        bytes_per_s: rate(moved(outcome, &host), span),
        at_load: None,
        cpu_ns_per_op: ratio(processor_time(outcome).0, served.ops),
        latency_ns: served.latency.clone(),
        nand: nand(outcome, &ledger, &served.labels),
        wear: wear(outcome, span, (host.write_bytes, waf)),
        waf,
        steady: outcome.steady,
        windows: u64::from(outcome.windows),
        cautions: Vec::new(),
        host,
        gc: gc(outcome, &ledger, page),
        utilisation: utilisation(outcome, span),
        timeline: outcome.samples.clone(),
        placement: placement::record(&outcome.plan, outcome.placing, &handles),
        handles,
        fdp: drive.fdp().map(|log| fdp(&log)),
        map_cache: (outcome.plan.drive.mapping.cache.0 > 0).then(|| map_cache(&ledger)),
        front: outcome.plan.drive.front.map(|_| front(ledger.bytes)),
        app: served.app.clone(),
        recovery: outcome.recovery,
        operations: served.operations.clone(),
        jobs: served.jobs.0.clone(),
        job_groups: served.jobs.1.clone(),
        file_system: outcome.file_system,
        zones: drive.zones().map(zones),
        places: crate::places::places(drive, outcome.plan.drive.interface),
        remap: outcome.remap.clone(),
        host_memory: host_memory(outcome),
        remount: outcome.remount,
        refusals: refusals(outcome),
        configuration: configuration(&outcome.plan),
        sim_time_ns: span.0,
        events: outcome.events,
        wall_time_s: 0.0,
        peak_rss_bytes: 0,
    };
    run.cautions = report::caution::of(&run);
    run
}

fn map_cache(ledger: &Ledger) -> MapCache {
    MapCache {
        hits: ledger.map_hits,
        misses: ledger.map_misses,
        write_backs: ledger.map_write_backs,
        written_entries: ledger.map_entries_written,
    }
}

/// Bytes that programs wrote to files, or that requests wrote to a remapping layer; `None` if
/// requests reach the drive directly.
fn asked(outcome: &Outcome) -> Option<u64> {
    let app = outcome.served.app.as_ref().map(|app| app.write_bytes);
    app.or(outcome.remap.as_ref().map(|layer| layer.written_bytes))
}

/// Write amplification: host writes over bytes `asked` for, and bytes `programmed` over host
/// writes.
fn waf(host: &HostTraffic, asked: Option<u64>, programmed: u64) -> Waf {
    Waf {
        host: asked.map_or(1.0, |asked| ratio(host.write_bytes, asked)),
        device: ratio(programmed, host.write_bytes),
        total: ratio(programmed, asked.unwrap_or(host.write_bytes)),
    }
}

/// Bytes that calls of programs moved, or else requests: above a remapping layer those of its
/// users, without what its cleaning reads.
fn moved(outcome: &Outcome, host: &HostTraffic) -> u64 {
    let read = |layer: &Remapped| host.read_bytes.saturating_sub(layer.moved_bytes);
    match (&outcome.served.app, &outcome.remap) {
        (Some(app), _) => app.read_bytes + app.write_bytes,
        (None, Some(layer)) => read(layer) + layer.written_bytes,
        (None, None) => host.read_bytes + host.write_bytes,
    }
}

/// Busy time of all cores of the host.
fn processor_time(outcome: &Outcome) -> Ns {
    Ns(outcome.host_busy.cores.iter().map(|busy| busy.0).sum())
}

fn refusals(outcome: &Outcome) -> Vec<Refusal> {
    let labels = &outcome.served.labels;
    let met = outcome.refusals.iter();
    met.map(|met| refusal(met, labels)).collect()
}

/// A limit that allocations hit, with the names of its holders.
fn refusal(met: &Refused, labels: &Labels) -> Refusal {
    let NoSpace {
        limit,
        asked,
        total,
        free,
        reserve,
        ref held_by,
    } = met.first;
    let named = |origin: Origin| (origin.0 > 0).then(|| labels.name(origin).to_owned());
    let holder = |holder: &units::Holder| Holder {
        who: holder.who.clone().into_owned(),
        origin: named(holder.origin),
        amount: holder.amount,
    };
    Refusal {
        limit: limit.to_owned(),
        times: met.times,
        first_ns: met.first_at.0,
        asked,
        total,
        free,
        reserve,
        held_by: held_by.iter().map(holder).collect(),
    }
}

/// Counts of the zones by their fill.
fn zones(zones: &Zones) -> ZoneCounts {
    let mut counts = ZoneCounts::default();
    for zone in (0..zones.limits().zones).filter_map(|zone| zones.info(zone)) {
        if zone.kind == ZoneKind::Conventional {
            counts.conventional += 1;
            continue;
        }
        let written = zone.written();
        counts.total += 1;
        counts.capacity_bytes += zone.capacity * SECTOR;
        counts.used += u64::from(written > 0);
        counts.full += u64::from(zone.state == ZoneState::Full);
        counts.written_bytes += written * SECTOR;
    }
    counts
}

/// `part` over `whole`; 0 if `whole` is 0.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

fn rate(count: u64, span: Ns) -> f64 {
    ratio(count, span.0) * 1e9
}

/// The mean of `counts`; 0 if there are none.
pub(crate) fn mean(counts: &[u32]) -> f64 {
    ratio(
        counts.iter().map(|&n| u64::from(n)).sum(),
        counts.len() as u64,
    )
}

/// The name of a drive's interface, as stacks spell it.
pub(crate) const fn interface(config: &DriveConfig) -> &'static str {
    if config.front.is_some() {
        return "byte";
    }
    match config.interface {
        Interface::Block => "block",
        Interface::Streams => "streams",
        Interface::Fdp => "fdp",
        Interface::Zoned => "zns",
        Interface::OpenChannel => "ocssd",
    }
}

fn front(bytes: ByteStats) -> Front {
    Front {
        load_hits: bytes.load_hits,
        load_misses: bytes.load_misses,
        stored_lines: bytes.stored_lines,
        commits: bytes.commits,
        cleanings: bytes.cleanings,
        cleaned_pages: bytes.cleaned_pages,
        migrated_lines: bytes.migrated_lines,
        fetched_pages: bytes.fetched_pages,
        evicted_pages: bytes.evicted_pages,
        stall_ns: bytes.stall_ns,
    }
}

fn facts(config: &DriveConfig) -> DriveFacts {
    let raw = config.geometry.bytes();
    let endurance = config.endurance().unwrap_or_default();
    DriveFacts {
        name: config.name.clone(),
        interface: interface(config).to_owned(),
        capacity_bytes: config.capacity.0,
        raw_bytes: raw,
        over_provisioning: ratio(raw, config.capacity.0) - 1.0,
        nand: config.flash.part.clone(),
        geometry: config.geometry.to_string(),
        endurance_cycles: u64::from(endurance),
        dram_bytes: config.dram().total().0,
    }
}

/// Host memory that holds the mapping of an open-channel drive, or the tables of a layer.
fn host_memory(outcome: &Outcome) -> Option<HostMemory> {
    let (plan, layer) = (&outcome.plan, &outcome.remap);
    let tables = layer.as_ref().map(|l| l.table_bytes + l.physical_bytes);
    let persistent = hosts::memory(&plan.stack.host, &plan.stack.switches);
    let persistent = persistent.map(|memory| memory.keeps(&plan.drive));
    let sectors = u32::try_from(plan.drive.capacity.0 / MAPPED).unwrap_or(u32::MAX);
    let held = plan.drive.raw.map(|_| match persistent {
        Some(Keeps::Swaps(_)) => 0,
        Some(Keeps::Buffer(_)) | None => hostftl::table_bytes(sectors),
    });
    let persistent = persistent.map(|keeps| keeps.memory().0);
    (tables.is_some() || held.is_some()).then(|| HostMemory {
        dram_bytes: tables.unwrap_or_default() + held.unwrap_or_default(),
        persistent_bytes: persistent.unwrap_or_default(),
    })
}

/// Host traffic as in the record; for a file system every purpose is listed, also those without
/// traffic.
fn host(outcome: &Outcome) -> HostTraffic {
    let served = &outcome.served;
    let (labels, of_files) = (&served.labels, served.app.is_some());
    let ledger = outcome.device.ledger().since(&outcome.before.host);
    let purposes = Purpose::ALL
        .iter()
        .map(|&p| (p.name().to_owned(), ledger.purpose(p)));
    let origins = ledger
        .origins()
        .iter()
        .enumerate()
        .map(|(index, &traffic)| {
            let origin = Origin(u16::try_from(index).expect("origins are numbered by 16 bits"));
            (labels.name(origin).to_owned(), traffic)
        });
    let by_bytes = |way: fn(Traffic) -> host::Grain| {
        let purposes = Purpose::ALL.iter();
        purposes.map(|&p| way(ledger.purpose(p)).byte).sum()
    };
    let mut by_purpose = directions(purposes);
    for purpose in Purpose::ALL.iter().filter(|_| of_files) {
        by_purpose.entry(purpose.name().to_owned()).or_default();
    }
    HostTraffic {
        read_bytes: ledger.read_bytes(),
        write_bytes: ledger.write_bytes(),
        byte_read_bytes: by_bytes(|traffic| traffic.read),
        byte_write_bytes: by_bytes(|traffic| traffic.write),
        trim_bytes: ledger.trimmed,
        flushes: ledger.flushes,
        by_purpose,
        by_origin: directions(origins),
    }
}

fn directions(named: impl Iterator<Item = (String, Traffic)>) -> BTreeMap<String, Directions> {
    let mut map: BTreeMap<String, Directions> = BTreeMap::new();
    for (name, traffic) in named.filter(|(_, traffic)| !traffic.is_empty()) {
        let sum = map.entry(name).or_default();
        add(&mut sum.read, traffic.read);
        add(&mut sum.write, traffic.write);
    }
    map
}

const fn add(sum: &mut Grain, grain: host::Grain) {
    sum.byte += grain.byte;
    sum.block += grain.block;
    sum.total += grain.byte + grain.block;
}

fn nand(outcome: &Outcome, ledger: &Ledger, labels: &Labels) -> NandTraffic {
    let drive = outcome.device.drive();
    let page = drive.layout().page_bytes();
    let flash_page = u64::from(drive.layout().geometry.page_bytes);
    let reads = ReadCause::ALL
        .iter()
        .map(|c| (c.name().to_owned(), ledger.reads[*c as usize]));
    NandTraffic {
        read_pages: ledger.reads.iter().sum(),
        program_pages: ledger.programmed_pages() * page / flash_page,
        erase_blocks: drive.flash_counters().erase_blocks - outcome.before.erased_blocks,
        page_bytes: flash_page,
        by_cause: Cause::ALL
            .iter()
            .map(|&cause| (cause, ledger.by_cause(cause) * page))
            .filter(|(cause, bytes)| *bytes > 0 || matches!(cause, Cause::Host | Cause::Gc))
            .map(|(cause, bytes)| (cause.name().to_owned(), bytes))
            .collect(),
        by_cause_and_origin: by_origin(ledger, page, labels),
        reads_by_cause: reads.filter(|(_, pages)| *pages > 0).collect(),
    }
}

fn by_origin(
    ledger: &Ledger,
    page: u64,
    labels: &Labels,
) -> BTreeMap<String, BTreeMap<String, u64>> {
    let mut map: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    for (cause, tags) in Cause::ALL.iter().zip(&ledger.programmed) {
        for (tag, &pages) in tags.iter().enumerate().filter(|(_, pages)| **pages > 0) {
            let name = tag_name(tag, tags.len(), labels);
            let sums = map.entry(cause.name().to_owned()).or_default();
            *sums.entry(name).or_default() += pages * page;
        }
    }
    map
}

/// The origin that the spare areas call `tag`: origins beyond the range share the last of `tags`.
fn tag_name(tag: usize, tags: usize, labels: &Labels) -> String {
    if tag + 1 == tags && labels.names().len() > tags {
        return "other".to_owned();
    }
    let origin = Origin(u16::try_from(tag).expect("tags have at most 8 bits"));
    labels.name(origin).to_owned()
}

fn gc(outcome: &Outcome, ledger: &Ledger, page: u64) -> Gc {
    let line_pages = u64::from(outcome.device.drive().layout().line_data);
    Gc {
        lines: ledger.lines_collected + outcome.lines_cleaned,
        moved_bytes: ledger.by_cause(Cause::Gc) * page,
        foreground_lines: ledger.lines_collected_foreground,
        stall_ns: outcome.stall.0,
        mean_valid: (ledger.lines_collected > 0)
            .then(|| ratio(ledger.victim_pages, ledger.lines_collected * line_pages)),
        victim_valid_histogram: ledger.victims.to_vec(),
    }
}

/// Wear, and the drive life that follows from the bytes `written` by the host and their
/// `amplification`.
///
/// A drive lives until its most worn block has used up the rated cycles. Wear levelling keeps the
/// lead of that block over the mean constant, so the mean ends below the rated cycles by that lead.
/// Erases of the run say nothing about life: they lag behind the programs by the spare area.
fn wear(outcome: &Outcome, span: Ns, (written, waf): (u64, Waf)) -> Wear {
    let (erases, bad_blocks) = outcome.device.drive().wear();
    let endurance = f64::from(outcome.plan.drive.endurance().unwrap_or_default());
    let lead = f64::from(erases.iter().copied().max().unwrap_or_default()) - mean(&erases);
    let cycles = (endurance - lead).max(0.0);
    let geometry = &outcome.plan.drive.geometry;
    let in_service = ratio(erases.len() as u64, geometry.blocks()) * geometry.bytes() as f64;
    let life = (waf.device > 0.0).then(|| in_service * cycles / waf.device);
    let of_app = life
        .filter(|_| waf.host > 0.0)
        .map(|bytes| bytes / waf.host);
    let rated = outcome.plan.drive.capacity.0 as f64 * WARRANTY_DAYS;
    let per_year = written as f64 / span.0.max(1) as f64 * YEAR;
    let sorted = || erases.iter().map(|&n| u64::from(n));
    Wear {
        mean_erases: mean(&erases),
        min_erases: sorted().min().unwrap_or_default(),
        max_erases: sorted().max().unwrap_or_default(),
        histogram: steps(&erases),
        bad_blocks,
        life_years: life.map(|bytes| bytes / per_year),
        life_host_bytes: life.map(|bytes| bytes as u64),
        life_app_bytes: of_app.map(|bytes| bytes as u64),
        dwpd: of_app.map(|bytes| bytes / rated),
    }
}

fn fdp(log: &FdpLog) -> Fdp {
    let mut events: BTreeMap<String, u64> = BTreeMap::new();
    for event in log.host.events.iter().chain(&log.controller.events) {
        *events
            .entry(format!("{:#04x}", event.kind.code()))
            .or_default() += 1;
    }
    Fdp {
        host_bytes_written: log.host_bytes_written.0,
        media_bytes_written: log.media_bytes_written.0,
        media_bytes_erased: log.media_bytes_erased.0,
        events,
        events_dropped: log.host.dropped + log.controller.dropped,
    }
}

/// Blocks by erase count, in at most [`WEAR_STEPS`] steps of equal width.
fn steps(erases: &[u32]) -> Vec<(u64, u64)> {
    let ends = erases.iter().min().zip(erases.iter().max());
    let Some((&least, &most)) = ends else {
        return Vec::new();
    };
    let width = (u64::from(most - least) + 1).div_ceil(WEAR_STEPS);
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for &n in erases {
        let step = u64::from(n - least) / width;
        let end = u64::from(least) + (step + 1) * width - 1;
        *counts.entry(end.min(u64::from(most))).or_default() += 1;
    }
    counts.into_iter().collect()
}

/// Busy shares up to the last request. Unfinished work may be counted as a whole, hence the bound
/// of 1.
fn utilisation(outcome: &Outcome, span: Ns) -> BTreeMap<String, f64> {
    let geometry = &outcome.plan.drive.geometry;
    let share = |busy: Ns, servers: u64| ratio(busy.0, span.0 * servers).min(1.0);
    let (dies, channels) = outcome.flash_busy;
    let host = &outcome.host_busy;
    let cores = host.cores.len() as u64;
    let shares = [
        ("die", share(dies, u64::from(geometry.dies()))),
        ("channel", share(channels, u64::from(geometry.channels))),
        ("link", share(host.to_drive.max(host.to_host), 1)),
        ("cpu", share(processor_time(outcome), cores)),
    ];
    shares.map(|(name, share)| (name.to_owned(), share)).into()
}

/// Counters of the placement handles; empty unless the drive has more than one. Only a drive that
/// keeps them apart knows whose data it moves.
fn handles(ledger: &Ledger, page: u64, drive: &DriveConfig) -> Vec<Handle> {
    if ledger.handles.len() < 2 {
        return Vec::new();
    }
    let apart = drive.placement.persistently_isolated;
    let numbered = (0_u16..).zip(&ledger.handles);
    numbered
        .map(|(id, stats)| Handle {
            id,
            host_bytes: stats.host_sectors * SECTOR,
            media_bytes: apart.then_some(stats.media_pages * page),
            moved_bytes: stats.moved_pages * page,
        })
        .collect()
}
