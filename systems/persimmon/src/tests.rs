//! The log of metadata beside a model, on the drive itself.

use crate::checkpoint::footer;
use crate::config::{MkfsOptions, Options, Pages};
use crate::format::{Footer, PER_CHUNK, Sums, blank};
use crate::layout::{Layout, LayoutError};
use crate::log::Log;
use crate::map::Map;
use crate::metrics::Metrics;
use crate::mount::Powered;
use crate::recover::map;
use host::{
    BlockDevice, BlockPort, HostConfig, Purpose, RamZones, ZonedDevice, ZonedPort, ZonesAtRest,
};
use lfs::Block;
use sim::{Kernel, Rng, Seed, Sim};
use ssd::{Drive, DriveConfig, DriveMedia, Preset, ZoneLimits, ZoneState};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, MIB, Origin};

/// A zoned drive without power loss protection: a cut loses unflushed writes.
fn config() -> DriveConfig {
    let preset = Preset::named("zns").expect("a preset");
    let mut config = (preset.config)().resized(Bytes(128 * MIB));
    config.flash.keep_contents = true;
    config.controller.power_loss_protection = false;
    config
}

fn zones(sim: &Sim) -> ZonedDevice {
    let media = DriveMedia::new(&config(), Seed(1)).expect("it can be built");
    let drive = Drive::ready(sim, &config(), media, Seed(1)).expect("as above");
    attached(sim, drive)
}

fn attached(sim: &Sim, drive: Drive) -> ZonedDevice {
    let device = BlockDevice::new(sim, HostConfig::default(), drive).expect("the default can be");
    ZonedDevice::new(&device).expect("a zoned drive")
}

/// First virtual address of the map, and the count of addresses.
const FIRST: u32 = 5_000;
const COUNT: u32 = 3 * PER_CHUNK as u32 - 7;

fn layout<Z: ZonedPort>(port: &Z, options: Options) -> Layout {
    let zone_blocks = (lfs::packing(port.limits()).room() / 8) as u32;
    let valid = (COUNT + 3).div_ceil(zone_blocks);
    Layout {
        zone_blocks,
        metadata_zones: valid + options.clean_at + 1,
    }
}

fn sums() -> Sums {
    Sums::of(&[7; 16])
}

fn log<Z: ZonedPort>(sim: &Sim, port: &Z, options: Options) -> Log {
    let layout = layout(port, options);
    let map = Map::new(layout, FIRST..FIRST + COUNT);
    Log::new(lfs::linear(sim, port), (layout, sums()), options, map)
}

