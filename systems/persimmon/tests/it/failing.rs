//! Failed zones: in the main area, among metadata zones, and among checkpoint zones.

use crate::bench::{attached, config, made, mounted, root};
use crate::memory::{Fs, limits, on, ram_made, ram_mounted, served};
use host::{Image, RamZones, ZonedPort, ZonesAtRest};
use persimmon::MkfsOptions;
use sim::{Kernel, Seed};
use ssd::{Drive, ZoneState};
use std::cell::Cell;
use std::rc::Rc;
use units::NoSpace;
use vfs::{Access, Body, Errno, OpenFlags, Process, Result, Source, Vfs};

/// The two checkpoint zones.
const CHECKPOINTS: std::ops::Range<u32> = 1..3;

/// Metadata zones; the main area follows them.
fn metadata() -> std::ops::Range<u32> {
    let made = ram_made();
    let mut block = [0; lfs::BLOCK];
    assert!(made.read(0, &mut block));
    let geometry = lfs::Geometry::decode(&block, made.blocks()).unwrap();
    CHECKPOINTS.end..geometry.main() / geometry.section_blocks()
}

fn in_state(
    port: &RamZones,
    zones: std::ops::Range<u32>,
    wanted: impl Fn(ZoneState) -> bool,
) -> Vec<u32> {
    let state = |zone: u32| port.zone(zone).expect("it is one of them").state;
    zones.filter(|&zone| wanted(state(zone))).collect()
}

/// Recreates 60 files, more than the journals of a checkpoint have entries for, and syncs.
async fn round(process: &Process<Fs>, number: u64) -> Result<()> {
    for file in 0..60 {
        let path = format!("/{file}");
        let _ = process.unlink(path.as_bytes()).await;
        let flags = OpenFlags::BOTH | OpenFlags::CREATE;
        let fd = process.open(path.as_bytes(), flags, 0o600).await?;
        let (pattern, len) = (number, 9_000);
        process.write(fd, Source::Fill { pattern, len }).await?;
        process.close(fd).await?;
    }
    process.sync().await
}

/// Whether all files have the contents of round `number`.
async fn is_of(process: &Process<Fs>, number: u64) -> bool {
    for file in 0..60 {
        let path = format!("/{file}");
        let fd = process.open(path.as_bytes(), OpenFlags::READ, 0).await;
        let fd = fd.expect("it was forced");
        let bytes = process.read_bytes(fd, 8_000, 8).await;
        process.close(fd).await.expect("it is open");
        if bytes != Ok(number.to_le_bytes().to_vec()) {
            return false;
        }
    }
    true
}

async fn last_refusal(vfs: &Vfs<Fs>) -> NoSpace {
    let refusals = vfs.body().refusals();
    refusals.last().cloned().expect("a limit was met")
}

#[test]
fn zones_of_metadata_that_fail_are_left_until_none_is_left() {
    let port = on(ram_made(), |sim, port| async move {
        let mut vfs = ram_mounted(&sim, &port).await;
        let mut process = Process::new(&vfs, Access::root());
        let (mut number, mut failed, all) = (0, 0, metadata().len());
        let why = loop {
            number += 1;
            match round(&process, number).await {
                Ok(()) => assert!(is_of(&process, number).await),
                Err(error) => {
                    assert_eq!(error, Errno::ENOSPC);
                    break last_refusal(&vfs).await;
                }
            }
            // Fail the zone that is written and an empty zone in turn.
            if number % 100 == 0 && failed < all - 1 {
                let open = in_state(&port, metadata(), ZoneState::is_active);
                let empty = in_state(&port, metadata(), |state| state == ZoneState::Empty);
                match (open.first(), empty.first()) {
                    (Some(&zone), _) if failed % 2 == 0 => port.fail(zone, ZoneState::ReadOnly),
                    (_, zone) => port.fail(*zone.expect("some are left"), ZoneState::Offline),
                }
                failed += 1;
                process.exit().await;
                vfs.unmount().await.unwrap();
                vfs = ram_mounted(&sim, &port).await;
                process = Process::new(&vfs, Access::root());
                assert!(is_of(&process, number).await, "round {number}");
            }
        };
        let expected = ("free zones of metadata", all as u64);
        assert_eq!((why.limit, why.total), expected);
        assert_eq!(
            why.held_by("zones that have failed"),
            all as u64 - 1,
            "{why}"
        );
        assert!(number > 500, "{number} rounds");
    });
    assert_eq!(persimmon::check(&port.at_rest()), [""; 0]);
}

