//! Interpreter of a program: the state of its threads and their calls.
//!
//! Invariants: a call is made without allocation; each thread draws from a random stream of its
//! own, so that its draws do not depend on the number of threads; sizes of files depend on the set
//! alone.

use super::aio::AioQueue;
use super::thread::{Flight, Step, Worker};
use super::{DESCRIPTORS, FlowOp, HELPERS, MOST_THREADS, Mode, OpKind, Program};
use crate::files::fileset::Fileset;
use crate::files::source::Parking;
use crate::files::{Call, Errno, Names, Setup, Source, ThreadId, Turn};
use sim::Seed;
use units::Ns;

/// Operations that a thread may complete without a turn before it waits for a change.
const MOST_IDLE: u32 = 1_000;

/// Next action of an operation.
pub(super) enum Want {
    /// Make this call.
    Call(Call, Flight),
    /// End the operation.
    Done,
    /// End the operation after a pause.
    Pause(Ns),
    /// Wait for a change in this set, then retry.
    Set(usize),
    /// Wait until this gate opens, then retry.
    Gate(usize),
    /// Wait until an asynchronous write has ended, then retry.
    Reap,
    /// No file of the wanted kind exists in this set.
    Nothing(usize),
    /// End the thread, or the run.
    Finish,
    /// End the run with this failure.
    Fail(String),
}

/// Semaphore of one operation of one thread.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// Number of tokens to take.
    pub(super) tokens: u64,
    /// Tokens that blocking posts may still add.
    pub(super) room: u64,
    /// Threads that wait for tokens or room.
    waiting: Vec<ThreadId>,
}

/// A program in execution.
#[derive(Clone, Debug)]
pub struct Flow {
    pub(super) program: Program,
    names: Names,
    setup: Setup,
    pub(super) sets: Vec<Fileset>,
    /// Threads that wait for a change in each set.
    set_waiters: Vec<Vec<ThreadId>>,
    pub(super) workers: Vec<Worker>,
    pub(super) queues: Vec<AioQueue>,
    pub(super) gates: Vec<Gate>,
    /// Gates that each operation acts on, by group of threads and operation.
    pub(super) targets: Vec<Vec<Vec<usize>>>,
    /// Runs and bytes of each operation, by group of threads and operation.
    pub(super) done: Vec<Vec<(u64, u64)>>,
    /// Total of runs and bytes of all operations.
    pub(super) all_done: (u64, u64),
    parking: Parking,
    calls: u64,
    pub(super) events: u64,
    pub(super) now: Ns,
    finished: bool,
    dry: bool,
    failure: Option<String>,
}

impl Flow {
    /// Prepares `program`; its random choices follow `seed`.
    ///
    /// # Errors
    /// If the program has no thread or too many, or if an operation's target does not exist.
    pub fn new(program: Program, seed: Seed) -> Result<Self, String> {
        let mut names = Names::default();
        let mut setup = Setup::default();
        let populate = |spec: &super::FilesetSpec| {
            let mut rng = seed.stream(&format!("files of {}", spec.name));
            Fileset::populate(spec, &mut names, &mut setup.entries, &mut rng)
        };
        let sets: Vec<Fileset> = program.filesets.iter().map(populate).collect();
        let mut flow = Self {
            names,
            setup,
            set_waiters: vec![Vec::new(); sets.len()],
            sets,
            workers: Vec::new(),
            queues: Vec::new(),
            gates: Vec::new(),
            targets: Vec::new(),
            done: program
                .threads
                .iter()
                .map(|t| vec![(0, 0); t.ops.len()])
                .collect(),
            all_done: (0, 0),
            parking: Parking::default(),
            calls: 0,
            events: 0,
            now: Ns::ZERO,
            finished: false,
            dry: false,
            failure: None,
            program,
        };
        flow.hire(seed)?;
        flow.aim()?;
        flow.parking = Parking::new(flow.threads());
        Ok(flow)
    }

    /// Creates the threads, process by process, then numbers their helpers.
    fn hire(&mut self, seed: Seed) -> Result<(), String> {
        let stride = self.stride();
        let mut process = 0;
        for (spec, thread) in self.program.threads.iter().enumerate() {
            let writes = thread.ops.iter().any(|op| op.kind == OpKind::AioWrite);
            for _ in 0..thread.processes {
                for _ in 0..thread.instances {
                    let index = self.workers.len() as u32;
                    if index == MOST_THREADS {
                        return Err(format!("expected at most {MOST_THREADS} threads"));
                    }
                    let first_gate = self.gates.len();
                    self.gates.extend(thread.ops.iter().map(gate));
                    let rng = seed.child(u64::from(index)).stream("flow");
                    self.workers.push(Worker {
                        spec,
                        process,
                        first_fd: index * stride,
                        first_gate,
                        op: 0,
                        left: None,
                        step: Step::Start,
                        flight: Flight::None,
                        fds: vec![None; stride as usize - 1],
                        rotor: 0,
                        chosen: None,
                        rng,
                        aio: (0, 0),
                        idle: 0,
                    });
                }
                if writes {
                    self.queues.push(AioQueue::new(process, 0));
                }
                process += 1;
            }
        }
        let mut first = self.workers.len() as u32;
        for queue in &mut self.queues {
            queue.first = first;
            first += HELPERS;
        }
        match self.workers.is_empty() {
            true => Err("expected at least one thread".to_owned()),
            false => Ok(()),
        }
    }