fn stamped(block: u32, version: u64) -> Box<Block> {
    let mut bytes = blank();
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[4000..4004].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// Draws a batch of few or many block addresses, mostly among the first 200.
fn batch(rng: &mut Rng) -> Vec<u32> {
    let count = if rng.below(20) == 0 {
        900
    } else {
        1 + rng.below(30)
    };
    let most = if rng.below(3) == 0 { COUNT } else { 200 };
    let mut all: Vec<u32> = (0..count)
        .map(|_| FIRST + rng.below(u64::from(most)) as u32)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

async fn run(sim: Sim, options: Options, seed: u64) {
    let port = zones(&sim);
    let log = log(&sim, &port, options);
    let mut rng = Seed(seed).stream("metadata");
    let mut model: BTreeMap<u32, u64> = BTreeMap::new();
    for version in 1..700 {
        let batch = batch(&mut rng);
        let blocks = batch.iter().map(|&block| (block, stamped(block, version)));
        log.append(blocks.collect(), Purpose::Pointer)
            .await
            .unwrap();
        model.extend(batch.iter().map(|&block| (block, version)));
        for _ in 0..10 {
            let block = FIRST + rng.below(u64::from(COUNT)) as u32;
            let read = log.read(block, Purpose::Pointer).await.unwrap();
            let expected = model.get(&block).map(|&version| stamped(block, version));
            assert_eq!(read, expected.unwrap_or_else(blank), "block {block}");
        }
        if options.memory.is_none() && version % 50 == 0 {
            log.map().check();
        }
    }
    let metrics = log.metrics();
    assert!(metrics.zones_cleaned > 10, "{metrics:?}");
    let written = metrics.written as f64 / metrics.blocks as f64;
    let most = if options.pages == Pages::Paired {
        4.0
    } else {
        3.0
    };
    assert!(written < most, "{written} blocks for each: {metrics:?}");
    if let Some(most) = options.memory {
        assert!(metrics.pages_read > 0 && metrics.memory < most.0 + 4_096);
    }
    let active = (0..port.limits().zones).filter_map(|zone| port.zone(zone));
    let active = active.filter(|zone| zone.state.is_active()).count();
    assert!(active <= 1, "{active} zones are active");
}

fn with(options: Options, seed: u64) {
    let kernel = Kernel::new();
    kernel.block_on(run(kernel.sim(), options, seed));
}

#[test]
fn appended_blocks_survive_cleaning_and_read_back() {
    with(Options::default(), 1);
    with(
        Options {
            clean_at: 1,
            ..Options::default()
        },
        2,
    );
}

#[test]
fn paired_pages_read_back_like_batched_pages() {
    let pages = Pages::Paired;
    with(
        Options {
            pages,
            ..Options::default()
        },
        3,
    );
}

#[test]
fn a_map_that_does_not_fit_memory_is_read_from_its_pages() {
    let memory = Some(Bytes(4_200));
    with(
        Options {
            memory,
            ..Options::default()
        },
        4,
    );
}

#[test]
fn zones_are_divided_by_the_formula() {
    const GIB: u64 = 1 << 30;
    let limits = |zones: u32, capacity: u64| ZoneLimits {
        zones,
        size: 2 * GIB / 512,
        capacity: capacity / 512,
        block: 8,
        max_open: 14,
        max_active: 14,
        ..ZoneLimits::NONE
    };
    let options = MkfsOptions::default();
    let planned = |zones| Layout::plan(limits(zones, 2 * GIB), &options).map(|l| l.metadata_zones);
    // Metadata of 64 GiB take 0.12 zones of 2 GiB: what is valid, two free ones, and one.
    assert_eq!(planned(32), Ok(4));
    assert_eq!(planned(256), Ok(4));
    // 8 TiB: 1.2 times 9 zones are less than 9 and three.
    assert_eq!(planned(4096), Ok(12));
    assert!(matches!(
        planned(13),
        Err(LayoutError::Few { wanted: 7, .. })
    ));
    assert!(matches!(planned(1 << 14), Err(LayoutError::Large(_))));
    let small = Layout::plan(limits(64, MIB), &options);
    assert_eq!(small.err(), Some(LayoutError::Small(MIB)));
    let some = ZoneLimits {
        conventional: 2,
        ..limits(64, 2 * GIB)
    };
    let refused = Layout::plan(some, &options);
    assert_eq!(refused.err(), Some(LayoutError::Conventional(2)));
}

/// Versions of blocks that a run has flushed (`forced`) and written (`begun`), and the
/// footer and page addresses that its last checkpoint would have.
#[derive(Default)]
struct Known {
    forced: BTreeMap<u32, u64>,
    begun: BTreeMap<u32, u64>,
    checkpoint: Option<(Footer, Vec<u32>)>,
    metrics: Metrics,
}

/// Appends batches, flushes now and then, and records what a checkpoint would reference.
async fn append_all<Z: ZonedPort>(sim: Sim, port: Z, options: Options, known: Rc<RefCell<Known>>) {
    let log = log(&sim, &port, options);
    let remember = |known: &mut Known| {
        let map = log.map();
        known.checkpoint = Some((footer(&map, 1, 0), map.pages().to_vec()));
        known.metrics = log.metrics();
    };
    remember(&mut known.borrow_mut());
    let mut rng = Seed(9).stream("metadata");
    for version in 1..120 {
        let batch = batch(&mut rng);
        let blocks = batch.iter().map(|&block| (block, stamped(block, version)));
        known
            .borrow_mut()
            .begun
            .extend(batch.iter().map(|&block| (block, version)));
        log.append(blocks.collect(), Purpose::Pointer)
            .await
            .unwrap();
        if rng.below(3) == 0 {
            log.linear().flush().await.unwrap();
            let mut known = known.borrow_mut();
            known.forced = known.begun.clone();
            if rng.below(4) == 0 {
                remember(&mut known);
            }
            known.metrics = log.metrics();
        }
    }
}

/// Recovers the map after a power cut and reads every block through it.
async fn find_all<Z: ZonedPort>(sim: Sim, port: Z, options: Options, known: Rc<RefCell<Known>>) {
    let (linear, layout) = (lfs::linear(&sim, &port), layout(&port, options));
    let powered = Powered {
        linear: &linear,
        origin: Origin(0),
    };
    let (footer, pages) = known.borrow().checkpoint.clone().unwrap();
    let blocks = FIRST..FIRST + COUNT;
    let empty = Map::new(layout, blocks.clone());
    let found = map(&powered, sums(), empty, (&footer, &pages[..])).await;
    let found = found.unwrap();
    found.check();
    let log = Log::new(linear.clone(), (layout, sums()), options, found);
    for block in blocks {
        let read = log.read(block, Purpose::Pointer).await.unwrap();
        let version = u64::from_le_bytes(read[..8].try_into().unwrap());
        let of = |versions: &BTreeMap<u32, u64>| versions.get(&block).copied().unwrap_or(0);
        let (least, most) = (of(&known.borrow().forced), of(&known.borrow().begun));
        assert!(
            (least..=most).contains(&version),
            "{block}: {version} of {least}..={most}"
        );
    }
    // The log accepts appends after recovery.
    let next = vec![(FIRST, stamped(FIRST, 1_000))];
    log.append(next, Purpose::Pointer).await.unwrap();
    log.map().check();
}

fn cut_at(cut: u64, options: Options) -> Option<Metrics> {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let media = DriveMedia::new(&config(), Seed(1)).expect("it can be built");
    let drive = Drive::ready(&sim, &config(), media, Seed(1)).expect("as above");
    let known = Rc::new(RefCell::new(Known::default()));
    let port = attached(&sim, drive.clone());
    sim.spawn_detached(append_all(sim.clone(), port, options, Rc::clone(&known)));
    while sim.events() < cut && kernel.step() {}
    if sim.events() < cut {
        return None;
    }
    let (media, metrics) = (drive.at_power_cut(), known.borrow().metrics);
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let drive = Drive::power_on(&sim, &config(), media, Seed(1))
            .await
            .unwrap();
        find_all(sim.clone(), attached(&sim, drive), options, known).await;
    });
    Some(metrics)
}

