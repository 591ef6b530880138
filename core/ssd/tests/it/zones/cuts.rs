//! Power cuts at every event while zones are written.

use super::model::{Mix, Model, start};
use super::{change, narrow, powered, tiny_zns, zones};
use crate::support::recover;
use sim::{Kernel, Seed};
use ssd::{Drive, DriveConfig, DriveMedia, image};
use std::cell::RefCell;
use std::rc::Rc;
use units::{Bytes, Ns};

pub(super) const MIX: Mix = Mix {
    workers: 4,
    ops: 40,
    zones: 1,
};

/// Runs the work from an empty drive and calls `at` before each event.
pub(super) fn run(
    config: &DriveConfig,
    mix: Mix,
    seed: u64,
    mut at: impl FnMut(u64, &Drive, &Model),
) -> Drive {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let media = DriveMedia::new(config, Seed(seed)).expect("a good configuration");
    let drive = Drive::ready(&sim, config, media, Seed(seed)).expect("a good configuration");
    let count = zones(&drive).limits().zones;
    let model = Rc::new(RefCell::new(Model::new(config, count)));
    start(&sim, &drive, &model, mix, seed);
    loop {
        at(sim.events(), &drive, &model.borrow());
        if !kernel.step() {
            break;
        }
        drive.check();
    }
    let events = sim.events();
    assert!(events > 200, "{events} events only");
    drive
}

/// Cuts the power and checks the recovered drive: recovered at once, after another cut before any
/// write, and recovered in simulated time.
fn cut(config: &DriveConfig, drive: &Drive, model: &Model, context: &str) {
    let media = drive.at_power_cut();
    let (kernel, recovered) = powered(config, media.clone());
    model.check(&kernel, &recovered, context);
    let (kernel, again) = powered(config, recovered.at_power_cut());
    model.check(&kernel, &again, &format!("{context}, and again"));
    let (kernel, recovered) = recover(config, media);
    recovered.check();
    model.check(&kernel, &recovered, &format!("{context}, in time"));
}

pub(super) fn every_event(config: &DriveConfig, mix: Mix, seed: u64) -> Drive {
    run(config, mix, seed, |event, drive, model| {
        cut(config, drive, model, &format!("seed {seed}, event {event}"));
    })
}

#[test]
fn zone_cut_at_every_event_without_protection_keeps_promises() {
    for seed in 1..4 {
        let drive = every_event(&tiny_zns(false), MIX, seed);
        let ledger = drive.ledger();
        assert!(
            ledger.zones.resets > 3 && ledger.zones.finishes > 2,
            "{ledger:?}"
        );
        assert!(ledger.by_cause(ssd::Cause::Zone) > 20, "there were backups");
    }
}

#[test]
fn zone_cut_at_every_event_with_protection_keeps_promises() {
    for seed in 4..7 {
        let drive = every_event(&tiny_zns(true), MIX, seed);
        assert_eq!(drive.ledger().by_cause(ssd::Cause::Zone), 0, "no backups");
    }
}

#[test]
fn zone_cut_at_every_event_with_narrow_zones_keeps_promises() {
    let mix = Mix { zones: 2, ..MIX };
    let few =
        |config: DriveConfig| change(&config, |zones| (zones.max_open, zones.max_active) = (2, 0));
    let unlimited = |config: DriveConfig| change(&config, |zones| zones.max_open = 0);
    // Four workers have eight zones, so the number of active zones is unlimited.
    every_event(&unlimited(few(narrow(true))), mix, 7);
    every_event(&unlimited(few(narrow(false))), mix, 8);
}

#[test]
fn zone_cut_at_every_event_with_a_small_buffer_keeps_promises() {
    let small = |config: DriveConfig| change(&config, |zones| zones.buffer = Bytes(4 * 4096));
    every_event(&small(tiny_zns(false)), MIX, 9);
    every_event(&small(tiny_zns(true)), MIX, 10);
}

/// A drive file with its log equals the drive after a cut at its last record.
#[test]
fn zoned_drive_file_with_log_matches_a_power_cut() {
    let padded = change(&tiny_zns(true), |zones| {
        (zones.firmware.padding, zones.firmware.unmap_per_unit) = (true, Ns(900));
    });
    for config in [tiny_zns(false), tiny_zns(true), padded] {
        let media = DriveMedia::new(&config, Seed(1)).expect("a good configuration");
        let mut file = Vec::new();
        let mark = image::write(&config, &media, &mut file).expect("memory takes everything");
        let mut log = None;
        run(&config, MIX, 11, |event, drive, model| {
            let log = log.get_or_insert_with(|| image::Log::new(drive, &media, mark));
            log.append(&mut file, false)
                .expect("memory takes everything");
            if event % 16 == 0 {
                let (config, media) = image::read(&mut file.as_slice()).expect("a good file");
                let (kernel, drive) = powered(&config, media);
                model.check(&kernel, &drive, &format!("event {event}"));
            }
        });
    }
}
