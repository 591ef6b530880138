//! Power cuts under calls of every kind: on each mode of journaling, with a small cache, on a drive
//! with little space, and on a lying drive.

use crate::{done, plan, refused};
use crash::{Exploration, Points};
use report::record::Run;
use ssd::Precondition;
use stack::Plan;
use stack::crash::{Cuts, explore};
use units::{Bytes, KIB, MIB};

const ROOMY: Bytes = Bytes(64 * MIB);
/// The smallest page cache allowed.
const SMALL: Bytes = Bytes(256 * KIB);

fn plan_of(stack: &str, workload: &str) -> Plan {
    plan_on(stack, 64, workload)
}

/// A plan on a drive of `mib` MiB, without power loss protection for posted data.
fn plan_on(stack: &str, mib: u64, workload: &str) -> Plan {
    let mut plan = plan(stack, mib, Precondition::Fresh, workload);
    // The byte front has a battery; data in flight to it has none.
    plan.drive.controller.power_loss_protection = plan.drive.front.is_some();
    plan
}

fn cuts(plan: Plan, memory: Bytes, lies: bool) -> Exploration {
    cuts_at(plan, 20, memory, lies)
}

fn cuts_at(plan: Plan, points: u64, memory: Bytes, lies: bool) -> Exploration {
    let cuts = Cuts {
        plan,
        points: Points::Some(points),
        outside: 0,
        memory,
        lies,
        reorders: false,
        skips_fences: false,
        snapshot: false,
        rest: None,
    };
    explore(&cuts, &mut |_| ()).unwrap()
}

fn hold(stack: &str, workload: &str, memory: Bytes) {
    let found = cuts(plan_of(stack, workload), memory, false);
    let first = found.failures.first();
    assert!(found.holds(), "{stack} {workload}: {first:#?}");
    assert_eq!(found.points, 20);
}

/// The same workload without cuts, for its counters.
fn uncut(stack: &str, workload: &str, memory: Bytes) -> Run {
    let mut plan = plan_of(stack, workload);
    plan.page_cache.memory = memory;
    done(&plan)
}

#[test]
fn calls_of_every_kind_survive_cuts_in_each_mode() {
    for stack in ["ext4@block", "ext4+journal@block", "ext4+discard@fdp"] {
        hold(stack, "anything:ops=300", ROOMY);
    }
    hold("ext4+writeback@block", "anything:ops=300", ROOMY);
}

#[test]
fn promises_hold_when_pages_are_evicted_and_writers_wait() {
    let workload = "anything:ops=900,threads=8,size=256k";
    let met = uncut("ext4@block", workload, SMALL).app.unwrap();
    assert!(met.evicted_pages > 50, "{met:?}");
    assert!(met.throttled_ns > 0, "{met:?}");
    hold("ext4@block", workload, SMALL);
}

#[test]
fn promises_hold_on_a_disk_that_is_full_again_and_again() {
    let workload = "anything:ops=300,size=256k,room=64k";
    for stack in ["ext4@block", "ext4+journal@block"] {
        let run = uncut(stack, workload, ROOMY);
        let refused = |(what, _): &(&String, &u64)| {
            what.ends_with(" ENOSPC") && !what.starts_with("fallocate")
        };
        let refusals: u64 = run.errors.iter().filter(refused).map(|(_, n)| n).sum();
        assert!(refusals >= 10, "{:?}", run.errors);
        hold(stack, workload, ROOMY);
    }
}

#[test]
fn a_drive_that_does_not_flush_is_found_out() {
    let plan = plan_of("ext4@block", "anything:ops=300");
    let found = cuts(plan, ROOMY, true);
    assert!(found.lost > 0, "{found:?}");
}

#[test]
//= pmfs 1
fn undo_journals_keep_their_promises_after_cuts() {
    for stack in ["pmfs@byte", "bytefs-dual@byte"] {
        hold(stack, "anything:ops=300", ROOMY);
        hold(stack, "varmail:files=20,ops=400", ROOMY);
    }
    hold("pmfs@byte", "anything:ops=900,threads=8,size=256k", ROOMY);
    hold(
        "bytefs-dual+discard@byte",
        "anything:ops=900,threads=8,size=256k",
        SMALL,
    );
}

#[test]
fn calls_that_return_are_durable_where_that_is_promised() {
    // Calls of several threads share one transaction, and wait for it.
    for stack in ["pmfs@byte", "bytefs-dual@byte", "bytefs@byte", "nova@byte"] {
        let plan = plan_of(stack, "anything:ops=900,threads=8,size=256k");
        let found = cuts_at(plan, 60, ROOMY, false);
        let first = found.failures.first();
        assert!(found.holds(), "{stack}: {first:#?}");
    }
}

