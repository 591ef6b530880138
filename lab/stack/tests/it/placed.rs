//! Files placed by rules, in zones and by hints: under power cuts, and compared with other file
//! systems.

use crate::{done, plan, refused};
use crash::{Exploration, Points};
use parakeet::rules::RuleSet;
use report::record::{Handle, Run};
use ssd::Precondition;
use stack::Plan;
use stack::crash::{Cuts, explore};
use std::sync::Arc;
use units::{Bytes, MIB};

/// A store that syncs its log with each write, and soon has tables.
const STORE: &str = "ycsb-a:records=300,value=400,threads=4,ops=1500,memtable=32k,table=32k,\
                     base=128k,sync=yes";

/// A larger store without syncs, large enough that zones are reused.
const LARGE: &str = "db-bench:benchmarks=fillrandom:overwrite:overwrite,records=40000,value=1000,\
                     threads=4,memtable=2m,table=2m,base=8m";

/// Rules that place every file.
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
        reorders: false,
        skips_fences: false,
        snapshot: false,
        rest: None,
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
fn synced_data_of_a_store_survives_any_cut() {
    for stack in ["shimmer@zns", "zenfs@zns"] {
        holds(plan_of(stack, 256, STORE), 60);
    }
    holds(plan_of("shimmer@fdp", 64, STORE), 20);
}

/// Most of these calls move files to the ordinary file system, and the power may fail at any moment
/// of that.
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
fn outside_checker_finds_the_ordinary_file_system_sound() {
    if !judges::has("e2fsck") {
        return;
    }
    let found = cut(plan_of("shimmer@zns", 256, STORE), 6, 1, false);
    let first = found.failures.first();
    assert!(found.holds() && found.outside >= 6, "{first:#?}");
}

/// Bytes that the host moved by cleaning, and number of zones cleaned.
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
fn zones_placed_by_rules_are_reused_with_few_moves() {
    let mut plan = plan_of("shimmer@zns", 320, LARGE);
    plan.page_cache.memory = Bytes(16 * MIB);
    let placed = done(&plan);
    assert!(placed.errors.is_empty(), "{:?}", placed.errors);
    let (moved, emptied) = cleaned(&placed);
    assert!(emptied > 0, "zones were used again");
    let written = placed.app.as_ref().expect("of programs").write_bytes;
    assert!(moved < written / 10, "{moved} of {written}");
    // Overhead: padding to blocks, the log of the core, and ext4's journal.
    let host = placed.host.write_bytes;
    assert!(host < written * 11 / 10, "{host} for {written}");
}

/// Each program has its own folder, in which rules find its files as elsewhere.
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
    // One processor and one drive serve both programs.
    let mean = |run: &Run| run.operations["db update"].mean;
    assert!(
        mean(&both) > mean(&alone),
        "{} {}",
        mean(&both),
        mean(&alone)
    );
}

/// Files without a rule go to the conventional zones, whose space is limited.
#[test]
fn full_conventional_part_names_its_limit() {
    let workload = "append:size=1,bs=64k,ops=4000,threads=2";
    let mut plan = plan_of("shimmer@zns", 192, workload);
    plan.page_cache.memory = Bytes(16 * MIB);
    plan.page_cache.dirty_background_ratio = 2;
    plan.page_cache.dirty_ratio = 5;
    let why = refused(&plan).to_string();
    assert!(why.contains("ENOSPC") && why.contains("blocks:"), "{why}");
}

/// Rules that give every file a short lifetime, unlike the programs of all generators.
const SHORT: &str = "name = \"short\"\n[[stream]]\nname = \"all\"\nlife = \"short\"\n\
                     [[rule]]\npath = \"**\"\nstream = \"all\"\n";

/// A file system that places by lifetime hints on a drive with handles uses those of the rules.
#[test]
fn rules_set_file_lifetimes_on_any_file_system() {
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

/// On zones, the logs of Persimmon follow the hints.
#[test]
fn a_file_system_whose_files_get_hints_survives_cuts() {
    for (stack, mib) in [("f2fs+hints@fdp", 128), ("persimmon+hints@zns", 512)] {
        holds(plan_of(stack, mib, STORE), 12);
    }
}
