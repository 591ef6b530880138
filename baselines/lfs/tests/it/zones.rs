//! F2FS on zones that fail, or lose their unflushed writes in power cuts.

use crate::bench::eager;
use host::{RamZones, ZonedPort, ZonesAtRest};
use lfs::{LfsFs, MkfsOptions, MountOptions, OnDrive, Recovery};
use nand::Payload;
use sim::{Kernel, Seed, Sim};
use ssd::{ZoneLimits, ZoneState};
use units::Bytes;
use vfs::{Access, Body, Clock, Compute, Errno, OpenFlags, Process, Source, Vfs};

type Fs = LfsFs<OnDrive>;

/// Sectors of a zone, which is one segment.
const ZONE: u64 = 512 * 8;

/// Number of sequential zones, which make up the main area.
const SEQUENTIAL: u32 = 48;

fn limits() -> ZoneLimits {
    let bytes = Bytes(ZONE * units::SECTOR);
    let conventional = lfs::conventional_zones(bytes, bytes, SEQUENTIAL);
    ZoneLimits {
        zones: conventional + SEQUENTIAL,
        conventional,
        size: ZONE,
        capacity: ZONE,
        block: 8,
        ..ZoneLimits::NONE
    }
}

/// Runs `work` on zones with the contents `at_rest`, and returns their port.
fn on<W: Future<Output = ()>>(
    at_rest: ZonesAtRest,
    work: impl FnOnce(Sim, RamZones) -> W + 'static,
) -> RamZones {
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let port = RamZones::holding(&sim, at_rest);
    let kept = port.clone();
    kernel.block_on(async move { work(sim, port).await });
    kept
}

/// Zones with an empty file system.
fn made() -> ZonesAtRest {
    let port = on(ZonesAtRest::new(limits()), async |sim, port| {
        let made = lfs::format_zones(&sim, &port, &MkfsOptions::new(0)).await;
        made.expect("there is room");
    });
    port.at_rest()
}

async fn mounted(sim: &Sim, port: &RamZones) -> (Vfs<Fs>, Recovery) {
    let mounted = lfs::mount_zones(sim, port, MountOptions::default()).await;
    let (body, recovery) = mounted.unwrap();
    let (clock, compute) = (Clock::default(), Compute::unlimited());
    (Vfs::mount(sim, body, eager(), clock, compute), recovery)
}

/// Makes a file of 30,000 bytes, with an fsync if `force` is set.
async fn make(process: &Process<Fs>, path: &[u8], pattern: u64, force: bool) {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    let fd = process.open(path, flags, 0o600).await.unwrap();
    let len = 30_000;
    let written = process.write(fd, Source::Fill { pattern, len }).await;
    assert_eq!(written, Ok(len));
    if force {
        process.fsync(fd).await.unwrap();
    }
    process.close(fd).await.unwrap();
}

async fn holds(process: &Process<Fs>, path: &[u8], pattern: u64) -> bool {
    let Ok(fd) = process.open(path, OpenFlags::READ, 0).await else {
        return false;
    };
    let bytes = process.read_bytes(fd, 0, 30_000).await.unwrap();
    process.close(fd).await.unwrap();
    let mut words = bytes.chunks(8);
    bytes.len() == 30_000 && words.all(|word| word == pattern.to_le_bytes())
}

fn root(vfs: &Vfs<Fs>) -> Process<Fs> {
    Process::new(vfs, Access::root())
}

/// A power cut in a checkpoint leaves nodes in zones beyond the committed write points. The
/// next mount moves the logs to other zones, and recovery has to find nodes that fsync writes
/// there after a second cut.
#[test]
fn files_synced_after_a_cut_survive_the_next_cut() {
    let base = on(made(), async |sim, port| {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        make(&process, b"/old", 1, false).await;
        process.sync().await.unwrap();
    })
    .at_rest();
    let kernel = Kernel::new();
    let (sim, port) = (kernel.sim(), RamZones::holding(&kernel.sim(), base));
    let kept = port.clone();
    sim.clone().spawn_detached(async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        make(&process, b"/new", 2, false).await;
        process.sync().await.unwrap();
    });
    let (mut rng, mut moved) = (Seed(2).stream("cuts"), 0);
    while kernel.step() {
        let left = kept.after_any_cut(&mut rng);
        let before = left.conventional.clone();
        let forced = on(left, move |sim, port| async move {
            let (vfs, recovery) = mounted(&sim, &port).await;
            assert_eq!(recovery, Recovery::default(), "nothing was synced");
            let process = root(&vfs);
            make(&process, b"/forced", 3, true).await;
        });
        let left = forced.after_cut(&mut rng, |_, _, _| 0);
        moved += u64::from(changed(&before, &left.conventional));
        let again = on(left, |sim, port| async move {
            let (vfs, _) = mounted(&sim, &port).await;
            let process = root(&vfs);
            assert!(holds(&process, b"/old", 1).await);
            assert!(holds(&process, b"/forced", 3).await, "it was synced");
            process.exit().await;
            vfs.unmount().await.unwrap();
        });
        assert_eq!(lfs::check(&again.at_rest()), []);
    }
    println!("{moved} mounts made a checkpoint");
    assert!(moved > 3);
}

