//! Time of day derived from virtual time, and the accounting of processor time.

use crate::types::Timestamp;
use host::{BlockPort, Computing};
use sim::Sim;
use std::rc::Rc;
use units::Ns;

/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Wall clock for timestamps of files. It advances in ticks, as that of Linux does: 4 ms with its
/// default of 250 ticks a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    start: Timestamp,
    tick: Ns,
}

impl Clock {
    /// A clock that shows `start` at virtual time zero and advances by `tick`
    /// (0: every nanosecond).
    #[must_use]
    pub const fn new(start: Timestamp, tick: Ns) -> Self {
        Self { start, tick }
    }

    /// A clock that shows `start` at virtual time zero, with Linux' tick of 4 ms.
    #[must_use]
    pub const fn starting(start: Timestamp) -> Self {
        Self::new(start, Ns::ms(4))
    }

    /// Wall-clock time at virtual time `now`, rounded down to a tick.
    #[must_use]
    pub fn at(&self, now: Ns) -> Timestamp {
        let past = match self.tick.0 {
            0 => now.0,
            tick => now.0 - now.0 % tick,
        };
        let nanos = u64::from(self.start.nanos) + past % SECOND;
        Timestamp {
            secs: self.start.secs + (past / SECOND + nanos / SECOND) as i64,
            nanos: (nanos % SECOND) as u32,
        }
    }
}

impl Default for Clock {
    /// The 1st of January 2026, in ticks of 4 ms.
    fn default() -> Self {
        let start = Timestamp {
            secs: 1_767_225_600,
            nanos: 0,
        };
        Self::starting(start)
    }
}

/// Model of the processor that executes calls.
#[derive(Clone, Default)]
pub struct Compute(Way);

#[derive(Clone, Default)]
enum Way {
    #[default]
    Free,
    Sleep,
    Port(Rc<dyn Fn(Ns) -> Computing>),
}

impl Compute {
    /// Calls take no processor time.
    #[must_use]
    pub fn free() -> Self {
        Self(Way::Free)
    }

    /// Each call takes its time, with a core for every task.
    #[must_use]
    pub fn unlimited() -> Self {
        Self(Way::Sleep)
    }

    /// Calls keep the cores of `port` busy, from which requests are submitted.
    #[must_use]
    pub fn of(port: &impl BlockPort) -> Self {
        let port = port.clone();
        Self(Way::Port(Rc::new(move |span| port.compute(span))))
    }

    /// Keeps the core of the current task busy for `span`.
    #[inline]
    pub(crate) async fn pay(&self, sim: &Sim, span: Ns) {
        if span.0 == 0 {
            return;
        }
        match &self.0 {
            Way::Free => {}
            Way::Sleep => sim.sleep(span).await,
            Way::Port(compute) => compute(span).over(sim).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_advance_in_ticks_and_carry_into_seconds() {
        let start = Timestamp {
            secs: 10,
            nanos: 999_000_000,
        };
        let clock = Clock::starting(start);
        assert_eq!(clock.at(Ns(3_999_999)), start);
        let next = clock.at(Ns(4_000_001));
        assert_eq!((next.secs, next.nanos), (11, 3_000_000));
    }
}