/// Cuts a run at every `step`th event from `first` on until it ends.
fn find_wherever(pages: Pages, (first, step): (u64, u64)) {
    let options = Options {
        pages,
        ..Options::default()
    };
    let (mut cut, mut last) = (first, Metrics::default());
    while let Some(metrics) = cut_at(cut, options) {
        (last, cut) = (metrics, cut + step);
    }
    assert!(last.zones_cleaned > 1, "{cut}: {last:?}");
}

#[test]
fn durable_blocks_are_recovered_at_every_cut_with_batched_pages() {
    find_wherever(Pages::Batched, (1, 41));
}

// Two tests, as this takes long, and they may run side by side.

#[test]
fn durable_blocks_are_recovered_at_even_cuts_with_paired_pages() {
    find_wherever(Pages::Paired, (1, 82));
}

#[test]
fn durable_blocks_are_recovered_at_odd_cuts_with_paired_pages() {
    find_wherever(Pages::Paired, (42, 82));
}

/// Zones of one segment each, in memory; a cut loses unflushed blocks of each zone
/// independently.
fn in_memory() -> ZonesAtRest {
    let segment = 512 * 8;
    ZonesAtRest::new(ZoneLimits {
        zones: 16,
        size: segment,
        capacity: segment,
        block: 8,
        ..ZoneLimits::NONE
    })
}

/// Recovers from the zones that a cut has left and checks every block against `known`.
fn find_in(left: ZonesAtRest, options: Options, known: &Rc<RefCell<Known>>) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let known = Rc::clone(known);
    kernel.block_on(async move {
        let port = RamZones::holding(&sim, left);
        find_all(sim.clone(), port, options, known).await;
    });
}

#[test]
fn durable_blocks_are_recovered_from_any_kept_part_of_each_zone() {
    let options = Options::default();
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let known = Rc::new(RefCell::new(Known::default()));
    let port = RamZones::holding(&sim, in_memory());
    let task = append_all(sim.clone(), port.clone(), options, Rc::clone(&known));
    sim.spawn_detached(task);
    let mut rng = Seed(4).stream("cuts");
    while kernel.step() {
        if sim.events().is_multiple_of(3) {
            find_in(port.after_any_cut(&mut rng), options, &known);
        }
    }
    let metrics = known.borrow().metrics;
    assert!(metrics.zones_cleaned > 1, "{metrics:?}");
}

