//! Threads of fio jobs, as records of the kernel.
//!
//! A thread has as many *slots* as requests in flight, each a record. A slot whose request ends
//! takes the next request of its thread within the same event; the record of a thread is called at
//! its release and after its pauses.
//!
//! Invariants: a slot serves one request at a time; a thread asks for its next step only while it
//! runs; a thread is released when all earlier phases and the job that it waits for have ended.

mod results;

use super::target::{Service, Target, purpose};
use super::{Again, IN_FLIGHT};
use crate::attached::Attached;
use crate::error::StackError;
use crate::meter::{Meter, Tally};
use crate::sight::Running;
use crate::timeline::Sampled;
use host::{QueuePair, Who};
use report::record::LatencySet;
pub(crate) use results::Results;
use sim::{Actor, ActorId, Sim, TaskId};
use ssd::{Command, IoError};
use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::task::Poll;
use units::{Bytes, Ns};
use workload::jobs::{Ends, Next, Opened, Order, Thread};
use workload::{Jobs, Labels, Op, Placer, Request, Workload};

/// State of a thread.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Is not released yet.
    Waiting,
    Running,
    /// Waits until no request is in flight.
    Draining,
    /// Waits for the end of a flush or of the reset of a zone.
    Flushing,
    /// Has issued more than its share, and waits for requests of other threads.
    Held,
    /// Waits until this time.
    Sleeping(Ns),
    /// Has issued its last request.
    Ending,
    Ended,
}

/// A thread under way.
struct Live {
    thread: Thread,
    order: Order,
    id: TaskId,
    state: State,
    /// Time of its release.
    released: Ns,
    in_flight: u32,
    /// Slots without a request.
    free: Vec<u32>,
    /// Requests issued since its release.
    issued: u64,
}

/// A request in flight, or none.
struct Slot {
    id: TaskId,
    thread: usize,
    queue: QueuePair,
    /// Request to begin at the next event of the slot.
    next: Option<Request>,
    service: Option<Service>,
    queued: host::Request,
    op: Op,
    sectors: u32,
    began: Ns,
}

/// The mutable state of a run.
struct Work {
    threads: Vec<Live>,
    slots: Vec<Slot>,
    placer: Placer,
    meter: Meter,
    results: Results,
    labels: Labels,
    failure: Option<StackError>,
    taken: u64,
    /// Requests of the threads that have a share, and one more; the sum of their shares.
    flow: (u64, u64),
    /// Threads that have not ended: of each phase, of each job, and in all.
    of_phases: Vec<u32>,
    of_jobs: Vec<u32>,
    left: usize,
}

/// Jobs of fio on a drive.
pub(crate) struct Threads {
    sim: Sim,
    actor: ActorId,
    target: Target,
    start: Ns,
    again: Again,
    /// The jobs, with the bytes and the handles that they get.
    jobs: (Jobs, Bytes, u16),
    work: RefCell<Work>,
}

impl Threads {
    /// Starts `opened`, the threads of `jobs` on a drive that offers bytes and handles.
    pub(crate) fn start(
        sim: &Sim,
        port: &Attached,
        jobs: (Jobs, Bytes, u16),
        opened: Opened,
        (workload, again): (&Workload, Again),
        meter: Meter,
    ) -> Result<Rc<Self>, StackError> {
        check_depth(&opened)?;
        let run = Rc::new_cyclic(|me: &Weak<Self>| Self {
            actor: sim.enroll(me.clone()),
            target: Target::new(sim, port),
            start: sim.now(),
            again,
            work: RefCell::new(Work {
                threads: Vec::new(),
                slots: Vec::new(),
                placer: workload.placer(jobs.1),
                meter,
                results: Results::new(&opened.jobs),
                labels: opened.labels.clone(),
                failure: None,
                taken: 0,
                flow: (1, 0),
                of_phases: Vec::new(),
                of_jobs: Vec::new(),
                left: 0,
            }),
            jobs,
            sim: sim.clone(),
        });
        run.add(&mut run.work.borrow_mut(), opened);
        Ok(run)
    }

