//! A section of a program: the part that is measured, in pieces spread evenly over the program.
//!
//! Simulated runs with gigabytes of memory cover only a part of a program, as the paper's do.
//! Programs have phases, such as a search that sweeps over flags and one that follows edges, and
//! the seed determines which of them a single piece covers. There are therefore several pieces of
//! equal length, each in the middle of its share of the program (systematic sampling, as in SMARTS,
//! ISCA 2003). As many instructions as are measured run as warm-up before the first piece. The
//! operations between two pieces are executed by the kernels but not simulated: after a further
//! barrier of all threads, the machine continues with the next piece in its current state.
//!
//! A position in a program is given by the number of instructions of all threads together. A round
//! is the part between two barriers. Within a round all threads are assumed to progress
//! proportionally, each through its own share of the round. A piece is thus the same part of the
//! program however the work is divided among the threads.
//!
//! Invariants: all threads begin a piece in the same round and end it in the same round, so that
//! each barrier within the piece is a barrier of all threads. No thread is asked for operations
//! beyond a barrier that other threads have not reached. Operations taken from the program are
//! never lost.

use memsys::{Op, Program};
use units::Bytes;

/// Measured part of a program: number of instructions and of pieces.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Number of instructions of all threads together. If the program has fewer than twice as many,
    /// half of the program is measured.
    pub(crate) instructions: u64,
    /// Number of pieces into which they are divided.
    pub(crate) pieces: u32,
}

/// A program of which only a section is run.
pub(crate) struct Section {
    walk: Walk,
    /// Index of the current piece; piece 0 is the warm-up.
    piece: usize,
    /// For each piece, the places where each thread begins and ends.
    pieces: Vec<[Vec<Place>; 2]>,
    /// Threads that have finished the current piece.
    through: Vec<bool>,
}

/// Position of a thread: the number of barriers it has reached, and the number of instructions
/// since its preparation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    round: usize,
    passed: u64,
}

/// Threads of a program, from which operations are taken one by one.
struct Walk {
    program: Box<dyn Program>,
    states: Vec<State>,
}

#[derive(Clone, Default)]
struct State {
    /// Operations taken from the program, and how many of them have been handed out.
    taken: Vec<Op>,
    asked: usize,
    /// The program's thread has ended, except for the operations in `taken`.
    ended: bool,
    /// The thread has passed its preparation.
    prepared: bool,
    at: Place,
}

impl State {
    fn is_over(&self) -> bool {
        self.ended && self.asked == self.taken.len()
    }

    fn has_reached(&self, place: Place) -> bool {
        self.prepared && self.at.round >= place.round && self.at.passed >= place.passed
    }
}

impl Walk {
    fn new(program: Box<dyn Program>) -> Self {
        Self {
            states: vec![State::default(); program.threads() as usize],
            program,
        }
    }

    /// Returns the next operation of a thread.
    fn next(&mut self, thread: usize) -> Option<Op> {
        let state = &mut self.states[thread];
        while state.asked == state.taken.len() {
            if state.ended {
                return None;
            }
            state.asked = 0;
            state.taken.clear();
            state.ended = !self.program.next(thread as u32, &mut state.taken);
        }
        let op = state.taken[state.asked];
        state.asked += 1;
        state.at.round += usize::from(op == Op::Meet);
        state.prepared |= op == Op::Begin;
        if state.prepared {
            state.at.passed += op.instructions();
        }
        Some(op)
    }

    /// Advances all threads to barrier number `round` and discards their operations.
    fn meet(&mut self, round: usize) {
        let least = self.states.iter().filter(|state| !state.is_over());
        let least = least.map(|state| state.at.round).min().unwrap_or(round);
        for round in least + 1..=round {
            for thread in 0..self.states.len() {
                while self.states[thread].at.round < round && self.next(thread).is_some() {}
            }
        }
    }

    /// Advances each thread to its place and discards the operations. All places must be in the
    /// same round.
    fn go_to(&mut self, places: &[Place]) {
        self.meet(places.iter().map(|place| place.round).max().unwrap_or(0));
        for (thread, place) in places.iter().enumerate() {
            while !self.states[thread].has_reached(*place) && self.next(thread).is_some() {}
        }
    }
}

/// Progress of a program: the instructions that each thread has executed at each barrier and at its
/// end.
struct Way {
    threads: Vec<Vec<u64>>,
    /// Sum over all threads; the first entry is for the beginning.
    all: Vec<u64>,
}

