//! Runs of one program on many machines.
//!
//! A program does the same work on every machine, and the part before its section takes longer to
//! execute than the section: so setups with the same program share a tape of it.
//!
//! Invariants: an outcome equals that of a run of the setup alone, except for its wall time; a tape
//! is made once, by the first run that needs it, and dropped once all runs that share it have
//! begun.

use crate::outcome::Outcome;
use crate::run::{RunError, Witness, run, run_program};
use crate::setup::Setup;
use programs::Tape;
use sim::Seed;
use std::sync::{Arc, Mutex, PoisonError};

/// Setups whose runs may be made in any order, on any threads.
pub struct Sweep {
    setups: Vec<Setup>,
    /// Index and group of each setup, sorted by group.
    order: Vec<(usize, usize)>,
    groups: Vec<Mutex<Group>>,
}

/// Setups with the same program.
#[derive(Default)]
struct Group {
    /// Number of runs that have not begun.
    left: usize,
    /// Tape of the program; `None` before it is made, or if it is not worth one.
    tape: Option<Arc<Tape>>,
    refused: bool,
}

impl Sweep {
    /// A sweep over `setups`.
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

    /// Setups, in the order in which they were given.
    #[must_use]
    pub fn setups(&self) -> &[Setup] {
        &self.setups
    }

    /// Makes run number `turn` of the sweep under `witness`. Returns the index of its setup and the
    /// outcome; `None` past the last run.
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

    /// Tape for one run of the group that begins; `None` if the program is not worth one, or if no
    /// other run shares it.
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
