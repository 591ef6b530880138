//! Workers of a replay, as records of the kernel.
//!
//! Invariants: a worker has one request at a time; it waits for one thing at a time, and has been
//! scheduled for it; the number of a worker is not used again.

use super::{IN_FLIGHT, Replay, elsewhere};
use host::{QueuePair, Who};
use sim::{Actor, Boxed, TaskId};
use ssd::{Command, IoError};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use units::{Extent, Ns};
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
    /// Waits until no other worker waits for an arrival; holds the ticket.
    Turn(u64),
    /// Alone waits for the arrival of its request.
    Arrival(Request, Who),
    /// At the queues of the drive.
    Queued,
    /// In zones, or above a mapping.
    Elsewhere(Boxed<'static, Result<(), IoError>>),
    /// Thinks until this time.
    Thinking(Ns),
}

/// A worker. Numbers of tasks and of workers differ.
pub(super) struct Worker {
    id: TaskId,
    queue: QueuePair,
    stage: Stage,
    request: host::Request,
    op: Op,
    arrival: Ns,
}

/// The reason for which a worker returns from an event.
enum Pause {
    Wait,
    /// Another worker starts first.
    Hire,
    /// It has no request left.
    Leave,
}

impl Replay {
    /// Starts another worker, at an event of this instant.
    pub(super) fn hire(&self) {
        let number = self.started.get();
        self.started.set(number + 1);
        self.workers.set(self.workers.get() + 1);
        let worker = Worker {
            id: self.sim.start_record(self.actor, number),
            queue: self.device.queue(number as usize),
            stage: Stage::Idle,
            request: host::Request::new(Command::Flush, Who::default()),
            op: Op::Flush,
            arrival: Ns::ZERO,
        };
        self.staff.borrow_mut().push(Some(worker));
    }

    fn advance(&self, worker: &mut Worker) -> Pause {
        loop {
            match &mut worker.stage {
                Stage::Idle => {
                    if let Some(pause) = self.find_work(worker) {
                        return pause;
                    }
                }
                Stage::Turn(ticket) => {
                    if !self.lead.collect(*ticket) {
                        return Pause::Wait;
                    }
                    if !self.await_arrival(worker) {
                        return Pause::Leave;
                    }
                }
                Stage::Arrival(request, who) => {
                    let (request, who) = (*request, *who);
                    if self.sim.now() < self.start + request.at {
                        return Pause::Wait;
                    }
                    let has_idle = self.lead.is_contended();
                    self.lead.put(1);
                    self.begin(worker, &request, who, request.at);
                    if !has_idle && self.workers.get() < IN_FLIGHT {
                        return Pause::Hire;
                    }
                }
                Stage::Queued => {
                    let Poll::Ready(result) = worker.queue.advance(&mut worker.request) else {
                        return Pause::Wait;
                    };
                    self.finish(worker, result);
                }
                Stage::Elsewhere(request) => {
                    let mut context = Context::from_waker(Waker::noop());
                    let Poll::Ready(result) = request.as_mut().poll(&mut context) else {
                        return Pause::Wait;
                    };
                    self.finish(worker, result);
                }
                Stage::Thinking(until) => {
                    if self.sim.now() < *until {
                        return Pause::Wait;
                    }
                    worker.stage = Stage::Idle;
                }
            }
        }
    }

    /// Lets an idle worker take a request, or wait for its turn to take one.
    #[inline]
    fn find_work(&self, worker: &mut Worker) -> Option<Pause> {
        if let Pace::Closed(_) = self.pace {
            let arrival = self.clock();
            let Some((request, who)) = self.take(arrival) else {
                return Some(Pause::Leave);
            };
            self.begin(worker, &request, who, arrival);
            return None;
        }
        if let Some(ticket) = self.lead.join(1) {
            worker.stage = Stage::Turn(ticket);
            return Some(Pause::Wait);
        }
        (!self.await_arrival(worker)).then_some(Pause::Leave)
    }

    /// Takes the next request and lets the worker, which has the turn, wait for its arrival. Returns
    /// false after the last request.
    fn await_arrival(&self, worker: &mut Worker) -> bool {
        let Some((request, who)) = self.take(Ns::ZERO) else {
            self.lead.put(1);
            return false;
        };
        self.sim.alarm(self.start + request.at);
        worker.stage = Stage::Arrival(request, who);
        true
    }

    /// Begins `request`, which has arrived.
    #[inline]
    fn begin(&self, worker: &mut Worker, request: &Request, who: Who, arrival: Ns) {
        (worker.op, worker.arrival) = (request.op, arrival);
        match command(request, who) {
            Some(command) if self.is_queued => {
                worker.request.renew(command, who);
                worker.stage = Stage::Queued;
            }
            _ => {
                let elsewhere = elsewhere(self.this(), *request, who);
                worker.stage = Stage::Elsewhere(Box::pin(elsewhere));
            }
        }
    }

    #[inline]
    fn finish(&self, worker: &mut Worker, result: Result<(), IoError>) {
        let now = self.clock();
        let latency = now.since(worker.arrival);
        self.meter.borrow_mut().add(worker.op, latency, now, result);
        worker.stage = match self.pace {
            Pace::Closed(think) if think > Ns::ZERO => {
                let until = self.sim.now() + think;
                self.sim.alarm(until);
                Stage::Thinking(until)
            }
            _ => Stage::Idle,
        };
    }

    fn this(&self) -> Rc<Self> {
        self.me.upgrade().expect("the replay runs")
    }
}

impl Actor for Replay {
    fn event(&self, number: u32, _: u64) -> Option<TaskId> {
        let number = number as usize;
        loop {
            let mut staff = self.staff.borrow_mut();
            let worker = staff[number].as_mut()?;
            match self.advance(worker) {
                Pause::Wait => return None,
                Pause::Hire => {
                    drop(staff);
                    self.hire();
                }
                Pause::Leave => {
                    let id = worker.id;
                    staff[number] = None;
                    self.workers.set(self.workers.get() - 1);
                    self.sim.end_record(id);
                    return None;
                }
            }
        }
    }
}

/// The command of a request at the queues of a drive; `None` for a command to zones.
fn command(request: &Request, who: Who) -> Option<Command> {
    let extent: Extent = request.extent;
    match request.op {
        Op::Read => Some(Command::Read(extent)),
        Op::Write => {
            let (placement, fua) = (request.placement, request.fua);
            Some(Command::Write(extent, placement, who.origin, fua))
        }
        Op::Trim | Op::Zeroes => Some(Command::Trim(extent)),
        Op::Flush => Some(Command::Flush),
        _ => None,
    }
}