impl Way {
    fn of(program: Box<dyn Program>) -> Self {
        let mut walk = Walk::new(program);
        let mut passed = vec![vec![0]; walk.states.len()];
        while walk.states.iter().any(|state| !state.is_over()) {
            walk.meet(passed.first().map_or(0, Vec::len));
            for (passed, state) in passed.iter_mut().zip(&walk.states) {
                passed.push(state.at.passed);
            }
        }
        let rounds = passed.first().map_or(0, Vec::len);
        let sum = |round| passed.iter().map(|passed: &Vec<u64>| passed[round]).sum();
        Self {
            all: (0..rounds).map(sum).collect(),
            threads: passed,
        }
    }

    fn instructions(&self) -> u64 {
        self.all.last().copied().unwrap_or(0)
    }

    /// Place of each thread when all threads together have executed `passed` instructions.
    fn places(&self, passed: u64) -> Vec<Place> {
        let next = self.all.partition_point(|&all| all <= passed);
        let next = next.min(self.all.len().saturating_sub(1));
        let round = next.saturating_sub(1);
        let place = |thread: &Vec<u64>| {
            let (from, to) = (thread[round], thread[next]);
            let (done, whole) = (passed - self.all[round], self.all[next] - self.all[round]);
            let share = u128::from(to - from) * u128::from(done) / u128::from(whole.max(1));
            Place {
                round,
                passed: from + share as u64,
            }
        };
        self.threads.iter().map(place).collect()
    }
}

impl Section {
    /// The section `extent` of the program that `make` creates.
    pub(crate) fn new(make: impl Fn() -> Box<dyn Program>, extent: Extent) -> Self {
        let way = Way::of(make());
        let bounds = bounds(way.instructions(), extent);
        let pieces = bounds
            .into_iter()
            .map(|piece| piece.map(|at| way.places(at)));
        let pieces: Vec<_> = pieces.collect();
        let mut walk = Walk::new(make());
        walk.go_to(&pieces[0][0]);
        Self {
            through: vec![false; walk.states.len()],
            walk,
            piece: 0,
            pieces,
        }
    }

    /// Whether all threads have finished the current piece.
    fn is_over(&self) -> bool {
        let mut threads = self.through.iter().zip(&self.walk.states);
        threads.all(|(&through, state)| through || state.is_over())
    }

    /// Whether this is the last piece.
    const fn is_last(&self) -> bool {
        self.piece + 1 == self.pieces.len()
    }

    /// Skips to the next piece.
    fn go_on(&mut self) {
        self.piece += 1;
        self.walk.go_to(&self.pieces[self.piece][0]);
        self.through.fill(false);
    }

    /// Appends a batch of the thread's next operations in the current piece, up to a barrier.
    /// Returns whether the thread has finished the piece.
    fn give(&mut self, thread: usize, ops: &mut Vec<Op>) -> bool {
        let end = self.pieces[self.piece][1][thread];
        let room = ops.len() + BATCH;
        while ops.len() < room {
            if self.walk.states[thread].has_reached(end) {
                return true;
            }
            let Some(op) = self.walk.next(thread) else {
                return true;
            };
            if op != Op::Begin {
                ops.push(op);
            }
            if op == Op::Meet {
                break;
            }
        }
        false
    }
}

/// Number of operations appended at once.
const BATCH: usize = 512;

/// First and end position of the warm-up, then of each piece, in a program of `whole` instructions.
fn bounds(whole: u64, extent: Extent) -> Vec<[u64; 2]> {
    let warm = extent.instructions.min(whole / 2);
    let measured = extent.instructions.min(whole - warm);
    let pieces = u64::from(extent.pieces).min(measured).max(1);
    let each = measured / pieces;
    let begin = |piece: u64| {
        let middle = u128::from(whole - warm) * u128::from(2 * piece + 1);
        warm + (middle / u128::from(2 * pieces)) as u64 - each / 2
    };
    let pieces = (0..pieces).map(|piece| [begin(piece), begin(piece) + each]);
    let first = begin(0);
    std::iter::once([first - warm, first])
        .chain(pieces)
        .collect()
}

impl Program for Section {
    fn threads(&self) -> u32 {
        self.through.len() as u32
    }

