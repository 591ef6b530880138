//! Commands on their way through queue, cores and link, as state machines.
//!
//! A command is *submitted* (a slot of its queue, core time, its entry and data over the link),
//! executed by the drive, and *completed* (data and completion over the link, core time). A task
//! awaits each part; [`Request`] is all of them, for a record of the kernel ([`sim::Actor`]).
//!
//! Invariant: a trip waits for one thing at a time, and its holder has been scheduled for it.

use crate::device::{QueuePair, RANGE, Shared};
use crate::ledger::Who;
use crate::link::Direction;
use crate::trace::Tracing;
use sim::Boxed;
use ssd::{Command, IoError, Running};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};
use units::Ns;

/// The next step of a trip.
#[derive(Clone, Copy)]
enum Step {
    /// Earlier posted stores arrive, and the command takes a slot of the queue.
    Push,
    /// A core builds the command; the controller fetches it.
    Build,
    /// The drive fetches the data of the command.
    Carry,
    /// Data and completion go to the host.
    Answer,
    /// A core takes the completion in.
    Receive,
    End,
}

/// Reason for which a trip waits.
#[derive(Clone, Copy)]
enum Wait {
    Nothing,
    /// The time of the trip.
    Time,
    /// A slot of the queue, by the ticket of the trip.
    Slot,
    /// The future of the trip; it returns a time, for which the trip waits next.
    Future,
}

/// A submission or a completion under way.
pub(crate) struct Trip {
    bytes: u64,
    step: Step,
    wait: Wait,
    /// Time or ticket, as `wait` says.
    until: u64,
    /// Whether a submission ends as soon as the time is known at which the drive has the command:
    /// it is `until` then.
    is_early: bool,
    future: Option<Boxed<'static, Ns>>,
}

impl Trip {
    const fn new(step: Step, bytes: u64) -> Self {
        Self {
            bytes,
            step,
            wait: Wait::Nothing,
            until: 0,
            is_early: false,
            future: None,
        }
    }

    /// Turns a submission that has ended into a completion that brings `bytes` of data to the host.
    #[inline]
    fn turn(&mut self, bytes: u64) {
        (self.step, self.bytes) = (Step::Answer, bytes);
        self.is_early = false;
    }

    #[cold]
    fn await_future(&mut self, future: impl Future<Output = Ns> + 'static) {
        self.future = Some(Box::pin(future));
        self.wait = Wait::Future;
    }

    /// Polls the future, and waits for the time that it returns.
    #[cold]
    fn poll_future(&mut self, queue: &QueuePair) -> Poll<()> {
        if let Some(future) = &mut self.future {
            let mut context = Context::from_waker(Waker::noop());
            let time = ready!(future.as_mut().poll(&mut context));
            self.future = None;
            queue.wait_until(self, time);
        }
        match self.wait {
            Wait::Time => Poll::Pending,
            _ => Poll::Ready(()),
        }
    }
}

impl QueuePair {
    /// Advances `trip`; it is ready at its end.
    #[inline]
    fn advance_trip(&self, trip: &mut Trip) -> Poll<()> {
        loop {
            match trip.wait {
                Wait::Nothing => {}
                Wait::Time if self.shared.sim.now().0 >= trip.until => {}
                Wait::Slot if self.shared.queues[self.queue].collect(trip.until) => {}
                Wait::Future => ready!(trip.poll_future(self)),
                Wait::Time | Wait::Slot => return Poll::Pending,
            }
            trip.wait = Wait::Nothing;
            match trip.step {
                Step::Push => self.push(trip),
                Step::Build => self.build(trip),
                Step::Carry => self.carry(trip),
                Step::Answer => self.answer(trip),
                Step::Receive => self.receive(trip),
                Step::End => return Poll::Ready(()),
            }
        }
    }

    #[inline]
    fn push(&self, trip: &mut Trip) {
        let shared = &self.shared;
        if shared.posting.is_at_rest(shared.sim.now()) {
            return self.enqueue(trip);
        }
        let (shared, queue) = (Rc::clone(shared), self.clone());
        trip.step = Step::Build;
        trip.await_future(async move {
            shared.push_posted().await;
            shared.queues[queue.queue].take(1).await;
            shared.sim.now()
        });
    }

    #[inline]
    fn enqueue(&self, trip: &mut Trip) {
        trip.step = Step::Build;
        match self.shared.queues[self.queue].join(1) {
            None => self.build(trip),
            Some(ticket) => (trip.wait, trip.until) = (Wait::Slot, ticket),
        }
    }

    #[inline]
    fn build(&self, trip: &mut Trip) {
        trip.step = if trip.bytes > 0 {
            Step::Carry
        } else {
            Step::End
        };
        let times = &self.shared.times;
        self.occupy(trip, times.submission, times.fetch);
    }

    #[inline]
    fn carry(&self, trip: &mut Trip) {
        trip.step = Step::End;
        let Shared { sim, times, .. } = &*self.shared;
        let span = times.wire.transfer(trip.bytes, Direction::ToDrive);
        let over = self.shared.to_drive.reserve(sim.now(), span);
        self.wait_until(trip, over + times.round_trip);
    }

    #[inline]
    fn answer(&self, trip: &mut Trip) {
        trip.step = Step::Receive;
        let Shared { sim, times, .. } = &*self.shared;
        let data = times.wire.transfer(trip.bytes, Direction::ToHost);
        let over = self
            .shared
            .to_host
            .reserve(sim.now(), data + times.completion);
        self.wait_until(trip, over + times.notice);
    }

