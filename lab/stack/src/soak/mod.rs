//! Random stacks under random workloads, drives and pasts, for power cuts that go on until
//! somebody says stop.
//!
//! A case is drawn as a swarm is: each feature (a switch, a parameter, a knob) is in it or
//! not by the toss of a coin, so that most cases have few at a time and all pairs come up.
//!
//! Invariants: a case is a function of its seed; it is told as the words of `flashloom
//! crash`, so what fails is a command; what it shrinks to has nothing that the case did not
//! have, and fails as well.

mod features;

use crate::hosts;
use crate::name::{STACKS, StackName, kind_of};
use features::{Choice, Feature};
use sim::{Rng, Seed};

/// Fewest operations that a case is shrunk to.
const FEWEST_OPS: u64 = 8;

/// One case.
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
    /// The case of this seed.
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

    /// Its stack.
    #[must_use]
    pub fn stack(&self) -> String {
        let switches: String = self.switches.iter().map(|s| format!("+{s}")).collect();
        format!("{}{switches}@{}", self.host, self.drive)
    }

    /// What `flashloom crash` is told of it, in order, without how many cuts.
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

    /// What it has, a word each, to be counted: stack, switches, workload, options.
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

    /// Cases that have one thing less each, or half of one.
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

/// The smallest case that `fails` that can be had of `case` by leaving out one thing at a
/// time.
pub fn shrink(mut case: Case, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
    while let Some(smaller) = case.smaller().into_iter().find(|smaller| fails(smaller)) {
        case = smaller;
    }
    case
}

/// Zones without a file system have no judge, and zonefs takes one workload alone.
fn can_be_cut(stack: &str) -> bool {
    !["raw@zns", "zonefs@zns"].contains(&stack)
}

/// Some of the switches of a host and of the layer below it, of which `name` makes sense.
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
        // Even one that makes none is drawn for, so that a new reason shifts no other draw.
        if rng.chance(1, 4) && makes_sense {
            chosen = tried.switches;
        }
    }
    chosen
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// Some of `features`, each with one of its values; those that are needed always.
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
    fn every_stack_and_every_workload_comes_up() {
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
    fn what_does_not_matter_is_left_out() {
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
