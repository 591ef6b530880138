//! A section of a program: a part of it that is measured, in pieces spread evenly over it.
//!
//! Simulated runs of memory of gigabytes take a part of a program's way, as the paper's do.
//! Programs have phases, a search that sweeps over flags and one that follows edges, and which
//! of them a single piece meets hangs on the seed. So there are several of equal length, each
//! in the middle of its share of the program (systematic sampling, as of SMARTS, ISCA 2003),
//! and about as many instructions as are measured warm up before the first. What lies between
//! two is executed and not run: the machine goes on with the next as if it followed.
//!
//! Invariants: every thread measures the same number of instructions, unless the program has
//! fewer; all begin a piece together, between the same two of the program's meetings; a thread
//! that is through with a piece goes on to where all meet, unseen, before any other passes
//! there, so that what the others do is what they would have done; and until all are through
//! with it, it answers each of their meetings, so that nobody waits for it.

use memsys::{Op, Program};
use units::Bytes;

/// What of a program is measured.
#[derive(Clone, Copy)]
pub(crate) struct Extent {
    /// Instructions of all threads together.
    pub(crate) instructions: u64,
    /// Into how many pieces they are divided.
    pub(crate) pieces: u32,
}

/// A program of which a section is run.
pub(crate) struct Section {
    program: Box<dyn Program>,
    /// Instructions of a thread that are measured in a piece.
    each: u64,
    threads: Vec<Thread>,
    /// The piece that all are in, and how many there are.
    piece: usize,
    pieces: usize,
    /// Operations that are looked at and not given out.
    unseen: Vec<Op>,
}

#[derive(Clone, Default)]
struct Thread {
    /// Instructions after its preparation at which each piece begins.
    begins: Vec<u64>,
    /// How many it had been given when it began the piece that it is in.
    begin: u64,
    /// The program has passed its preparation.
    prepared: bool,
    /// Instructions since.
    passed: u64,
    /// The same up to what was given out last.
    given: u64,
    /// What was taken last ended where all meet.
    met: bool,
    /// So did what was passed over, and it has not been told.
    owes: bool,
    /// It has told that measuring begins.
    begun: bool,
    /// It is through with the piece.
    through: bool,
    /// Meetings that it was given.
    told: usize,
    /// The program's thread has ended.
    over: bool,
    /// What it had passed at each meeting that it has come to.
    meetings: Vec<u64>,
}

impl Thread {
    /// What it has passed between its meetings number `round` and the next.
    fn round(&self, round: usize) -> (u64, u64) {
        let at = |number: usize| self.meetings.get(number).copied();
        let first = round.checked_sub(1).and_then(at);
        (first.unwrap_or(0), at(round).unwrap_or(self.passed))
    }

    /// Where a piece of `each` instructions begins that lies in the middle of its share.
    fn centred(&self, piece: usize, pieces: usize, each: u64) -> u64 {
        let middle = u128::from(self.passed) * (2 * piece as u128 + 1) / (2 * pieces as u128);
        (middle as u64).saturating_sub(each / 2)
    }

    /// How many meetings it has come to when it has passed so much.
    fn met_by(&self, passed: u64) -> usize {
        self.meetings.partition_point(|&at| at <= passed)
    }
}

/// Instructions of an operation.
fn instructions(op: &Op) -> u64 {
    match op {
        Op::Compute(count) => u64::from(*count),
        Op::Load { .. } | Op::Store { .. } => 1,
        Op::Flush { .. } | Op::Fence | Op::Meet | Op::Begin => 0,
    }
}

/// How many meetings some thread has left, so that all have come to them.
fn left(threads: &[Thread]) -> usize {
    let left = |state: &Thread| state.meetings.len() - usize::from(state.met);
    threads.iter().map(left).max().unwrap_or(0)
}

