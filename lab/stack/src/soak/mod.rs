//! Random stacks under random workloads, drives and preconditions, for endless exploration of power
//! cuts.
//!
//! Cases are drawn by swarm testing: each feature (a switch, a parameter, a knob) is independently
//! in a case or not, so that most cases have few at a time and all pairs occur.
//!
//! Invariants: a case is a function of its seed; its text is the arguments of `flashloom crash`, so
//! every failure is a command; a shrunk case has no feature that the original lacked, and fails as
//! well.

mod features;

use crate::hosts;
use crate::name::{STACKS, StackName, kind_of};
use features::{Choice, Feature};
use sim::{Rng, Seed};

/// Smallest number of operations of a shrunk case.
const FEWEST_OPS: u64 = 8;

/// A random stack, workload and options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    host: String,
    drive: String,
    switches: Vec<String>,
    workload: &'static str,
    params: Vec<(&'static str, String)>,
    options: Vec<(&'static str, String)>,
    seed: u64,
}

impl Case {
    /// Draws the case of this seed.
    #[must_use]
    pub fn draw(seed: Seed) -> Self {
        let mut rng = seed.stream("soak");
        let stacks: Vec<&str> = STACKS
            .iter()
            .map(|s| s.name)
            .filter(|s| can_be_cut(s))
            .collect();
        let name: StackName = pick(&mut rng, &stacks).parse().expect("it is in the table");
        let switches = switches(&mut rng, &name);
        let workload = pick(&mut rng, features::workloads(&name.host));
        let params = drawn(&mut rng, workload.params);
        let options = features::options(&name.host, kind_of(&name.drive));
        let options = options
            .iter()
            .flat_map(|set| drawn(&mut rng, set))
            .collect();
        Self {
            host: name.host,
            drive: name.drive,
            switches,
            workload: workload.name,
            params,
            options,
            // Short, so that a person can type it.
            seed: rng.below(1 << 20),
        }
    }

    /// Draws the case of this seed again, after so many draws that cannot run.
    #[must_use]
    pub fn draw_again(seed: Seed, draws: u64) -> Self {
        match draws {
            0 => Self::draw(seed),
            _ => Self::draw(seed.child(draws)),
        }
    }

    /// Name of the case's stack.
    #[must_use]
    pub fn stack(&self) -> String {
        let switches: String = self.switches.iter().map(|s| format!("+{s}")).collect();
        format!("{}{switches}@{}", self.host, self.drive)
    }

    /// The arguments of `flashloom crash`, in order, without the number of cuts.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let params: Vec<String> = self
            .params
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect();
        let colon = if params.is_empty() { "" } else { ":" };
        let workload = format!("{}{colon}{}", self.workload, params.join(","));
        let mut words = vec![self.stack(), "--workload".to_owned(), workload];
        for (option, value) in &self.options {
            words.push((*option).to_owned());
            if !value.is_empty() {
                words.push(value.clone());
            }
        }
        words.extend(["--seed".to_owned(), self.seed.to_string()]);
        words
    }

    /// Features of the case, one word each, for statistics: stack, workload, switches, options.
    #[must_use]
    pub fn features(&self) -> Vec<String> {
        let mut all = vec![
            format!("{}@{}", self.host, self.drive),
            self.workload.to_owned(),
        ];
        all.extend(self.switches.iter().map(|s| format!("+{s}")));
        let option = |(name, value): &(&str, String)| {
            let knob = value.split('=').next().unwrap_or_default();
            if *name == "--set" {
                knob.to_owned()
            } else {
                (*name).to_owned()
            }
        };
        all.extend(self.options.iter().map(option));
        all
    }

    /// All cases with one feature less, or with half of a number.
    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        for index in 0..self.options.len() {
            let mut case = self.clone();
            case.options.remove(index);
            all.push(case);
        }
        for index in 0..self.switches.len() {
            let mut case = self.clone();
            case.switches.remove(index);
            all.push(case);
        }
        for index in 0..self.params.len() {
            let halved = self.params[index].1.parse::<u64>().ok().map(|n| n / 2);
            let least = if self.params[index].0 == "ops" {
                FEWEST_OPS
            } else {
                1
            };
            if let Some(half) = halved.filter(|&half| half >= least) {
                let mut case = self.clone();
                case.params[index].1 = half.to_string();
                all.push(case);
            }
        }
        all
    }
}

