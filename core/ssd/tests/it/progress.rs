//! Progress: no drive that can be built comes to rest with work left.

use crate::power::{cut, run};
use crate::steady::bare;
use crate::support::{Mix, recover, tiny};
use nand::Payload;
use sim::{Kernel, Rng, Seed, Signal, timeout};
use ssd::{
    CacheHolds, ConfigError, Content, Drive, DriveConfig, Interface, Layout, Precondition,
    SpareSplit, VictimPolicy,
};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Ns, Origin, Placement};

const WORKERS: u64 = 24;
const REQUESTS: u64 = 300;
/// More than twice the events that the slowest drive needs.
const EVENTS: u64 = 4_000_000;

/// Largest capacity with frontiers for hot and for cold relocated data: that with one of them, less
/// the line and the reserve of the other in each group.
fn with_both(config: &DriveConfig, most: Bytes) -> Bytes {
    let config = DriveConfig {
        capacity: config.mapping.unit,
        ..config.clone()
    };
    let layout = Layout::new(&config).expect("one page fits");
    let lines = 2 * u64::from(layout.groups);
    let pages =
        (most.0 / config.mapping.unit.0).saturating_sub(lines * u64::from(layout.line_data));
    Bytes(pages * config.mapping.unit.0)
}

/// A small drive with random settings, and the largest capacity that fits or somewhat less.
fn drawn(rng: &mut Rng) -> DriveConfig {
    let mut config = tiny(rng.below(2) == 0);
    config.geometry.blocks_per_plane = 32 + rng.below(32) as u32;
    config.interface = Interface::Fdp;
    config.placement.handles = 1 + rng.below(8) as u16;
    config.placement.reclaim_groups = 1 + rng.below(2) as u16;
    config.placement.persistently_isolated = rng.below(3) > 0;
    config.placement.spare = [SpareSplit::Pooled, SpareSplit::ByDemand][rng.below(2) as usize];
    config.collection.separate = rng.below(3) > 0;
    config.collection.reserve_lines = rng.below(4) as u32;
    config.collection.background_lines = rng.below(4) as u32;
    config.collection.reads_per_die = 1 + rng.below(4) as u32;
    config.collection.victim = [VictimPolicy::Greedy, VictimPolicy::Fifo][rng.below(2) as usize];
    config.flash.suspend_limit = rng.below(4) as u32;
    if rng.below(4) == 0 {
        config.geometry.page_bytes = 16384;
        config.mapping.unit = Bytes(16384);
    }
    if rng.below(3) == 0 {
        let pages = 1 + rng.below(4);
        config.mapping.cache = Bytes(config.mapping.unit.0 * pages);
        if pages.is_multiple_of(2) {
            config.mapping.cache_holds = CacheHolds::Entries;
            config.mapping.cache.0 /= 16;
        }
    }
    if rng.below(4) == 0 {
        config.wear.static_threshold = 1 + rng.below(4) as u32;
    }
    if rng.below(4) == 0 {
        config.geometry.blocks_per_plane += 30;
        config.wear.spare_blocks += 30;
        config.faults.program_failures = 1000;
        config.faults.erase_failures = 1000;
    }
    let unit = config.mapping.unit.0;
    let program = u64::from(config.geometry.planes * config.geometry.page_bytes);
    let handles = u64::from(config.placement.handles * config.placement.reclaim_groups);
    config.controller.write_buffer = Bytes(program * handles + unit * rng.below(32));
    config.capacity = Bytes(config.geometry.bytes());
    if let Err(ConfigError::Space { most, .. }) = Layout::new(&config) {
        let percent = 70 + rng.below(31);
        config.capacity = Bytes(most.0 / unit * percent / 100 * unit);
        let placement = &config.placement;
        let tells_hot = placement.spare == SpareSplit::ByDemand && config.collection.separate;
        if tells_hot && !placement.persistently_isolated && rng.below(2) == 0 {
            config.capacity = with_both(&config, most);
        }
    }
    config
}

/// Starts random reads, writes, deallocations and flushes of one to eight times 4 KiB, under random
/// handles or one only. Returns the number of workers that have finished.
fn work(drive: &Drive, kernel: &Kernel, config: &DriveConfig, seed: u64) -> Rc<Cell<u64>> {
    let pages = config.capacity.0 / 4096;
    let placement = &config.placement;
    let handles = u64::from(placement.handles) * u64::from(placement.reclaim_groups);
    let named = if seed.is_multiple_of(4) { 1 } else { handles };
    let done = Rc::new(Cell::new(0));
    for worker in 0..WORKERS {
        let (drive, done) = (drive.clone(), Rc::clone(&done));
        let mut rng = Seed(seed).stream(&format!("worker {worker}"));
        kernel.sim().spawn_detached(async move {
            for _ in 0..REQUESTS {
                let len = (1 + rng.below(8)).min(pages);
                let first = rng.below(pages - len + 1);
                let extent = Extent::new(first * 8, len as u32 * 8);
                match rng.below(40) {
                    0..12 => drive.read(extent, &mut ()).await.expect("no read fails"),
                    12..14 => drive.trim(extent).await.expect("there are spare blocks"),
                    14 => drive.flush().await.expect("there are spare blocks"),
                    _ => {
                        let handle = Placement(rng.below(named) as u16);
                        let content = Content::Fill(first);
                        let write = drive.write(extent, content, handle, Origin(0), false);
                        write.await.expect("there are spare blocks");
                    }
                }
            }
            done.set(done.get() + 1);
        });
    }
    done
}