/// Fills a zone to its last block and opens the next one, whose first page references it.
async fn begin_a_zone(sim: Sim, port: RamZones, known: Rc<RefCell<Known>>) {
    let log = log(&sim, &port, Options::default());
    let map = (footer(&log.map(), 1, 0), log.map().pages().to_vec());
    known.borrow_mut().checkpoint = Some(map);
    let mut version = 0;
    let mut append = async |blocks: std::ops::Range<u32>| {
        version += 1;
        let begun = blocks.clone().map(|block| (block, version));
        known.borrow_mut().begun.extend(begun);
        let blocks = blocks.map(|block| (block, stamped(block, version)));
        log.append(blocks.collect(), Purpose::Pointer)
            .await
            .unwrap();
    };
    // The zone begins with a page, and a page follows each batch: 3 blocks twice, then 2
    // a batch.
    append(FIRST..FIRST + 1).await;
    append(FIRST..FIRST + 2).await;
    while log.map().room() > 0 {
        append(FIRST..FIRST + 1).await;
    }
    let full = log.map().current;
    append(FIRST..FIRST + 1).await;
    assert_eq!((full, log.map().current), (0, 1));
}

/// The cut keeps all of the last zone, and of every other zone only the flushed part.
#[test]
fn first_page_of_a_durable_zone_references_durable_blocks() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let known = Rc::new(RefCell::new(Known::default()));
    let port = RamZones::holding(&sim, in_memory());
    kernel.block_on(begin_a_zone(sim.clone(), port.clone(), Rc::clone(&known)));
    let second = crate::layout::METADATA + 1;
    let mut rng = Seed(1).stream("cut");
    let left = port.after_cut(&mut rng, |_, zone, behind| match zone {
        _ if zone == second => behind,
        _ => 0,
    });
    assert!(!left.zones[second as usize].payloads.is_empty());
    find_in(left, Options::default(), &known);
}

/// All free zones fail while another zone has no valid block and waits for its reset.
#[test]
fn zone_without_valid_blocks_is_reused_when_all_free_zones_failed() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    kernel.block_on(async move {
        let port = RamZones::holding(&sim, in_memory());
        let log = log(&sim, &port, Options::default());
        let mut version = 0;
        let mut append = async || {
            version += 1;
            let blocks = vec![(FIRST, stamped(FIRST, version))];
            log.append(blocks, Purpose::Pointer).await
        };
        while log.map().current == 0 || log.map().room() >= 2 {
            append().await.unwrap();
        }
        assert_eq!((log.map().current, log.map().zones[0].valid), (1, 0));
        for zone in 2..log.map().zones.len() as u32 {
            port.fail(crate::layout::METADATA + zone, ZoneState::Offline);
        }
        append().await.unwrap();
        assert_eq!(log.map().current, 0);
        log.map().check();
    });
}

/// The cleaning victim turns read-only while cleaning relocates its blocks.
#[test]
fn a_zone_that_fails_while_it_is_emptied_is_not_released() {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = RamZones::holding(&sim, in_memory());
    let log = Rc::new(log(&sim, &port, Options::default()));
    let held = Rc::clone(&log);
    sim.spawn_detached(async move {
        let mut rng = Seed(9).stream("metadata");
        for version in 1..120 {
            let batch = batch(&mut rng);
            let blocks = batch.iter().map(|&block| (block, stamped(block, version)));
            held.append(blocks.collect(), Purpose::Pointer)
                .await
                .unwrap();
        }
    });
    let (mut next, mut failed) = (None, None);
    while kernel.step() {
        if failed.is_none() && log.metrics().zones_cleaned > 0 {
            failed = next;
            let zone = next.expect("it was chosen before");
            port.fail(crate::layout::METADATA + zone, ZoneState::ReadOnly);
        }
        next = crate::map::victim(&log.map().zones, log.map().current);
    }
    let failed = failed.expect("zones are emptied") as usize;
    assert!(log.map().zones[failed].at.epoch > 0, "its blocks are there");
    assert_eq!(log.map().zones[failed].valid, 0);
    log.map().check();
}
