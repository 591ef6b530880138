//! A section of a program: what comes before is executed and not run, a part warms up, a
//! part is measured.
//!
//! Simulated runs of memory of gigabytes take a part of a program's way, as the paper's do.
//! Here it is the middle: what a program measures of itself is counted first; half of that
//! lies before what is measured here, and about as many instructions as are measured warm up.
//!
//! Invariants: every thread measures the same number of instructions, unless the program has
//! fewer; all begin to measure together, between the same two of the program's meetings; a
//! thread that has ended here goes on to where all meet, unseen, before any other passes
//! there, so that what the others do is what they would have done.

use memsys::{Op, Program};
use units::Bytes;

/// A program of which a section is run.
pub(crate) struct Section {
    program: Box<dyn Program>,
    /// Instructions of a thread that are measured.
    each: u64,
    threads: Vec<Thread>,
    /// Operations that are looked at and not given out.
    unseen: Vec<Op>,
}

#[derive(Clone, Default)]
struct Thread {
    /// Instructions after its preparation that are passed over, and until it measures.
    before: u64,
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
    /// Nothing more is given out.
    ended: bool,
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
}

/// Instructions of an operation.
fn instructions(op: &Op) -> u64 {
    match op {
        Op::Compute(count) => u64::from(*count),
        Op::Load { .. } | Op::Store { .. } => 1,
        Op::Flush { .. } | Op::Fence | Op::Meet | Op::Begin => 0,
    }
}

impl Section {
    /// Of the program that `make` makes, the middle: so many instructions of all threads
    /// together.
    pub(crate) fn new(make: impl Fn() -> Box<dyn Program>, instructions: u64) -> Self {
        let program = make();
        let threads = program.threads();
        let blank = |program| Self {
            program,
            each: (instructions / u64::from(threads.max(1))).max(1),
            threads: vec![Thread::default(); threads as usize],
            unseen: Vec::new(),
        };
        let mut whole = blank(program);
        whole.pass_over(|_| false);
        let mut section = blank(make());
        let each = section.each;
        let half = |thread: &Thread| thread.passed / 2;
        // Between which meetings the first thread is half through.
        let round = whole.threads.iter().map(|thread| {
            let half = half(thread);
            thread.meetings.partition_point(|&passed| passed <= half)
        });
        let round = round.min().unwrap_or(0);
        for (thread, counted) in section.threads.iter_mut().zip(&whole.threads) {
            let (first, last) = counted.round(round);
            thread.begin = half(counted).clamp(first, last);
            thread.before = thread.begin.saturating_sub(each);
        }
        section.pass_over(|state| state.prepared && state.passed >= state.before);
        for state in &mut section.threads {
            (state.owes, state.given) = (state.met, state.passed);
            // Operations come by batches: a short section may have been passed.
            state.begin = state.begin.max(state.passed);
        }
        section
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

    /// Lets a thread go on, unseen, until `stops` or it has come to so many meetings.
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

    /// Lets all threads go on, unseen, from meeting to meeting, until any of them `stops`.
    fn pass_over(&mut self, stops: impl Fn(&Thread) -> bool) {
        let mut meetings = 0;
        while !self.threads.iter().any(&stops) && self.threads.iter().any(|state| !state.over) {
            meetings += 1;
            for thread in 0..self.threads.len() as u32 {
                self.pass(thread, meetings, &stops);
            }
        }
    }

    /// Threads that have ended here come to the meeting that `thread` is about to leave.
    fn bring_others(&mut self, thread: u32) {
        let meetings = self.threads[thread as usize].meetings.len();
        for other in 0..self.threads.len() as u32 {
            if self.threads[other as usize].ended {
                self.pass(other, meetings, |_| false);
            }
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
        if self.threads[index].ended || self.threads[index].over {
            return false;
        }
        if std::mem::take(&mut self.threads[index].owes) {
            ops.push(Op::Meet);
            return true;
        }
        self.bring_others(thread);
        let mut taken = std::mem::take(&mut self.unseen);
        taken.clear();
        self.take(thread, &mut taken);
        let (each, state) = (self.each, &mut self.threads[index]);
        for &op in &taken {
            if state.given >= state.begin && !state.begun {
                state.begun = true;
                ops.extend([Op::Begin, Op::Meet]);
            }
            if state.given >= state.begin + each {
                state.ended = true;
                break;
            }
            state.given += instructions(&op);
            ops.push(op);
        }
        self.unseen = taken;
        !self.threads[index].ended && !self.threads[index].over
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

    /// Runs it as a machine does: whoever stands where all meet waits for those that live.
    fn run(mut section: Section) -> Vec<Vec<Op>> {
        let threads = section.threads() as usize;
        let mut all = vec![Vec::new(); threads];
        let mut live = vec![true; threads];
        while live.contains(&true) {
            for (thread, ops) in all.iter_mut().enumerate() {
                live[thread] = live[thread] && section.next(thread as u32, ops);
            }
        }
        all
    }

    #[test]
    fn a_section_is_the_middle_and_warms_up_as_long_as_it_measures() {
        let rounds = || -> Box<dyn Program> { Box::new(Rounds { round: vec![0; 4] }) };
        for ops in run(Section::new(rounds, 4 * 110)) {
            let begin = ops.iter().position(|op| *op == Op::Begin).unwrap();
            let loads = |ops: &[Op]| {
                let at = |op: &Op| match op {
                    Op::Load { at, .. } => Some(at / 4096),
                    _ => None,
                };
                ops.iter().filter_map(at).collect::<Vec<u64>>()
            };
            // Of 95 rounds that it measures, half are before what is measured here.
            assert_eq!(loads(&ops[..begin]), (43..52).collect::<Vec<u64>>());
            assert_eq!(loads(&ops[begin..]), (52..62).collect::<Vec<u64>>());
        }
    }

    #[test]
    fn a_program_that_is_shorter_is_run_to_its_end() {
        let rounds = || -> Box<dyn Program> { Box::new(Rounds { round: vec![0; 2] }) };
        let all = run(Section::new(rounds, 1 << 40));
        let loads = |ops: &Vec<Op>| {
            ops.iter()
                .filter(|op| matches!(op, Op::Load { .. }))
                .count()
        };
        assert_eq!(all.iter().map(loads).collect::<Vec<_>>(), [95, 95]);
    }

    /// One thread ends long before the others, which still meet it.
    #[test]
    fn who_has_ended_is_brought_to_the_meetings_of_the_others() {
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
        let uneven = || -> Box<dyn Program> { Box::new(Uneven(Rounds { round: vec![0; 3] })) };
        let all = run(Section::new(uneven, 3 * 220));
        let loads = |ops: &Vec<Op>| {
            ops.iter()
                .filter(|op| matches!(op, Op::Load { .. }))
                .count()
        };
        let counts: Vec<usize> = all.iter().map(loads).collect();
        // All begin in one round, and of the first each round has more instructions.
        assert!(
            counts[0] < counts[1] && counts[1] == counts[2],
            "{counts:?}"
        );
    }
}
