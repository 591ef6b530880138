//! Cores: what they do one after the other, and when they stand still.
//!
//! # Invariants
//!
//! - A core does what is asked of it in the order in which it was asked.
//! - A core that somebody holds does nothing else until it is let go: a processor that
//!   loads from a drive, over PCI Express or CXL, waits for the data in the middle of an
//!   instruction, and cannot take up another task as it could for a command.

use sim::{Permit, Semaphore, Sim, Timeline};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use units::Ns;

/// A core.
pub(crate) struct Core {
    sim: Sim,
    /// What it has been asked for.
    work: Timeline,
    /// Taken for an instant by who asks for work, and for as long as the core is held.
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

    /// Time that it was busy, including what is reserved ahead.
    pub(crate) fn busy(&self) -> Ns {
        self.work.meter().busy()
    }

    /// Has it work for `span`; gives when that will be over, unless it is held.
    fn reserve(&self, span: Ns) -> Option<Ns> {
        if !self.turn.try_take(1) {
            return None;
        }
        let over = self.work.reserve(self.sim.now(), span);
        self.turn.put(1);
        Some(over)
    }

    /// Has it work for `span`, once it may; gives when that will be over.
    async fn reserved(&self, span: Ns) -> Ns {
        if let Some(over) = self.reserve(span) {
            return over;
        }
        let _turn = self.turn.acquire(1).await;
        self.work.reserve(self.sim.now(), span)
    }

    /// Has it work for `span`, and waits for that.
    pub(crate) async fn serve(&self, span: Ns) {
        self.serve_then(span, Ns::ZERO).await;
    }

    /// Has it work for `span`, and waits for that and for `latency`, in which it does
    /// something else.
    pub(crate) async fn serve_then(&self, span: Ns, latency: Ns) {
        let over = self.reserved(span).await;
        self.sim.sleep_until(over + latency).await;
    }

    /// Has it to itself, once it has done what was asked of it before.
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

/// Keeps a core from doing anything else.
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

/// Processor time that was asked for.
#[must_use]
pub enum Computing {
    /// It is over at that time.
    Until(Ns),
    /// The core is held; it is over when this is.
    Later(Pin<Box<dyn Future<Output = ()>>>),
}

impl Computing {
    /// Asks `core` for `span`.
    pub(crate) fn on(core: &Rc<Core>, span: Ns) -> Self {
        if let Some(over) = core.reserve(span) {
            return Self::Until(over);
        }
        let core = Rc::clone(core);
        Self::Later(Box::pin(async move { core.serve(span).await }))
    }

    /// Waits until it is over.
    pub async fn over(self, sim: &Sim) {
        match self {
            Self::Until(time) => sim.sleep_until(time).await,
            Self::Later(over) => over.await,
        }
    }
}
