//! Which runs did all that was asked of them.
//!
//! Invariant: what fails on the stack that fails least, such as to remove a name that is not there,
//! is of the workload. A run that fails at more than that did less than others, and is no better
//! for the time and the programs that this saved.

use crate::record::Run;
use std::collections::BTreeMap;

/// Of how many requests one may fail beyond what is of the workload, and of how many that are of
/// it one more: where threads race for names, what they meet is a little different on each stack.
const ONE_OF: u64 = 1_000;
const ONE_OF_FAILED: u64 = 10;

/// The run that fails least, for each workload and seed.
pub struct Norm<'a>(BTreeMap<(&'a str, u64), &'a Run>);

impl<'a> Norm<'a> {
    /// Of `runs` that are compared.
    #[must_use]
    pub fn of(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        let mut least = BTreeMap::new();
        for run in runs.into_iter().filter(|run| run.ops > 0) {
            let known = least.entry((&*run.workload, run.seed)).or_insert(run);
            let weight = |of: &Run, with: &Run| u128::from(failures(of)) * u128::from(with.ops);
            if weight(run, known) < weight(known, run) {
                *known = run;
            }
        }
        Self(least)
    }

    /// What `run` failed at beyond what is of its workload.
    #[must_use]
    pub fn beyond<'b>(&self, run: &'b Run) -> BTreeMap<&'b str, u64> {
        let least = self.0.get(&(&*run.workload, run.seed));
        let expected = |reason: &str| least.and_then(|run| run.errors.get(reason)).copied();
        let errors = run.errors.iter();
        let more = errors.map(|(reason, count)| {
            let expected = expected(reason).unwrap_or_default();
            (reason.as_str(), count.saturating_sub(expected))
        });
        more.filter(|(_, count)| *count > 0).collect()
    }

    /// Whether `run` did all that was asked of it.
    #[must_use]
    pub fn is_met_by(&self, run: &Run) -> bool {
        let least = self.0.get(&(&*run.workload, run.seed));
        let expected = least.map_or(0, |run| failures(run));
        let beyond = self.beyond(run).into_values().fold(0, u64::saturating_add);
        let may = (run.ops / ONE_OF).max(expected / ONE_OF_FAILED);
        run.ops > 0 && beyond <= may
    }
}

fn failures(run: &Run) -> u64 {
    run.errors.values().copied().fold(0, u64::saturating_add)
}
