//! Stacks over a drive whose mapping is in the host.

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
fn requests_pass_the_mapping_whose_writes_have_their_own_causes() {
    let run = done(&on("raw@ocssd", 64, "randwrite:ops=60000,bs=4k,depth=32"));
    assert_eq!((run.ops, run.errors.len()), (60_000, 0));
    let programmed = &run.nand.by_cause;
    assert!(programmed["gc"] > 0, "{programmed:?}");
    // A line has more than one block, all of which are erased after cleaning.
    let (lines, blocks) = (run.gc.lines, run.nand.erase_blocks);
    assert!(
        lines > 0 && 2 * lines <= blocks,
        "{lines} lines, {blocks} blocks"
    );
    let all: u64 = programmed.values().sum();
    assert_eq!(all % (24 * 4096), 0, "whole programs");
    // Data overwritten in the buffer never reaches the drive.
    assert!(programmed["host"] <= 60_000 * 4096);
    assert_eq!(run.host.write_bytes, programmed["host"]);
    let again = done(&on("raw@ocssd", 64, "randwrite:ops=60000,bs=4k,depth=32"));
    assert_eq!(run.sim_time_ns, again.sim_time_ns);
}

#[test]
fn forced_write_pads_its_unit() {
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
fn forced_write_to_a_persistent_buffer_is_not_padded() {
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

/// With more time between calls, units of staged sectors fill and are in flight to flash when their
/// exchange begins. The exchange does not wait for their programs: otherwise 34 us more per call
/// would cost 340.
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
fn file_systems_on_open_channel_run_unmount_and_recover() {
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

/// Whether a drive with this memory beside it can be opened, and the contents of both afterwards.
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

/// Formatting it would silently lose its data.
#[test]
fn used_persistent_memory_is_mounted_or_rejected_never_formatted() {
    let config = on("hyfim@ocssd", 128, "touch").drive;
    let media = DriveMedia::new(&config, Seed(1)).expect("it can be built");
    let (made, media, good) = opened(media, Memory::Blank);
    assert!(made);
    assert!(opened(media.clone(), Memory::Left(good.clone())).0);
    // Lost are the first word, a line of the superblock, the head of the table, and everything.
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
        reorders: false,
        skips_fences: false,
        snapshot: false,
        rest: None,
    }
}

fn explored(cuts: &Cuts) -> crash::Exploration {
    explore(cuts, &mut |_| ()).expect("it can be run")
}

#[test]
fn power_cuts_keep_synced_data() {
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
fn delayed_publication_is_detected() {
    let found = cuts("hyfim@ocssd", 100, true);
    // A lost force of sizes or names may also show as files that should not exist.
    let lost = |failure: &crash::Failure| failure.fault == crash::Fault::Lost;
    assert!(found.failures.iter().any(lost));
}

#[test]
fn skipped_fences_are_detected() {
    for (stack, points) in [("hyfim@ocssd", 16), ("btrfs+pmbuffer@ocssd", 40)] {
        let mut cuts = cuts_of(stack, "anything:ops=300", points);
        assert!(explored(&cuts).holds(), "{stack}");
        cuts.skips_fences = true;
        assert!(!explored(&cuts).holds(), "{stack}");
    }
}

#[test]
fn snapshot_is_unchanged_while_its_files_are_overwritten() {
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
fn snapshot_of_a_file_system_without_snapshots_is_rejected() {
    let mut cuts = cuts_of("ext4@ocssd", "anything:ops=300", 1);
    cuts.snapshot = true;
    let refused = explore(&cuts, &mut |_| ()).expect_err("it has none");
    assert!(refused.to_string().contains("that has snapshots"));
}

#[test]
fn precondition_of_an_open_channel_drive_is_rejected() {
    let mut plan = on("raw@ocssd", 64, "randread:ops=10");
    plan.precondition = Precondition::Aged;
    assert!(
        refused(&plan)
            .to_string()
            .contains("the host of this drive")
    );
}
