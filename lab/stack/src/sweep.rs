//! Parallel execution of many runs.
//!
//! Invariant: results are in the order of the plans and, except for the wall time, the same bytes
//! for any number of threads: a run is built, run and dropped on one thread, and shares nothing
//! with others.

use crate::error::StackError;
use crate::plan::{Plan, Progress};
use crate::pool;
use crate::run::run_from;
use crate::used::{Rest, rest};
use report::record::Run;
use std::ops::ControlFlow;

type Outcome = Result<Run, StackError>;

/// Runs all `plans` on up to `threads` threads. `clock` returns wall time in seconds since any
/// fixed time. Each run calls `progress` with the index of its plan.
pub fn sweep(
    plans: &[Plan],
    threads: usize,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &(dyn Fn(usize, Progress) + Sync),
) -> Vec<Outcome> {
    let start = |plan: &Plan, heard: &mut dyn FnMut(Progress)| {
        rest(plan, &mut |progress| {
            heard(progress);
            ControlFlow::Continue(())
        })
    };
    sweep_from(plans, threads, clock, progress, &start)
}

/// The contents that a run of a plan starts from.
pub type Start<'a> =
    dyn Fn(&Plan, &mut dyn FnMut(Progress)) -> Result<Rest, StackError> + Sync + 'a;

/// Executes all `plans` as [`sweep`] does, each from the contents that `start` returns for it.
pub fn sweep_from(
    plans: &[Plan],
    threads: usize,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &(dyn Fn(usize, Progress) + Sync),
    start: &Start<'_>,
) -> Vec<Outcome> {
    let work = |index: usize| timed(&plans[index], clock, &mut |p| progress(index, p), start);
    pool::each(plans.len(), threads, &work)
}

fn timed(
    plan: &Plan,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &mut dyn FnMut(Progress),
    start: &Start<'_>,
) -> Outcome {
    let begin = clock();
    progress(Progress::default());
    let rest = start(plan, progress)?;
    let (mut result, _) = run_from(plan, rest, &mut |sight| progress(sight.progress()))?;
    result.wall_time_s = clock() - begin;
    Ok(result)
}
