//! Placement handles: their separation of data, its gain, and the reports of an FDP drive.

use crate::steady::{Bench, bare, with_handles};
use sim::{Rng, Seed};
use ssd::{
    Cause, Content, DriveConfig, FdpEventKind, Interface, IoError, LineState, Precondition,
    VictimPolicy,
};
use std::collections::BTreeMap;
use units::{Extent, Origin, Placement};

/// Logs that circle at rates of 1, 2, 4 and 8 through equal parts of the drive. The first two
/// overwrite their oldest data; the other two deallocate a segment before they write it again.
/// Returns the write amplification.
fn logs(config: &DriveConfig) -> (f64, Bench) {
    const LOGS: u64 = 4;
    const SEGMENT: u64 = 256;
    let mut bench = Bench::new(config, Precondition::Full, 1);
    bench.fill(move |_| 0);
    let before = bench.drive.ledger();
    let part = bench.pages() / LOGS / SEGMENT * SEGMENT;
    let (drive, writes) = (bench.drive.clone(), 8 * bench.pages());
    let handles = u64::from(config.placement.handles);
    bench.kernel.block_on(async move {
        let mut rng = Seed(1).stream("logs");
        let mut heads = [0; LOGS as usize];
        for _ in 0..writes {
            let log = 3 - u64::from((1 + rng.below(15)).ilog2());
            let head = &mut heads[log as usize];
            let page = log * part + *head % part;
            *head += 1;
            if log >= 2 && page.is_multiple_of(SEGMENT) {
                let segment = Extent::new(page * 8, SEGMENT as u32 * 8);
                drive.trim(segment).await.expect("the drive has room");
            }
            let (extent, placement) = (Extent::new(page * 8, 8), Placement((log % handles) as u16));
            let done = drive.write(extent, Content::Nothing, placement, Origin(0), false);
            done.await.expect("the drive has room");
        }
    });
    let after = bench.drive.ledger();
    let written = (after.host_write_sectors - before.host_write_sectors) / 8;
    let programmed = after.programmed_pages() - before.programmed_pages();
    (programmed as f64 / written as f64, bench)
}

#[test]
fn handles_remove_the_amplification_of_logs() {
    let lines = 400;
    let block = bare(lines, (f64::from(lines) * 63.0 / 1.12) as u32);
    let fdp = with_handles(block.clone(), 4, true);
    let mut streams = with_handles(block.clone(), 4, false);
    streams.interface = Interface::Streams;
    let [block, fdp, streams] = [block, fdp, streams].map(|config| logs(&config).0);
    eprintln!("logs: block {block:.3}, fdp {fdp:.3}, streams {streams:.3}");
    assert!(block >= 1.5, "conventional: {block}");
    assert!(fdp <= 1.05, "FDP: {fdp}");
    assert!(streams <= 1.05, "streams: {streams}");
}

/// Even pages belong to the first handle and odd ones to the second; the lower tenth is hot.
fn by_parity(pages: u64) -> impl Fn(&mut Rng) -> (u64, u16) + Copy {
    move |rng| {
        let page = match rng.below(10) {
            0 => rng.below(pages),
            _ => rng.below(pages / 10),
        };
        (page, (page % 2) as u16)
    }
}

/// Lines that hold pages of both handles.
fn mixed_lines(bench: &Bench) -> usize {
    let mut holds: BTreeMap<u32, u8> = BTreeMap::new();
    for page in 0..bench.pages() as u32 {
        if let Some(line) = bench.drive.line_of(page) {
            *holds.entry(line).or_default() |= 1 << (page % 2);
        }
    }
    holds.values().filter(|&&handles| handles == 3).count()
}

fn two_handles(isolated: bool) -> Bench {
    let config = with_handles(bare(200, 200 * 63 * 10 / 12), 2, isolated);
    let mut bench = Bench::new(&config, Precondition::Fresh, 4);
    bench.fill(|page| (page % 2) as u16);
    bench
}

//= nvme-2.1 3.2.4
#[test]
fn only_initially_isolated_data_share_lines() {
    let mut isolated = two_handles(true);
    let mut initially = two_handles(false);
    for bench in [&mut isolated, &mut initially] {
        assert_eq!(mixed_lines(bench), 0, "nothing was moved yet");
        let pages = bench.pages();
        for _ in 0..8 {
            let seen = bench.write(pages, by_parity(pages));
            let moved = seen.by_cause(Cause::Gc);
            if bench.drive.config().placement.persistently_isolated {
                assert_eq!(mixed_lines(bench), 0);
            }
            assert!(moved > 0 || bench.drive.free_lines() > 2);
        }
        assert!(bench.drive.ledger().by_cause(Cause::Gc) > pages);
    }
    assert!(mixed_lines(&initially) > 50, "{}", mixed_lines(&initially));
}

