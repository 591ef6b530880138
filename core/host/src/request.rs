//! Commands on their way through queue, cores and link, as state machines.
//!
//! A command is *submitted* (a slot of its queue, core time, its entry and data over the link),
//! executed by the drive, and *completed* (data and completion over the link, core time). A task
//! awaits each part; [`Request`] is all of them, for a record of the kernel ([`sim::Actor`]).
//!
//! Invariant: a trip waits for one thing at a time, and its holder has been scheduled for it.

use crate::cores::Core;
use crate::device::{QueuePair, RANGE};
use crate::ledger::Who;
use crate::link::Direction;
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
    /// Earlier posted stores arrive.
    Push,
    /// Takes a slot of the queue.
    Enqueue,
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

enum Wait {
    Nothing,
    Until(Ns),
    /// A slot of the queue, by its ticket.
    Slot(u64),
    Stores(Boxed<'static, ()>),
    /// A core that was held; the future reserves the time and returns its end, to which the span
    /// is added.
    Core(Boxed<'static, Ns>, Ns),
}

/// A submission or a completion under way.
pub(crate) struct Trip {
    bytes: u64,
    step: Step,
    wait: Wait,
}

impl Trip {
    /// A submission that brings `bytes` of data to the drive.
    pub(crate) const fn submission(bytes: u64) -> Self {
        let (step, wait) = (Step::Push, Wait::Nothing);
        Self { bytes, step, wait }
    }

    /// A completion that brings `bytes` of data to the host.
    pub(crate) const fn completion(bytes: u64) -> Self {
        let (step, wait) = (Step::Answer, Wait::Nothing);
        Self { bytes, step, wait }
    }
}

impl QueuePair {
    /// Advances `trip`; it is ready at its end.
    #[inline]
    fn advance_trip(&self, trip: &mut Trip) -> Poll<()> {
        loop {
            ready!(self.poll_wait(&mut trip.wait));
            if matches!(trip.step, Step::End) {
                return Poll::Ready(());
            }
            trip.wait = self.step(trip);
        }
    }

    #[inline]
    fn poll_wait(&self, wait: &mut Wait) -> Poll<()> {
        let shared = &self.shared;
        let is_over = match wait {
            Wait::Nothing => true,
            Wait::Until(time) => shared.sim.now() >= *time,
            Wait::Slot(ticket) => shared.queues[self.queue].collect(*ticket),
            Wait::Stores(arrived) => {
                let mut context = Context::from_waker(Waker::noop());
                return arrived.as_mut().poll(&mut context);
            }
            Wait::Core(reserved, span) => {
                let mut context = Context::from_waker(Waker::noop());
                let over = ready!(reserved.as_mut().poll(&mut context));
                *wait = self.until(over + *span);
                matches!(wait, Wait::Nothing)
            }
        };
        if is_over {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    #[inline]
    fn step(&self, trip: &mut Trip) -> Wait {
        let shared = &self.shared;
        let (now, times) = (shared.sim.now(), &shared.times);
        match trip.step {
            Step::Push => {
                trip.step = Step::Enqueue;
                if shared.posting.is_at_rest(now) {
                    return Wait::Nothing;
                }
                let shared = Rc::clone(shared);
                Wait::Stores(Box::pin(async move { shared.push_posted().await }))
            }
            Step::Enqueue => {
                trip.step = Step::Build;
                let ticket = shared.queues[self.queue].join(1);
                ticket.map_or(Wait::Nothing, Wait::Slot)
            }
            Step::Build => {
                trip.step = if trip.bytes > 0 {
                    Step::Carry
                } else {
                    Step::End
                };
                self.occupy(times.submission, times.fetch)
            }
            Step::Carry => {
                trip.step = Step::End;
                let span = times.wire.transfer(trip.bytes, Direction::ToDrive);
                let over = shared.to_drive.reserve(now, span);
                self.until(over + times.round_trip)
            }
            Step::Answer => {
                trip.step = Step::Receive;
                let data = times.wire.transfer(trip.bytes, Direction::ToHost);
                let over = shared.to_host.reserve(now, data + times.completion);
                self.until(over + times.notice)
            }
            Step::Receive => {
                trip.step = Step::End;
                shared.queues[self.queue].put(1);
                self.occupy(times.complete, Ns::ZERO)
            }
            Step::End => Wait::Nothing,
        }
    }

    /// Waits for `span` of the queue's core, and for `latency` more.
    #[inline]
    fn occupy(&self, span: Ns, latency: Ns) -> Wait {
        let core = &self.shared.cores[self.core];
        match core.reserve(span) {
            Some(over) => self.until(over + latency),
            None => Wait::Core(reserved(Rc::clone(core), span), latency),
        }
    }

    #[inline]
    fn until(&self, time: Ns) -> Wait {
        match self.shared.sim.alarm(time) {
            true => Wait::Until(time),
            false => Wait::Nothing,
        }
    }

    /// Submits a command: brings it, and `bytes` of data, to the controller.
    pub(crate) const fn submit(&self, bytes: u64) -> Travel<'_> {
        Travel {
            queue: self,
            trip: Trip::submission(bytes),
        }
    }

    /// Completes a command: brings `bytes` of data and the completion to the program.
    pub(crate) const fn complete(&self, bytes: u64) -> Travel<'_> {
        Travel {
            queue: self,
            trip: Trip::completion(bytes),
        }
    }

    /// Advances a request of the current task or record, and returns its result at its end.
    #[inline]
    pub fn advance(&self, request: &mut Request) -> Poll<Result<(), IoError>> {
        let drive = &self.shared.drive;
        loop {
            request.phase = match &mut request.phase {
                Phase::Submission(trip) => {
                    ready!(self.advance_trip(trip));
                    match drive.begin(request.command) {
                        Ok(running) => Phase::Execution(running),
                        Err(error) => request.completion(Err(error)),
                    }
                }
                Phase::Execution(running) => {
                    let result = ready!(drive.advance(running));
                    request.completion(result)
                }
                Phase::Completion(trip, result) => {
                    ready!(self.advance_trip(trip));
                    let result = *result;
                    if result.is_ok() {
                        self.count(request.command, request.who);
                    }
                    return Poll::Ready(result);
                }
            };
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

fn reserved(core: Rc<Core>, span: Ns) -> Boxed<'static, Ns> {
    Box::pin(async move { core.reserved(span).await })
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
        if let Wait::Slot(ticket) = self.trip.wait {
            self.queue.shared.queues[self.queue.queue].leave(ticket);
        }
    }
}

enum Phase {
    Submission(Trip),
    Execution(Running),
    Completion(Trip, Result<(), IoError>),
}

/// A request without contents under way, from its submission to its completion.
/// [`QueuePair::advance`] advances it.
pub struct Request {
    command: Command,
    who: Who,
    phase: Phase,
}

impl Request {
    /// A request that begins when it is first advanced. The origin of a write is that of `who`.
    #[must_use]
    pub const fn new(command: Command, who: Who) -> Self {
        let bytes = match command {
            Command::Write(extent, ..) => extent.bytes(),
            Command::Trim(_) => RANGE,
            Command::Read(_) | Command::Flush => 0,
        };
        Self {
            command,
            who,
            phase: Phase::Submission(Trip::submission(bytes)),
        }
    }

    fn completion(&self, result: Result<(), IoError>) -> Phase {
        let bytes = match self.command {
            Command::Read(extent) if result.is_ok() => extent.bytes(),
            _ => 0,
        };
        Phase::Completion(Trip::completion(bytes), result)
    }
}