#[test]
fn outside_checker_refuses_an_image_with_pending_undo() {
    for stack in ["pmfs@byte", "bytefs-dual@byte"] {
        let cuts = Cuts {
            plan: plan_of(stack, "anything:ops=300"),
            points: Points::Some(20),
            outside: 1,
            memory: ROOMY,
            lies: false,
            reorders: false,
            skips_fences: false,
            snapshot: false,
            rest: None,
        };
        if !judges::has("e2fsck") {
            return;
        }
        let found = explore(&cuts, &mut |_| ()).unwrap();
        let first = found.failures.first();
        assert!(found.holds() && found.outside >= 20, "{stack}: {first:#?}");
    }
}

#[test]
fn undo_journals_need_drives_that_verify() {
    for stack in ["pmfs@byte", "bytefs-dual@byte"] {
        let found = cuts(plan_of(stack, "anything:ops=300"), ROOMY, true);
        assert!(!found.holds(), "{stack}");
    }
}

#[test]
fn lying_byte_drive_is_detected() {
    // With several threads the stores of one thread would complete the commits of another.
    for stack in ["bytefs@byte", "bytefs-log@byte", "nova@byte"] {
        for workload in [
            "varmail:files=20,threads=1,ops=300",
            "anything:ops=300,threads=1",
        ] {
            let plan = plan(stack, 64, Precondition::Fresh, workload);
            let found = cuts_at(plan, 100, ROOMY, true);
            assert!(found.lost > 0, "{stack} {workload}: {found:?}");
        }
    }
}

#[test]
fn every_file_system_on_a_drive_of_bytes_survives_cuts() {
    for stack in [
        "bytefs@byte",
        "bytefs-log@byte",
        "nova@byte",
        "ext4@byte",
        "f2fs@byte",
    ] {
        for workload in ["anything:ops=300", "varmail:files=20,threads=2,ops=300"] {
            let plan = plan(stack, 64, Precondition::Fresh, workload);
            let found = cuts_at(plan, 40, ROOMY, false);
            let first = found.failures.first();
            assert!(found.holds(), "{stack} {workload}: {first:#?}");
            let log = stack.starts_with("bytefs");
            assert_eq!(log, found.met.contains_key("commits in the log"));
        }
    }
}

#[test]
fn f2fs_keeps_forced_data_and_names_in_order() {
    let many = "anything:ops=900,threads=8,size=256k";
    let full = "anything:ops=300,size=256k,room=64k";
    let stacks = [
        ("f2fs@block", "anything:ops=300", ROOMY),
        ("f2fs@block", many, SMALL),
        ("f2fs+lfs@block", full, ROOMY),
        (
            "f2fs+discard@fdp",
            "varmail:files=20,threads=2,ops=300",
            ROOMY,
        ),
    ];
    for (stack, workload, memory) in stacks {
        let found = cuts_at(plan_of(stack, workload), 40, memory, false);
        let first = found.failures.first();
        assert!(found.holds(), "{stack} {workload}: {first:#?}");
    }
    let plan = plan_of("f2fs@block", "varmail:files=20,threads=2,ops=300");
    assert!(!cuts_at(plan, 100, ROOMY, true).holds());
}

#[test]
fn file_systems_on_zones_keep_forced_data_and_names_in_order() {
    let few = "varmail:files=20,threads=2,ops=300";
    let many = "anything:ops=900,threads=8,size=256k";
    let stacks = [
        ("f2fs@zns", 512, few),
        ("f2fs@zns", 512, many),
        ("persimmon@zns", 128, few),
        ("persimmon@zns", 128, many),
        ("persimmon+paired+lean@zns", 128, "anything:ops=300"),
    ];
    for (stack, mib, workload) in stacks {
        let found = cuts_at(plan_on(stack, mib, workload), 40, ROOMY, false);
        let first = found.failures.first();
        assert!(found.holds(), "{stack} {workload}: {first:#?}");
    }
    for (stack, mib) in [("f2fs@zns", 512), ("persimmon@zns", 128)] {
        assert!(!cuts_at(plan_on(stack, mib, few), 100, ROOMY, true).holds());
    }
}

#[test]
fn recordings_of_programs_survive_cuts() {
    let recording = "../../flashloom/traces/rocksdb.flt:ops=1500,think=no";
    for stack in ["bytefs@byte", "nova@byte", "ext4@block"] {
        let plan = plan(stack, 64, Precondition::Fresh, recording);
        let found = cuts_at(plan, 20, ROOMY, false);
        let first = found.failures.first();
        assert!(found.holds(), "{stack}: {first:#?}");
        assert_eq!(found.points, 20);
    }
}

/// ByteFS on a drive with a log of `log` bytes.
fn with_log(log: Bytes, workload: &str) -> Plan {
    let mut plan = plan("bytefs@byte", 64, Precondition::Fresh, workload);
    let front = plan.drive.front.as_mut().expect("it is one of bytes");
    front.log.bytes = log;
    plan
}

