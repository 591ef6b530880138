//! Trace of the flash: the times in which each die and channel served an operation, and the parts of
//! the time of each operation.
//!
//! Invariants: the services of one place do not overlap; the parts of an operation add up to the
//! time from its begin to its end; tracing changes no time. A flash without a trace pays one test a
//! step for it.

use crate::device::{Nand, Priority};
use crate::geometry::Row;
use crate::media::Media;
use crate::operation::{Doing, Operation, Reading};
use sim::{Server, Service};
use std::cell::{Cell, RefCell};
use units::Ns;

/// Place of the flash that serves one operation at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Array of a die, by its number.
    Die(u32),
    /// Channel, by its number.
    Channel(u32),
}

/// Kind of a traced operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Read that a request waits for.
    #[default]
    Read,
    /// Read of the firmware for itself, such as one of collection.
    BackgroundRead,
    /// Program, or a copy inside the die.
    Program,
    /// Erase of a block in each plane.
    Erase,
}

impl Work {
    /// Name of the kind in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::BackgroundRead => "background read",
            Self::Program => "program",
            Self::Erase => "erase",
        }
    }

    const fn of(doing: &Doing) -> Self {
        match doing {
            Doing::Read {
                priority: Priority::Read,
                ..
            } => Self::Read,
            Doing::Read { .. } => Self::BackgroundRead,
            Doing::Erase => Self::Erase,
            _ => Self::Program,
        }
    }
}

/// Uninterrupted service of an operation at one place. A suspended operation has several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Die or channel that served.
    pub place: Place,
    /// Kind of the operation.
    pub work: Work,
    /// Pages of the operation.
    pub row: Row,
    /// Label of a program in the firmware's terms; `None` for others.
    pub label: Option<u64>,
    /// Begin of the service.
    pub begin: Ns,
    /// End of the service, after `begin`.
    pub end: Ns,
}

/// Parts of the time of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Wait for the die or for one of its page registers.
    pub die_wait: Ns,
    /// Service in the array of the die, with repeated passes and the cost of suspensions.
    pub die: Ns,
    /// Wait for the channel.
    pub channel_wait: Ns,
    /// Service on the channel.
    pub channel: Ns,
    /// Operation in the array when this one first arrived at the die; `None` at an idle one.
    pub behind: Option<Work>,
}

/// An operation that is under way.
#[derive(Clone, Copy, Default)]
struct Traced {
    row: Row,
    work: Work,
    label: Option<u64>,
    /// Time of the begin, or of the last arrival at or departure from a place.
    since: Ns,
    /// Service at the present place so far.
    served: Ns,
    /// Whether it has arrived at the array.
    has_arrived: bool,
    parts: Parts,
}

impl Traced {
    fn new(row: Row, doing: &Doing, now: Ns) -> Self {
        Self {
            row,
            work: Work::of(doing),
            since: now,
            ..Self::default()
        }
    }
}

/// Trace of a flash since its start.
#[derive(Default)]
struct Trace {
    /// Operations by their numbers.
    traced: Vec<Traced>,
    served: Vec<Served>,
}

impl Trace {
    /// Ends a service that began at `begin`.
    fn serve(&mut self, place: Place, (number, begin): (u32, Ns), end: Ns) {
        let traced = &mut self.traced[number as usize];
        let span = end.since(begin);
        traced.served += span;
        if span > Ns::ZERO {
            self.served.push(Served {
                place,
                work: traced.work,
                row: traced.row,
                label: traced.label,
                begin,
                end,
            });
        }
    }

    fn arrive(&mut self, place: Place, number: u32, behind: Option<u32>, now: Ns) {
        let behind = behind.map(|other| self.traced[other as usize].work);
        let traced = &mut self.traced[number as usize];
        // Registers and sensings for others are waits for the die.
        traced.parts.die_wait += now.since(traced.since);
        if matches!(place, Place::Die(_)) && !traced.has_arrived {
            (traced.parts.behind, traced.has_arrived) = (behind, true);
        }
        (traced.since, traced.served) = (now, Ns::ZERO);
    }

