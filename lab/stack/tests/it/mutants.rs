//! Mutants: file systems with one deliberate defect each, which the judge of power cuts must find.
//!
//! The table in the book (`mutants.md`) lists every mutant with the promise that it breaks, its
//! stack and the workload that finds it. The seeds were chosen before the mutants were written.

use crate::plan;
use crash::{Exploration, Fault, Points, Progress};
use ssd::Precondition;
use stack::crash::{Cuts, explore_while};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use units::{Bytes, MIB};
use vfs::mutant;

const TABLE: &str = include_str!("../../../../docs/book/src/mutants.md");
/// Seeds of workloads and cuts.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
/// Cuts within which a mutant must be found.
const MOST: u64 = 5_000;
/// Cuts of each run of the control, which has no defect.
const FEW: u64 = 5;
/// Cuts of one run of a workload; of a corpus every event is cut.
const POINTS: u64 = 100;

/// Workloads that the survey tries on every mutant.
const WORKLOADS: [&str; 5] = [
    "anything:ops=300",
    "anything:ops=900,threads=8,size=256k",
    "varmail:files=20,threads=2,ops=60",
    "ace:seq=1",
    "ace:seq=2,every=41",
];

/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    mutant: &'static str,
    promise: &'static str,
    stack: &'static str,
    workload: &'static str,
}

fn rows() -> Vec<Row> {
    let code = |cell: &'static str| cell.trim().trim_matches('`');
    let lines = TABLE.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &'static str| {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").map(code).collect();
        Row {
            mutant: cells[0],
            promise: cells[1],
            stack: cells[2],
            workload: cells[3],
        }
    };
    lines.map(row).collect()
}

fn cuts_of(stack: &str, workload: &str, seed: u64) -> Cuts {
    let mib = match stack {
        "persimmon@zns" => 128,
        "f2fs@zns" => 512,
        _ => 64,
    };
    let mut plan = plan(stack, mib, Precondition::Fresh, workload);
    plan.drive.controller.power_loss_protection = plan.drive.front.is_some();
    plan.seed = seed;
    Cuts {
        plan,
        points: match workload.starts_with("ace:") {
            true => Points::All,
            false => Points::Some(POINTS),
        },
        outside: 0,
        memory: Bytes(64 * MIB),
        lies: false,
        skips_fences: false,
        snapshot: false,
    }
}

/// Explores until the first failure or `most` cuts.
fn explore(stack: &str, workload: &str, seed: u64, most: u64) -> Exploration {
    let mut until = |heard: Progress| match heard.failures > 0 || heard.points >= most {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    let found = explore_while(&cuts_of(stack, workload, seed), &mut until);
    found.unwrap_or_else(|error| panic!("{stack} {workload}: {error}"))
}

/// Judged cuts until the judge finds `mutant`, and its finding; `None` if `MOST` cuts do not.
fn hunt(row: Row, workload: &str) -> Option<(u64, Fault, String)> {
    mutant::with(row.mutant, || {
        let mut cuts = 0;
        for seed in SEEDS {
            let found = explore(row.stack, workload, seed, MOST - cuts);
            cuts += found.points + found.recoveries;
            if let Some(first) = found.failures.first() {
                return (cuts <= MOST).then(|| (cuts, first.fault, first.what.clone()));
            }
            if cuts >= MOST {
                break;
            }
        }
        None
    })
}

fn are_found(family: &str) {
    let rows = rows()
        .into_iter()
        .filter(|row| row.mutant.starts_with(family));
    let mut missed = Vec::new();
    for row in rows {
        match hunt(row, row.workload) {
            Some((cuts, fault, what)) => println!("{}: {cuts} cuts, {fault}: {what}", row.mutant),
            None => missed.push(row.mutant),
        }
    }
    assert_eq!(missed, [""; 0], "the judge misses these mutants");
}

/// Cuts the file systems without defects at up to `most` events of each workload of a family.
fn are_sound(family: &str, most: u64) {
    let rows = rows().into_iter();
    let rows = rows.filter(|row| row.mutant.starts_with(family));
    let pairs: BTreeSet<_> = rows.map(|row| (row.stack, row.workload)).collect();
    for (stack, workload) in pairs {
        for seed in SEEDS {
            let found = explore(stack, workload, seed, most);
            let first = found.failures.first();
            assert!(found.holds(), "{stack} {workload} seed {seed}: {first:?}");
        }
    }
}

/// Prints the table of a family: cuts until found with each workload, and the first finding.
fn survey(family: &str) {
    for row in rows()
        .into_iter()
        .filter(|row| row.mutant.starts_with(family))
    {
        let each = WORKLOADS.map(|workload| match hunt(row, workload) {
            Some((cuts, fault, what)) => format!("  {cuts} {workload} {fault}: {what}"),
            None => format!("  - {workload}"),
        });
        println!(
            "{} ({}) {}\n{}",
            row.mutant,
            row.promise,
            row.stack,
            each.join("\n")
        );
    }
}

macro_rules! families {
    ($($found:ident $survey:ident $family:literal;)*) => {$(
        #[test]
        fn $found() {
            are_found($family);
            are_sound($family, FEW);
        }

        #[test]
        #[ignore = "takes minutes: prints how many cuts each workload needs"]
        fn $survey() {
            survey($family);
            are_sound($family, MOST);
        }
    )*};
}

families! {
    ext4_mutants_are_found survey_of_ext4 "ext4-";
    f2fs_mutants_are_found survey_of_f2fs "f2fs-";
    persimmon_mutants_are_found survey_of_persimmon "persimmon-";
    btrfs_mutants_are_found survey_of_btrfs "btrfs-";
    hyfim_mutants_are_found survey_of_hyfim "hyfim-";
    nova_mutants_are_found survey_of_nova "nova-";
    pmfs_mutants_are_found survey_of_pmfs "pmfs-";
    bytefs_mutants_are_found survey_of_bytefs "bytefs-";
}