type Contents = std::collections::BTreeMap<u64, Payload>;

/// Whether a block of the two checkpoint segments differs.
fn changed(before: &Contents, after: &Contents) -> bool {
    (512..3 * 512).any(|at| before.get(&at) != after.get(&at))
}

/// Sequential zones in a state that is `wanted`.
fn in_state(port: &RamZones, wanted: impl Fn(ZoneState) -> bool) -> Vec<u32> {
    let zones = limits().conventional..limits().zones;
    let state = |zone: u32| port.zone(zone).expect("it is one of them").state;
    zones.filter(|&zone| wanted(state(zone))).collect()
}

/// Fails `zones`: they become read-only and offline in turn.
fn fail(port: &RamZones, zones: &[u32]) {
    let states = [ZoneState::ReadOnly, ZoneState::Offline];
    for (zone, state) in zones.iter().zip(states.into_iter().cycle()) {
        port.fail(*zone, state);
    }
}

/// Makes files until a write is short or fails with `ENOSPC`; returns how many are whole.
async fn fill(process: &Process<Fs>) -> u64 {
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    for number in 0.. {
        let path = format!("/fill{number}");
        let fd = process.open(path.as_bytes(), flags, 0o600).await.unwrap();
        let (pattern, len) = (number, 300_000);
        let written = process.write(fd, Source::Fill { pattern, len }).await;
        process.close(fd).await.unwrap();
        if written != Ok(len) {
            let said = written.map_or_else(Some, |_| None);
            assert!(said.is_none_or(|error| error == Errno::ENOSPC), "{said:?}");
            return number;
        }
    }
    unreachable!("it is full at some time")
}