    /// Adds the threads of one pass, and releases those of its first phase.
    fn add(&self, work: &mut Work, opened: Opened) {
        let count = opened.threads.len();
        work.left = count;
        work.of_jobs = vec![0; opened.jobs.len()];
        work.of_phases = vec![0; count];
        let shares = opened.threads.iter().map(|(_, thread)| thread.flow());
        work.flow = (1, shares.sum());
        for (number, (order, thread)) in opened.threads.into_iter().enumerate() {
            work.of_jobs[order.job] += 1;
            work.of_phases[order.phase] += 1;
            let live = Live {
                thread,
                order,
                id: self.sim.add_record(self.actor, number as u32),
                state: State::Waiting,
                released: Ns::ZERO,
                in_flight: 0,
                free: Vec::new(),
                issued: 0,
            };
            work.threads.push(live);
        }
        self.release(work);
    }

    /// Releases the threads whose time has come.
    fn release(&self, work: &mut Work) {
        let phase = work.of_phases.iter().position(|&open| open > 0);
        let Some(phase) = phase else { return };
        let now = self.sim.now();
        for live in &mut work.threads {
            let waits = live.order.wait_for.is_some_and(|job| work.of_jobs[job] > 0);
            if live.state == State::Waiting && live.order.phase <= phase && !waits {
                (live.state, live.released) = (State::Running, now);
                let measured = now + live.thread.start();
                work.results
                    .begin(live.order.job, measured.since(self.start));
                self.sim.wake(live.id);
            }
        }
    }

    /// Takes steps of thread `number` while it has free slots. `own` is the slot whose event this
    /// is: it begins its request at once, others do at an event of theirs. Returns whether `own`
    /// has begun a request.
    fn advance(&self, work: &mut Work, number: usize, own: Option<usize>) -> bool {
        let (mut own, mut has_begun) = (own, false);
        while work.threads[number].state == State::Running {
            let live = &mut work.threads[number];
            if live.in_flight == live.thread.depth() {
                break;
            }
            if is_ahead(live, work.flow) {
                live.state = State::Held;
                break;
            }
            let now = self.sim.now().since(live.released);
            let next = live.thread.next(now, live.in_flight);
            if let Next::Issue(request) = next {
                live.in_flight += 1;
                if matches!(request.op, Op::Flush | Op::ZoneReset) {
                    live.state = State::Flushing;
                }
                live.issued += 1;
                if live.thread.flow() > 0 {
                    work.flow.0 += 1;
                    self.let_go(work);
                }
                let is_own = own.is_some();
                let slot = own.take().unwrap_or_else(|| self.free_slot(work, number));
                if !self.issue(work, slot, request, is_own) {
                    return false;
                }
                has_begun |= is_own;
                continue;
            }
            live.free.extend(own.take().map(|slot| slot as u32));
            match next {
                Next::Until(time) => {
                    let time = live.released + time;
                    live.state = State::Sleeping(time);
                    self.sim.call_at(time, live.id);
                }
                Next::End => {
                    live.state = State::Ending;
                    if live.in_flight > 0 {
                        return has_begun;
                    }
                    self.end(work, number);
                    // The threads may be those of the next pass.
                    return false;
                }
                _ => live.state = State::Draining,
            }
        }
        if let (Some(slot), State::Held) = (own, work.threads[number].state) {
            work.threads[number].free.push(slot as u32);
        }
        has_begun
    }

    /// Wakes threads that waited for requests of others and are no longer ahead of their share.
    fn let_go(&self, work: &mut Work) {
        for live in &mut work.threads {
            if live.state == State::Held && !is_ahead(live, work.flow) {
                live.state = State::Running;
                self.sim.wake(live.id);
            }
        }
    }