#[test]
fn a_zone_of_checkpoints_that_fails_is_left_and_the_other_one_filled() {
    let port = on(ram_made(), |sim, port| async move {
        let vfs = ram_mounted(&sim, &port).await;
        let process = Process::new(&vfs, Access::root());
        round(&process, 1).await.unwrap();
        let open = in_state(&port, CHECKPOINTS, ZoneState::is_active);
        port.fail(open[0], ZoneState::ReadOnly);
        process.exit().await;
        vfs.unmount().await.unwrap();
        let vfs = ram_mounted(&sim, &port).await;
        let process = Process::new(&vfs, Access::root());
        assert!(is_of(&process, 1).await);
        for number in 2..20 {
            round(&process, number).await.unwrap();
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    let last = Rc::new(Cell::new(19));
    let newest = Rc::clone(&last);
    let port = on(port.at_rest(), |sim, port| async move {
        let vfs = ram_mounted(&sim, &port).await;
        let process = Process::new(&vfs, Access::root());
        assert!(is_of(&process, 19).await);
        let mut number = 20;
        while round(&process, number).await.is_ok() {
            newest.set(number);
            number += 1;
        }
        assert!(number > 50, "{number} rounds");
        let why = last_refusal(&vfs).await;
        assert_eq!(why.limit, "zones of checkpoints");
        assert_eq!(why.held_by("zones that have failed"), 1, "{why}");
    });
    assert_eq!(persimmon::check(&port.at_rest()), [""; 0]);
    can_be_read_only(port.at_rest(), last.get());
}

/// A read-write mount is refused for want of room; a read-only mount reads all synced files
/// and writes nothing.
fn can_be_read_only(zones: ZonesAtRest, newest: u64) {
    let port = on(zones, |sim, port| async move {
        let refused = persimmon::mount(&sim, &port, crate::bench::options()).await;
        let refused = refused.err().expect("there is no room").to_string();
        assert!(refused.contains("can be mounted read-only"), "{refused}");
    });
    let before = port.at_rest();
    on(before.clone(), move |sim, port| async move {
        let mut options = crate::bench::options();
        options.body.read_only = true;
        let (body, _) = persimmon::mount(&sim, &port, options).await.unwrap();
        let vfs = served(&sim, body);
        let process = Process::new(&vfs, Access::root());
        assert!(is_of(&process, newest).await);
        assert_eq!(process.unlink(b"/0").await, Err(Errno::EROFS));
        assert_eq!(process.sync().await, Ok(()));
        process.exit().await;
        vfs.unmount().await.unwrap();
        let after = port.at_rest();
        for (before, after) in before.zones.iter().zip(&after.zones) {
            assert!(before.payloads == after.payloads, "nothing is written");
        }
    });
}

/// Read-only zones keep blocks of the previous file system, which had the same UUID; the new
/// file system must not find them.
#[test]
fn zones_that_can_only_be_read_show_nothing_after_a_format() {
    on(ram_made(), |sim, port| async move {
        let vfs = ram_mounted(&sim, &port).await;
        let process = Process::new(&vfs, Access::root());
        round(&process, 1).await.unwrap();
        round(&process, 2).await.unwrap();
        for zones in [CHECKPOINTS, metadata()] {
            let open = in_state(&port, zones, ZoneState::is_active);
            port.fail(open[0], ZoneState::ReadOnly);
        }
        let made = persimmon::format(&sim, &port, &MkfsOptions::default()).await;
        made.expect("other zones are left");
        for number in 3..6 {
            let vfs = ram_mounted(&sim, &port).await;
            let process = Process::new(&vfs, Access::root());
            let old = process.open(b"/0", OpenFlags::READ, 0).await;
            assert_eq!(old.is_ok(), number > 3, "{old:?}");
            round(&process, number).await.unwrap();
            assert!(is_of(&process, number).await);
            process.exit().await;
            vfs.unmount().await.unwrap();
        }
    });
}

#[test]
fn zones_of_files_that_fail_are_not_chosen() {
    let port = on(ram_made(), |sim, port| async move {
        let vfs = ram_mounted(&sim, &port).await;
        let process = Process::new(&vfs, Access::root());
        let files = metadata().end..limits().zones;
        let before = vfs.statfs().await.unwrap().blocks_free;
        for zone in in_state(&port, files.clone(), |state| state == ZoneState::Empty) {
            if zone % 3 == 0 {
                port.fail(zone, ZoneState::Offline);
            }
        }
        for zone in in_state(&port, files, ZoneState::is_active) {
            port.fail(zone, ZoneState::ReadOnly);
        }
        for number in 0..100 {
            round(&process, number).await.unwrap();
        }
        let after = vfs.statfs().await.unwrap().blocks_free;
        assert!(after + 3 * 1024 < before, "{after} of {before}");
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_eq!(persimmon::check(&port.at_rest()), [""; 0]);
}

/// Removes one of seven files, and creates and fsyncs it again.
async fn write_anew(process: &Process<crate::bench::Fs>, number: u64) -> Result<()> {
    let path = format!("/{}", number % 7);
    let _ = process.unlink(path.as_bytes()).await;
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(path.as_bytes(), flags, 0o600).await?;
    let (pattern, len) = (number, 1 << 20);
    let written = process.write(fd, Source::Fill { pattern, len }).await;
    let forced = process.fsync(fd).await;
    process.close(fd).await?;
    written.and(forced)
}

/// Erase failures of the drive take zones offline for lack of spare blocks.
#[test]
fn zones_that_a_drive_has_no_blocks_for_are_not_chosen() {
    let mut config = config();
    config.faults.erase_failures = 60_000;
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let drive = Drive::ready(&sim, &config, made(), Seed(1)).expect("as before");
    let held = drive.clone();
    kernel.block_on(async move {
        let port = attached(&sim, &drive);
        let vfs = mounted(&sim, &port).await;
        let process = root(&vfs);
        let mut number = 0;
        while port.in_use().offline.len() < 4 {
            number += 1;
            if let Err(error) = write_anew(&process, number).await {
                assert_eq!(error, Errno::ENOSPC, "file {number}");
                break;
            }
        }
        let lost = port.in_use().offline;
        println!("{number} files, {lost:?} of {} zones", port.limits().zones);
        assert!(lost.len() > 1);
        for number in 0..7 {
            let _ = process.unlink(format!("/{number}").as_bytes()).await;
        }
        process.exit().await;
        vfs.unmount().await.unwrap();
        assert_eq!(
            persimmon::check(&crate::bench::AtRest(port, drive)),
            [""; 0]
        );
    });
    held.check();
}
