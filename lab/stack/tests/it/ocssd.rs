//! Stacks over a drive whose mapping the host holds.

use super::{done, plan, refused};
use crash::Points;
use host::{BlockDevice, HostConfig, PmMedia};
use sim::{Kernel, Seed};
use ssd::{Drive, DriveMedia, Precondition};
use stack::crash::{Cuts, explore};
use stack::hosts::Memory;
use stack::{Attached, Ending, Plan, hosts};
use units::{Bytes, MIB, Ns};

fn on(stack: &str, mib: u64, workload: &str) -> Plan {
    plan(stack, mib, Precondition::Fresh, workload)
}

#[test]
fn requests_go_through_the_mapping_and_what_it_adds_has_its_causes() {
    let run = done(&on("raw@ocssd", 64, "randwrite:ops=60000,bs=4k,depth=32"));
    assert_eq!((run.ops, run.errors.len()), (60_000, 0));
    let programmed = &run.nand.by_cause;
    assert!(programmed["gc"] > 0, "{programmed:?}");
    // A line has more than one block, all of which are erased when it has been cleaned.
    let (lines, blocks) = (run.gc.lines, run.nand.erase_blocks);
    assert!(
        lines > 0 && 2 * lines <= blocks,
        "{lines} lines, {blocks} blocks"
    );
    let all: u64 = programmed.values().sum();
    assert_eq!(all % (24 * 4096), 0, "whole programs");
    // What was overwritten in the buffer has not come to the drive.
    assert!(programmed["host"] <= 60_000 * 4096);
    assert_eq!(run.host.write_bytes, programmed["host"]);
    let again = done(&on("raw@ocssd", 64, "randwrite:ops=60000,bs=4k,depth=32"));
    assert_eq!(run.sim_time_ns, again.sim_time_ns);
}

#[test]
fn a_write_that_is_forced_pads_its_unit() {
    let run = done(&on(
        "raw@ocssd",
        64,
        "randwrite:ops=500,bs=4k,depth=1,flush=1",
    ));
    let programmed = &run.nand.by_cause;
    assert_eq!(
        programmed["padding"],
        23 * programmed["host"],
        "{programmed:?}"
    );
}

//= hyfim 4
#[test]
fn what_is_forced_to_a_buffer_that_lasts_pads_nothing() {
    let forced = "overwrite:bs=4k,size=256k,fsync=1,ops=200";
    for host in ["btrfs", "btrfs-nocow", "hyfim"] {
        let [padded, lasting] = ["", "+pmbuffer"].map(|switch| {
            let run = done(&on(&format!("{host}{switch}@ocssd"), 64, forced));
            assert_eq!((run.ops, run.errors.len()), (200, 0), "{host}");
            let programmed = &run.nand.by_cause;
            programmed.get("padding").copied().unwrap_or_default()
        });
        assert!(10 * lasting < padded, "{host}: {lasting} of {padded}");
    }
}

/// With more time between calls, units of staged sectors fill and are in flight to flash when
/// their exchange begins. It does not wait for their programs: 34 us a call more would be 340.
#[test]
fn forced_overwrites_slow_down_by_think_time_alone() {
    for us in [20, 35, 50, 100] {
        let workload = "overwrite:bs=64k,fsync=1,ops=500";
        let mut plan = on("hyfim+pmbuffer@ocssd", 256, workload);
        plan.page_cache.costs.call = Ns::us(us);
        let each = 1e9 / done(&plan).ops_per_s;
        let rest = each - (us * 1_000) as f64;
        assert!(rest < 10_000.0, "{rest} ns beside {us} us");
    }
}

#[test]
fn file_systems_run_on_it_end_well_and_recover() {
    for stack in ["ext4@ocssd", "f2fs@ocssd", "ext4+discard@ocssd"] {
        let mut plan = on(stack, 128, "varmail:files=100,threads=4,ops=2000");
        for ending in [Ending::Unmount, Ending::Remount, Ending::PowerCut] {
            plan.ending = ending;
            let run = done(&plan);
            assert_eq!((run.ops, run.errors.len()), (2_000, 0), "{stack}");
            let app = run.app.as_ref().expect("of files");
            assert!(app.mismatches.is_empty(), "{stack}");
            let recovery = run.recovery.as_ref();
            assert_eq!(recovery.is_some(), ending == Ending::PowerCut);
            assert!(recovery.is_none_or(|r| r.read_pages > 0 && r.time_ns > r.power_on_ns));
        }
    }
}