    /// A slot without a request, which is added if the thread has none.
    fn free_slot(&self, work: &mut Work, number: usize) -> usize {
        let live = &mut work.threads[number];
        if let Some(slot) = live.free.pop() {
            return slot as usize;
        }
        let record = (work.threads.len() + work.slots.len()) as u32;
        work.slots.push(Slot {
            id: self.sim.add_record(self.actor, record),
            thread: number,
            queue: self.target.device.queue(number),
            next: None,
            service: None,
            queued: host::Request::new(Command::Flush, Who::default()),
            op: Op::Flush,
            sectors: 0,
            began: Ns::ZERO,
        });
        work.slots.len() - 1
    }

    /// Issues `request` in slot `slot`; false if it stops the run.
    fn issue(&self, work: &mut Work, slot: usize, request: Request, is_own: bool) -> bool {
        let request = work.placer.place(request);
        work.taken += 1;
        if let Some(error) = self.target.check(&request, work.taken) {
            self.fail(work, error);
            return false;
        }
        match is_own {
            true => self.begin(work, slot, &request),
            false => {
                let slot = &mut work.slots[slot];
                slot.next = Some(request);
                self.sim.wake(slot.id);
            }
        }
        true
    }

    #[inline]
    fn begin(&self, work: &mut Work, slot: usize, request: &Request) {
        let who = Who {
            origin: request.origin,
            purpose: purpose(work.labels.purpose(request.origin)),
        };
        let slot = &mut work.slots[slot];
        (slot.op, slot.sectors) = (request.op, request.extent.sectors);
        slot.began = self.sim.now();
        slot.service = Some(self.target.begin(request, who, &mut slot.queued));
    }

    /// Advances the request of slot `index` and those that follow it in the slot.
    fn serve(&self, work: &mut Work, index: usize) {
        if let Some(request) = work.slots[index].next.take() {
            self.begin(work, index, &request);
        }
        loop {
            let slot = &mut work.slots[index];
            let Some(service) = &mut slot.service else {
                return;
            };
            let Poll::Ready(result) = service.advance(&slot.queue, &mut slot.queued) else {
                return;
            };
            slot.service = None;
            if !self.complete(work, index, result) {
                return;
            }
        }
    }

    /// Completes the request of slot `index`. Returns whether the slot has begun another one.
    fn complete(&self, work: &mut Work, index: usize, result: Result<(), IoError>) -> bool {
        let (now, slot) = (self.sim.now(), &work.slots[index]);
        let (op, number) = (slot.op, slot.thread);
        let (latency, bytes) = (
            now.since(slot.began),
            units::SECTOR * u64::from(slot.sectors),
        );
        let clock = now.since(self.start);
        work.meter.add(op, latency, clock, result);
        let live = &mut work.threads[number];
        work.results.add(
            live.order.job,
            clock,
            (live.released + live.thread.start())
                .0
                .saturating_sub(self.start.0),
            (op, bytes, latency, result.is_ok()),
        );
        live.in_flight -= 1;
        let goes_on = match live.state {
            State::Running => live.in_flight <= live.thread.refill(),
            State::Draining => live.in_flight == 0,
            State::Flushing => matches!(op, Op::Flush | Op::ZoneReset),
            _ => false,
        };
        if goes_on {
            live.state = State::Running;
            return self.advance(work, number, Some(index));
        }
        live.free.push(index as u32);
        if live.state == State::Ending && live.in_flight == 0 {
            self.end(work, number);
        }
        false
    }

    /// Ends thread `number`, and others that end with it; releases those that wait for it.
    fn end(&self, work: &mut Work, number: usize) {
        let order = work.threads[number].order;
        self.close(work, number);
        if let Some(ends) = order.ends {
            let group = work.results.group(order.job);
            for other in 0..work.threads.len() {
                let live = &mut work.threads[other];
                let is_meant = match ends {
                    Ends::Group => work.results.group(live.order.job) == group,
                    Ends::Phase => live.order.phase == order.phase,
                    Ends::All => true,
                };
                if !is_meant {
                    continue;
                }
                live.thread.stop();
                match live.state {
                    State::Waiting => self.close(work, other),
                    State::Sleeping(_) | State::Held => {
                        live.state = State::Running;
                        self.sim.wake(live.id);
                    }
                    _ => {}
                }
            }
        }
        self.release(work);
        if work.left == 0 {
            self.repeat(work);
        }
    }

