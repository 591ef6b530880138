//! Many runs at once.
//!
//! Invariant: results are in the order of the plans and, but for the wall time,
//! the same bytes whatever the number of threads: a run is built, run and
//! dropped on one thread, and shares nothing with another one.

use crate::error::StackError;
use crate::plan::{Plan, Progress};
use crate::run::run;
use report::record::Run;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

type Outcome = Result<Run, StackError>;

/// Runs all `plans` on up to `threads` threads. `clock` tells seconds of wall
/// time, from any beginning; `progress` hears which plan has come how far.
pub fn sweep(
    plans: &[Plan],
    threads: usize,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &(dyn Fn(usize, Progress) + Sync),
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Outcome>>> = plans.iter().map(|_| Mutex::default()).collect();
    let work = || {
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&i| i < plans.len()) {
            let outcome = timed(&plans[index], clock, &mut |p| progress(index, p));
            *results[index].lock().expect("no run panics while it stores") = Some(outcome);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.clamp(1, plans.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    let taken = results.into_iter().map(|slot| slot.into_inner().expect("as above"));
    taken.map(|slot| slot.expect("every plan was run")).collect()
}

fn timed(
    plan: &Plan,
    clock: &(dyn Fn() -> f64 + Sync),
    progress: &mut dyn FnMut(Progress),
) -> Outcome {
    let begin = clock();
    let mut result = run(plan, progress)?;
    result.wall_time_s = clock() - begin;
    Ok(result)
}