    /// Descriptor numbers of a thread: those of its operations, and one for listing directories.
    fn stride(&self) -> u32 {
        let ops = self.program.threads.iter().flat_map(|t| &t.ops);
        let most = ops.map(|op| match op.opennext {
            true => DESCRIPTORS,
            false => op.fd.max(op.srcfd) + 1,
        });
        most.max().unwrap_or(1) + 1
    }

    /// Resolves the targets of operations to gates.
    fn aim(&mut self) -> Result<(), String> {
        for thread in &self.program.threads {
            let mut targets = Vec::new();
            for op in &thread.ops {
                let aimed = op.target.as_deref().map(|name| self.gates_of(name));
                if aimed.as_ref().is_some_and(Vec::is_empty) && op.kind.needs_target() {
                    let target = op.target.as_deref().unwrap_or_default();
                    return Err(format!(
                        "expected an operation called {target}, the target of {}",
                        op.name
                    ));
                }
                targets.push(aimed.unwrap_or_default());
            }
            self.targets.push(targets);
        }
        Ok(())
    }

    fn gates_of(&self, name: &str) -> Vec<usize> {
        let mut gates = Vec::new();
        for worker in &self.workers {
            let ops = self.program.threads[worker.spec].ops.iter().enumerate();
            let called = ops.filter(|(_, op)| op.name == name);
            gates.extend(called.map(|(at, _)| worker.first_gate + at));
        }
        gates
    }

    /// Present operation of worker `index`.
    pub(super) fn op(&self, index: usize) -> &FlowOp {
        let worker = &self.workers[index];
        &self.program.threads[worker.spec].ops[worker.op]
    }

    fn worker_turn(&mut self, index: usize) -> Turn {
        let thread = ThreadId(index as u32);
        loop {
            let want = self.want(index);
            if !matches!(want, Want::Done) {
                self.workers[index].idle = 0;
            }
            match want {
                Want::Call(call, flight) => {
                    self.workers[index].flight = flight;
                    self.calls += 1;
                    return Turn::now(call);
                }
                Want::Done => {
                    self.finish_op(index, 0);
                    if self.tires(index) {
                        return self.rest(thread);
                    }
                }
                Want::Pause(span) => {
                    self.finish_op(index, 0);
                    return Turn::Pause(span);
                }
                Want::Set(set) => {
                    self.listen(set, thread);
                    return self.rest(thread);
                }
                Want::Gate(gate) => {
                    self.gates[gate].waiting.push(thread);
                    return self.rest(thread);
                }
                Want::Reap => return self.rest(thread),
                Want::Nothing(set) => match self.program.mode {
                    Mode::Timeout => {
                        self.listen(set, thread);
                        return self.rest(thread);
                    }
                    Mode::FirstDone => return self.finish(thread),
                    Mode::AllDone => return self.parking.done(thread),
                },
                Want::Finish if self.program.mode == Mode::AllDone => {
                    return self.parking.done(thread);
                }
                Want::Finish => return self.finish(thread),
                Want::Fail(why) => {
                    self.failure = Some(why);
                    return self.finish(thread);
                }
            }
        }
    }

    /// Whether worker `index` has completed so many operations without a turn that it should wait.
    /// It then waits for a change in any set.
    fn tires(&mut self, index: usize) -> bool {
        let idle = &mut self.workers[index].idle;
        *idle += 1;
        let tired = *idle > MOST_IDLE;
        if tired {
            *idle = 0;
            let thread = ThreadId(index as u32);
            for set in 0..self.sets.len() {
                self.listen(set, thread);
            }
        }
        tired
    }

    fn listen(&mut self, set: usize, thread: ThreadId) {
        let waiters = &mut self.set_waiters[set];
        if !waiters.contains(&thread) {
            waiters.push(thread);
        }
    }

    /// Parks `thread`; ends the run if no active thread is left.
    fn rest(&mut self, thread: ThreadId) -> Turn {
        let turn = self.parking.park(thread);
        if self.parking.is_still() {
            self.dry = true;
            return self.finish(thread);
        }
        turn
    }

    fn finish(&mut self, thread: ThreadId) -> Turn {
        self.finished = true;
        self.parking.wake_all();
        self.parking.done(thread)
    }

