//! Cores of the processor: their queues of work, and stalls.
//!
//! # Invariants
//!
//! - A core executes requests for work in the order of their arrival.
//! - A held core executes nothing else until it is released: a processor that loads from
//!   a drive, over PCI Express or CXL, waits for the data in the middle of an instruction,
//!   and cannot switch to another task as it could for a command.

use sim::{Permit, Semaphore, Sim, Timeline};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use units::Ns;

/// One core of the processor.
pub(crate) struct Core {
    sim: Sim,
    /// Reserved work, in order of arrival.
    work: Timeline,
    /// Taken while the core is held, and for an instant by work that waited for it.
    turn: Semaphore,
}

impl Core {
    pub(crate) fn new(sim: &Sim) -> Self {
        Self {
            sim: sim.clone(),
            work: Timeline::default(),
            turn: Semaphore::new(sim, 1),
        }
    }

    /// Busy time of the core so far, including work reserved ahead.
    pub(crate) fn busy(&self) -> Ns {
        self.work.meter().busy()
    }

    /// Reserves `span` of work and returns its end time; None if the core is held.
    #[inline]
    pub(crate) fn reserve(&self, span: Ns) -> Option<Ns> {
        let is_free = self.turn.free() > 0;
        is_free.then(|| self.work.reserve(self.sim.now(), span))
    }

    /// Reserves `span` of work once the core is not held, and returns its end time.
    pub(crate) async fn reserved(&self, span: Ns) -> Ns {
        if let Some(over) = self.reserve(span) {
            return over;
        }
        let _turn = self.turn.acquire(1).await;
        self.work.reserve(self.sim.now(), span)
    }

    /// Reserves `span` of work and waits for its end.
    pub(crate) async fn serve(&self, span: Ns) {
        self.serve_then(span, Ns::ZERO).await;
    }

    /// Reserves `span` of work, waits for its end and then for `latency`, during which the
    /// core is free for other work.
    pub(crate) async fn serve_then(&self, span: Ns, latency: Ns) {
        let over = self.reserved(span).await;
        self.sim.sleep_until(over + latency).await;
    }

    /// Holds the core, once all work reserved before is done.
    pub(crate) async fn hold(&self) -> Held<'_> {
        let turn = self.turn.acquire(1).await;
        self.sim.sleep_until(self.work.free_at()).await;
        Held {
            core: self,
            since: self.sim.now(),
            _turn: turn,
        }
    }
}

/// A held core; its drop books the time and releases the core.
pub(crate) struct Held<'a> {
    core: &'a Core,
    since: Ns,
    _turn: Permit,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let span = self.core.sim.now().since(self.since);
        let _ = self.core.work.reserve(self.since, span);
    }
}

/// A request for processor time.
#[must_use]
pub enum Computing {
    /// The time is reserved and ends then.
    Until(Ns),
    /// The core is held; the future reserves the time later and completes at its end.
    Later(Pin<Box<dyn Future<Output = ()>>>),
}

impl Computing {
    /// Requests `span` of processor time of `core`.
    pub(crate) fn on(core: &Rc<Core>, span: Ns) -> Self {
        if let Some(over) = core.reserve(span) {
            return Self::Until(over);
        }
        let core = Rc::clone(core);
        Self::Later(Box::pin(async move { core.serve(span).await }))
    }

    /// Waits for the end of the requested time.
    pub async fn over(self, sim: &Sim) {
        match self {
            Self::Until(time) => sim.sleep_until(time).await,
            Self::Later(over) => over.await,
        }
    }
}
