//! The runs that completed all requests of their workload, as far as any stack did.
//!
//! Invariant: failures on the stack that fails least, such as the removal of a missing name, belong
//! to the workload. A run with more failures did less work than others, and is not ranked better
//! for the time and the programs that this saved.

use crate::record::Run;
use std::collections::BTreeMap;

/// Failures that a run may have beyond those of the workload: one in `ONE_OF` requests, or one for
/// each `ONE_OF_FAILED` failures of the workload, whichever is more. Where threads race for names,
/// the outcome differs a little between stacks.
const ONE_OF: u64 = 1_000;
const ONE_OF_FAILED: u64 = 10;

/// The run with the smallest share of failures, for each workload and seed.
pub struct Norm<'a>(BTreeMap<(&'a str, u64), &'a Run>);

impl<'a> Norm<'a> {
    /// Takes the norm of each workload and seed from `runs`.
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

    /// Failures of `run` beyond those of its workload, by reason.
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

    /// Whether `run` did all requests, but for the failures that its workload explains.
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
