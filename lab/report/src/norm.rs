//! Which runs did all that was asked of them.
//!
//! Invariant: what fails on every stack, such as to remove a name that is not there, is of the
//! workload. A run that fails at more than that did less than others, and is no better for the time
//! and the programs that this saved.

use crate::record::Run;
use std::collections::BTreeMap;

/// Of how many requests one may fail beyond what fails everywhere: where threads race for names,
/// their order, and so what they meet, is a little different on each stack.
const ONE_OF: u64 = 1_000;

/// What fails in vain on every stack, for each workload and seed.
pub struct Norm<'a>(BTreeMap<(&'a str, u64), BTreeMap<&'a str, u64>>);

impl<'a> Norm<'a> {
    /// Of `runs` that are compared.
    #[must_use]
    pub fn of(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        let mut shared: BTreeMap<_, BTreeMap<&str, u64>> = BTreeMap::new();
        for run in runs {
            let own = || run.errors.iter().map(|(reason, count)| (&**reason, *count));
            shared
                .entry((&*run.workload, run.seed))
                .and_modify(|shared| {
                    shared.retain(|reason, _| run.errors.contains_key(*reason));
                    for (reason, count) in own() {
                        let least = shared.entry(reason);
                        least.and_modify(|least| *least = count.min(*least));
                    }
                })
                .or_insert_with(|| own().collect());
        }
        Self(shared)
    }

    /// Whether `run` did all that was asked of it.
    #[must_use]
    pub fn is_met_by(&self, run: &Run) -> bool {
        let shared = self.0.get(&(&*run.workload, run.seed));
        let expected = |reason: &str| shared.and_then(|s| s.get(reason)).copied().unwrap_or(0);
        let more = |(reason, count): (&String, &u64)| count.saturating_sub(expected(reason));
        let beyond: u64 = run.errors.iter().map(more).fold(0, u64::saturating_add);
        run.ops > 0 && beyond <= run.ops / ONE_OF
    }
}