#[test]
fn failed_zones_are_avoided_and_named_when_space_runs_out() {
    let port = on(made(), |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        let before = vfs.statfs().await.unwrap().blocks_free;
        let empty = in_state(&port, |state| state == ZoneState::Empty);
        // Includes the zones that logs would enter next.
        fail(&port, &empty[..12]);
        make(&process, b"/first", 7, true).await;
        process.sync().await.unwrap();
        let after = vfs.statfs().await.unwrap().blocks_free;
        assert!((12 * 512..13 * 512).contains(&(before - after)));
        assert!(fill(&process).await > 20);
        let why = vfs.body().refusals().last().cloned().expect("it is full");
        assert_eq!(why.held_by("zones that have failed"), 12 * 512, "{why}");
        for number in 0..10 {
            let path = format!("/fill{number}");
            process.unlink(path.as_bytes()).await.unwrap();
        }
        make(&process, b"/last", 9, true).await;
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    let left = port.at_rest();
    assert_eq!(lfs::check(&left), []);
    on(left, |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        assert!(holds(&process, b"/first", 7).await && holds(&process, b"/last", 9).await);
        fill(&process).await;
        let why = vfs.body().refusals().last().cloned().expect("it is full");
        assert_eq!(why.held_by("zones that have failed"), 12 * 512, "{why}");
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
}

/// The open zones of the logs fail between two calls: no file is lost, and recovery finds files
/// that are fsynced in the zones that the logs enter then.
#[test]
fn logs_leave_failed_zones_and_files_synced_then_are_recovered() {
    let port = on(made(), |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        make(&process, b"/first", 1, true).await;
        process.sync().await.unwrap();
        // The chain of nodes goes on in a zone that fails now.
        make(&process, b"/second", 2, true).await;
        let open = in_state(&port, ZoneState::is_active);
        assert!(open.len() > 3, "{open:?}");
        let open = open.iter();
        open.for_each(|&zone| port.fail(zone, ZoneState::ReadOnly));
        for number in 0..5 {
            let path = format!("/forced{number}");
            make(&process, path.as_bytes(), 3 + number, true).await;
        }
    });
    let left = port.after_cut(&mut Seed(1).stream("cut"), |_, _, _| 0);
    let port = on(left, |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        assert!(holds(&process, b"/first", 1).await && holds(&process, b"/second", 2).await);
        for number in 0..5 {
            let path = format!("/forced{number}");
            assert!(holds(&process, path.as_bytes(), 3 + number).await, "{path}");
        }
        make(&process, b"/later", 9, true).await;
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_eq!(lfs::check(&port.at_rest()), []);
}

/// Full zones become read-only: their files can be read, and their blocks freed without a reset.
#[test]
fn file_in_failed_zones_is_read_and_removed() {
    let port = on(made(), |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        for number in 0..300 {
            let path = format!("/{number}");
            make(&process, path.as_bytes(), number, false).await;
        }
        process.sync().await.unwrap();
        let full = in_state(&port, |state| state == ZoneState::Full);
        assert!(full.len() > 3, "{full:?}");
        full.iter()
            .for_each(|&zone| port.fail(zone, ZoneState::ReadOnly));
        for number in 0..300 {
            let path = format!("/{number}");
            assert!(holds(&process, path.as_bytes(), number).await);
            process.unlink(path.as_bytes()).await.unwrap();
        }
        process.sync().await.unwrap();
        make(&process, b"/new", 1, true).await;
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_eq!(lfs::check(&port.at_rest()), []);
}

/// A zone fails on a full file system, so files hold more blocks than are left for them. The
/// mount has to recover the file that was fsynced last nevertheless.
#[test]
fn full_file_system_that_loses_a_zone_is_recovered() {
    let port = on(made(), |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        fill(&process).await;
        process.unlink(b"/fill1").await.unwrap();
        process.sync().await.unwrap();
        make(&process, b"/fill0", 77, true).await;
        let empty = in_state(&port, |state| state == ZoneState::Empty);
        fail(&port, &empty[..1]);
    });
    let left = port.after_cut(&mut Seed(3).stream("cut"), |_, _, _| 0);
    let port = on(left, |sim, port| async move {
        let (vfs, recovery) = mounted(&sim, &port).await;
        assert_eq!(recovery.files, 1);
        let process = root(&vfs);
        assert!(holds(&process, b"/fill0", 77).await);
        assert_eq!(vfs.statfs().await.unwrap().blocks_free, 0);
        process.unlink(b"/fill2").await.unwrap();
        process.exit().await;
        vfs.unmount().await.unwrap();
    });
    assert_eq!(lfs::check(&port.at_rest()), []);
}

/// Nodes of an fsynced file lie in read-only zones, which cannot be reset. A new file system with
/// the same UUID and time must not recover them.
#[test]
fn file_synced_before_a_format_is_not_recovered_after_it() {
    on(made(), |sim, port| async move {
        let pointers =
            || (0..limits().zones).map(|zone| port.zone(zone).map(|info| info.written()));
        let (vfs, _) = mounted(&sim, &port).await;
        let before: Vec<_> = pointers().collect();
        make(&root(&vfs), b"/old", 1, true).await;
        let now = pointers().zip(before);
        let grown: Vec<u32> = (0..)
            .zip(now)
            .filter(|(_, (now, old))| now != old)
            .map(|(zone, _)| zone)
            .collect();
        assert!(grown.len() > 1, "{grown:?}");
        grown
            .iter()
            .for_each(|&zone| port.fail(zone, ZoneState::ReadOnly));
        let made = lfs::format_zones(&sim, &port, &MkfsOptions::new(0)).await;
        made.expect("it begins with other logs");
        let (vfs, recovery) = mounted(&sim, &port).await;
        assert_eq!(recovery, Recovery::default());
        make(&root(&vfs), b"/new", 2, true).await;
    });
}

/// An open zone of a log goes offline between two mounts: files in other zones can be read.
#[test]
fn zone_that_goes_offline_loses_only_its_own_files() {
    let port = on(made(), |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        let process = root(&vfs);
        for number in 0..300 {
            let path = format!("/{number}");
            make(&process, path.as_bytes(), number, false).await;
        }
        process.sync().await.unwrap();
    });
    let open = in_state(&port, ZoneState::is_active);
    assert!(open.len() > 3, "{open:?}");
    let (left, mut some) = (port.at_rest(), 0);
    for &zone in &open {
        let found = std::rc::Rc::new(std::cell::Cell::new(0));
        let (left, count) = (left.clone(), found.clone());
        on(left, move |sim, port| async move {
            port.fail(zone, ZoneState::Offline);
            let mounted = lfs::mount_zones(&sim, &port, MountOptions::default()).await;
            let (body, _) = mounted.expect("the tables are elsewhere");
            let (clock, compute) = (Clock::default(), Compute::unlimited());
            let vfs = Vfs::mount(&sim, body, eager(), clock, compute);
            let process = root(&vfs);
            for number in 0..300_u64 {
                let path = format!("/{number}");
                let flags = OpenFlags::READ;
                let Ok(fd) = process.open(path.as_bytes(), flags, 0).await else {
                    continue;
                };
                let bytes = process.read_bytes(fd, 0, 8).await;
                let is_whole = bytes == Ok(number.to_le_bytes().to_vec());
                assert!(is_whole || bytes == Err(Errno::EIO), "{bytes:?}");
                count.set(count.get() + u32::from(is_whole));
            }
        });
        println!("zone {zone}: {} files are left", found.get());
        some += u32::from((1..300).contains(&found.get()));
    }
    assert!(some > 0, "the zone of contents");
}

/// All sequential zones are read-only, so a mount that has to write fails and names the limit.
#[test]
fn mount_without_a_zone_for_its_logs_names_the_limit() {
    let port = on(made(), |sim, port| async move {
        let (vfs, _) = mounted(&sim, &port).await;
        make(&root(&vfs), b"/first", 1, true).await;
    });
    on(port.at_rest(), |sim, port| async move {
        let all = in_state(&port, |_| true);
        all.iter()
            .for_each(|&zone| port.fail(zone, ZoneState::ReadOnly));
        let mounted = lfs::mount_zones(&sim, &port, MountOptions::default()).await;
        let said = mounted.err().map(|error| error.to_string());
        let said = said.unwrap_or_default();
        assert!(
            said.contains("free sections: 1 asked for, 0 of 48 free"),
            "{said}"
        );
        assert!(said.contains("zones that have failed (48)"), "{said}");
    });
}
