//! Runs of one program on many machines.
//!
//! A program does the same on every machine, and what comes before its section takes longer
//! to execute than the section: so setups with the same program share a tape of it.
//!
//! Invariants: an outcome is that of the setup alone but for its wall time; a tape is made
//! once, by whoever needs it first, and dropped once all runs that share it have begun.

use crate::outcome::Outcome;
use crate::run::{RunError, Witness, run, run_program};
use crate::setup::Setup;
use programs::Tape;
use sim::Seed;
use std::sync::{Arc, Mutex, PoisonError};

/// Setups that are run in any order, on any threads.
pub struct Sweep {
    setups: Vec<Setup>,
    /// The setups, those with one program after another, each with its group.
    order: Vec<(usize, usize)>,
    groups: Vec<Mutex<Group>>,
}

/// Setups with the same program.
#[derive(Default)]
struct Group {
    /// How many have not begun.
    left: usize,
    /// None if there is none yet, or is to be none.
    tape: Option<Arc<Tape>>,
    refused: bool,
}

impl Sweep {
    /// Runs of all `setups`.
    #[must_use]
    pub fn new(setups: Vec<Setup>) -> Self {
        let mut firsts: Vec<&Setup> = Vec::new();
        let mut order = Vec::new();
        for (index, setup) in setups.iter().enumerate() {
            let same =
                |first: &&Setup| first.seed == setup.seed && first.workload == setup.workload;
            let group = firsts.iter().position(same).unwrap_or_else(|| {
                firsts.push(setup);
                firsts.len() - 1
            });
            order.push((index, group));
        }
        order.sort_by_key(|&(index, group)| (group, index));
        let left = |group| order.iter().filter(|(_, of)| *of == group).count();
        let group = |group| {
            Mutex::new(Group {
                left: left(group),
                ..Group::default()
            })
        };
        Self {
            groups: (0..firsts.len()).map(group).collect(),
            order,
            setups,
        }
    }

    /// What is run, in the order in which it was given.
    #[must_use]
    pub fn setups(&self) -> &[Setup] {
        &self.setups
    }

    /// Makes run number `turn` of the sweep: which setup it was, and what came out. None
    /// once all were made, before `witness`.
    pub fn run(&self, turn: usize, witness: Witness) -> Option<(usize, Result<Outcome, RunError>)> {
        let &(index, group) = self.order.get(turn)?;
        let setup = &self.setups[index];
        let outcome = match self.tape(group, setup) {
            Err(error) => Err(error),
            Ok(None) => run(setup, witness),
            Ok(Some(tape)) => run_program(setup, Tape::play(&tape), witness),
        };
        Some((index, outcome))
    }

    /// The tape of a group for one that begins, if it is worth one.
    fn tape(&self, group: usize, setup: &Setup) -> Result<Option<Arc<Tape>>, RunError> {
        let mut group = self.groups[group]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        group.left = group.left.saturating_sub(1);
        if group.left == 0 {
            return Ok(group.tape.take());
        }
        if group.tape.is_none() && !group.refused {
            let tape = setup.workload.tape(Seed(setup.seed))?;
            (group.refused, group.tape) = (tape.is_none(), tape.map(Arc::new));
        }
        Ok(group.tape.clone())
    }
}
