//! Mutants: file systems with one deliberate defect each, which the judge of power cuts must find.
//!
//! The table in the book (`mutants.md`) lists every mutant with the promise that it breaks, its
//! stack, the workload that finds it and the cuts that this took. A row is tried with the seeds 1,
//! 2, 3 and so on until the judge finds the mutant, so no seed is chosen for a mutant.

use crate::plan;
use crash::{Exploration, Fault, Points, Progress};
use ssd::Precondition;
use stack::crash::{Cuts, explore_while};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use units::{Bytes, MIB};
use vfs::mutant;

const TABLE: &str = include_str!("../../../../docs/book/src/mutants.md");
/// Cuts within which a mutant must be found.
const MOST: u64 = 5_000;
/// Cuts of one run of a workload; of a corpus every event is cut.
const POINTS: u64 = 100;
/// Switch of a stack in the table whose drive has a volatile cache.
const REORDER: &str = " --reorder";

/// A stack, perhaps with the switch for a volatile cache, under a workload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Trial {
    stack: &'static str,
    workload: &'static str,
}

/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    mutant: &'static str,
    promise: &'static str,
    trial: Trial,
    cuts: u64,
}

fn rows(family: &str) -> Vec<Row> {
    let code = |cell: &'static str| cell.trim().trim_matches('`');
    let lines = TABLE.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &'static str| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(code).collect();
        let (stack, workload) = (cells[2], cells[3]);
        Row {
            mutant: cells[0],
            promise: cells[1],
            trial: Trial { stack, workload },
            cuts: cells[4].parse().expect("a number of cuts"),
        }
    };
    let rows = lines.map(row);
    rows.filter(|row| row.mutant.starts_with(family)).collect()
}

fn cuts_of(trial: Trial, seed: u64) -> Cuts {
    let stack = trial.stack.trim_end_matches(REORDER);
    let mib = if stack == "persimmon@zns" { 128 } else { 64 };
    let mut plan = plan(stack, mib, Precondition::Fresh, trial.workload);
    plan.drive.controller.power_loss_protection = plan.drive.front.is_some();
    plan.seed = seed;
    Cuts {
        plan,
        points: match trial.workload.starts_with("ace:") {
            true => Points::All,
            false => Points::Some(POINTS),
        },
        outside: 0,
        memory: Bytes(64 * MIB),
        lies: false,
        reorders: trial.stack.ends_with(REORDER),
        skips_fences: false,
        snapshot: false,
        rest: None,
    }
}

/// Explores until the first failure or `most` cuts.
fn explore(trial: Trial, seed: u64, most: u64) -> Exploration {
    let mut until = |heard: Progress| match heard.failures > 0 || heard.points >= most {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let found = explore_while(&cuts_of(trial, seed), &mut until);
    found.unwrap_or_else(|error| panic!("{} {}: {error}", trial.stack, trial.workload))
}

/// Judged cuts of `trial` until the first finding, and the finding; `None` if `most` cuts have
/// none. The seeds are 1, 2, 3 and so on; a corpus runs once.
fn hunt(trial: Trial, most: u64) -> Option<(u64, Fault, String)> {
    let mut cuts = 0;
    for seed in 1.. {
        let found = explore(trial, seed, most - cuts);
        cuts += found.points + found.recoveries;
        if let Some(first) = found.failures.first() {
            return Some((cuts, first.fault, first.what.clone()));
        }
        if cuts >= most || trial.workload.starts_with("ace:") {
            break;
        }
    }
    None
}

fn are_found(family: &str) {
    let mut missed = Vec::new();
    for row in rows(family) {
        match mutant::with(row.mutant, || hunt(row.trial, MOST)) {
            Some((cuts, fault, what)) if cuts <= MOST => {
                println!("{}: {cuts} cuts, {fault}: {what}", row.mutant);
            }
            _ => missed.push(row.mutant),
        }
    }
    assert_eq!(missed, [""; 0], "the judge misses these mutants");
}

/// Cuts the file systems without defects as often as the mutants of a family, with the same
/// workloads and seeds.
fn are_sound(family: &str) {
    let mut trials = BTreeMap::new();
    for row in rows(family) {
        let most = trials.entry(row.trial).or_insert(0);
        *most = row.cuts.max(*most);
    }
    for (Trial { stack, workload }, most) in trials {
        let found = hunt(Trial { stack, workload }, most);
        assert_eq!(found, None, "{stack} {workload}");
    }
}

#[test]
fn table_has_forty_mutants_and_three_of_each_promise() {
    let rows = rows("");
    let mut promises = BTreeMap::new();
    for row in &rows {
        *promises.entry(row.promise).or_insert(0) += 1;
        assert!(row.cuts <= MOST, "{}", row.mutant);
    }
    assert!(rows.len() >= 40, "{}", rows.len());
    assert!(promises.values().all(|&count| count >= 3), "{promises:?}");
}

macro_rules! families {
    ($($found:ident $family:literal;)*) => {$(
        #[test]
        fn $found() {
            are_found($family);
            are_sound($family);
        }
    )*};
}

families! {
    ext4_mutants_are_found "ext4-";
    f2fs_mutants_are_found "f2fs-";
    persimmon_mutants_are_found "persimmon-";
    btrfs_mutants_are_found "btrfs-";
    hyfim_mutants_are_found "hyfim-";
    nova_mutants_are_found "nova-";
    pmfs_mutants_are_found "pmfs-";
    bytefs_mutants_are_found "bytefs-";
}