    /// Counts one run of the present operation of worker `index`, and advances to the next
    /// operation after the last run.
    pub(super) fn finish_op(&mut self, index: usize, bytes: u64) {
        let worker = &mut self.workers[index];
        let ops = &self.program.threads[worker.spec].ops;
        let counts = &mut self.done[worker.spec][worker.op];
        *counts = (counts.0 + 1, counts.1 + bytes);
        self.all_done = (self.all_done.0 + 1, self.all_done.1 + bytes);
        (worker.step, worker.chosen) = (Step::Start, None);
        let left = worker.left.map_or(0, |left| left.saturating_sub(1));
        worker.left = Some(left);
        if left == 0 {
            worker.op = (worker.op + 1) % ops.len();
            worker.left = None;
        }
    }

    /// Wakes the threads that wait for a change in `set`.
    pub(super) fn changed(&mut self, set: usize) {
        while let Some(thread) = self.set_waiters[set].pop() {
            self.parking.wake(thread);
        }
    }

    /// Wakes the threads that wait for tokens or room of `gate`.
    pub(super) fn open_gate(&mut self, gate: usize) {
        while let Some(thread) = self.gates[gate].waiting.pop() {
            self.parking.wake(thread);
        }
    }

    /// Wakes a worker that waits for its asynchronous writes.
    pub(super) fn wake_worker(&mut self, index: usize) {
        self.parking.wake(ThreadId(index as u32));
    }

    /// Wakes the helpers of `queue`.
    pub(super) fn wake_helpers(&mut self, queue: usize) {
        for helper in self.queues[queue].helpers() {
            self.parking.wake(helper);
        }
    }

    /// Ends the run because a call of worker `index` failed.
    fn give_up(&mut self, index: usize, errno: Errno) {
        let op = self.op(index);
        let (name, kind) = (op.name.as_str(), op.kind.word());
        let name = if name.is_empty() { kind } else { name };
        let why = format!("{name} failed with {errno} at call {}", self.calls);
        self.failure.get_or_insert(why);
        self.finished = true;
        self.parking.wake_all();
    }

    fn is_over(&self, now: Ns) -> bool {
        let late = self.program.until.is_some_and(|until| now >= until);
        self.finished || late || self.calls >= self.program.ops
    }
}

fn gate(op: &FlowOp) -> Gate {
    Gate {
        tokens: 0,
        room: op.highwater,
        waiting: Vec::new(),
    }
}

impl Source for Flow {
    fn names(&self) -> &Names {
        &self.names
    }

    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn threads(&self) -> u32 {
        self.workers.len() as u32 + self.queues.len() as u32 * HELPERS
    }

    fn process(&self, thread: ThreadId) -> u32 {
        match self.workers.get(thread.0 as usize) {
            Some(worker) => worker.process,
            None => self.queues[self.queue_of(thread)].process,
        }
    }

    fn next(&mut self, thread: ThreadId, now: Ns) -> Turn {
        self.parking.asks(thread);
        self.now = now;
        if self.is_over(now) {
            return self.finish(thread);
        }
        let index = thread.0 as usize;
        if index < self.workers.len() {
            return self.worker_turn(index);
        }
        let queue = self.queue_of(thread);
        match self.queues[queue].take(thread) {
            Some(job) => {
                self.calls += 1;
                Turn::now(Call::Pwrite {
                    fd: job.fd,
                    at: job.at,
                    len: job.len,
                })
            }
            None => self.rest(thread),
        }
    }

    fn ended(&mut self, thread: ThreadId, result: Result<u64, Errno>) {
        let index = thread.0 as usize;
        if index >= self.workers.len() {
            return self.helper_ended(thread, result);
        }
        let errno = result.err();
        self.land(index, result);
        if let Some(errno) = errno {
            self.give_up(index, errno);
        }
    }

    fn wake(&mut self) -> Option<ThreadId> {
        self.parking.next_woken()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.program.notes.clone();
        if self.dry {
            notes.push(format!(
                "the run ended after {} calls because every thread waited for another to create or \
                 free a file; use more files or fewer threads",
                self.calls
            ));
        }
        notes
    }

    fn failure(&self) -> Option<String> {
        self.failure.clone()
    }
}

impl Flow {
    fn queue_of(&self, helper: ThreadId) -> usize {
        (helper.0 as usize - self.workers.len()) / HELPERS as usize
    }

    fn helper_ended(&mut self, helper: ThreadId, result: Result<u64, Errno>) {
        let queue = self.queue_of(helper);
        let Some(job) = self.queues[queue].ended(helper) else {
            return;
        };
        self.workers[job.owner].aio.1 += 1;
        self.wake_worker(job.owner);
        self.wake_helpers(queue);
        if let Err(errno) = result {
            self.give_up(job.owner, errno);
        }
    }
}
