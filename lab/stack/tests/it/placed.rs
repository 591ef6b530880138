//! Files that rules place, in zones and by hints: under cuts of the power, and beside the
//! file systems that they are compared with.

use crate::{done, plan, refused};
use crash::{Exploration, Points};
use parakeet::rules::RuleSet;
use report::record::{Handle, Run};
use ssd::Precondition;
use stack::Plan;
use stack::crash::{Cuts, explore};
use std::sync::Arc;
use units::{Bytes, MIB};

/// A store that forces its log with each write, and soon has tables.
const STORE: &str = "ycsb-a:records=300,value=400,threads=4,ops=1500,memtable=32k,table=32k,\
                     base=128k,sync=yes";

/// The same without forces, large enough that zones are used again.
const LARGE: &str = "db-bench:benchmarks=fillrandom:overwrite:overwrite,records=40000,value=1000,\
                     threads=4,memtable=2m,table=2m,base=8m";

/// Rules by which everything is placed.
const ALL: &str = "name = \"all\"\n[[stream]]\nname = \"all\"\ngroup = { by = \"file\" }\n\
                   [[rule]]\npath = \"**\"\nstream = \"all\"\n";

fn plan_of(stack: &str, mib: u64, workload: &str) -> Plan {
    let mut plan = plan(stack, mib, Precondition::Fresh, workload);
    plan.drive.controller.power_loss_protection = false;
    plan
}

fn cut(plan: Plan, points: u64, outside: u64, lies: bool) -> Exploration {
    let cuts = Cuts {
        plan,
        points: Points::Some(points),
        outside,
        memory: Bytes(64 * MIB),
        lies,
        skips_fences: false,
        snapshot: false,
    };
    explore(&cuts, &mut |_| ()).unwrap()
}

fn holds(plan: Plan, points: u64) {
    let (stack, workload) = (plan.stack.to_string(), plan.workload.clone());
    let found = cut(plan, points, 0, false);
    let first = found.failures.first();
    assert!(found.holds(), "{stack} {workload}: {first:#?}");
    assert_eq!(found.points, points);
}

#[test]
fn what_a_store_forced_is_there_after_any_cut() {
    for stack in ["shimmer@zns", "zenfs@zns"] {
        holds(plan_of(stack, 256, STORE), 60);
    }
    holds(plan_of("shimmer@fdp", 64, STORE), 20);
}

/// Most of these calls move files to the ordinary file system, at any moment of which the
/// power may go.
#[test]
fn files_that_are_moved_out_of_zones_survive_cuts() {
    let rules = Arc::new(RuleSet::read("all", ALL).unwrap());
    for seed in 1..4 {
        let mut plan = plan_of("shimmer@zns", 256, "anything:ops=300,threads=3,size=256k");
        plan.behaviour.rules = Some(Arc::clone(&rules));
        plan.seed = seed;
        holds(plan, 40);
    }
}

#[test]
fn a_drive_that_does_not_flush_is_found_out() {
    let found = cut(plan_of("shimmer@zns", 256, STORE), 40, 0, true);
    assert!(found.lost > 0, "{found:?}");
}

#[test]
fn others_find_the_ordinary_file_system_sound() {
    if !judges::has("e2fsck") {
        return;
    }
    let found = cut(plan_of("shimmer@zns", 256, STORE), 6, 1, false);
    let first = found.failures.first();
    assert!(found.holds() && found.outside >= 6, "{first:#?}");
}

/// Bytes that the host moved to make room, and zones that were emptied for it.
fn cleaned(run: &Run) -> (u64, u64) {
    let log = run.file_system.as_ref().and_then(|fs| fs.log.as_ref());
    let log = log.expect("it is one that cleans");
    let all = [log.foreground, log.background, log.metadata];
    (
        all.iter().map(|part| part.moved_bytes).sum(),
        all.iter().map(|part| part.calls).sum(),
    )
}

