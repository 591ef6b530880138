//! No drive that can be built comes to rest with work to do.

use crate::support::tiny;
use sim::{Kernel, Rng, Seed};
use ssd::{
    ConfigError, Content, Drive, DriveConfig, Interface, Layout, Precondition, VictimPolicy,
};
use std::cell::Cell;
use std::rc::Rc;
use units::{Bytes, Extent, Origin, Placement};

const WORKERS: u64 = 24;
const REQUESTS: u64 = 400;
const EVENTS: u64 = 2_000_000;

/// A small drive whose knobs are drawn, with as much for the host as fits.
fn drawn(rng: &mut Rng) -> DriveConfig {
    let mut config = tiny(rng.below(2) == 0);
    config.geometry.blocks_per_plane = 32 + rng.below(32) as u32;
    config.interface = Interface::Fdp;
    config.placement.handles = 1 + rng.below(8) as u16;
    config.placement.reclaim_groups = 1 + rng.below(2) as u16;
    config.placement.persistently_isolated = rng.below(3) > 0;
    config.collection.separate = rng.below(3) > 0;
    config.collection.reserve_lines = rng.below(4) as u32;
    config.collection.background_lines = rng.below(4) as u32;
    config.collection.reads_per_die = 1 + rng.below(4) as u32;
    config.collection.victim = [VictimPolicy::Greedy, VictimPolicy::Fifo][rng.below(2) as usize];
    if rng.below(3) == 0 {
        config.mapping.cache = Bytes(4096 * (1 + rng.below(4)));
    }
    let handles = u64::from(config.placement.handles * config.placement.reclaim_groups);
    config.controller.write_buffer = Bytes(4 * 4096 * handles + 4096 * rng.below(32));
    config.capacity = Bytes(config.geometry.bytes());
    if let Err(ConfigError::Space { most, .. }) = Layout::new(&config) {
        let percent = 70 + rng.below(31);
        config.capacity = Bytes(most.0 / 4096 * percent / 100 * 4096);
    }
    config
}

/// Random reads and writes of one to eight pages, under random handles.
fn work(drive: &Drive, kernel: &Kernel, config: &DriveConfig, seed: u64) -> Rc<Cell<u64>> {
    let pages = config.capacity.0 / 4096;
    let placement = &config.placement;
    let handles = u64::from(placement.handles) * u64::from(placement.reclaim_groups);
    let done = Rc::new(Cell::new(0));
    for worker in 0..WORKERS {
        let (drive, done) = (drive.clone(), Rc::clone(&done));
        let mut rng = Seed(seed).stream(&format!("worker {worker}"));
        kernel.sim().spawn_detached(async move {
            for _ in 0..REQUESTS {
                let len = (1 + rng.below(8)).min(pages);
                let first = rng.below(pages - len + 1);
                let extent = Extent::new(first * 8, len as u32 * 8);
                if rng.below(3) == 0 {
                    drive.read(extent, &mut ()).await.expect("no read fails");
                } else {
                    let handle = Placement(rng.below(handles) as u16);
                    let content = Content::Fill(first);
                    let write = drive.write(extent, content, handle, Origin(0), false);
                    write.await.expect("no block fails");
                }
            }
            done.set(done.get() + 1);
        });
    }
    done
}

#[test]
fn every_drive_that_can_be_built_keeps_going() {
    let mut built = 0;
    for seed in 0..60 {
        let config = drawn(&mut Seed(seed).stream("configuration"));
        if Layout::new(&config).is_err() {
            continue;
        }
        for past in Precondition::ALL {
            let Ok(media) = past.media(&config, Seed(seed)) else {
                assert_eq!(past, Precondition::Aged, "only that needs more room");
                continue;
            };
            let kernel = Kernel::new();
            let drive = Drive::ready(&kernel.sim(), &config, media, Seed(seed)).unwrap();
            let done = work(&drive, &kernel, &config, seed);
            // More than twice what the slowest of them takes.
            for _ in 0..EVENTS {
                if !kernel.step() {
                    break;
                }
            }
            let context = format!("seed {seed}, {} drive: {config:?}", past.name());
            assert_eq!(done.get(), WORKERS, "it came to rest: {context}");
            let off = drive.clone();
            kernel.block_on(async move { off.shutdown().await });
            drive.check();
            built += 1;
        }
    }
    assert!(built > 200, "{built} drives were built");
}
