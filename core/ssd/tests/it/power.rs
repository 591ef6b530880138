//! Power cuts at every event.

use crate::support::{Mix, Model, recover, start, tiny, tiny_fdp, tiny_mixed};
use judges::rounds;
use sim::{Kernel, Seed};
use ssd::{CacheHolds, Drive, DriveConfig, DriveMedia};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

const MIX: Mix = Mix {
    workers: 8,
    ops: 60,
    span: 1000,
    trims_percent: 5,
    flushes_percent: 5,
    placements: 1,
};

/// Runs the workload from an empty drive and calls `at` before each event.
pub(crate) fn run(
    config: &DriveConfig,
    mix: Mix,
    seed: u64,
    mut at: impl FnMut(u64, &Drive, &Model),
) -> u64 {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let media = DriveMedia::new(config, Seed(seed)).expect("a good configuration");
    let drive = Drive::ready(&sim, config, media, Seed(seed)).expect("a good configuration");
    let model = Rc::new(RefCell::new(Model::new(config)));
    start(&sim, &drive, &model, mix, seed);
    loop {
        at(sim.events(), &drive, &model.borrow());
        if !kernel.step() {
            break;
        }
    }
    drive.check();
    model.borrow().check(&drive, "at rest");
    sim.events()
}

/// Cuts the power and checks the recovered drive, then cuts again in the middle of its next work
/// and checks again.
pub(crate) fn cut(config: &DriveConfig, drive: &Drive, model: &Model, context: &str) {
    let (kernel, recovered) = recover(config, drive.at_power_cut());
    recovered.check();
    model.check(&recovered, context);
    for _ in 0..20 {
        kernel.step();
    }
    let (_kernel, again) = recover(config, recovered.at_power_cut());
    again.check();
    model.check(&again, &format!("{context}, and again"));
}

fn every_event(config: &DriveConfig, mix: Mix, seed: u64) {
    run(config, mix, seed, |event, drive, model| {
        cut(config, drive, model, &format!("seed {seed}, event {event}"));
    });
}

#[test]
fn cut_at_every_event_keeps_promises_without_protection() {
    every_event(&tiny(false), MIX, 1);
}

#[test]
fn cut_at_every_event_keeps_promises_with_protection() {
    every_event(&tiny(true), MIX, 2);
}

#[test]
fn cut_at_every_event_keeps_promises_with_handles_and_groups() {
    let mix = Mix {
        span: 400,
        placements: 4,
        ..MIX
    };
    every_event(&tiny_fdp(false), mix, 3);
    every_event(&tiny_fdp(true), mix, 4);
    let mix = Mix {
        placements: 2,
        ..mix
    };
    every_event(&tiny_mixed(false), mix, 5);
}

/// Cuts at `points` seeded events of a run long enough for garbage collection. Returns the lines
/// collected before the last cut.
fn seeded(config: &DriveConfig, mix: Mix, seed: u64, points: usize) -> u64 {
    let events = run(config, mix, seed, |_, _, _| {});
    let mut rng = Seed(seed).stream("points");
    let mut chosen = BTreeSet::new();
    while chosen.len() < points {
        chosen.insert(rng.below(events));
    }
    let mut collected = 0;
    run(config, mix, seed, |event, drive, model| {
        if chosen.contains(&event) {
            cut(config, drive, model, &format!("seed {seed}, event {event}"));
            collected = drive.ledger().lines_collected;
        }
    });
    collected
}

const LONG: Mix = Mix {
    workers: 8,
    ops: 1_500,
    span: 1000,
    trims_percent: 3,
    flushes_percent: 1,
    placements: 1,
};

#[test]
fn cuts_during_collection_keep_promises() {
    assert!(seeded(&tiny(false), LONG, 11, 3_000) > 50);
    assert!(seeded(&tiny(true), LONG, 12, 3_000) > 50);
    let handles = Mix {
        span: 650,
        placements: 4,
        ..LONG
    };
    assert!(seeded(&tiny_fdp(false), handles, 13, 2_000) > 20);
    assert!(seeded(&tiny_fdp(true), handles, 14, 2_000) > 20);
    let handles = Mix {
        placements: 2,
        ..handles
    };
    assert!(seeded(&tiny_mixed(true), handles, 15, 1_000) > 20);
}