    /// Counts thread `number` as ended.
    fn close(&self, work: &mut Work, number: usize) {
        let live = &mut work.threads[number];
        live.state = State::Ended;
        work.flow.1 -= live.thread.flow();
        work.of_phases[live.order.phase] -= 1;
        work.of_jobs[live.order.job] -= 1;
        work.left -= 1;
        self.sim.end_record(live.id);
        for &slot in &live.free {
            self.sim.end_record(work.slots[slot as usize].id);
        }
        self.let_go(work);
    }

    /// Runs the jobs again, if the run is to become steady and has not.
    fn repeat(&self, work: &mut Work) {
        let Some(seed) = self.again.begin(&self.target.device) else {
            return;
        };
        let (jobs, offered, handles) = &self.jobs;
        // Cannot fail: the first pass opened the same jobs.
        if let Ok(opened) = jobs.open(*offered, *handles, seed) {
            (work.threads, work.slots) = (Vec::new(), Vec::new());
            self.add(work, opened);
        }
    }

    fn fail(&self, work: &mut Work, error: StackError) {
        work.failure.get_or_insert(error);
        work.left = 0;
    }

    /// Takes the error that stopped the run; `None` without one.
    pub(crate) fn failure(&self) -> Option<StackError> {
        self.work.borrow_mut().failure.take()
    }

    /// A sentence on the number of passes; `None` if the jobs run once.
    pub(crate) fn passes_sentence(&self) -> Option<String> {
        self.again.told()
    }

    /// Calls `read` with the meter, the labels and the results of the jobs.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Meter, &Labels, &Results) -> T) -> T {
        let work = self.work.borrow();
        read(&work.meter, &work.labels, &work.results)
    }
}

/// Whether a thread has issued more than its share of the requests of all that have one, by the
/// rule of fio: the ratio of requests exceeds that of the shares.
fn is_ahead(live: &Live, (issued, shares): (u64, u64)) -> bool {
    let share = live.thread.flow();
    let ratio = |count: u64, of: u64| u128::from(count) * u128::from(of);
    share > 0 && live.issued > 0 && ratio(live.issued, shares) > ratio(share, issued)
}

fn check_depth(opened: &Opened) -> Result<(), StackError> {
    let depths = opened.threads.iter().map(|(_, thread)| thread.depth());
    let (depth, most) = (depths.sum(), 4 * IN_FLIGHT);
    match depth > most {
        true => Err(StackError::Depth { depth, most }),
        false => Ok(()),
    }
}

impl Actor for Threads {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let mut work = self.work.borrow_mut();
        let work = &mut *work;
        let number = number as usize;
        match work.threads.get_mut(number) {
            None => {
                let slot = number - work.threads.len();
                if slot < work.slots.len() {
                    self.serve(work, slot);
                }
            }
            Some(live) => {
                if matches!(live.state, State::Sleeping(until) if self.sim.now() >= until) {
                    live.state = State::Running;
                }
                self.advance(work, number, None);
            }
        }
        None
    }
}

impl Sampled for Threads {
    fn is_done(&self) -> bool {
        self.work.borrow().left == 0
    }

    fn stop(&self, error: StackError) {
        self.fail(&mut self.work.borrow_mut(), error);
    }

    fn with_interval(&self, take: &mut dyn FnMut(&mut Tally)) {
        let mut work = self.work.borrow_mut();
        work.meter.interval.iter_mut().for_each(take);
    }
}

impl Running for Threads {
    fn is_done(&self) -> bool {
        Sampled::is_done(self)
    }

    fn ops(&self) -> u64 {
        self.work.borrow().meter.completed
    }

    fn in_flight(&self) -> u64 {
        let work = self.work.borrow();
        let each = work.threads.iter().map(|live| u64::from(live.in_flight));
        each.sum()
    }

    fn latencies(&self) -> LatencySet {
        self.work.borrow().meter.latencies()
    }
}