#[test]
fn handle_statistics_add_up_to_the_totals() {
    let mut bench = two_handles(true);
    let pages = bench.pages();
    bench.write(6 * pages, by_parity(pages));
    let ledger = bench.drive.ledger();
    let sum = |of: fn(&ssd::HandleStats) -> u64| ledger.handles.iter().map(of).sum::<u64>();
    assert_eq!(sum(|h| h.host_sectors), ledger.host_write_sectors);
    assert_eq!(sum(|h| h.media_pages), ledger.user_pages());
    assert!(sum(|h| h.moved_pages) >= ledger.by_cause(Cause::Gc));
    // Relocations that mix handles count for none of them.
    let mut bench = two_handles(false);
    bench.write(6 * pages, by_parity(pages));
    let ledger = bench.drive.ledger();
    let media: u64 = ledger.handles.iter().map(|h| h.media_pages).sum();
    assert_eq!(media, ledger.by_cause(Cause::Host));
}

//= nvme-2.1 5.1.12.1.30
#[test]
fn fdp_statistics_count_bytes_over_power_cycles() {
    let mut bench = two_handles(true);
    let pages = bench.pages();
    bench.write(6 * pages, by_parity(pages));
    let (log, ledger) = (
        bench.drive.fdp().expect("an FDP drive"),
        bench.drive.ledger(),
    );
    assert_eq!(log.host_bytes_written.0, ledger.host_write_sectors * 512);
    assert_eq!(log.media_bytes_written.0, ledger.user_pages() * 4096);
    // Every erase of a line erases 4 blocks of 16 pages.
    let erases: u32 = bench.drive.lines().iter().map(|line| line.erases).sum();
    assert_eq!(log.media_bytes_erased.0, u64::from(erases) * 64 * 4096);
    assert!(erases > 200);

    let media = bench.drive.at_power_cut();
    let config = bench.drive.config().clone();
    let kernel = sim::Kernel::new();
    let again = ssd::Drive::ready(&kernel.sim(), &config, media, Seed(4)).expect("a good drive");
    let later = again.fdp().expect("an FDP drive");
    assert_eq!(later.host_bytes_written, log.host_bytes_written);
    assert_eq!(later.media_bytes_written, log.media_bytes_written);
    assert_eq!(later.media_bytes_erased, log.media_bytes_erased);
    assert_eq!(
        Bench::new(&bare(100, 4000), Precondition::Fresh, 1)
            .drive
            .fdp(),
        None
    );
}

//= nvme-2.1 5.1.12.1.31.2.1
#[test]
fn relocation_events_are_logged_up_to_the_limit() {
    let mut isolated = two_handles(true);
    let pages = isolated.pages();
    isolated.write(6 * pages, by_parity(pages));
    let log = isolated.drive.fdp().expect("an FDP drive");
    assert_eq!(log.controller, ssd::FdpEvents::default());

    let mut bench = two_handles(false);
    bench.write(6 * pages, by_parity(pages));
    let log = bench.drive.fdp().expect("an FDP drive");
    let collected = bench.drive.ledger().lines_collected;
    assert_eq!(log.controller.events.len(), 63);
    assert!(log.controller.dropped > 0 && log.controller.dropped + 63 <= collected);
    assert!(
        log.controller
            .events
            .iter()
            .is_sorted_by_key(|event| event.at)
    );
    for event in &log.controller.events {
        assert_eq!(
            (event.kind, event.kind.code()),
            (FdpEventKind::MediaReallocated, 0x80)
        );
        assert!((1..=63).contains(&event.moved_pages));
        // The parity of the page identifies the handle that wrote it.
        let page = event.page.expect("the drive knows what it moved");
        assert_eq!((page % 2, event.group), (event.handle, 0));
        assert_eq!(u32::from(event.placement.0), event.handle);
    }
    assert_eq!(log.host, ssd::FdpEvents::default());
}

/// Writes one page with `fua`, so that it is durable on return.
fn write(bench: &Bench, page: u64, placement: u16) -> Result<(), IoError> {
    let drive = bench.drive.clone();
    bench.kernel.block_on(async move {
        let (extent, placement) = (Extent::new(page * 8, 8), Placement(placement));
        drive
            .write(extent, Content::Nothing, placement, Origin(0), true)
            .await
    })
}

//= nvme-2.1 5.1.12.1.31.1.4
#[test]
fn invalid_placement_is_logged_and_redirected() {
    let mut config = with_handles(bare(100, 4000), 3, true);
    config.controller.power_loss_protection = false;
    let bench = Bench::new(&config, Precondition::Fresh, 1);
    write(&bench, 0, 0).unwrap();
    write(&bench, 1, 2).unwrap();
    assert_eq!(bench.drive.fdp().unwrap().host.events.len(), 0);
    write(&bench, 2, 3).unwrap();
    let log = bench.drive.fdp().unwrap();
    let event = log.host.events[0];
    assert_eq!(
        (event.kind, event.kind.code()),
        (FdpEventKind::InvalidPlacement, 0x03)
    );
    assert_eq!(
        (event.placement, event.group, event.handle),
        (Placement(3), 0, 0)
    );
    assert_eq!(bench.drive.line_of(2), bench.drive.line_of(0));
    assert_ne!(bench.drive.line_of(2), bench.drive.line_of(1));
    for _ in 0..100 {
        write(&bench, 2, 9).unwrap();
    }
    let log = bench.drive.fdp().unwrap();
    assert_eq!((log.host.events.len(), log.host.dropped), (63, 101 - 63));

    config.interface = Interface::Streams;
    let streams = Bench::new(&config, Precondition::Fresh, 1);
    assert_eq!(write(&streams, 0, 3), Err(IoError::Placement(3, 3)));
}

