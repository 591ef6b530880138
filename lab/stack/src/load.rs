//! Two loads of one workload: the peak of each stack, and an even load for all stacks of a
//! comparison, at which their latencies can be compared.
//!
//! Invariants: the even load is a function of the peak runs, so equal comparisons have equal loads. A
//! workload that pauses by itself has no other load.

use crate::error::StackError;
use crate::plan::Plan;
use report::record::{AtLoad, Run};
use units::Ns;
use workload::files::FileWorkload;
use workload::{Pacing, Workload, shipped};

/// Share of the lowest peak of all stacks that an even rate is. Tails of the slowest stack at
/// higher shares are those of a queue that seldom empties.
const SHARE: f64 = 0.5;
/// The parameter of a recording that leaves out its pauses.
const PEAK: &str = "think=no";

/// `plan` without pauses between its calls.
///
/// # Errors
/// If the workload cannot be read.
pub fn peak(plan: &Plan) -> Result<Plan, StackError> {
    let mut peak = plan.clone();
    if plan.stack.host != "raw" && FileWorkload::parse(&plan.workload)?.keeps_pauses() {
        peak.workload = shipped::with(&plan.workload, PEAK);
    }
    Ok(peak)
}

/// A load for all stacks of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Even {
    /// The recorded pauses between the calls of each thread.
    Pauses,
    /// Requests per second at random times, half of what the slowest stack completes.
    Rate(u64),
}

/// The even load for the workload of `plan`, one of the plans that [`peak`] returns, whose runs are
/// `peaks`. `None` if the workload has no other load than its peak, or if every run had failed
/// calls.
///
/// # Errors
/// If the workload cannot be read.
pub fn even<'a>(
    plan: &Plan,
    peaks: impl IntoIterator<Item = &'a Run>,
) -> Result<Option<Even>, StackError> {
    if plan.stack.host != "raw" {
        return Ok(without_peak(&plan.workload).map(|_| Even::Pauses));
    }
    let workload = Workload::parse(&plan.workload)?;
    let is_peak = matches!(workload.pacing, Pacing::Closed { think, .. } if think == Ns::ZERO);
    if !is_peak || !workload.takes_rate() {
        return Ok(None);
    }
    let whole = peaks
        .into_iter()
        .filter(|run| run.errors.is_empty() && run.ops > 0);
    let rates = whole.map(|run| (run.ops_per_s * SHARE) as u64);
    let rate = rates.min().map_or(0, rounded);
    Ok((rate > 0).then_some(Even::Rate(rate)))
}

/// `workload` up to the parameter that [`peak`] has added; `None` if it has not.
fn without_peak(workload: &str) -> Option<&str> {
    let rest = workload.strip_suffix(PEAK)?;
    rest.ends_with([':', ',']).then_some(rest)
}

/// `number` with its first two digits only.
const fn rounded(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 100 {
        unit *= 10;
    }
    number / unit * unit
}

/// `plan`, which [`peak`] returned, at the load `even`.
#[must_use]
pub fn at(plan: &Plan, even: &Even) -> Plan {
    let peak = &plan.workload;
    let workload = match even {
        Even::Pauses => format!("{}think=yes", without_peak(peak).unwrap_or(peak)),
        Even::Rate(rate) => shipped::with(peak, &format!("rate={rate},arrivals=poisson")),
    };
    Plan {
        workload,
        sample: None,
        ..plan.clone()
    }
}

/// Keeps the part of a run at the load `even` that stands beside the peak run `peak` of the stack
/// `name`. A failure becomes a note of the peak run.
pub fn keep(peak: &mut Run, name: &str, run: Result<Run, String>, even: &Even) {
    let pace = match even {
        Even::Pauses => "the recorded pauses",
        Even::Rate(_) => "Poisson arrivals",
    };
    let run = match run {
        Ok(run) => run,
        Err(reason) => {
            peak.notes.push(format!("{name} with {pace}: {reason}"));
            return;
        }
    };
    for (reason, count) in &run.errors {
        let failed = format!("{name} with {pace}: {count} operations failed: {reason}");
        peak.notes.push(failed);
    }
    peak.at_load = Some(AtLoad {
        pace: pace.to_owned(),
        ops_per_s: run.ops_per_s,
        latency_ns: run.latency_ns,
        errors: run.errors,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_parameter_is_told_from_the_end_of_a_path() {
        assert_eq!(without_peak("a.flt:ops=3,think=no"), Some("a.flt:ops=3,"));
        assert_eq!(without_peak("a.flt:think=no"), Some("a.flt:"));
        assert_eq!(without_peak("rethink=no"), None);
        assert_eq!(without_peak("a.flt:think=no,ops=3"), None);
    }

    #[test]
    fn load_is_rounded_down_to_two_digits() {
        assert_eq!(
            [0, 9, 99, 101, 129_999].map(rounded),
            [0, 9, 99, 100, 120_000]
        );
    }
}