/// Whether a drive with this memory beside it can be opened, and what that leaves of both.
fn opened(media: DriveMedia, memory: Memory) -> (bool, DriveMedia, PmMedia) {
    let config = on("hyfim@ocssd", 128, "touch").drive;
    let kernel = Kernel::new();
    let sim = kernel.sim();
    let drive = Drive::ready(&sim, &config, media, Seed(1)).expect("it can be built");
    let device = BlockDevice::new(&sim, HostConfig::default(), drive.clone());
    let device = device.expect("the default can be");
    let port = Attached::bare(&sim, &device, (hosts::memory("hyfim", &[]), memory));
    let opening = port.clone();
    let opened = kernel.block_on(async move { opening.open().await.is_ok() });
    let left = port.memory().expect("it was wanted").shutdown();
    (opened, drive.at_power_cut(), left)
}

/// To make it ready would be to lose what it had, without a word.
#[test]
fn memory_that_was_left_is_mounted_or_refused_and_never_made_anew() {
    let config = on("hyfim@ocssd", 128, "touch").drive;
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    let (made, media, good) = opened(media, Memory::Blank);
    assert!(made);
    assert!(opened(media.clone(), Memory::Left(good.clone())).0);
    // The first word, a line of the superblock, the head of the table; and all of it.
    for (at, bytes) in [(0, 8), (0, 64), (4096, 64), (0, good.bytes() as usize)] {
        let mut lost = good.clone();
        lost.write(at, &vec![0; bytes]);
        let (mounted, _, left) = opened(media.clone(), Memory::Left(lost.clone()));
        assert!(!mounted, "{bytes} bytes from {at}");
        assert!(left == lost, "nothing is made of it");
    }
}

fn cuts(stack: &str, points: u64, lies: bool) -> crash::Exploration {
    let usual = cuts_of(stack, "anything:ops=300", points);
    explored(&Cuts { lies, ..usual })
}

fn cuts_of(stack: &str, workload: &str, points: u64) -> Cuts {
    let mut plan = on(stack, 64, workload);
    plan.drive.controller.power_loss_protection = false;
    Cuts {
        plan,
        points: Points::Some(points),
        outside: 0,
        memory: Bytes(64 * MIB),
        lies: false,
        skips_fences: false,
        snapshot: false,
    }
}

fn explored(cuts: &Cuts) -> crash::Exploration {
    explore(cuts, &mut |_| ()).expect("it can be run")
}

#[test]
fn power_cuts_keep_what_was_forced() {
    let stacks = [
        "ext4@ocssd",
        "ext4+discard@ocssd",
        "f2fs@ocssd",
        "btrfs+pmbuffer@ocssd",
        "hyfim+pmbuffer@ocssd",
    ];
    for stack in stacks {
        let found = cuts(stack, 16, false);
        assert!(found.holds(), "{stack}: {:#?}", found.failures.first());
        assert_eq!(found.points, 16);
    }
}

#[test]
fn a_mapping_that_does_not_flush_is_found_out() {
    let found = cuts("ext4@ocssd", 150, true);
    assert!(!found.holds());
}

#[test]
fn a_publication_that_waits_for_the_next_is_found_out() {
    let found = cuts("hyfim@ocssd", 100, true);
    // Forced sizes and names that are lost may show as ones that should not be there.
    let lost = |failure: &crash::Failure| failure.fault == crash::Fault::Lost;
    assert!(found.failures.iter().any(lost));
}

#[test]
fn memory_whose_fences_are_skipped_is_found_out() {
    for (stack, points) in [("hyfim@ocssd", 16), ("btrfs+pmbuffer@ocssd", 40)] {
        let mut cuts = cuts_of(stack, "anything:ops=300", points);
        assert!(explored(&cuts).holds(), "{stack}");
        cuts.skips_fences = true;
        assert!(!explored(&cuts).holds(), "{stack}");
    }
}

#[test]
fn a_snapshot_stays_what_it_was_while_its_files_are_overwritten() {
    let stacks = [
        "btrfs@ocssd",
        "btrfs+hints@ocssd",
        "btrfs-nocow@ocssd",
        "hyfim@ocssd",
    ];
    for stack in stacks {
        let mut cuts = cuts_of(stack, "overwrite:bs=4k,size=256k,fsync=8,ops=200", 24);
        cuts.snapshot = true;
        let found = explored(&cuts);
        assert!(found.holds(), "{stack}: {:#?}", found.failures.first());
    }
}

#[test]
fn a_snapshot_of_what_has_none_is_refused() {
    let mut cuts = cuts_of("ext4@ocssd", "anything:ops=300", 1);
    cuts.snapshot = true;
    let refused = explore(&cuts, &mut |_| ()).expect_err("it has none");
    assert!(refused.to_string().contains("that has snapshots"));
}

#[test]
fn a_past_that_the_drive_alone_cannot_have_is_refused() {
    let mut plan = on("raw@ocssd", 64, "randread:ops=10");
    plan.precondition = Precondition::Aged;
    assert!(
        refused(&plan)
            .to_string()
            .contains("the host of this drive")
    );
}
