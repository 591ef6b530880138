//! Replay of requests: workers take them from a shared stream.
//!
//! Invariants: requests are taken in the order of the stream, by one worker at a time; requests to
//! the queues of a drive are not boxed, those to zones and to layers are. A closed loop has as many
//! workers as requests in flight. In an open loop one worker waits for the next arrival; if no
//! worker is idle when it comes, another one starts, up to [`IN_FLIGHT`]. Beyond that, requests
//! wait, and their latency counts from their arrival time.

mod target;
pub(crate) mod threads;
mod worker;

use target::purpose;
pub(crate) use target::{Service, Target, lacks};

use crate::attached::Attached;
use crate::error::StackError;
use crate::meter::{Meter, Tally};
use crate::plan::Until;
use crate::sight::Running;
use crate::steady::{MOST_WINDOWS, Windows};
use crate::timeline::Sampled;
use host::{BlockDevice, Who};
use report::record::LatencySet;
use sim::{ActorId, Seed, Sim};
use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use units::{Bytes, Ns};
use worker::{Idle, Pace, Worker};
use workload::{Pacing, Request, Stream, Workload};

/// Largest number of requests of an open loop in flight, which bounds memory.
pub(crate) const IN_FLIGHT: u32 = 16_384;

/// Repetition of a workload until garbage collection is steady.
pub(crate) struct Again {
    /// Whether the workload is repeated.
    repeats: bool,
    seed: Seed,
    windows: Rc<Windows>,
    passes: Cell<u64>,
    /// Bytes that the host had written at the start of the pass.
    written: Cell<u64>,
    /// Whether the last pass has ended. A window that requests in flight close afterwards starts no
    /// further pass.
    over: Cell<bool>,
}

impl Again {
    /// Repeats a workload of `seed` under the condition `until`.
    pub(crate) fn new(until: Until, seed: Seed, windows: &Rc<Windows>) -> Self {
        Self {
            repeats: until == Until::Steady,
            seed,
            windows: Rc::clone(windows),
            passes: Cell::new(1),
            written: Cell::new(0),
            over: Cell::new(false),
        }
    }

    /// The seed of the next pass; `None` after the last pass. Each pass has its own seed: the same
    /// requests in the same order would be sequential overwrites.
    fn begin(&self, device: &BlockDevice) -> Option<Seed> {
        if !self.repeats {
            return None;
        }
        self.windows.look(device);
        let written = self.windows.written(device);
        let is_over = self.over.get()
            || self.windows.is_steady()
            || self.windows.closed() >= MOST_WINDOWS
            // A pass without writes can never become steady.
            || written == self.written.replace(written);
        self.over.set(is_over);
        if is_over {
            return None;
        }
        let pass = self.passes.get();
        self.passes.set(pass + 1);
        Some(self.seed.child(pass))
    }

    fn told(&self) -> Option<String> {
        if !self.repeats {
            return None;
        }
        let (passes, windows) = (self.passes.get(), self.windows.closed());
        let end = match self.windows.is_steady() {
            true => "steady".to_owned(),
            false if windows >= MOST_WINDOWS => {
                format!("not steady at the bound of {MOST_WINDOWS} capacities")
            }
            false => "not steady, because a pass wrote no data".to_owned(),
        };
        Some(format!(
            "passes over the workload: {passes}, windows of the drive's capacity in writes: \
             {windows}, {end}; the numbers cover all passes"
        ))
    }
}

/// The state that all workers share.
pub(crate) struct Replay {
    sim: Sim,
    actor: ActorId,
    pace: Pace,
    target: Target,
    start: Ns,
    workload: Workload,
    /// Bytes that are offered to the workload.
    offered: Bytes,
    pub(crate) stream: RefCell<Stream>,
    pub(crate) meter: RefCell<Meter>,
    failure: RefCell<Option<StackError>>,
    again: Again,
    /// Start of the current pass, relative to that of the run.
    pass_start: Cell<Ns>,
    /// Arrival of the last request, relative to the start of the run.
    last_arrival: Cell<Ns>,
    taken: Cell<u64>,
    idle: RefCell<Idle>,
    /// Workers by number; `None` after their end.
    staff: RefCell<Vec<Option<Worker>>>,
    /// Number of workers that have not ended.
    workers: Cell<u32>,
    started: Cell<u32>,
}

