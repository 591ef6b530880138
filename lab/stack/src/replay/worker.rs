//! Workers of a replay, as records of the kernel.
//!
//! In an open loop one worker *leads*: it waits for the arrival of the next request. When that has
//! arrived, the worker that has been idle longest leads, or a new one.
//!
//! Invariants: a worker has one request at a time; it waits for one thing at a time, and has been
//! scheduled for it; the number of a worker is not used again.

use super::target::Service;
use super::{IN_FLIGHT, Replay};
use host::{QueuePair, Who};
use sim::{Actor, TaskId};
use ssd::{Command, IoError};
use std::collections::VecDeque;
use std::task::Poll;
use units::Ns;
use workload::{Op, Request};

/// The pace of a worker.
#[derive(Clone, Copy)]
pub(super) enum Pace {
    /// The next request follows the last one, after this time.
    Closed(Ns),
    /// Each request starts at its arrival time.
    Open,
}

enum Stage {
    Idle,
    /// Is in the queue of idle workers of an open loop.
    Resting,
    /// Leads with this request.
    Arrival(Request, Who),
    /// Is served by the drive.
    Served(Service),
    /// Thinks until this time.
    Thinking(Ns),
}

/// A worker. Numbers of tasks and of workers differ.
pub(super) struct Worker {
    id: TaskId,
    number: u32,
    queue: QueuePair,
    stage: Stage,
    request: host::Request,
    op: Op,
    arrival: Ns,
}

/// Workers of an open loop without a request.
#[derive(Default)]
pub(super) struct Idle {
    /// Numbers of idle workers, in the order in which they became idle.
    workers: VecDeque<u32>,
    has_leader: bool,
    /// Whether the last request has been taken.
    is_over: bool,
}

/// End of a worker's event.
#[derive(PartialEq)]
enum Pause {
    Wait,
    /// The worker has begun the request with which it led, and waits.
    HandOver,
    /// No request is left.
    Leave,
}

impl Replay {
    /// Starts another worker, at an event of this instant.
    pub(super) fn hire(&self) {
        let number = self.add_worker();
        let staff = self.staff.borrow();
        let worker = staff[number as usize].as_ref();
        self.sim.wake(worker.expect("it was added").id);
    }

    fn add_worker(&self) -> u32 {
        let number = self.started.get();
        self.started.set(number + 1);
        self.workers.set(self.workers.get() + 1);
        let worker = Worker {
            id: self.sim.add_record(self.actor, number),
            number,
            queue: self.target.device.queue(number as usize),
            stage: Stage::Idle,
            request: host::Request::new(Command::Flush, Who::default()),
            op: Op::Flush,
            arrival: Ns::ZERO,
        };
        self.staff.borrow_mut().push(Some(worker));
        number
    }

    fn advance(&self, worker: &mut Worker) -> Pause {
        let mut wait = Pause::Wait;
        loop {
            let result = match &mut worker.stage {
                Stage::Resting => return wait,
                Stage::Idle => {
                    if !self.find_work(worker) {
                        return Pause::Leave;
                    }
                    continue;
                }
                Stage::Arrival(request, who) => {
                    let (request, who) = (*request, *who);
                    if self.sim.now() < self.start + request.at {
                        return wait;
                    }
                    self.begin(worker, &request, who, request.at);
                    wait = Pause::HandOver;
                    continue;
                }
                Stage::Thinking(until) => {
                    if self.sim.now() < *until {
                        return wait;
                    }
                    worker.stage = Stage::Idle;
                    continue;
                }
                Stage::Served(service) => service.advance(&worker.queue, &mut worker.request),
            };
            let Poll::Ready(result) = result else {
                return wait;
            };
            self.finish(worker, result);
        }
    }

    /// Lets an idle worker take a request, or rest until it has to lead. Returns false if no request
    /// is left.
    #[inline]
    fn find_work(&self, worker: &mut Worker) -> bool {
        if let Pace::Closed(_) = self.pace {
            let arrival = self.clock();
            let Some((request, who)) = self.take(arrival) else {
                return false;
            };
            self.begin(worker, &request, who, arrival);
            return true;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.has_leader {
            idle.workers.push_back(worker.number);
            worker.stage = Stage::Resting;
            return true;
        }
        drop(idle);
        let arrival = self.lead(worker);
        if let Some(arrival) = arrival {
            self.sim.alarm(arrival);
        }
        arrival.is_some()
    }

    /// Takes the next request for the worker to lead with, and returns its arrival; `None` if no
    /// request is left.
    fn lead(&self, worker: &mut Worker) -> Option<Ns> {
        let next = self.take(Ns::ZERO);
        let mut idle = self.idle.borrow_mut();
        (idle.has_leader, idle.is_over) = (next.is_some(), next.is_none());
        let (request, who) = next?;
        worker.stage = Stage::Arrival(request, who);
        Some(self.start + request.at)
    }

    /// Lets another worker lead. After the last request, all idle workers leave.
    fn hand_over(&self) {
        self.idle.borrow_mut().has_leader = false;
        loop {
            let mut idle = self.idle.borrow_mut();
            let (next, is_over) = (idle.workers.pop_front(), idle.is_over);
            drop(idle);
            let next = match next {
                Some(next) => next,
                None if !is_over && self.workers.get() < IN_FLIGHT => self.add_worker(),
                None => return,
            };
            let mut staff = self.staff.borrow_mut();
            let place = &mut staff[next as usize];
            let worker = place.as_mut().filter(|_| !is_over);
            let led = worker.and_then(|worker| Some((self.lead(worker)?, worker.id)));
            match led {
                Some((arrival, worker)) => return self.sim.call_at(arrival, worker),
                None => self.leave(place),
            }
        }
    }

    fn leave(&self, place: &mut Option<Worker>) {
        if let Some(worker) = place.take() {
            self.workers.set(self.workers.get() - 1);
            self.sim.end_record(worker.id);
        }
    }

    /// Begins `request`, which has arrived.
    #[inline]
    fn begin(&self, worker: &mut Worker, request: &Request, who: Who, arrival: Ns) {
        (worker.op, worker.arrival) = (request.op, arrival);
        let service = self.target.begin(request, who, &mut worker.request);
        worker.stage = Stage::Served(service);
    }

    #[inline]
    fn finish(&self, worker: &mut Worker, result: Result<(), IoError>) {
        let now = self.clock();
        let latency = now.since(worker.arrival);
        let mut meter = self.meter.borrow_mut();
        meter.add(worker.op, latency, now, result);
        worker.stage = match self.pace {
            Pace::Closed(think) if think > Ns::ZERO => {
                let until = self.sim.now() + think;
                self.sim.alarm(until);
                Stage::Thinking(until)
            }
            _ => Stage::Idle,
        };
    }
}

impl Actor for Replay {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let mut staff = self.staff.borrow_mut();
        let place = &mut staff[number as usize];
        let pause = self.advance(place.as_mut()?);
        if pause == Pause::Leave {
            self.leave(place);
        }
        drop(staff);
        if pause == Pause::HandOver {
            self.hand_over();
        }
        None
    }
}
