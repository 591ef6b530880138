//! Policies supplied by the caller.

use crate::steady::{Bench, bare, with_handles};
use ssd::{DriveConfig, Ledger, Policies, Precondition, VictimPolicy, WriteView};
use std::sync::{Arc, Mutex};

fn drive() -> DriveConfig {
    let mut config = bare(150, (145.0 * 63.0 / 1.15) as u32);
    config.collection.victim = VictimPolicy::Greedy;
    config
}

/// Ledger of a drive of `config` after random writes over `handles` handles, under `policies`.
fn counted(config: &DriveConfig, policies: Policies, handles: u64) -> Ledger {
    let mut bench = Bench::new(config, Precondition::Full, 1);
    bench.drive.follow(policies);
    let pages = bench.pages();
    let seen = bench.write(2 * pages, move |rng| {
        let page = rng.below(pages);
        (page, (page % handles) as u16)
    });
    bench.drive.check();
    seen.after
}

#[test]
fn caller_copy_of_greedy_matches_the_firmware() {
    let greedy = Policies::default().victim("emptiest", |lines| {
        let emptiest = lines.iter().min_by_key(|view| (view.valid, view.line));
        emptiest.expect("there is one at least")
    });
    let usual = counted(&drive(), Policies::default(), 1);
    assert!(usual.lines_collected > 100);
    assert_eq!(usual, counted(&drive(), greedy, 1));
}

/// Even the worst policy makes progress, because every line that it sees has an invalid page.
#[test]
fn worst_victims_cost_more_but_make_progress() {
    let fullest = Policies::default().victim("fullest", |lines| {
        let fullest = lines.iter().max_by_key(|view| (view.valid, view.line));
        fullest.expect("there is one at least")
    });
    let usual = counted(&drive(), Policies::default(), 1);
    let worst = counted(&drive(), fullest, 1);
    assert_eq!(worst.host_write_sectors, usual.host_write_sectors);
    assert!(worst.programmed_pages() > 2 * usual.programmed_pages());
}

#[test]
fn placement_policy_overrides_the_named_handle() {
    let config = with_handles(drive(), 4, true);
    let turned = Policies::default().placement("turned", |view| view.handles - 1 - view.handle);
    let (usual, turned) = (
        counted(&config, Policies::default(), 4),
        counted(&config, turned, 4),
    );
    let written = |ledger: &Ledger| {
        let handles = ledger.handles.iter().take(4);
        handles.map(|h| h.host_sectors).collect::<Vec<_>>()
    };
    let mut expected = written(&usual);
    assert!(expected.iter().all(|&sectors| sectors > 0) && expected[0] != expected[3]);
    expected.reverse();
    assert_eq!(written(&turned), expected);
}

#[test]
fn write_view_shows_page_handle_and_age() {
    let seen: Arc<Mutex<Vec<WriteView>>> = Arc::default();
    let shown = Arc::clone(&seen);
    let policies = Policies::default().placement("watched", move |view| {
        shown.lock().expect("nobody panics").push(*view);
        view.handle
    });
    let config = with_handles(drive(), 4, true);
    let mut bench = Bench::new(&config, Precondition::Fresh, 1);
    bench.drive.follow(policies);
    bench.write(160, |_| (7, 2));
    bench.write(16 * 64 * 8, |rng| (100 + rng.below(4000), 3));
    bench.write(16, |_| (7, 2));
    let seen = seen.lock().expect("nobody panics");
    let first = WriteView {
        page: 7,
        pages: 1,
        handle: 2,
        handles: 4,
        age: None,
    };
    assert_eq!(seen[0], first);
    // The current version is in the buffer, or in a line that is still open.
    assert_eq!(seen[159].age, Some(0));
    let later = seen.iter().rev().find(|view| view.page == 7);
    assert!(later.is_some_and(|view| view.age.is_some()));
    let others = seen.iter().filter(|view| view.page >= 100);
    let oldest = others.filter_map(|view| view.age).max();
    assert!(oldest > Some(64), "{oldest:?}");
}