#[test]
//= bytefs 4.3
fn promises_hold_while_a_small_log_is_cleaned() {
    // The log has little room beyond the lines that the largest handle reserves, so cleaning never
    // stops.
    let (log, workload) = (Bytes(896 * KIB), "anything:ops=3000,threads=8,size=256k");
    let met = done(&with_log(log, workload));
    assert!(
        met.nand.by_cause["log-cleaning"] > 0,
        "{:?}",
        met.nand.by_cause
    );
    let refused = |(what, _): &(&String, &u64)| {
        let ends = |errno| what.ends_with(errno);
        ends(" EIO") || ends(" EROFS") || ends(" ENOSPC")
    };
    assert_eq!(met.errors.iter().find(refused), None);
    let found = cuts(with_log(log, workload), ROOMY, false);
    let first = found.failures.first();
    assert!(found.holds() && found.points == 20, "{first:#?}");
}

#[test]
//= bytefs 4.3
fn promises_hold_while_logs_are_full_and_recovery_is_cut() {
    // The log of commits has so few entries that it fills again and again.
    let workload = "varmail:files=50,threads=8,ops=800";
    let mut plan = with_log(Bytes(896 * KIB), workload);
    let front = plan.drive.front.as_mut().expect("it is one of bytes");
    front.log.commits = Bytes(16);
    let found = cuts_at(plan, 300, ROOMY, false);
    let first = found.failures.first();
    assert!(found.holds(), "{first:#?}");
    for what in [
        "stores on their way",
        "lines of open transactions",
        "commits in the log",
        "a cleaning under way",
        "a commit that waits for a full log",
        "a recovery of the log under way",
    ] {
        assert!(found.met.contains_key(what), "{what}: {:?}", found.met);
    }
}

#[test]
//= bytefs 4.6
fn promises_hold_with_contents_in_a_journal_that_commits_with_lines() {
    for workload in [
        "anything:ops=900,threads=8,size=256k",
        "varmail:files=20,ops=400",
    ] {
        let plan = plan("bytefs+journal@byte", 64, Precondition::Fresh, workload);
        assert!(done(&plan).host.by_purpose["journal"].write.block > 0);
        let found = cuts(plan, ROOMY, false);
        let first = found.failures.first();
        assert!(
            found.holds() && found.points == 20,
            "{workload}: {first:#?}"
        );
    }
}

#[test]
fn log_too_small_for_a_call_is_rejected() {
    let said = refused(&with_log(Bytes(64 * KIB), "anything:ops=300")).to_string();
    let expected = "takes 377 lines of transactions; 5056 are needed";
    assert!(said.contains(expected), "{said}");
}

#[test]
fn every_file_system_leaves_flushes_to_drives_that_need_them() {
    for host in ["ext4", "bytefs", "bytefs-dual", "pmfs"] {
        let stack = format!("{host}@byte");
        let plan = plan(&stack, 64, Precondition::Fresh, "varmail:files=20,ops=400");
        let run = done(&plan);
        assert!(run.app.unwrap().write_bytes > 0);
        assert_eq!(run.host.flushes, 0, "{host}");
    }
    let run = done(&plan_of("ext4@block", "varmail:files=20,ops=400"));
    assert!(run.host.flushes > 0);
}

/// Gives the drive of `plan` a battery that keeps `kept`.
fn with_battery(mut plan: Plan, kept: &str) -> Plan {
    let set = [format!("battery={kept}")];
    plan.drive = stack::knobs::drive(plan.drive, &set).expect("it is a setting");
    plan
}

/// A force writes out everything that the battery does not keep.
#[test]
fn forced_data_survive_whatever_the_battery_keeps() {
    let stacks = [
        "ext4@byte",
        "f2fs@byte",
        "nova@byte",
        "pmfs@byte",
        "bytefs@byte",
        "bytefs+strict@byte",
        "bytefs+discard@byte",
        "bytefs-dual@byte",
    ];
    for stack in stacks {
        for kept in ["all", "log", "none"] {
            let plan = with_battery(plan_of(stack, "anything:ops=300"), kept);
            let found = cuts(plan, ROOMY, false);
            let first = found.failures.first();
            assert!(found.holds(), "{stack}, {kept}: {first:#?}");
        }
    }
}

/// A drive that ignores flushes loses data unless its battery keeps them.
#[test]
fn lying_drive_of_bytes_is_found_without_its_battery() {
    for (kept, holds) in [("all", true), ("none", false)] {
        let plan = with_battery(plan_of("ext4@byte", "anything:ops=300"), kept);
        assert_eq!(cuts(plan, ROOMY, true).holds(), holds, "{kept}");
    }
}

/// The judge knows both promises of ByteFS: without a sync call a created file may be lost, unless
/// calls wait for their commit.
#[test]
fn bytefs_commits_with_a_sync_call_or_with_each_call() {
    let commits = |stack: &str| {
        let run = uncut(stack, "create:files=100,threads=2", ROOMY);
        run.front.expect("it has a log").commits
    };
    let (lazy, strict) = (commits("bytefs@byte"), commits("bytefs+strict@byte"));
    assert!(lazy * 10 < strict, "{lazy} commits, {strict} if strict");
}
