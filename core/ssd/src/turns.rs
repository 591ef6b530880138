//! Resources of the whole drive that serve one request after the other: the processors of the
//! firmware, and the power for programs.
//!
//! Invariant: requests are served in the order in which they ask.

use std::cell::Cell;
use units::Ns;

/// Times until which each resource is taken.
pub(crate) struct Turns {
    processors: Cell<Ns>,
    power: Cell<Ns>,
    /// Time between the begins of two programs; zero for no limit.
    span: Ns,
}

impl Turns {
    /// Idle resources for programs of `unit` bytes, `rate` bytes per second at most (0: no limit).
    pub(crate) fn new(rate: u64, unit: u64) -> Self {
        let span = match rate {
            0 => Ns::ZERO,
            rate => Ns::transfer(unit, rate),
        };
        Self {
            processors: Cell::default(),
            power: Cell::default(),
            span,
        }
    }

    /// Occupies the processors for `span` at or after `now`, and returns the begin.
    #[inline]
    pub(crate) fn processors(&self, now: Ns, span: Ns) -> Ns {
        take(&self.processors, now, span)
    }

    /// Begin of the next program: `now`, if there is power for it.
    #[inline]
    pub(crate) fn program(&self, now: Ns) -> Ns {
        take(&self.power, now, self.span)
    }
}

fn take(free: &Cell<Ns>, now: Ns, span: Ns) -> Ns {
    let begin = free.get().max(now);
    free.set(begin + span);
    begin
}
