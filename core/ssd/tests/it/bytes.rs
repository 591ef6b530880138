//! Byte-addressable drives against a model of their lines, with a power cut at every event.
//!
//! Each worker owns lines and does one operation at a time, so the contents that a cut may leave
//! are known at any instant: those that were promised, or those of the operation under way. Workers
//! share pages nevertheless, down to the sectors of one page.

mod files;
mod model;
mod refusals;
mod work;

use crate::support::{recover, tiny, tiny_fdp};
use model::{Worker, Workers};
use sim::{Kernel, Seed};
use ssd::front::{Battery, FrontConfig};
use ssd::{ByteError, ByteStats, Drive, DriveConfig, DriveMedia};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{Bytes, Origin};

/// A log of 320 lines and `commits` commit entries, a cache of 5 pages, or both.
pub(crate) fn fronted(log: bool, commits: u64, cache: bool) -> DriveConfig {
    let mut config = tiny(true);
    let mut front = FrontConfig::default();
    front.log.bytes = Bytes(if log { 320 * 80 } else { 0 });
    front.log.commits = Bytes(4 * commits);
    front.log.pages_in_work = 3;
    front.cache.bytes = Bytes(if cache { 5 * 4096 } else { 0 });
    config.front = Some(front);
    config
}

/// `config` with a battery that keeps `battery`.
fn with_battery(battery: Battery, mut config: DriveConfig) -> DriveConfig {
    config.front.as_mut().unwrap().battery = battery;
    config.controller.power_loss_protection = battery == Battery::All;
    config
}