/// The smallest case that `fails`, reached from `case` by removing one feature at a time.
pub fn shrink(mut case: Case, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
    while let Some(smaller) = case.smaller().into_iter().find(|smaller| fails(smaller)) {
        case = smaller;
    }
    case
}

/// Zones without a file system have no judge, and zonefs takes only one workload.
fn can_be_cut(stack: &str) -> bool {
    !["raw@zns", "zonefs@zns"].contains(&stack)
}

/// A random subset of the switches of a host and of its layer that form a valid stack with `name`.
fn switches(rng: &mut Rng, name: &StackName) -> Vec<String> {
    let mut chosen = name.switches.clone();
    let own = hosts::switches(&name.host)
        .iter()
        .map(|(switch, _)| *switch);
    for switch in own {
        let mut tried = name.clone();
        tried.switches = chosen.iter().cloned().chain([switch.to_owned()]).collect();
        let is_new = !chosen.iter().any(|known| known == switch);
        let makes_sense = is_new && tried.to_string().parse::<StackName>().is_ok();
        // Invalid switches consume a draw too, so that a new rule of validity shifts no other draw.
        if rng.chance(1, 4) && makes_sense {
            chosen = tried.switches;
        }
    }
    chosen
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// A random subset of `features`, each with one of its values; necessary features always.
fn drawn(rng: &mut Rng, features: &[Feature]) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    for feature in features {
        let value = pick(rng, feature.values);
        let wanted = match feature.choice {
            Choice::Always => true,
            Choice::Often => rng.chance(1, 2),
            Choice::Seldom => rng.chance(1, 6),
        };
        if wanted {
            all.push((feature.name, value.to_owned()));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_case_is_a_function_of_its_seed_and_its_stack_makes_sense() {
        for index in 0..2_000 {
            let case = Case::draw(Seed(7).child(index));
            assert_eq!(case, Case::draw(Seed(7).child(index)));
            let parsed: Result<StackName, _> = case.stack().parse();
            assert!(parsed.is_ok(), "{}", case.stack());
        }
    }

    #[test]
    fn every_stack_and_every_workload_is_drawn() {
        let cases = (0..4_000).map(|index| Case::draw(Seed(1).child(index)));
        let seen: BTreeSet<String> = cases.flat_map(|case| case.features()).collect();
        for stack in STACKS.iter().filter(|s| can_be_cut(s.name)) {
            let (host, drive) = stack.name.split_once('@').unwrap();
            let bare = format!("{}@{drive}", host.split('+').next().unwrap());
            assert!(seen.contains(&bare), "{bare}");
        }
        for workload in ["anything", "varmail", "ycsb-f", "randwrite", "iozone"] {
            assert!(seen.contains(workload), "{workload}");
        }
    }

    #[test]
    fn shrinking_removes_irrelevant_features() {
        let cases = (0..).map(|index| Case::draw(Seed(3).child(index)));
        let mut cases = cases.filter(|c| c.workload == "anything" && c.options.len() > 2);
        let case = cases.next().unwrap();
        let needed = case.options[1].clone();
        let mut tried = 0;
        let mut fails = |case: &Case| {
            tried += 1;
            let ops = case.params.iter().find(|(name, _)| *name == "ops");
            case.options.contains(&needed) && ops.unwrap().1.parse::<u64>().unwrap() >= 100
        };
        let small = shrink(case.clone(), &mut fails);
        assert_eq!(small.options, [needed]);
        assert!(small.switches.is_empty() || case.switches.len() < 2);
        let ops = small
            .params
            .iter()
            .find(|(name, _)| *name == "ops")
            .unwrap();
        let ops: u64 = ops.1.parse().unwrap();
        assert!((100..200).contains(&ops), "{ops}");
        assert!(tried < 200, "{tried}");
    }
}
