//! Drives with a past: power cuts, and the memory of a drive of a terabyte.

use crate::scale::{CAPACITY, alone, peak};
use crate::support::{Mix, Model, recover, start, stored, tiny, tiny_fdp};
use sim::{Kernel, Seed};
use ssd::{Drive, DriveConfig, Precondition, Preset};
use std::cell::RefCell;
use std::rc::Rc;
use units::Bytes;

const MIX: Mix = Mix {
    workers: 8,
    ops: 300,
    span: 600,
    trims_percent: 5,
    flushes_percent: 5,
    placements: 1,
};

/// Runs a workload on a drive with a past, and cuts its power before every `step`-th event. The
/// drive must keep its promises, and recover as if its blocks had been written.
fn cut(config: &DriveConfig, past: Precondition, mix: Mix, step: u64) {
    let (kernel, seed) = (Kernel::new(), 17);
    let media = past.media(config, Seed(seed)).expect("a good drive");
    let drive = Drive::ready(&kernel.sim(), config, media, Seed(seed)).expect("a good drive");
    let model = Rc::new(RefCell::new(Model::new(config)));
    start(&kernel.sim(), &drive, &model, mix, seed);
    loop {
        let event = kernel.sim().events();
        if event.is_multiple_of(step) {
            let context = format!("{past:?}, event {event}");
            let media = drive.at_power_cut();
            let (_kernel, other) = recover(config, stored(config, &media));
            let (_kernel, recovered) = recover(config, media);
            recovered.check();
            model.borrow().check(&recovered, &context);
            assert_eq!(recovered.lines(), other.lines(), "{context}");
            for page in 0..drive.layout().host_pages {
                let places = (recovered.line_of(page), other.line_of(page));
                assert_eq!(places.0, places.1, "{context}: page {page}");
            }
        }
        if !kernel.step() {
            break;
        }
    }
    drive.check();
    model.borrow().check(&drive, "at rest");
    assert!(
        drive.ledger().lines_collected > 0,
        "lines of the past were erased"
    );
}

#[test]
fn cut_of_a_drive_with_a_past_is_exact() {
    for past in [Precondition::Full, Precondition::Aged] {
        cut(&tiny(false), past, MIX, 13);
        cut(&tiny(true), past, MIX, 13);
        let mix = Mix {
            placements: 4,
            ..MIX
        };
        cut(&tiny_fdp(false), past, mix, 13);
    }
}

fn ready(past: Precondition) {
    let config = (Preset::named("block").expect("a preset").config)().resized(Bytes(CAPACITY));
    let kernel = Kernel::new();
    let media = past.media(&config, Seed(1)).expect("a good drive");
    let drive = Drive::ready(&kernel.sim(), &config, media, Seed(1)).expect("a good drive");
    let (map, flash) = drive.memory();
    eprintln!(
        "{past:?}: {map} and {flash} bytes, {} MB at most",
        peak() / 1_000_000
    );
    assert!(map + flash < 50_000_000, "{map} and {flash} bytes");
    assert!(peak() < 60_000_000, "{} bytes", peak());
}

#[test]
fn untouched_full_terabyte_takes_50_mb() {
    let name = "past::untouched_full_terabyte_takes_50_mb";
    alone(name, || ready(Precondition::Full));
}

#[test]
fn untouched_aged_terabyte_takes_50_mb() {
    let name = "past::untouched_aged_terabyte_takes_50_mb";
    alone(name, || ready(Precondition::Aged));
}