/// Fronts whose memory a battery keeps in part, or not at all.
fn weak() -> [(&'static str, DriveConfig); 8] {
    let [cache, log, both, plain] = all().map(|(_, config)| config);
    let [_, (_, groups), _, (_, failing)] = others();
    [
        ("volatile cache", with_battery(Battery::None, cache.clone())),
        (
            "volatile cache for want of a log",
            with_battery(Battery::Log, cache),
        ),
        ("log alone", with_battery(Battery::Log, log.clone())),
        ("log alone, cache", with_battery(Battery::Log, both)),
        (
            "log alone, without transactions",
            with_battery(Battery::Log, plain),
        ),
        ("volatile log", with_battery(Battery::None, log)),
        ("log alone, groups", with_battery(Battery::Log, groups)),
        ("log alone, failures", with_battery(Battery::Log, failing)),
    ]
}

fn all() -> [(&'static str, DriveConfig); 4] {
    [
        ("cache", fronted(false, 0, true)),
        ("log", fronted(true, 8, false)),
        ("log and cache", fronted(true, 8, true)),
        ("log without transactions", fronted(true, 0, true)),
    ]
}

/// Fronts before a drive with handles and groups, and before flash that fails.
fn others() -> [(&'static str, DriveConfig); 4] {
    let [(_, cache), (_, log), ..] = all();
    let with = |front: &DriveConfig, base: DriveConfig| DriveConfig {
        front: front.front,
        ..base
    };
    let mut failing = tiny(true);
    failing.geometry.blocks_per_plane = 60;
    failing.wear.spare_blocks = 36;
    failing.faults.program_failures = 5_000;
    failing.faults.erase_failures = 10_000;
    [
        ("cache, groups", with(&cache, tiny_fdp(true))),
        ("log, groups", with(&log, tiny_fdp(true))),
        ("cache, failures", with(&cache, failing.clone())),
        ("log, failures", with(&log, failing)),
    ]
}

/// Runs `ops` operations of each worker and calls `at` before each event.
fn run(
    config: &DriveConfig,
    ops: usize,
    seed: u64,
    mut at: impl FnMut(u64, &Drive, &Workers),
) -> (Drive, BTreeSet<&'static str>) {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let media = DriveMedia::new(config, Seed(seed)).unwrap();
    let drive = Drive::ready(&sim, config, media, Seed(seed)).unwrap();
    let front = config.front.unwrap();
    let workers = Workers::new(front.battery, front.log.bytes.0 > 0);
    let workers = Rc::new(RefCell::new(workers));
    for worker in 0..model::WORKERS {
        let task = Worker::new(&sim, &drive, &workers, worker, seed);
        sim.spawn_detached(task.work(ops));
    }
    loop {
        at(sim.events(), &drive, &workers.borrow());
        if !kernel.step() {
            break;
        }
    }
    drive.check();
    let done = workers.borrow().done;
    assert_eq!(done, model::WORKERS, "nobody waits for ever: {front:?}");
    workers.borrow().check_now(&drive);
    let seen = workers.borrow().seen.clone();
    (drive, seen)
}

/// Cuts the power, checks the state it left, and recovers; cuts again after `steps` events of that
/// recovery, and recovers to the end. Returns the pages that the last recovery wrote.
fn cut(config: &DriveConfig, drive: &Drive, workers: &Workers, steps: u64, context: &str) -> u64 {
    cut_media(config, drive.at_power_cut(), workers, steps, context)
}

fn cut_media(
    config: &DriveConfig,
    media: DriveMedia,
    workers: &Workers,
    steps: u64,
    context: &str,
) -> u64 {
    let (kernel, back) = recover(config, media);
    back.check();
    let left = workers.after_cut(&back, context);
    let task = back.clone();
    kernel.sim().spawn_detached(async move {
        let _ = task.recover().await;
    });
    for _ in 0..steps {
        kernel.step();
        back.check();
    }
    let (kernel, again) = recover(config, back.at_power_cut());
    left.check(&again, &format!("{context}, cut again"));
    let (task, has_log) = (again.clone(), config.front.unwrap().log.bytes.0 > 0);
    let line = [7; 64];
    let moved = kernel.block_on(async move {
        let refused = task.check_store(0, 64, 0, 0);
        assert!(matches!(refused, Ok(()) | Err(ByteError::Unrecovered)));
        let stored = task.store(640 * 4096, &line, 0, Origin(0)).await;
        assert_eq!(stored, refused, "{}", task.has_transactions());
        assert!(has_log || stored.is_ok());
        let report = task.recover().await.unwrap();
        assert!(stored.is_ok() || report.time.0 > 0);
        assert_eq!(task.recover().await, Err(ByteError::Recovered));
        task.store(641 * 4096, &line, 0, Origin(0)).await.unwrap();
        if task.has_transactions() {
            task.store(642 * 4096, &line, 1, Origin(0)).await.unwrap();
            task.commit(1).await.unwrap();
            // This transaction is still open at shutdown.
            task.store(642 * 4096, &[8; 64], 2, Origin(0))
                .await
                .unwrap();
        }
        report.pages
    });
    again.check();
    left.check(&again, &format!("{context}, recovered"));
    let off = again.clone();
    let media = kernel.block_on(async move { off.shutdown().await });
    let (_kernel, last) = recover(config, media);
    assert_eq!(last.check_store(0, 64, 0, 0), Ok(()), "shut down cleanly");
    let committed = last.peek(642).map_or(0, |page| page[0].to_bytes()[0]);
    assert_eq!(committed, u8::from(last.has_transactions()) * 7);
    left.check(&last, &format!("{context}, shut down"));
    moved
}

#[test]
fn cut_at_every_event_of_a_short_run_keeps_stored_lines() {
    for (seed, (name, config)) in (1..).zip(all()) {
        run(&config, 30, seed, |event, drive, workers| {
            drive.check();
            workers.check_now(drive);
            let context = format!("{name}, event {event}");
            cut(&config, drive, workers, event % 37, &context);
        });
    }
}

#[test]
fn cuts_in_long_runs_keep_stored_lines_on_every_path() {
    for (seed, (name, config)) in (11..).zip(all()) {
        let mut rng = Seed(seed).stream("points");
        let mut moved = 0;
        let (drive, seen) = run(&config, 1_500, seed, |event, drive, workers| {
            if rng.below(120) == 0 {
                let context = format!("{name}, event {event}");
                moved += cut(&config, drive, workers, event % 61, &context);
            }
        });
        assert_eq!(moved > 0, config.front.unwrap().log.bytes.0 > 0);
        assert_met(&config, &drive.ledger().bytes, &seen);
        assert!(drive.ledger().lines_collected > 5);
    }
}

#[test]
fn cuts_with_groups_or_failures_keep_stored_lines() {
    for (seed, (name, config)) in (41..).zip(others()) {
        let mut rng = Seed(seed).stream("points");
        run(&config, 600, seed, |event, drive, workers| {
            if rng.below(150) == 0 {
                let context = format!("{name}, event {event}");
                cut(&config, drive, workers, event % 53, &context);
            }
        });
    }
}

#[test]
fn cut_of_a_weak_battery_keeps_forced_data_at_every_event() {
    for (seed, (name, config)) in (51..).zip(weak()) {
        run(&config, 25, seed, |event, drive, workers| {
            drive.check();
            workers.check_now(drive);
            let context = format!("{name}, event {event}");
            if event % 2 == 0 {
                cut(&config, drive, workers, event % 37, &context);
            }
        });
    }
}

#[test]
fn cuts_of_a_weak_battery_keep_forced_data_in_long_runs() {
    for (seed, (name, config)) in (61..).zip(weak()) {
        let mut rng = Seed(seed).stream("points");
        let mut moved = 0;
        run(&config, 1_000, seed, |event, drive, workers| {
            if rng.below(150) == 0 {
                drive.check();
                let context = format!("{name}, event {event}");
                moved += cut(&config, drive, workers, event % 61, &context);
            }
        });
        let front = config.front.unwrap();
        let keeps = front.log.bytes.0 > 0 && front.battery == Battery::Log;
        assert_eq!(moved > 0, keeps, "{name}");
    }
}

/// Checks that the run reached every path that such a front has.
fn assert_met(config: &DriveConfig, bytes: &ByteStats, seen: &BTreeSet<&str>) {
    let front = config.front.unwrap();
    let (log, cache) = (front.log.bytes.0 > 0, front.cache.bytes.0 > 0);
    let transactions = log && front.log.commits.0 > 0;
    assert!(bytes.load_hits > 0 && bytes.load_misses > 0, "{bytes:?}");
    assert_eq!(
        log,
        bytes.cleanings > 0 && bytes.cleaned_pages > 0,
        "{bytes:?}"
    );
    assert_eq!(log, bytes.stall_ns > 0, "{bytes:?}");
    assert_eq!(transactions, bytes.migrated_lines > 0, "{bytes:?}");
    assert_eq!(cache, bytes.fetched_pages > 0, "{bytes:?}");
    assert_eq!(cache && !log, bytes.evicted_pages > 0, "{bytes:?}");
    for event in ["locked", "oversized", "commit waited"] {
        assert_eq!(seen.contains(event), transactions, "{event}");
    }
    assert_eq!(seen.contains("store waited"), log, "store waited");
}
