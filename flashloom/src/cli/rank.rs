//! `compare --all`: all stacks that can run a workload, ranked.

use super::compare::usual_past;
use super::experiment::{Choices, Experiment, Source};
use super::failure::Failure;
use super::outcomes::Outcomes;
use super::output::{self, Shown};
use clap::Args;
use clap::builder::PossibleValuesParser;
use report::ranking::{By, Candidate, Ranking};
use report::table;
use stack::{Past, Plan, STACKS, StackName};
use std::process::ExitCode;

/// Default number of seeds for a workload with any random choices.
const SEEDS: u64 = 3;

/// Options that rank stacks.
#[derive(Args)]
pub(crate) struct Ranked {
    /// Run every stack that supports the workload, and rank the stacks
    #[arg(long)]
    pub(crate) all: bool,
    /// Criterion of --all: all (speed, tail and wear together), speed, tail, wear or cost
    #[arg(long, value_name = "WHAT", requires = "all", value_parser = names(), default_value = "all", hide_possible_values = true)]
    by: String,
    /// Number of consecutive seeds that --all runs, from --seed on, to show the spread of each
    /// result [default: 3; 1 for a workload in a file, such as a recording]
    #[arg(long, value_name = "N", requires = "all", value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: Option<u64>,
}

fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(By::NAMES.map(|(name, _)| name))
}

/// A stack that takes part in a ranking.
struct Entrant {
    stack: StackName,
    candidate: Candidate,
}

impl Ranked {
    fn by(&self) -> By {
        let mut named = By::NAMES.iter().filter(|(name, _)| *name == self.by);
        named.next().map_or_else(By::default, |&(_, by)| by)
    }

    /// Runs the workload of `source` on all stacks that `past` allows, and ranks them.
    pub(crate) fn run(
        &self,
        told: &str,
        source: Source,
        choices: &Choices,
        pasts: Option<&[Past]>,
        threads: usize,
        shown: &Shown,
    ) -> Result<ExitCode, Failure> {
        let entrants = entrants(source.asks_for_files());
        let usual = if source.is_in_a_file() { 1 } else { SEEDS };
        let seeds = self.seeds.unwrap_or(usual);
        let mut plans = Vec::new();
        for entrant in &entrants {
            let past = match pasts {
                Some(&[past]) => past,
                Some(_) => {
                    return Err(Failure::new(
                        "--all takes one precondition: name it with \
                    --preconditions",
                    ));
                }
                None => usual_past(&entrant.stack),
            };
            for seed in 0..seeds {
                let mut plan = choices.plan(&entrant.stack, Some(past), &source)?;
                plan.seed = plan.seed.saturating_add(seed);
                plans.push(plan);
            }
        }
        let experiment = Experiment {
            plans,
            sources: vec![source],
        };
        let database = choices.keeping.database()?;
        let each = usize::try_from(seeds).unwrap_or(usize::MAX);
        let name = |plan: &Plan| plan.stack.to_string();
        let outcomes = Outcomes::of(&experiment, threads, each, name);
        outcomes.check()?;
        let lasting = choices.keep(database.as_deref(), outcomes.each());
        let Outcomes { runs, left_out, .. } = outcomes;
        let candidates: Vec<Candidate> = entrants.into_iter().map(|e| e.candidate).collect();
        let ranking = Ranking::new(told, self.by(), &candidates, &runs, left_out);
        let printed = output::emit(&match shown.json {
            true => report::to_json(&ranking) + "\n",
            false => table::ranking(&ranking, Shown::style()),
        });
        Ok(output::status(printed, lasting.tell()))
    }
}

/// All stacks with a file system, or all without.
fn entrants(files: bool) -> Vec<Entrant> {
    let of_kind = |name: &StackName| (name.host == "raw") != files;
    let entrant = |listed: &stack::Stack| {
        let stack: StackName = listed.name.parse().expect("it is in the table");
        let candidate = Candidate {
            stack: listed.name.to_owned(),
            idea: listed.help.to_owned(),
        };
        Entrant { stack, candidate }
    };
    let all = STACKS.iter().map(entrant);
    all.filter(|entrant| of_kind(&entrant.stack)).collect()
}