    fn depart(&mut self, place: Place, number: u32, now: Ns) {
        let traced = &mut self.traced[number as usize];
        let waited = now.since(traced.since).since(traced.served);
        let parts = &mut traced.parts;
        let (wait, service) = match place {
            Place::Die(_) => (&mut parts.die_wait, &mut parts.die),
            Place::Channel(_) => (&mut parts.channel_wait, &mut parts.channel),
        };
        *wait += waited;
        *service += traced.served;
        traced.since = now;
    }
}

/// Tracer of a flash, which is at rest until its start.
#[derive(Default)]
pub struct Tracer {
    is_on: Cell<bool>,
    trace: RefCell<Trace>,
}

impl Tracer {
    /// Whether the trace has been started.
    #[must_use]
    #[inline]
    pub fn is_on(&self) -> bool {
        self.is_on.get()
    }

    /// Takes the services that have ended since the last call, in the order of their ends.
    #[must_use]
    pub fn take(&self) -> Vec<Served> {
        std::mem::take(&mut self.trace.borrow_mut().served)
    }

    /// Parts of the time of a read, until another operation begins; `None` without a trace.
    #[must_use]
    pub fn parts(&self, reading: &Reading) -> Option<Parts> {
        let trace = self.trace.borrow();
        let traced = trace.traced.get(reading.0 as usize)?;
        Some(traced.parts)
    }

    /// Starts a trace with the operations under way.
    fn start(&self, under_way: &[Operation], now: Ns) {
        let traced = |operation: &Operation| Traced::new(operation.row, &operation.doing, now);
        self.trace.replace(Trace {
            traced: under_way.iter().map(traced).collect(),
            served: Vec::new(),
        });
        self.is_on.set(true);
    }

    /// Begins operation `number`; the label of a program is in `media`.
    #[cold]
    pub(crate) fn begin(&self, number: u32, (row, doing): (Row, &Doing), media: &Media, now: Ns) {
        let mut traced = Traced::new(row, doing, now);
        if traced.work == Work::Program {
            let block = row.blocks().next();
            let page = block.and_then(|block| media.page(block, row.page));
            traced.label = page.map(|page| page.label);
        }
        let (number, mut trace) = (number as usize, self.trace.borrow_mut());
        if number >= trace.traced.len() {
            trace.traced.resize(number + 1, Traced::default());
        }
        trace.traced[number] = traced;
    }

    /// Lets operation `number` arrive at the server of `place`.
    #[inline]
    pub(crate) fn arrive(&self, place: Place, server: &mut Server, number: u32, service: Service) {
        if !self.is_on() {
            return server.arrive(number, service);
        }
        let (now, before) = (server.now(), server.in_service());
        server.arrive(number, service);
        let after = server.in_service();
        let mut trace = self.trace.borrow_mut();
        let suspended = before.filter(|_| after.is_some_and(|(next, _)| next == number));
        if let Some(before) = suspended {
            trace.serve(place, before, now);
        }
        trace.arrive(place, number, before.map(|(other, _)| other), now);
    }

    /// Lets the operation in service leave the server of `place` at event `sequence`, and returns
    /// its number; `None` if the event is stale.
    #[inline]
    pub(crate) fn depart(&self, place: Place, server: &mut Server, sequence: u64) -> Option<u32> {
        if !self.is_on() {
            return server.depart(sequence);
        }
        let (now, before) = (server.now(), server.in_service());
        let ended = server.depart(sequence)?;
        if let Some(before) = before {
            let mut trace = self.trace.borrow_mut();
            trace.serve(place, before, now);
            trace.depart(place, ended, now);
        }
        Some(ended)
    }
}

impl Nand {
    /// Starts the trace of this flash, without earlier services.
    pub fn start_trace(&self) {
        self.tracer()
            .start(&self.queues.borrow().operations, self.now());
    }

    /// Begins operation `number` in the trace.
    #[inline]
    pub(crate) fn trace(&self, number: u32, row: Row, doing: &Doing) {
        let tracer = self.tracer();
        if tracer.is_on() {
            tracer.begin(number, (row, doing), &self.media(), self.now());
        }
    }
}