    #[inline]
    fn receive(&self, trip: &mut Trip) {
        trip.step = Step::End;
        self.shared.queues[self.queue].put(1);
        self.occupy(trip, self.shared.times.complete, Ns::ZERO);
    }

    /// Waits for `span` of the queue's core, and for `latency` more.
    #[inline]
    fn occupy(&self, trip: &mut Trip, span: Ns, latency: Ns) {
        let core = &self.shared.cores[self.core];
        match core.reserve(span) {
            Some(over) => self.wait_until(trip, over + latency),
            None => {
                let core = Rc::clone(core);
                trip.await_future(async move { core.reserved(span).await + latency });
            }
        }
    }

    #[inline]
    fn wait_until(&self, trip: &mut Trip, time: Ns) {
        trip.until = time.0;
        let is_early = trip.is_early && matches!(trip.step, Step::End);
        trip.wait = match is_early || !self.shared.sim.alarm(time) {
            true => Wait::Nothing,
            false => Wait::Time,
        };
    }

    /// Submits a command: brings it, and `bytes` of data, to the controller.
    pub(crate) const fn submit(&self, bytes: u64) -> Travel<'_> {
        Travel {
            queue: self,
            trip: Trip::new(Step::Push, bytes),
        }
    }

    /// Completes a command: brings `bytes` of data and the completion to the program.
    pub(crate) const fn complete(&self, bytes: u64) -> Travel<'_> {
        Travel {
            queue: self,
            trip: Trip::new(Step::Answer, bytes),
        }
    }

    /// Advances a request of the current task or record, and returns its result at its end.
    #[inline]
    pub fn advance(&self, request: &mut Request) -> Poll<Result<(), IoError>> {
        let drive = &self.shared.drive;
        loop {
            match request.phase {
                Phase::Submission => {
                    if request.tracing.is_empty() {
                        request.tracing = self.trace_command(request.command, request.who);
                    }
                    request.trip.is_early = drive.is_early(request.command);
                    ready!(self.advance_trip(&mut request.trip));
                    let arrival = Ns(request.trip.until).max(self.shared.sim.now());
                    request.tracing.arrive(arrival);
                    match drive.begin(request.command, arrival, &mut request.running) {
                        Ok(()) => request.phase = Phase::Execution,
                        Err(error) => {
                            request.complete(Err(error));
                            self.wait_until(&mut request.trip, arrival);
                        }
                    }
                }
                Phase::Execution => {
                    let result = ready!(drive.advance(&mut request.running));
                    request.tracing.execute(&self.shared);
                    request.complete(result);
                }
                Phase::Completion => {
                    ready!(self.advance_trip(&mut request.trip));
                    request.tracing.end(&self.shared, request.result.is_ok());
                    if request.result.is_ok() {
                        self.count(request.command, request.who);
                    }
                    return Poll::Ready(request.result);
                }
            }
        }
    }

    /// Counts a successful command.
    pub(crate) fn count(&self, command: Command, who: Who) {
        let mut ledger = self.shared.ledger.borrow_mut();
        match command {
            Command::Read(extent) => ledger.book(who, |t| t.read.block += extent.bytes()),
            Command::Write(extent, ..) => ledger.book(who, |t| t.write.block += extent.bytes()),
            Command::Trim(extent) => ledger.trimmed += extent.bytes(),
            Command::Flush => ledger.flushes += 1,
        }
    }
}

/// Future of a submission or a completion. One that is dropped gives back what it waits for.
pub(crate) struct Travel<'a> {
    queue: &'a QueuePair,
    trip: Trip,
}

impl Future for Travel<'_> {
    type Output = ();

    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        let queue = self.queue;
        queue.advance_trip(&mut self.trip)
    }
}

impl Drop for Travel<'_> {
    fn drop(&mut self) {
        if let Wait::Slot = self.trip.wait {
            self.queue.shared.queues[self.queue.queue].leave(self.trip.until);
        }
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Submission,
    Execution,
    Completion,
}

/// A request without contents under way, from its submission to its completion.
/// [`QueuePair::advance`] advances it.
pub struct Request {
    command: Command,
    who: Who,
    phase: Phase,
    trip: Trip,
    running: Running,
    /// Result of the execution.
    result: Result<(), IoError>,
    tracing: Tracing,
}

impl Request {
    /// A request that begins when it is first advanced. The origin of a write is that of the
    /// command.
    #[must_use]
    pub fn new(command: Command, who: Who) -> Self {
        Self {
            command,
            who,
            phase: Phase::Submission,
            trip: Trip::new(Step::Push, to_drive(command)),
            running: Running::default(),
            result: Ok(()),
            tracing: Tracing::default(),
        }
    }

    /// Replaces a request that has ended by another one, which begins when it is first advanced.
    #[inline]
    pub fn renew(&mut self, command: Command, who: Who) {
        (self.command, self.who) = (command, who);
        self.phase = Phase::Submission;
        (self.trip.step, self.trip.bytes) = (Step::Push, to_drive(command));
    }

    #[inline]
    fn complete(&mut self, result: Result<(), IoError>) {
        (self.phase, self.result) = (Phase::Completion, result);
        self.trip.turn(match self.command {
            Command::Read(extent) if result.is_ok() => extent.bytes(),
            _ => 0,
        });
    }
}

/// Bytes of data that the drive fetches for a command.
const fn to_drive(command: Command) -> u64 {
    match command {
        Command::Write(extent, ..) => extent.bytes(),
        Command::Trim(_) => RANGE,
        Command::Read(_) | Command::Flush => 0,
    }
}