/// Panics unless `drive` completes random work and can be shut down.
fn must_work(drive: &Drive, kernel: &Kernel, config: &DriveConfig, seed: u64, context: &str) {
    let done = work(drive, kernel, config, seed);
    for _ in 0..EVENTS {
        if !kernel.step() {
            break;
        }
    }
    let came_to = format!("it came to rest: {context}: {config:?}");
    assert_eq!(done.get(), WORKERS, "{came_to}");
    let off = drive.clone();
    kernel.block_on(async move { off.shutdown().await });
    drive.check();
}

#[test]
fn every_drive_that_can_be_built_makes_progress() {
    let (mut built, mut redirected) = (0, 0);
    for seed in 0..70 {
        let config = drawn(&mut Seed(seed).stream("configuration"));
        if config.capacity.0 == 0 {
            continue;
        }
        Layout::new(&config).expect("so much would fit, it was said");
        for past in Precondition::ALL {
            let Ok(media) = past.media(&config, Seed(seed)) else {
                assert_eq!(past, Precondition::Aged, "only that needs more room");
                continue;
            };
            let kernel = Kernel::new();
            let drive = Drive::ready(&kernel.sim(), &config, media, Seed(seed)).unwrap();
            let context = format!("seed {seed}, {} drive", past.name());
            must_work(&drive, &kernel, &config, seed, &context);
            built += 1;
            redirected += drive.ledger().redirected;
        }
    }
    assert!(built > 150, "{built} drives were built");
    assert!(redirected > 0, "no group was ever full");
}

#[test]
fn random_drives_keep_promises_and_progress_after_a_cut() {
    let mut collected = 0;
    for seed in 100..130 {
        let config = drawn(&mut Seed(seed).stream("configuration"));
        if config.capacity.0 < 100 * 4096 || config.mapping.unit.0 > 4096 {
            continue;
        }
        let mix = Mix {
            workers: 8,
            ops: 600,
            span: (config.capacity.0 / 4096) as usize,
            trims_percent: 3,
            flushes_percent: 1,
            placements: u64::from(config.placement.handles * config.placement.reclaim_groups),
        };
        let mut rng = Seed(seed).stream("points");
        let mut next = rng.below(4_000);
        run(&config, mix, seed, |event, drive, model| {
            if event < next {
                return;
            }
            next = event + rng.below(4_000);
            let context = format!("seed {seed}, event {event}");
            cut(&config, drive, model, &context);
            collected += u64::from(drive.ledger().lines_collected > 0);
            if rng.below(4) == 0 {
                let (kernel, back) = recover(&config, drive.at_power_cut());
                must_work(&back, &kernel, &config, seed, &context);
            }
        });
    }
    assert!(collected > 20, "{collected} cuts after a collection");
}