    fn footprint(&self) -> Bytes {
        self.walk.program.footprint()
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let index = thread as usize;
        if self.through[index] && self.is_over() && !self.is_last() {
            self.go_on();
        }
        debug_assert!(
            !self.through[index] || self.is_last(),
            "asked before the others met"
        );
        self.through[index] = self.through[index] || self.give(index, ops);
        if !self.through[index] {
            return true;
        }
        match self.piece {
            _ if self.is_last() || self.walk.states[index].is_over() => return false,
            0 => ops.extend([Op::Begin, Op::Meet]),
            _ => ops.push(Op::Meet),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDS: u64 = 100;

    /// Test program: in each of 100 rounds each thread executes a load and some other instructions
    /// and then waits at a barrier. The first five rounds are preparation. Panics if a thread is
    /// asked for operations beyond a barrier that others have not reached.
    struct Rounds {
        /// Current round of each thread.
        round: Vec<u64>,
        /// Instructions of a thread in a round, besides the load; `None` if it does nothing.
        work: fn(usize, u64) -> Option<u32>,
        /// Number of rounds after which a thread ends.
        ends: fn(usize) -> u64,
    }

    impl Program for Rounds {
        fn threads(&self) -> u32 {
            self.round.len() as u32
        }
        fn footprint(&self) -> Bytes {
            Bytes(1 << 20)
        }
        fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
            let thread = thread as usize;
            let (round, end) = (self.round[thread], (self.ends)(thread));
            let live =
                (0..self.round.len()).filter(|&other| self.round[other] < (self.ends)(other));
            let least = live.map(|other| self.round[other]).min();
            let met = least.is_none_or(|least| least + 1 > round);
            assert!(met, "asked before others met");
            self.round[thread] += 1;
            if let Some(work) = (self.work)(thread, round) {
                let (at, size, after) = (4096 * round, 8, 0);
                ops.extend([Op::Compute(work), Op::Load { at, size, after }]);
            }
            if round == 4 {
                ops.push(Op::Begin);
            }
            ops.push(Op::Meet);
            round + 1 < end
        }
    }

    fn rounds(
        threads: usize,
        work: fn(usize, u64) -> Option<u32>,
        ends: fn(usize) -> u64,
    ) -> impl Fn() -> Box<dyn Program> {
        move || {
            let round = vec![0; threads];
            Box::new(Rounds { round, work, ends })
        }
    }

    fn alike(threads: usize) -> impl Fn() -> Box<dyn Program> {
        rounds(threads, |_, _| Some(10), |_| ROUNDS)
    }

    fn extent(instructions: u64, pieces: u32) -> Extent {
        Extent {
            instructions,
            pieces,
        }
    }

    /// Runs the section like a machine: a thread at a barrier waits for all threads that have not
    /// ended. Checks that the order in which threads are asked does not change the result.
    fn run(make: impl Fn() -> Box<dyn Program>, extent: Extent) -> Vec<Vec<Op>> {
        let run = |backwards: bool| {
            let mut section = Section::new(&make, extent);
            let threads = section.threads() as usize;
            let mut all: Vec<Vec<Op>> = vec![Vec::new(); threads];
            let mut live = vec![true; threads];
            while live.contains(&true) {
                for turn in 0..threads {
                    let thread = if backwards { threads - 1 - turn } else { turn };
                    let (ops, live) = (&mut all[thread], &mut live[thread]);
                    while *live {
                        *live = section.next(thread as u32, ops);
                        if ops.last() == Some(&Op::Meet) {
                            break;
                        }
                    }
                }
            }
            all
        };
        let forwards = run(false);
        assert_eq!(forwards, run(true));
        forwards
    }

    /// Splits the operations into warm-up and measured part.
    fn split(ops: &[Op]) -> [&[Op]; 2] {
        let begin = ops.iter().position(|op| *op == Op::Begin);
        let (warm, measured) = ops.split_at(begin.unwrap_or(ops.len()));
        [warm, measured]
    }

    /// The round of each load.
    fn rounds_of(ops: &[Op]) -> Vec<u64> {
        let at = |op: &Op| match op {
            Op::Load { at, .. } => Some(at / 4096),
            _ => None,
        };
        ops.iter().filter_map(at).collect()
    }

    fn sum(ops: &[Op]) -> u64 {
        ops.iter().map(Op::instructions).sum()
    }

    #[test]
    fn one_piece_is_the_middle_and_warms_up_as_long_as_it_measures() {
        // After the preparation there are 95 rounds. Ten are warm-up, and the middle of the rest is
        // 52.5.
        for ops in run(alike(4), extent(4 * 110, 1)) {
            let [warm, measured] = split(&ops);
            assert_eq!(rounds_of(warm), (42..52).collect::<Vec<u64>>());
            assert_eq!(rounds_of(measured), (52..62).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn pieces_lie_in_the_middle_of_equal_shares_of_what_does_not_warm_up() {
        for ops in run(alike(4), extent(4 * 22 * 5, 5)) {
            let [warm, measured] = split(&ops);
            assert_eq!(rounds_of(warm).len(), 10);
            // Each share has 17 rounds, of which the middle two are measured.
            let first = [22, 39, 56, 73, 90];
            let wanted: Vec<u64> = first.iter().flat_map(|&at| [at, at + 1]).collect();
            assert_eq!(rounds_of(measured), wanted);
        }
    }

    #[test]
    fn half_of_a_short_program_warms_up_and_half_is_measured() {
        for pieces in [1, 2, 7, 1024] {
            for ops in run(alike(2), extent(1 << 40, pieces)) {
                let [warm, measured] = split(&ops);
                assert!(sum(warm).abs_diff(sum(measured)) <= 22, "{pieces}");
                // Pieces consist of whole operations, so each may miss one.
                let missed = 95 * 11 - sum(&ops);
                assert!(
                    missed <= 11 * u64::from(pieces.min(8)),
                    "{pieces}: {missed}"
                );
            }
        }
    }

    type Work = fn(usize, u64) -> Option<u32>;
    type Case = (&'static str, Work, fn(usize) -> u64);

    /// Work and end of each thread, with a name for each case.
    const WORKS: [Case; 6] = [
        ("alike", |_, _| Some(10), |_| ROUNDS),
        (
            "one does more",
            |thread, _| Some(if thread == 0 { 60 } else { 10 }),
            |_| ROUNDS,
        ),
        (
            "one alone in the middle",
            |thread, round| (thread == 0 || !(30..70).contains(&round)).then_some(10),
            |_| ROUNDS,
        ),
        (
            "one in odd rounds",
            |thread, round| (thread != 1 || round % 2 == 1).then_some(10),
            |_| ROUNDS,
        ),
        (
            "one never",
            |thread, _| (thread != 2).then_some(10),
            |_| ROUNDS,
        ),
        (
            "one ends early",
            |_, _| Some(10),
            |thread| if thread == 1 { 20 } else { ROUNDS },
        ),
    ];

    /// Whatever the threads do, the requested number of instructions is measured over all threads,
    /// in the requested number of pieces.
    #[test]
    fn a_piece_is_the_same_part_of_the_program_whatever_its_threads_do() {
        for (name, work, ends) in WORKS {
            let make = rounds(3, work, ends);
            let all = Way::of(make()).instructions();
            let ops = run(&make, extent(all / 5, 4));
            let [mut warmed, mut measured] = [0; 2];
            for ops in &ops {
                let [warm, rest] = split(ops);
                warmed += sum(warm);
                measured += sum(rest);
            }
            // No thread goes more than one operation beyond the end of a piece.
            assert!(
                measured.abs_diff(all / 5) <= 4 * 3 * 61,
                "{name}: {measured} of {all}"
            );
            assert!(
                warmed.abs_diff(all / 5) <= 3 * 61,
                "{name}: {warmed} of {all}"
            );
            let pieces = |ops: &[Op]| {
                let rounds = rounds_of(split(ops)[1]);
                let gaps = rounds
                    .windows(2)
                    .filter(|pair| pair[1] > pair[0] + 2)
                    .count();
                (gaps + 1, rounds.first().copied(), rounds.last().copied())
            };
            // The first thread works in every round.
            assert_eq!(
                pieces(&ops[0]).0,
                4,
                "{name}: {:?}",
                rounds_of(split(&ops[0])[1])
            );
        }
    }

    #[test]
    fn a_phase_is_measured_as_far_as_it_is_the_programs() {
        // In 40 of the 95 rounds, only the first thread works.
        let serial: fn(usize, u64) -> Option<u32> =
            |thread, round| (thread == 0 || !(30..70).contains(&round)).then_some(10);
        let make = rounds(4, serial, |_| ROUNDS);
        let all = Way::of(make()).instructions() as f64;
        let ops = run(make, extent(all as u64 / 4, 16));
        let within = |round: &u64| (30..70).contains(round);
        let rounds = rounds_of(split(&ops[0])[1]);
        let alone = rounds.iter().filter(|round| within(round)).count() as f64 * 11.0;
        let measured: u64 = ops.iter().map(|ops| sum(split(ops)[1])).sum();
        let (found, wanted) = (alone / measured as f64, 40.0 * 11.0 / all);
        assert!((found / wanted - 1.0).abs() < 0.3, "{found} for {wanted}");
    }
}
