//! Sentences on placement: that the host named no handle, or why handles saved nothing.
//!
//! Invariant: a run on a drive with handles gets a sentence if its numbers equal those of a drive
//! without, or if its page programs do not fall below theirs.

use crate::attribution::{names, peers};
use crate::human;
use crate::record::{Placement, Run};
use std::collections::BTreeMap;

/// A saving below this share of the page programs counts as none: tables round it away.
const LEAST_SAVING: f64 = 0.005;

/// The sentences about the placement of `runs`, each once.
#[must_use]
pub fn placement(runs: &[Run]) -> Vec<String> {
    let all: Vec<&Run> = runs.iter().collect();
    let named = || all.iter().copied().zip(names(&all));
    let mut unnamed: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (run, name) in named() {
        if let Some(placement) = run.placement.as_ref().filter(|p| !p.separates())
            && run.host.write_bytes > 0
        {
            let stacks = unnamed.entry(&placement.policy).or_default();
            stacks.push(human::name(&name, 40));
        }
    }
    let none = unnamed.into_iter().map(|(policy, stacks)| {
        format!(
            "On {} the host used only one placement handle, so that garbage collection works as on \
             a drive without handles: {}.",
            stacks.join(", "),
            remedy(policy)
        )
    });
    let vain = named().filter_map(|(run, name)| no_saving(run, &name, &all));
    none.chain(vain).collect()
}

/// The advice to a user whose run, under `policy`, named only one handle.
fn remedy(policy: &str) -> &'static str {
    match policy {
        "own" | "none" => {
            "the workload names no handle; add placement=origin (a handle for each process) or \
             placement=auto (by access pattern) to its parameters"
        }
        "origin" => {
            "one process issues all writes; add placement=auto (by access pattern) to the \
             parameters of the workload"
        }
        "auto" => {
            "all addresses are overwritten at similar rates; use placement=origin for a handle for \
             each process"
        }
        "hints" => {
            "no file has a lifetime hint (fcntl's F_SET_RW_HINT); run a program that sets such \
             hints, or shimmer@fdp, which chooses handles by --rules"
        }
        "rules" => "all files match the same rule; pass other rules with --rules",
        _ => "the placement policy chose one handle for all writes",
    }
}

/// The sentence for a run with several handles that programs no fewer pages than its peer on a
/// drive without handles.
fn no_saving(run: &Run, name: &str, all: &[&Run]) -> Option<String> {
    run.placement.as_ref().filter(|p| p.separates())?;
    let host = run.stack.split_once('@')?.0;
    let alike = |other: &&Run| {
        other.placement.is_none() && other.stack.split_once('@').is_some_and(|s| s.0 == host)
    };
    let base = peers(run, all)
        .into_iter()
        .filter(|other| other.drive.interface == "block")
        .find(alike)?;
    // Runs until steady may have repeated the workload a different number of times.
    let per_op = |run: &Run| run.nand.program_pages as f64 / run.ops.max(1) as f64;
    let (with, without) = (per_op(run), per_op(base));
    if with < without * (1.0 - LEAST_SAVING) {
        return None;
    }
    let base_name = human::name(&base.stack, 40);
    Some(format!(
        "{} programs no fewer pages than {base_name} although it uses {} handles: {}.",
        human::name(name, 40),
        run.placement.as_ref().map_or(0, |p: &Placement| p.used),
        reason(run, base)
    ))
}

/// The reason why handles saved nothing, from the bytes moved and those programmed besides.
fn reason(run: &Run, base: &Run) -> String {
    let moved = |run: &Run| run.nand.by_cause.get("gc").copied().unwrap_or(0);
    let (with, without) = (moved(run), moved(base));
    if with == 0 && without == 0 {
        return "garbage collection moved no data on either drive, so that handles have nothing to \
            save"
            .to_owned();
    }
    let share = |run: &Run| run.gc.mean_valid.map_or("–".to_owned(), human::share);
    if with < without {
        let grown = run.nand.by_cause.iter().max_by_key(|(cause, bytes)| {
            let before = base.nand.by_cause.get(*cause).copied().unwrap_or(0);
            bytes.saturating_sub(before)
        });
        let cause = grown.map_or("host", |(cause, _)| cause.as_str());
        return format!(
            "garbage collection moves {} less, but the cause {} grows by at least as much",
            human::bytes((without - with) as f64),
            human::name(cause, 24)
        );
    }
    format!(
        "data that share a handle are not invalidated together: superblocks were {} valid when \
         reclaimed, and {} without handles",
        share(run),
        share(base)
    )
}