#[test]
fn zones_by_rules_are_used_again_and_little_is_moved() {
    let mut plan = plan_of("shimmer@zns", 320, LARGE);
    plan.page_cache.memory = Bytes(16 * MIB);
    let placed = done(&plan);
    assert!(placed.errors.is_empty(), "{:?}", placed.errors);
    let (moved, emptied) = cleaned(&placed);
    assert!(emptied > 0, "zones were used again");
    let written = placed.app.as_ref().expect("of programs").write_bytes;
    assert!(moved < written / 10, "{moved} of {written}");
    // Padding to blocks, the log of the core and ext4's journal.
    let host = placed.host.write_bytes;
    assert!(host < written * 11 / 10, "{host} for {written}");
}

/// Each is in a folder of its own, where rules find its files as anywhere.
#[test]
fn programs_beside_each_other_are_placed_and_told_apart() {
    let run_of = |workload: &str| {
        let run = done(&plan_of("shimmer@zns", 320, workload));
        assert!(run.errors.is_empty(), "{:?}", run.errors);
        run
    };
    let (db, log) = (format!("db={STORE}"), "log=append:size=1,bs=64k,ops=200");
    let (alone, unplaced) = (run_of(&db), run_of(log));
    let both = run_of(&format!("{db} & {log}"));
    let written = |run: &Run| run.zones.unwrap().written_bytes;
    assert!(written(&alone) > 3 * written(&unplaced), "{alone:#?}");
    assert!(written(&both) * 10 > written(&alone) * 9);
    let operations = |run: &Run| run.operations.keys().cloned().collect::<Vec<_>>();
    assert_eq!(operations(&both), ["db read", "db update"]);
    assert_eq!(operations(&alone), operations(&both));
    let (own, beside) = (&unplaced.latency_ns.by_op, &both.latency_ns.by_op);
    assert_eq!(own["log pwrite"].count, beside["log pwrite"].count);
    // One processor and one drive serve both.
    let mean = |run: &Run| run.operations["db update"].mean;
    assert!(
        mean(&both) > mean(&alone),
        "{} {}",
        mean(&both),
        mean(&alone)
    );
}

/// What no rule names goes to conventional zones, which are as large as they are.
#[test]
fn a_full_ordinary_part_says_which_limit_it_is() {
    let workload = "append:size=1,bs=64k,ops=4000,threads=2";
    let mut plan = plan_of("shimmer@zns", 192, workload);
    plan.page_cache.memory = Bytes(16 * MIB);
    plan.page_cache.dirty_background_ratio = 2;
    plan.page_cache.dirty_ratio = 5;
    let why = refused(&plan).to_string();
    assert!(why.contains("ENOSPC") && why.contains("blocks:"), "{why}");
}

/// Rules by which everything lives shortly, as no program of a generator says.
const SHORT: &str = "name = \"short\"\n[[stream]]\nname = \"all\"\nlife = \"short\"\n\
                     [[rule]]\npath = \"**\"\nstream = \"all\"\n";

/// Whoever writes by its own lifetimes on a drive with handles writes by those of the rules.
#[test]
fn rules_say_how_long_files_live_on_any_file_system() {
    let workload = "append:size=1,bs=64k,ops=400,threads=2";
    for host in ["ext4", "btrfs", "f2fs"] {
        let handles = |switch: &str| {
            let mut plan = plan_of(&format!("{host}{switch}@fdp"), 192, workload);
            plan.behaviour.rules = Some(Arc::new(RuleSet::read("short", SHORT).unwrap()));
            let run = done(&plan);
            assert!(run.errors.is_empty(), "{host} {:?}", run.errors);
            run.handles
        };
        let (said, ruled) = (handles(""), handles("+hints"));
        let most = |handles: &[Handle]| {
            let most = handles.iter().enumerate().max_by_key(|(_, h)| h.host_bytes);
            most.map(|(at, handle)| (at, handle.host_bytes))
        };
        let ((before, _), (after, bytes)) = most(&said).zip(most(&ruled)).unwrap();
        assert_ne!(before, after, "{host}: {said:?} {ruled:?}");
        assert!(bytes > 20 * MIB, "{host}: {ruled:?}");
    }
}

/// Zones are a drive of another kind: the logs of Persimmon are those that its hints say.
#[test]
fn a_file_system_whose_files_get_hints_survives_cuts() {
    for (stack, mib) in [("f2fs+hints@fdp", 128), ("persimmon+hints@zns", 512)] {
        holds(plan_of(stack, mib, STORE), 12);
    }
}
