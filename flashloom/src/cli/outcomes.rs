//! Outcomes of the plans of `compare`: the runs, and the stacks left out.

use super::experiment::Experiment;
use super::failure::Failure;
use report::caution;
use report::norm::Norm;
use report::ranking::LeftOut;
use report::record::Run;
use stack::Plan;

/// Calls among which one without space is ignored.
const ONE_OF: u64 = 1_000;
/// Most names listed before a reason that they share.
const NAMES: usize = 8;

/// Runs with their plans, and the stacks left out.
pub(crate) struct Outcomes<'a> {
    pub(crate) runs: Vec<Run>,
    /// The plan of each run, in the order of the runs.
    plans: Vec<&'a Plan>,
    pub(crate) left_out: Vec<LeftOut>,
}

impl<'a> Outcomes<'a> {
    /// Runs all plans of `experiment`, `threads` at a time. Every `each` consecutive plans share a
    /// name: if one of them cannot be run, all of these are left out, without effect on others.
    pub(crate) fn of(
        experiment: &'a Experiment,
        threads: usize,
        each: usize,
        name: impl Fn(&Plan) -> String,
    ) -> Self {
        let mut outcomes = experiment.attempt(threads).into_iter();
        let mut all = Self {
            runs: Vec::new(),
            plans: Vec::new(),
            left_out: Vec::new(),
        };
        for plans in experiment.plans.chunks(each) {
            let of_name: Vec<_> = outcomes.by_ref().take(plans.len()).collect();
            match of_name.into_iter().collect::<Result<Vec<Run>, String>>() {
                Ok(runs) => {
                    all.runs.extend(runs);
                    all.plans.extend(plans);
                }
                Err(reason) => all.left_out.push(LeftOut {
                    stack: name(&plans[0]),
                    reason,
                }),
            }
        }
        all
    }

    /// Runs each plan again at an even load, and keeps the latencies, or the reason of a failure,
    /// beside the first run's; does nothing if the workload has no other load.
    pub(crate) fn add_even_load(
        &mut self,
        experiment: &'a Experiment,
        threads: usize,
    ) -> Result<(), Failure> {
        let Some(first) = self.plans.first() else {
            return Ok(());
        };
        let Some(load) = stack::load::even(first, &self.runs)? else {
            return Ok(());
        };
        let plans = self.plans.iter().map(|plan| stack::load::at(plan, &load));
        let plans: Vec<Plan> = plans.collect();
        let evens = experiment
            .again(&plans, threads)
            .into_iter()
            .zip(&self.plans);
        for (run, (even, plan)) in self.runs.iter_mut().zip(evens) {
            stack::load::keep(run, &experiment.title(plan), even, &load);
        }
        Ok(())
    }

    /// Each run with its plan.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Run, &Plan)> {
        self.runs.iter().zip(self.plans.iter().copied())
    }

    /// Leaves out the runs of file workloads whose calls failed, beyond the failures that belong to
    /// the workload: figures of a run that did less work than others mislead.
    pub(crate) fn leave_out_failed(&mut self, name: impl Fn(&Plan) -> String) {
        let norm = Norm::of(&self.runs);
        let failed = |run: &Run| run.app.is_some() && (is_full(run) || !norm.is_met_by(run));
        let failed: Vec<bool> = self.runs.iter().map(failed).collect();
        let runs = std::mem::take(&mut self.runs).into_iter();
        let plans = std::mem::take(&mut self.plans).into_iter();
        for ((run, plan), failed) in runs.zip(plans).zip(failed) {
            if failed {
                self.left_out.push(LeftOut {
                    stack: name(plan),
                    reason: caution::failed(&run).unwrap_or_default(),
                });
            } else {
                self.runs.push(run);
                self.plans.push(plan);
            }
        }
    }

    /// Fails if nothing could be run.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.runs.is_empty() && !self.left_out.is_empty() {
            true => Err(Failure::new(told(&self.left_out))),
            false => Ok(()),
        }
    }
}

/// Whether calls found no space, which is the stack's fault even if it is that of all stacks.
fn is_full(run: &Run) -> bool {
    let full = run
        .errors
        .iter()
        .filter(|(reason, _)| reason.ends_with(" ENOSPC"));
    full.map(|(_, count)| count).sum::<u64>() > run.ops / ONE_OF
}

/// The stacks left out by reason, each reason once. A reason that all share is due to the workload,
/// and is printed without names.
fn told(left_out: &[LeftOut]) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for LeftOut { stack, reason } in left_out {
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(stack),
            None => by_reason.push((reason, vec![stack])),
        }
    }
    if let ([(reason, _)], [_, _, ..]) = (by_reason.as_slice(), left_out) {
        return (*reason).to_owned();
    }
    let part = |(reason, names): &(&str, Vec<&str>)| {
        let first = names[..names.len().min(NAMES)].join(", ");
        match names.len().saturating_sub(NAMES) {
            0 => format!("{first}: {reason}"),
            more => format!("{first} and {more} more: {reason}"),
        }
    };
    let parts: Vec<String> = by_reason.iter().map(part).collect();
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_listed_once_with_all_its_stacks() {
        let left = |stack: &str, reason: &str| LeftOut {
            stack: stack.to_owned(),
            reason: reason.to_owned(),
        };
        let all = [left("a", "full"), left("b", "no zones"), left("c", "full")];
        assert_eq!(told(&all), "a, c: full; b: no zones");
        assert_eq!(told(&all[..1]), "a: full");
        let mut many: Vec<LeftOut> = (0..10).map(|n| left(&n.to_string(), "full")).collect();
        assert_eq!(told(&many), "full");
        many.push(left("a", "no zones"));
        let long = "0, 1, 2, 3, 4, 5, 6, 7 and 2 more: full; a: no zones";
        assert_eq!(told(&many), long);
    }
}
