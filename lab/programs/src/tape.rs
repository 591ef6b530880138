//! A program that was executed once and is given out many times.
//!
//! What threads do depends on the description and the seed alone, and on no machine: so
//! designs that are compared can be given what one execution has shown, and need not each
//! execute what comes before the section that is measured.
//!
//! Invariant: a playback gives each thread the operations that the program would have given
//! it, in their order; only where one batch ends and the next begins may differ.

use memsys::{Op, Program};
use std::sync::Arc;
use units::Bytes;

/// Operations that are given out at once.
const BATCH: usize = 512;

/// Recorded operations of each thread of a program, to be played back.
pub struct Tape {
    threads: Vec<Vec<Op>>,
    footprint: Bytes,
}

/// A tape that is given out.
struct Playback {
    tape: Arc<Tape>,
    /// Operations that were given to each thread.
    given: Vec<usize>,
}

impl Tape {
    /// Executes `program` to its end, thread by thread from meeting to meeting.
    #[must_use]
    pub fn record(program: &mut dyn Program) -> Self {
        let count = program.threads();
        let mut threads: Vec<Vec<Op>> = (0..count).map(|_| Vec::new()).collect();
        let mut live = vec![true; count as usize];
        while live.contains(&true) {
            for (thread, ops) in (0..count).zip(&mut threads) {
                let live = &mut live[thread as usize];
                // Whoever stands where all meet waits for the others.
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

    /// The program again, from its beginning.
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

    /// All operations of each thread, asked for in the order that `first` begins.
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
        // Threads of it end long before others.
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
