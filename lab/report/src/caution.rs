//! Cautions about a run whose numbers cannot answer the question that they seem to answer: it
//! ended before garbage collection was steady, the drive was too large to collect anything, or
//! too small for the data.
//!
//! Invariant: each caution is one sentence that says what to run instead, with a size where the
//! record determines one.

use crate::human;
use crate::record::Run;
use std::collections::BTreeMap;

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;
/// Writes after which a run can be steady: one capacity to forget the drive's past, and the two
/// windows that have to agree.
const CAPACITIES: u64 = 3;
/// Windows after which a run that repeats its workload until it is steady gives up. Aged drives
/// need two or three, and greedy collection of a full drive about ten.
pub const MOST_WINDOWS: u32 = 32;

/// The cautions about `run`: at most one of each kind.
#[must_use]
pub fn of(run: &Run) -> Vec<String> {
    [unsettled(run), not_steady(run), too_large(run), failed(run)]
        .into_iter()
        .flatten()
        .collect()
}

/// Cautions of all `runs`, in the order of the runs; beside each the runs that have it.
#[must_use]
pub fn grouped<'a>(runs: &[&'a Run]) -> Vec<(&'a str, Vec<&'a Run>)> {
    let mut order: Vec<&str> = Vec::new();
    let mut about: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in runs {
        for caution in &run.cautions {
            let runs = about.entry(caution).or_default();
            if runs.is_empty() {
                order.push(caution);
            }
            runs.push(run);
        }
    }
    let with = |caution| (caution, about.remove(caution).unwrap_or_default());
    order.into_iter().map(with).collect()
}

/// Cautions of `runs` as lines: the runs, where there are several, then the sentence.
#[must_use]
pub fn lines(runs: &[&Run]) -> Vec<String> {
    let title = |run: &&Run| {
        let name = human::name(&run.stack, 40);
        format!("{name} ({})", human::name(&run.precondition, 16))
    };
    let line = |(caution, about): (&str, Vec<&Run>)| match about.len() == runs.len() {
        true => caution.to_owned(),
        false => {
            let titles: Vec<String> = about.iter().map(title).collect();
            format!("{}: {caution}", titles.join(", "))
        }
    };
    grouped(runs).into_iter().map(line).collect()
}

fn not_steady(run: &Run) -> Option<String> {
    if run.steady != Some(false) {
        return None;
    }
    let capacity = run.drive.capacity_bytes;
    let window = format!("{} (the drive's capacity)", human::bytes(capacity as f64));
    let (label, found) = match run.windows {
        0 => (
            "too short to tell",
            format!("The run wrote less than one window of {window}."),
        ),
        1 => (
            "too short to tell",
            format!("The run wrote only one window of {window}, and two have to agree."),
        ),
        _ => (
            "not steady",
            format!(
                "WAF is steady once its values over two successive windows differ by at most 2 % and \
                 blocks were erased in both; a window is {window} of writes."
            ),
        ),
    };
    let instead = match run.app {
        // Twice the windows of this run, so that the advice is never met already.
        Some(_) => format!(
            "For final values, use a workload that writes more ({}, for example) or a smaller drive \
             (--size).",
            human::bytes((CAPACITIES.max(2 * run.windows) * capacity) as f64)
        ),
        None if run.windows >= MOST_WINDOWS.into() => {
            format!(
                "After {} windows, the workload may have no steady state; compare runs that write \
                 the same.",
                run.windows
            )
        }
        None => "Repeat the run with --until steady.".to_owned(),
    };
    Some(format!(
        "{label} (*): WAF, data moved by GC, TBW, drive life and tail latency are not final. {found} {instead}"
    ))
}

fn too_large(run: &Run) -> Option<String> {
    if run.steady.is_none() || run.gc.lines > 0 {
        return None;
    }
    let (raw, capacity) = (run.drive.raw_bytes, run.drive.capacity_bytes);
    // Bytes that the drive accepts before it has to collect garbage.
    let (needed, aged) = match run.precondition.as_str() {
        "fresh" => (raw, ", or with --precondition aged"),
        "full" => (
            raw.saturating_sub(capacity),
            ", or with --precondition aged",
        ),
        _ => (capacity, ""),
    };
    Some(format!(
        "garbage collection never ran, so that WAF and life do not include its cost: the drive is \
         too large for the {} written to it; run a workload that writes more than {}{aged}",
        human::bytes(run.host.write_bytes as f64),
        human::bytes(needed as f64)
    ))
}

/// A use of the file system before the run that ended before its steady state.
fn unsettled(run: &Run) -> Option<String> {
    let used = run.used.filter(|used| !used.steady)?;
    let windows = used.windows;
    Some(format!(
        "write amplification of the used file system was not steady after {windows} windows, each of \
         the drive's capacity in bytes of programs: the last one had {}; compare this stack with \
         care",
        human::factor(used.waf)
    ))
}

/// The caution about failed calls: how many, and the size of the drive that would do if they found no
/// space. `None` if no call failed.
#[must_use]
pub fn failed(run: &Run) -> Option<String> {
    let failed: u64 = run.errors.values().sum();
    let full = |(reason, _): &(&String, &u64)| reason.ends_with("ENOSPC");
    let without_room: u64 = run.errors.iter().filter(full).map(|(_, n)| n).sum();
    if failed == 0 {
        return None;
    }
    let asked = run.ops + failed;
    let (failed, of) = (human::count(failed as f64), human::count(asked as f64));
    let fault = format!(
        "{failed} of {of} calls failed, so that this run did less work than requested and ratios \
         to it are meaningless"
    );
    if without_room == 0 {
        return Some(fault);
    }
    // Calls that found no room would have needed as much space each as those that succeeded.
    let share = asked as f64 / run.ops.max(1) as f64;
    let needed = (run.drive.capacity_bytes as f64 * share / MIB as f64).ceil() as u64;
    Some(format!(
        "{fault}: the drive is too small for the data; use one of about {needed} MiB (--size \
         {needed}MiB)"
    ))
}
