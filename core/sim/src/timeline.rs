//! First-come, first-served resources by arithmetic instead of events.
//!
//! Invariant: `free_at` is the end of the last reservation. A reservation must be
//! made at the moment of arrival; then the order of reservations is the order of
//! service and no event is needed to keep a queue.

use crate::Sim;
use std::cell::Cell;
use units::Ns;

/// Busy time and number of uses of a resource.
#[derive(Debug, Default)]
pub struct Meter {
    busy: Cell<Ns>,
    uses: Cell<u64>,
}

impl Meter {
    /// Adds one use of `span`.
    #[inline]
    pub fn add(&self, span: Ns) {
        self.busy.set(self.busy.get() + span);
        self.uses.set(self.uses.get() + 1);
    }

    /// Time in use so far, including what is reserved ahead.
    #[must_use]
    pub fn busy(&self) -> Ns {
        self.busy.get()
    }

    /// Number of uses so far, including those reserved ahead.
    #[must_use]
    pub fn uses(&self) -> u64 {
        self.uses.get()
    }
}

/// One server with a first-come, first-served queue: a bus, a link, a core.
#[derive(Debug, Default)]
pub struct Timeline {
    free_at: Cell<Ns>,
    meter: Meter,
}

impl Timeline {
    /// Reserves `span` from `now` or from the end of the last reservation, whichever is
    /// later; returns the end of the new one.
    #[inline]
    pub fn reserve(&self, now: Ns, span: Ns) -> Ns {
        let done = self.free_at.get().max(now) + span;
        self.free_at.set(done);
        self.meter.add(span);
        done
    }

    /// Waits for the queue and for `span` of service.
    #[inline]
    pub async fn serve(&self, sim: &Sim, span: Ns) {
        self.serve_then(sim, span, Ns::ZERO).await;
    }

    /// Waits for the queue, for `span` of service and for `latency` more. The
    /// resource serves the next user during `latency`.
    #[inline]
    pub async fn serve_then(&self, sim: &Sim, span: Ns, latency: Ns) {
        let done = self.reserve(sim.now(), span);
        sim.sleep_until(done + latency).await;
    }

    /// End of the last reservation.
    #[must_use]
    pub fn free_at(&self) -> Ns {
        self.free_at.get()
    }

    /// Busy time and uses so far, including reservations ahead.
    #[must_use]
    pub fn meter(&self) -> &Meter {
        &self.meter
    }
}