#[test]
fn cuts_keep_promises_where_copies_share_units_with_new_data() {
    // A page is often written while it is relocated.
    let mix = Mix {
        trims_percent: 1,
        ..LONG
    };
    for (protected, seed) in [(false, 41), (true, 42)] {
        let mut config = tiny(protected);
        config.collection.separate = false;
        assert!(seeded(&config, mix, seed, 1_000) > 50);
    }
}

#[test]
fn cuts_keep_promises_while_programs_and_erases_fail() {
    for (protected, seed) in [(false, 21), (true, 22)] {
        let mut config = tiny(protected);
        config.geometry.blocks_per_plane = 80;
        config.wear.spare_blocks = 56;
        config.faults.program_failures = 5_000;
        config.faults.erase_failures = 10_000;
        seeded(&config, LONG, seed, 500);
    }
}

/// A drive of four channels on which one program in fifty fails, with enough spare blocks to
/// survive that.
fn failing() -> DriveConfig {
    let mut config = tiny(false);
    config.geometry.channels = 4;
    config.geometry.blocks_per_plane = 60;
    config.wear.spare_blocks = 36;
    config.faults.program_failures = 20_000;
    config
}

#[test]
fn cuts_keep_promises_for_pages_rewritten_during_a_retry() {
    let mix = Mix {
        span: 64,
        ops: 400,
        trims_percent: 0,
        flushes_percent: 2,
        ..LONG
    };
    for seed in 0..rounds(2, 8) {
        run(&failing(), mix, seed, |event, drive, model| {
            if event % 4 == 0 {
                let context = format!("seed {seed}, event {event}");
                cut(&failing(), drive, model, &context);
            }
        });
    }
}

#[test]
fn cuts_keep_deallocations_beside_failed_programs() {
    // So many that the journal writes checkpoints all the time.
    let mut config = failing();
    config.geometry.channels = 2;
    config.faults.program_failures = 50_000;
    config.geometry.blocks_per_plane = 160;
    config.wear.spare_blocks = 136;
    let mix = Mix {
        span: 48,
        ops: 400,
        trims_percent: 40,
        flushes_percent: 4,
        ..LONG
    };
    for seed in 0..rounds(2, 8) {
        run(&config, mix, seed, |event, drive, model| {
            if event % 4 == 0 {
                cut(
                    &config,
                    drive,
                    model,
                    &format!("seed {seed}, event {event}"),
                );
            }
        });
    }
}

#[test]
fn cuts_keep_promises_with_a_paged_map() {
    let cases = [
        (false, 31, CacheHolds::Pages),
        (true, 32, CacheHolds::Pages),
        (false, 33, CacheHolds::Entries),
        (true, 34, CacheHolds::Entries),
    ];
    for (protected, seed, holds) in cases {
        let mut config = tiny(protected);
        config.mapping.cache_holds = holds;
        config.mapping.cache = match holds {
            CacheHolds::Pages => units::Bytes(4096),
            CacheHolds::Entries => units::Bytes(40 * 8),
        };
        config.capacity = units::Bytes(880 * 4096);
        let mix = Mix { span: 880, ..LONG };
        seeded(&config, mix, seed, 500);
    }
}

#[test]
fn shutdown_and_power_on_keep_all_contents() {
    for protected in [false, true] {
        let config = tiny(protected);
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let media = DriveMedia::new(&config, Seed(5)).unwrap();
        let drive = Drive::ready(&sim, &config, media, Seed(5)).unwrap();
        let model = Rc::new(RefCell::new(Model::new(&config)));
        start(&sim, &drive, &model, LONG, 5);
        kernel.run();
        let off = drive.clone();
        let media = kernel.block_on(async move { off.shutdown().await });
        let (_kernel, back) = recover(&config, media);
        for page in 0..(config.capacity.0 / 4096) as u32 {
            assert_eq!(back.peek(page), drive.peek(page), "page {page}");
        }
        let smart = back.smart();
        assert_eq!((smart.power_cycles, smart.unsafe_shutdowns), (2, 0));
    }
}
