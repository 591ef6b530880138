//! Parallel execution of many runs.
//!
//! Invariant: results are in the order of the plans and, except for the wall time, the same bytes
//! for any number of threads: a run is built, run and dropped on one thread, and shares nothing
//! with others.

use crate::error::StackError;
use crate::plan::{Plan, Progress};
use crate::pool;
use crate::run::run;
use report::record::Run;

type Outcome = Result<Run, StackError>;

/// Runs all `plans` on up to `threads` threads. `clock` returns wall time in seconds since any
/// fixed time. Each run calls `progress` with the index of its plan.
pub fn sweep(
    plans: &[Plan],
    threads: usize,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &(dyn Fn(usize, Progress) + Sync),
) -> Vec<Outcome> {
    let work = |index: usize| timed(&plans[index], clock, &mut |p| progress(index, p));
    pool::each(plans.len(), threads, &work)
}

fn timed(
    plan: &Plan,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &mut dyn FnMut(Progress),
) -> Outcome {
    let begin = clock();
    progress(Progress::default());
    let mut result = run(plan, progress)?;
    result.wall_time_s = clock() - begin;
    Ok(result)
}