//= nvme-2.1 5.1.12.1.31.1.1
#[test]
fn handle_update_gives_an_empty_unit_and_an_event() {
    let config = with_handles(bare(100, 4000), 2, true);
    let bench = Bench::new(&config, Precondition::Fresh, 1);
    let update = |placement| {
        let drive = bench.drive.clone();
        bench
            .kernel
            .block_on(async move { drive.update_handle(Placement(placement)).await })
    };
    // A handle that was never written to has no unit to leave.
    assert_eq!(update(1), Ok(()));
    assert_eq!(update(2), Err(IoError::Placement(2, 2)));
    assert_eq!(bench.drive.fdp().unwrap().host.events.len(), 0);

    for page in 0..5 {
        write(&bench, page, 1).unwrap();
    }
    assert_eq!(update(1), Ok(()));
    bench.kernel.run();
    let lines: Vec<_> = (0..5).map(|page| bench.drive.line_of(page)).collect();
    assert!(lines[0].is_some() && lines.iter().all(|&line| line == lines[0]));
    let left = bench.drive.lines()[lines[0].unwrap() as usize];
    assert_eq!(
        (left.state, left.valid, left.handle),
        (LineState::Closed, 5, Some(1))
    );
    // The unused rest of its 63 data pages, and its summary.
    let ledger = bench.drive.ledger();
    assert_eq!(
        (
            ledger.by_cause(Cause::Padding),
            ledger.by_cause(Cause::Summary)
        ),
        (58, 1)
    );
    let log = bench.drive.fdp().unwrap();
    let event = log.host.events[0];
    assert_eq!(
        (event.kind, event.kind.code()),
        (FdpEventKind::NotFullyWritten, 0x00)
    );
    assert_eq!(
        (event.placement, event.group, event.handle),
        (Placement(1), 0, 1)
    );
    assert_eq!(
        log.media_bytes_written.0,
        5 * 4096,
        "padding is no user data"
    );

    for page in 10..12 {
        write(&bench, page, 1).unwrap();
    }
    bench.kernel.run();
    assert_ne!(bench.drive.line_of(10), lines[0]);
}

#[test]
fn handle_update_fails_on_a_conventional_drive() {
    let block = Bench::new(&bare(100, 4000), Precondition::Fresh, 1);
    let drive = block.drive.clone();
    let refused = block
        .kernel
        .block_on(async move { drive.update_handle(Placement(0)).await });
    assert_eq!(refused, Err(IoError::Placement(0, 0)));
}

/// A unit whose program failed is reissued into a unit with room for all its pages. The last unit
/// of a line, which also holds the summary, lacks that room.
//= nvme-2.1 5.1.12.1.31.2.2
#[test]
fn handle_moved_by_a_failed_program_is_logged() {
    let mut config = with_handles(bare(300, 4000), 2, true);
    config.faults.program_failures = 20_000;
    config.wear.spare_blocks = 200;
    // Otherwise the retry goes to the frontier of copies, and the handle's unit stays open.
    config.collection.separate = false;
    let mut bench = Bench::new(&config, Precondition::Fresh, 1);
    let pages = bench.pages();
    bench.write(4 * pages, by_parity(pages));
    let log = bench.drive.fdp().unwrap();
    let count = log.controller.events.len() as u64 + log.controller.dropped;
    eprintln!("implicitly modified: {count}");
    assert!(count > 0);
    let events = log.controller.events.iter();
    assert!(
        events
            .map(|event| event.kind.code())
            .all(|code| code == 0x81)
    );
}

/// Copies of one handle wait for a line that only copies of another can free. In the second half of
/// the drives, failed programs wait as well.
#[test]
fn isolated_handles_on_a_tight_drive_do_not_deadlock() {
    for seed in 0..12 {
        let victim = [VictimPolicy::Greedy, VictimPolicy::CostBenefit][seed as usize % 2];
        let handles = 2 + seed % 4 * 2;
        let lines = 120;
        let mut config = bare(lines, (lines - handles * 3 - 6) * 63);
        config.collection.victim = victim;
        if seed >= 6 {
            // No line is erased before a failed program has been retried, and that may take a line.
            config.geometry.blocks_per_plane += 400;
            config.wear.spare_blocks = 400;
            config.faults.program_failures = 1_000;
            config.capacity.0 -= 63 * 4096;
        }
        let config = with_handles(config, handles as u16, true);
        let mut bench = Bench::new(&config, Precondition::Fresh, u64::from(seed));
        let pages = bench.pages();
        let handles = u64::from(handles);
        bench.fill(move |page| (page % handles) as u16);
        // Fails unless every write is acknowledged.
        bench.write(6 * pages, move |rng| {
            let page = rng.below(pages);
            (page, (page % handles) as u16)
        });
    }
}