#[test]
fn checkpoint_of_a_fragmented_drive_ends() {
    let mut config = bare(600, 30_000);
    config.controller.power_loss_protection = false;
    let kernel = Kernel::new();
    let media = Precondition::Fresh.media(&config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let worker = drive.clone();
    let done = Rc::new(Cell::new(false));
    let all_done = Rc::clone(&done);
    // As ranges, the unmapped pages take far more space than a line of the journal has.
    kernel.sim().spawn_detached(async move {
        for page in (0..30_000).step_by(2) {
            let extent = Extent::new(page * 8, 8);
            let (content, handle) = (Content::Nothing, Placement(0));
            let write = worker.write(extent, content, handle, Origin(0), false);
            write.await.expect("there is room");
        }
        for page in (0..1_000).step_by(10) {
            worker
                .trim(Extent::new(page * 8, 8))
                .await
                .expect("there is room");
        }
        all_done.set(true);
    });
    for _ in 0..EVENTS {
        if !kernel.step() {
            break;
        }
    }
    assert!(done.get(), "a checkpoint calls for the next one");
    assert!(!kernel.step(), "the drive is at rest");
    drive.check();
    let (_kernel, back) = recover(&config, drive.at_power_cut());
    for page in 0..1_000 {
        let holds = page % 2 == 0 && page % 10 != 0;
        assert_eq!(back.peek(page).is_some(), holds, "page {page}");
    }
}

#[test]
fn full_group_redirects_writes_to_another() {
    let mut config = crate::support::tiny_fdp(true);
    config.placement.persistently_isolated = false;
    let kernel = Kernel::new();
    let media = Precondition::Fresh.media(&config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let (writer, pages) = (drive.clone(), config.capacity.0 / 4096);
    kernel.block_on(async move {
        for page in (0..pages).chain(0..pages) {
            let extent = Extent::new(page * 8, 8);
            let (content, handle) = (Content::Fill(page), Placement(0));
            let write = writer.write(extent, content, handle, Origin(0), false);
            write
                .await
                .expect("the drive has room, if not in this group");
        }
        writer.shutdown().await
    });
    drive.check();
    let layout = drive.layout();
    let groups: Vec<u64> = drive
        .lines()
        .chunks(layout.lines_per_group as usize)
        .map(|group| group.iter().map(|line| u64::from(line.valid)).sum())
        .collect();
    assert_eq!(groups.iter().sum::<u64>(), pages);
    assert!(groups[0] > groups[1] && groups[1] > 0, "{groups:?}");
    assert!(drive.ledger().redirected > 0);
}

/// Fails if the reserve has no line for cold data that are relocated beside hot ones, although only
/// one handle has data: a full drive then comes to rest or turns read-only.
#[test]
fn full_drive_makes_progress_with_hot_lines_and_one_handle_left() {
    let mut config = crate::support::tiny_mixed(true);
    config.collection.reserve_lines = 0;
    config.capacity = Bytes(config.geometry.bytes());
    let Err(ConfigError::Space { most, .. }) = Layout::new(&config) else {
        panic!("no drive holds all of its flash");
    };
    config.capacity = with_both(&config, most);
    let pages = config.capacity.0 / 4096;
    let kernel = Kernel::new();
    let media = Precondition::Fresh.media(&config, Seed(1)).unwrap();
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).unwrap();
    let (writer, done) = (drive.clone(), Rc::new(Cell::new(false)));
    let ended = Rc::clone(&done);
    let mut rng = Seed(7).stream("pages");
    kernel.sim().spawn_detached(async move {
        let write = async |page: u64, handle: u16| {
            let extent = Extent::new(page * 8, 8);
            let content = Content::Fill(page);
            let written = writer.write(extent, content, Placement(handle), Origin(0), false);
            written.await.expect("there are spare blocks");
        };
        let hot = pages / 5;
        for page in 0..pages {
            write(page, u16::from(page < hot)).await;
        }
        for number in 0..8 * pages {
            match number % 5 {
                0 => write(hot + rng.below(pages - hot), 0).await,
                _ => write(rng.below(hot), 1).await,
            }
        }
        let cold = Extent::new(hot * 8, ((pages - hot) * 8) as u32);
        writer.trim(cold).await.expect("there are spare blocks");
        for number in 0..8 * pages {
            let page = if number < pages {
                number
            } else {
                rng.below(pages)
            };
            write(page, 1).await;
        }
        ended.set(true);
    });
    for _ in 0..EVENTS {
        if !kernel.step() {
            break;
        }
    }
    assert!(done.get() && !drive.is_read_only(), "it came to rest");
    drive.check();
}

/// Fails if a wake for an ended task reaches a program that took the number of that task: it would
/// start twice.
#[test]
fn late_wake_of_an_ended_task_disturbs_no_program() {
    let config = tiny(true);
    let kernel = Kernel::new();
    let media = Precondition::Fresh
        .media(&config, Seed(1))
        .expect("it fits");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("it was built");
    let (sim, written) = (kernel.sim(), drive.clone());
    kernel.block_on(async move {
        for page in 0..200 {
            let signal = Rc::new(Signal::default());
            for _ in 0..8 {
                let (sim, signal) = (sim.clone(), Rc::clone(&signal));
                sim.clone().spawn_detached(async move {
                    let late = timeout(&sim, Ns(1), signal.wait(&sim)).await;
                    assert!(late.is_err());
                });
            }
            sim.sleep(Ns(2)).await;
            let extent = Extent::new(page * 4 * 8, 4 * 8);
            let content = Content::Fill(page);
            let done = written.write(extent, content, Placement(0), Origin(0), false);
            done.await.expect("it has room");
            sim.sleep(Ns(20_000)).await;
            signal.notify(&sim);
        }
    });
    kernel.run();
    for page in 0..800 {
        let contents = drive.peek(page);
        assert_eq!(contents, Some(vec![Payload::Fill(u64::from(page / 4))]));
    }
}

/// Fails if a read whose future was dropped keeps its line from being erased.
#[test]
fn line_of_a_dropped_read_is_collected() {
    let config = tiny(true);
    let kernel = Kernel::new();
    let media = Precondition::Full.media(&config, Seed(1)).expect("it fits");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("it was built");
    let (sim, device, pages) = (kernel.sim(), drive.clone(), config.capacity.0 / 4096);
    kernel.block_on(async move {
        for page in 0..pages {
            // The second one covers several rows. Both are in their dies after 5 µs.
            for sectors in [8, 32] {
                let extent = Extent::new(page * 8, sectors.min(8 * (pages - page) as u32));
                let late = timeout(&sim, Ns(5_100), device.read(extent, &mut ())).await;
                assert!(late.is_err(), "the read was in the die");
            }
        }
        let mut rng = Seed(1).stream("overwrites");
        for _ in 0..4 * pages {
            let extent = Extent::new(rng.below(pages) * 8, 8);
            let write = device.write(extent, Content::Nothing, Placement(0), Origin(0), false);
            write.await.expect("collection frees lines");
        }
    });
    drive.check();
}