impl Section {
    /// Of the program that `make` makes, so much.
    pub(crate) fn new(make: impl Fn() -> Box<dyn Program>, extent: Extent) -> Self {
        let whole = Self::counted(make());
        let mut section = Self::blank(make());
        let threads = u64::from(section.threads().max(1));
        section.pieces = extent.pieces.max(1) as usize;
        section.each = (extent.instructions / threads / section.pieces as u64).max(1);
        for piece in 0..section.pieces {
            section.place(piece, &whole);
        }
        let warm = section.each * section.pieces as u64;
        section.pass_over(|state| state.passed >= state.begins[0].saturating_sub(warm));
        for state in &mut section.threads {
            // Operations come by batches: a short section may have been passed.
            state.begin = state.begins[0].max(state.passed);
        }
        section
    }

    fn blank(program: Box<dyn Program>) -> Self {
        Self {
            threads: vec![Thread::default(); program.threads() as usize],
            program,
            each: 0,
            piece: 0,
            pieces: 0,
            unseen: Vec::new(),
        }
    }

    /// What each thread of `program` passes, and where they meet.
    fn counted(program: Box<dyn Program>) -> Vec<Thread> {
        let mut whole = Self::blank(program);
        whole.pass_over(|_| false);
        whole.threads
    }

    /// Says where each thread begins `piece`: in the round that the first of them is in at
    /// its middle.
    fn place(&mut self, piece: usize, whole: &[Thread]) {
        let begin = |counted: &Thread| counted.centred(piece, self.pieces, self.each);
        let round = whole.iter().map(|counted| counted.met_by(begin(counted)));
        let round = round.min().unwrap_or(0);
        for (thread, counted) in self.threads.iter_mut().zip(whole) {
            let (first, last) = counted.round(round);
            thread.begins.push(begin(counted).clamp(first, last));
        }
    }

    /// Takes the next operations of the program's thread into `ops`.
    fn take(&mut self, thread: u32, ops: &mut Vec<Op>) {
        let from = ops.len();
        let more = self.program.next(thread, ops);
        let state = &mut self.threads[thread as usize];
        state.over = !more;
        state.met = false;
        for op in &ops[from..] {
            state.met = *op == Op::Meet;
            state.prepared |= *op == Op::Begin;
            if state.met {
                state.meetings.push(state.passed);
            }
            if state.prepared {
                state.passed += instructions(op);
            }
        }
    }

    /// Lets a thread go on, unseen, until it `stops` or has come to so many meetings.
    fn pass(&mut self, thread: u32, meetings: usize, stops: impl Fn(&Thread) -> bool) {
        let mut unseen = std::mem::take(&mut self.unseen);
        loop {
            let state = &self.threads[thread as usize];
            if state.over || state.meetings.len() >= meetings || stops(state) {
                break;
            }
            unseen.clear();
            self.take(thread, &mut unseen);
        }
        self.unseen = unseen;
    }

    /// Lets all threads go on, unseen, from meeting to meeting, until any of them is prepared
    /// and `stops`.
    fn pass_over(&mut self, stops: impl Fn(&Thread) -> bool) {
        self.bring(left(&self.threads), |_| true);
        let stopped = |state: &Thread| state.prepared && stops(state);
        for meetings in left(&self.threads) + 1.. {
            for thread in 0..self.threads.len() as u32 {
                self.pass(thread, meetings, stopped);
            }
            if self.threads.iter().any(stopped) || self.threads.iter().all(|state| state.over) {
                break;
            }
        }
        let left = left(&self.threads);
        for state in &mut self.threads {
            state.owes = state.met && state.meetings.len() > left;
            state.given = state.passed;
        }
    }

    /// Brings to so many meetings whoever `comes`.
    fn bring(&mut self, meetings: usize, comes: impl Fn(&Thread) -> bool) {
        for thread in 0..self.threads.len() {
            if comes(&self.threads[thread]) {
                self.pass(thread as u32, meetings, |_| false);
            }
        }
    }

    /// Whether no thread has anything left of the piece, and `thread` was at the same meetings
    /// as the others: nobody may come to it earlier for having been asked later.
    fn is_over(&self, thread: usize) -> bool {
        let mut threads = self.threads.iter().filter(|state| !state.over);
        let told = self.threads[thread].told;
        threads.all(|state| state.through && state.told <= told)
    }