impl Replay {
    /// Starts `workload` on `device`, with the requests of `stream`.
    pub(crate) fn start(
        sim: &Sim,
        port: &Attached,
        (stream, again): (Stream, Again),
        (workload, offered): (&Workload, Bytes),
        meter: Meter,
    ) -> Rc<Self> {
        let (pace, workers) = match workload.pacing {
            Pacing::Closed { depth, think } => (Pace::Closed(think), depth),
            Pacing::Open | Pacing::Threads => (Pace::Open, 1),
        };
        let replay = Rc::new_cyclic(|me: &Weak<Self>| Self {
            target: Target::new(sim, port),
            actor: sim.enroll(me.clone()),
            pace,
            start: sim.now(),
            sim: sim.clone(),
            workload: workload.clone(),
            offered,
            stream: RefCell::new(stream),
            meter: RefCell::new(meter),
            failure: RefCell::default(),
            again,
            pass_start: Cell::default(),
            last_arrival: Cell::default(),
            idle: RefCell::default(),
            taken: Cell::new(0),
            staff: RefCell::default(),
            workers: Cell::new(0),
            started: Cell::new(0),
        });
        for _ in 0..workers {
            replay.hire();
        }
        replay
    }

    /// Virtual time since the start of the run.
    fn clock(&self) -> Ns {
        self.sim.now().since(self.start)
    }

    /// Requests without a completion yet.
    pub(crate) fn in_flight(&self) -> u64 {
        let meter = self.meter.borrow();
        self.taken.get() - meter.completed - meter.errors.values().sum::<u64>()
    }

    /// Takes the error that stopped the run; `None` without one.
    pub(crate) fn failure(&self) -> Option<StackError> {
        self.failure.take()
    }

    /// The next request, with its origin and purpose.
    fn take(&self, now: Ns) -> Option<(Request, Who)> {
        if self.failure.borrow().is_some() {
            return None;
        }
        let mut stream = self.stream.borrow_mut();
        let request = match self.next(&mut stream) {
            Some(Ok(request)) => request,
            Some(Err(error)) => return self.fail(error),
            None => {
                let seed = self.again.begin(&self.target.device)?;
                // Cannot fail: the first pass opened the same workload.
                *stream = self.workload.open(self.offered, seed).ok()?;
                self.pass_start.set(now.max(self.last_arrival.get()));
                match self.next(&mut stream)? {
                    Ok(request) => request,
                    Err(error) => return self.fail(error),
                }
            }
        };
        self.last_arrival.set(request.at);
        self.taken.set(self.taken.get() + 1);
        if let Some(error) = self.target.check(&request, self.taken.get()) {
            return self.fail(error);
        }
        let who = Who {
            origin: request.origin,
            purpose: purpose(stream.labels().purpose(request.origin)),
        };
        Some((request, who))
    }

    /// The next request of the pass, its arrival relative to the start of the run; `None` at the
    /// end of the pass.
    fn next(&self, stream: &mut Stream) -> Option<Result<Request, StackError>> {
        let mut request = match stream.next()? {
            Ok(request) => request,
            Err(error) => return Some(Err(error.into())),
        };
        request.at += self.pass_start.get();
        Some(Ok(request))
    }

    /// A sentence on the number of passes; `None` if the workload runs once.
    pub(crate) fn passes_sentence(&self) -> Option<String> {
        self.again.told()
    }

    fn fail<T>(&self, error: StackError) -> Option<T> {
        self.stop(error);
        None
    }
}

impl Sampled for Replay {
    fn is_done(&self) -> bool {
        self.workers.get() == 0
    }

    fn stop(&self, error: StackError) {
        *self.failure.borrow_mut() = Some(error);
    }

    fn with_interval(&self, take: &mut dyn FnMut(&mut Tally)) {
        self.meter.borrow_mut().interval.iter_mut().for_each(take);
    }
}

impl Running for Replay {
    fn is_done(&self) -> bool {
        Sampled::is_done(self)
    }

    fn ops(&self) -> u64 {
        self.meter.borrow().completed
    }

    fn in_flight(&self) -> u64 {
        Self::in_flight(self)
    }

    fn latencies(&self) -> LatencySet {
        self.meter.borrow().latencies()
    }
}
