//! Two loads of one workload: the peak of each stack, and an even load for all stacks of a
//! comparison, at which their latencies can be compared.
//!
//! Invariant: the even load is a function of the peak runs, so equal comparisons have equal loads.

use crate::error::StackError;
use crate::plan::Plan;
use report::record::{AtLoad, Run};
use workload::files::FileWorkload;
use workload::{Workload, shipped};

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
        return Ok(plan.workload.ends_with(PEAK).then_some(Even::Pauses));
    }
    let whole = peaks
        .into_iter()
        .filter(|run| run.errors.is_empty() && run.ops > 0);
    let rates = whole.map(|run| (run.ops_per_s * SHARE) as u64);
    let rate = rates.min().map_or(0, rounded);
    let takes_rate = Workload::parse(&plan.workload)?.takes_rate();
    Ok((takes_rate && rate > 0).then_some(Even::Rate(rate)))
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
        Even::Pauses => format!("{}think=yes", peak.strip_suffix(PEAK).unwrap_or(peak)),
        Even::Rate(rate) => shipped::with(peak, &format!("rate={rate},arrivals=poisson")),
    };
    Plan {
        workload,
        sample: None,
        ..plan.clone()
    }
}

/// The part of `run`, made at the load `even`, that is kept beside a peak run.
#[must_use]
pub fn kept(run: &Run, even: &Even) -> AtLoad {
    AtLoad {
        pace: match even {
            Even::Pauses => "the recorded pauses".to_owned(),
            Even::Rate(_) => "Poisson arrivals".to_owned(),
        },
        ops_per_s: run.ops_per_s,
        latency_ns: run.latency_ns.clone(),
        errors: run.errors.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_rounded_down_to_two_digits() {
        assert_eq!(
            [0, 9, 99, 101, 129_999].map(rounded),
            [0, 9, 99, 100, 120_000]
        );
    }
}