    /// Whether no piece comes after this one.
    const fn is_last(&self) -> bool {
        self.piece + 1 == self.pieces
    }

    /// Passes over what lies before the next piece.
    fn go_on(&mut self) {
        self.piece += 1;
        let piece = self.piece;
        self.pass_over(|state| state.passed >= state.begins[piece]);
        for state in &mut self.threads {
            (state.begin, state.through) = (state.passed, false);
        }
    }

    /// Gives out what was taken of a thread, as far as it belongs to the piece.
    fn give(&mut self, thread: usize, taken: &[Op], ops: &mut Vec<Op>) {
        let (each, state) = (self.each, &mut self.threads[thread]);
        for op in taken {
            if state.given >= state.begin && !state.begun {
                state.begun = true;
                ops.extend([Op::Begin, Op::Meet]);
            }
            if state.given >= state.begin + each {
                state.through = true;
                break;
            }
            state.given += instructions(op);
            ops.push(*op);
        }
    }
}

impl Program for Section {
    fn threads(&self) -> u32 {
        self.program.threads()
    }

    fn footprint(&self) -> Bytes {
        self.program.footprint()
    }

    fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
        let index = thread as usize;
        if self.threads[index].through && !self.is_last() && self.is_over(index) {
            self.go_on();
        }
        let last = self.is_last();
        let state = &mut self.threads[index];
        if state.over || state.through && last {
            return false;
        }
        if state.through || std::mem::take(&mut state.owes) {
            state.told += 1;
            ops.push(Op::Meet);
            return true;
        }
        // Who is through has to have been at the meeting that this one is about to leave.
        let meetings = state.meetings.len();
        self.bring(meetings, |other| other.through);
        let mut taken = std::mem::take(&mut self.unseen);
        taken.clear();
        self.take(thread, &mut taken);
        let from = ops.len();
        self.give(index, &taken, ops);
        self.unseen = taken;
        let state = &mut self.threads[index];
        if state.through && !state.over && !last {
            ops.push(Op::Meet);
        }
        state.told += ops[from..].iter().filter(|op| **op == Op::Meet).count();
        let ends = state.over || state.through && last;
        !ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that each do 100 rounds of a load and ten instructions and then meet, of
    /// which the first five rounds prepare. It notes who was asked beyond a meeting that
    /// others had not come to.
    struct Rounds {
        round: Vec<u64>,
    }

