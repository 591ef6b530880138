//! A program that is executed once and played back many times.
//!
//! The operations of threads depend only on the description and the seed, not on the machine.
//! Designs that are compared can therefore share the recording of one execution, instead of each
//! executing the part before the measured section.
//!
//! Invariant: a playback gives each thread the same operations as the program, in the same order.
//! Only the division into batches may differ.

use memsys::{Op, Program};
use std::sync::Arc;
use units::Bytes;

/// Number of operations appended at once.
const BATCH: usize = 512;

/// Recorded operations of each thread of a program, which can be played back.
pub struct Tape {
    threads: Vec<Vec<Op>>,
    footprint: Bytes,
}

/// A playback in progress.
struct Playback {
    tape: Arc<Tape>,
    /// Number of operations already given to each thread.
    given: Vec<usize>,
}

impl Tape {
    /// Executes `program` to its end. Each thread in turn runs to its next barrier.
    #[must_use]
    pub fn record(program: &mut dyn Program) -> Self {
        let count = program.threads();
        let mut threads: Vec<Vec<Op>> = (0..count).map(|_| Vec::new()).collect();
        let mut live = vec![true; count as usize];
        while live.contains(&true) {
            for (thread, ops) in (0..count).zip(&mut threads) {
                let live = &mut live[thread as usize];
                // A thread at a barrier waits for the others.
                while *live {
                    *live = program.next(thread, ops);
                    if ops.last() == Some(&Op::Meet) {
                        break;
                    }
                }
            }
        }
        threads.iter_mut().for_each(Vec::shrink_to_fit);
        Self {
            threads,
            footprint: program.footprint(),
        }
    }

    /// Returns the recorded program, from its beginning.
    #[must_use]
    pub fn play(tape: &Arc<Self>) -> Box<dyn Program> {
        Box::new(Playback {
            given: vec![0; tape.threads.len()],
            tape: Arc::clone(tape),
        })
    }
}

impl Program for Playback {
    fn threads(&self) -> u32 {
        self.given.len() as u32
    }

    fn footprint(&self) -> Bytes {
        self.tape.footprint
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let given = &mut self.given[thread as usize];
        let left = &self.tape.threads[thread as usize][*given..];
        let batch = &left[..left.len().min(BATCH)];
        ops.extend_from_slice(batch);
        *given += batch.len();
        left.len() > BATCH
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Workload;
    use sim::Seed;

    /// All operations of each thread. With `backwards`, the last thread is asked first.
    fn all(mut program: Box<dyn Program>, backwards: bool) -> Vec<Vec<Op>> {
        let count = program.threads();
        let mut threads: Vec<Vec<Op>> = (0..count).map(|_| Vec::new()).collect();
        let mut live = vec![true; count as usize];
        while live.contains(&true) {
            for at in 0..count {
                let thread = if backwards { count - 1 - at } else { at };
                let (ops, live) = (&mut threads[thread as usize], &mut live[thread as usize]);
                while *live {
                    *live = program.next(thread, ops);
                    if ops.last() == Some(&Op::Meet) {
                        break;
                    }
                }
            }
        }
        threads
    }

    #[test]
    fn a_playback_is_the_program() {
        let small = ["bfs", "bc", "radix", "srad", "ycsb", "tpcc", "dlrm"];
        let small = small.map(|name| (format!("{name}:footprint=2MiB,section=60000,threads=5"), 3));
        // Some threads of this program end long before others.
        let uneven = ("bc:footprint=replayed,threads=24".to_owned(), 2);
        for (name, seed) in small.into_iter().chain([uneven]) {
            let workload = Workload::parse(&name).unwrap();
            let program = || workload.program(Seed(seed)).unwrap();
            let tape = Arc::new(Tape::record(&mut *program()));
            let wanted = all(program(), true);
            assert!(
                wanted.iter().map(Vec::len).sum::<usize>() > 10_000,
                "{name}"
            );
            let mut played = Tape::play(&tape);
            assert_eq!(played.footprint(), program().footprint());
            for (thread, wanted) in (0..).zip(&wanted) {
                let mut ops = Vec::new();
                while played.next(thread, &mut ops) {}
                assert!(ops == *wanted, "thread {thread} of {name}");
            }
        }
    }
}
