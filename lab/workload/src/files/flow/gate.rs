//! Operations that wait for other operations, or for time.
//!
//! A gate has tokens, which posters give and its owner takes, and room, which posters take and its
//! owner gives before it waits. So posters are ahead of the owner by at most the high-water mark
//! plus the tokens that it waits for, as with filebench's pair of semaphores.

use super::run::{Flow, Want};
use super::thread::Step;
use units::Ns;

impl Flow {
    /// Gives room to posters, then takes the tokens or waits for them.
    pub(super) fn take_tokens(&mut self, index: usize) -> Want {
        let gate = self.workers[index].first_gate + self.workers[index].op;
        let value = self.op(index).value.mean();
        if self.workers[index].step == Step::Start {
            self.gates[gate].room += value;
            self.workers[index].step = Step::Taking;
            self.open_gate(gate);
        }
        if self.gates[gate].tokens < value {
            return Want::Gate(gate);
        }
        self.gates[gate].tokens -= value;
        Want::Done
    }

    pub(super) fn post(&mut self, index: usize) -> Want {
        let first = match self.workers[index].step {
            Step::Posting { target } => target,
            _ => 0,
        };
        let (spec, op) = (self.workers[index].spec, self.workers[index].op);
        let (value, blocking) = (self.op(index).value.mean(), self.op(index).blocking);
        for target in first..self.targets[spec][op].len() {
            let at = self.targets[spec][op][target];
            let gate = &mut self.gates[at];
            if blocking && gate.room < value {
                self.workers[index].step = Step::Posting { target };
                return Want::Gate(at);
            }
            gate.room -= if blocking { value } else { 0 };
            gate.tokens += value;
            self.open_gate(at);
        }
        Want::Done
    }

    pub(super) fn block(&mut self, index: usize) -> Want {
        let gate = self.workers[index].first_gate + self.workers[index].op;
        if self.workers[index].step == Step::Start {
            self.gates[gate].tokens = 0;
            self.workers[index].step = Step::Taking;
        }
        match self.gates[gate].tokens {
            0 => Want::Gate(gate),
            _ => Want::Done,
        }
    }

    pub(super) fn wake_targets(&mut self, index: usize) -> Want {
        let (spec, op) = (self.workers[index].spec, self.workers[index].op);
        for target in 0..self.targets[spec][op].len() {
            let gate = self.targets[spec][op][target];
            self.gates[gate].tokens = 1;
            self.open_gate(gate);
        }
        Want::Done
    }

    /// Waits for the next event of the generator; events are evenly spaced from the start.
    pub(super) fn event(&mut self) -> Want {
        if self.program.rate == 0 {
            return Want::Done;
        }
        self.events += 1;
        let at = u128::from(self.events) * 1_000_000_000 / u128::from(self.program.rate);
        let at = Ns(u64::try_from(at).unwrap_or(u64::MAX));
        Want::Pause(at.max(self.now).since(self.now))
    }
}