    impl Program for Rounds {
        fn threads(&self) -> u32 {
            self.round.len() as u32
        }
        fn footprint(&self) -> Bytes {
            Bytes(1 << 20)
        }
        fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
            let round = self.round[thread as usize];
            let least = self.round.iter().min();
            assert!(
                least.is_some_and(|&least| least + 1 > round),
                "asked before others met"
            );
            self.round[thread as usize] += 1;
            let load = Op::Load {
                at: 4096 * round,
                size: 8,
                after: 0,
            };
            ops.extend([Op::Compute(10), load]);
            if round == 4 {
                ops.push(Op::Begin);
            }
            ops.push(Op::Meet);
            round + 1 < 100
        }
    }

    fn extent(instructions: u64, pieces: u32) -> Extent {
        Extent {
            instructions,
            pieces,
        }
    }

    /// Runs it as a machine does: whoever stands where all meet waits for those that live.
    fn run(mut section: Section) -> Vec<Vec<Op>> {
        let threads = section.threads() as usize;
        let mut all: Vec<Vec<Op>> = vec![Vec::new(); threads];
        let mut live = vec![true; threads];
        while live.contains(&true) {
            for (thread, ops) in all.iter_mut().enumerate() {
                let meets = |ops: &[Op]| ops.iter().filter(|op| **op == Op::Meet).count();
                let before = meets(ops);
                while live[thread] && meets(ops) == before {
                    live[thread] = section.next(thread as u32, ops);
                }
            }
        }
        all
    }

    /// The rounds of which `ops` has loads.
    fn rounds_of(ops: &[Op]) -> Vec<u64> {
        let at = |op: &Op| match op {
            Op::Load { at, .. } => Some(at / 4096),
            _ => None,
        };
        ops.iter().filter_map(at).collect()
    }

    fn rounds(threads: usize) -> impl Fn() -> Box<dyn Program> {
        move || {
            Box::new(Rounds {
                round: vec![0; threads],
            })
        }
    }

    #[test]
    fn one_piece_is_the_middle_and_warms_up_as_long_as_it_measures() {
        for ops in run(Section::new(rounds(4), extent(4 * 110, 1))) {
            let begin = ops.iter().position(|op| *op == Op::Begin).unwrap();
            // Of 95 rounds that it measures, as many are before as after: 42.5.
            assert_eq!(rounds_of(&ops[..begin]), (38..47).collect::<Vec<u64>>());
            assert_eq!(rounds_of(&ops[begin..]), (47..57).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn pieces_lie_in_the_middle_of_equal_shares() {
        for ops in run(Section::new(rounds(4), extent(4 * 22 * 5, 5))) {
            let begin = ops.iter().position(|op| *op == Op::Begin).unwrap();
            // Five rounds prepare, and a share is 19; a piece of two begins with a round.
            let first = [13, 33, 52, 71, 90];
            let pieces = first.iter().flat_map(|&at| [at, at + 1]);
            let wanted: Vec<u64> = pieces.collect();
            assert_eq!(rounds_of(&ops[begin..]), wanted);
        }
    }

    #[test]
    fn a_program_that_is_shorter_is_run_to_its_end() {
        for pieces in [1, 2, 7] {
            let all = run(Section::new(rounds(2), extent(1 << 40, pieces)));
            for ops in all {
                assert_eq!(rounds_of(&ops).len(), 95, "{pieces}");
            }
        }
        // As many instructions as there are, in pieces that touch.
        for ops in run(Section::new(rounds(2), extent(2 * 95 * 11, 5))) {
            assert_eq!(rounds_of(&ops), (5..100).collect::<Vec<u64>>());
        }
    }

    /// As rounds, but the first thread has more to do in each.
    struct Uneven(Rounds);

    impl Program for Uneven {
        fn threads(&self) -> u32 {
            self.0.threads()
        }
        fn footprint(&self) -> Bytes {
            self.0.footprint()
        }
        fn next(&mut self, thread: u32, ops: &mut Vec<Op>) -> bool {
            if thread == 0 {
                ops.push(Op::Compute(50));
            }
            self.0.next(thread, ops)
        }
    }

    fn uneven() -> Box<dyn Program> {
        Box::new(Uneven(Rounds { round: vec![0; 3] }))
    }

    /// One thread is through long before the others, which still meet it.
    #[test]
    fn who_is_through_is_brought_to_the_meetings_of_the_others() {
        let all = run(Section::new(uneven, extent(3 * 220, 1)));
        let counts: Vec<usize> = all.iter().map(|ops| rounds_of(ops).len()).collect();
        // All begin in one round, and of the first each round has more instructions.
        assert!(
            counts[0] < counts[1] && counts[1] == counts[2],
            "{counts:?}"
        );
    }

    /// Each meeting of the machine's is of all threads, also if one is through with its piece,
    /// and no load of a piece is before the others have begun it.
    #[test]
    fn pieces_begin_together() {
        let all = run(Section::new(uneven, extent(3 * 220 * 4, 4)));
        let gaps = |ops: &Vec<Op>| {
            let (mut last, mut meets, mut gaps) = (None, 0, Vec::new());
            for op in &ops[ops.iter().position(|op| *op == Op::Begin).unwrap()..] {
                meets += usize::from(*op == Op::Meet);
                let Op::Load { at, .. } = op else { continue };
                let round = at / 4096;
                if last.is_some_and(|last| round > last + 1) {
                    gaps.push((meets, round));
                }
                last = Some(round);
            }
            gaps
        };
        let all: Vec<_> = all.iter().map(gaps).collect();
        assert_eq!(all[1].len(), 3, "{all:?}");
        assert_eq!(all[1], all[2]);
        // The first is in the same round after as many meetings.
        assert_eq!(all[0], all[1]);
    }
}
