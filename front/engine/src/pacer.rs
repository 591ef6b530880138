//! The wall clock as the pacer of a simulation.
//!
//! Invariant: an event happens when its time has come on the wall or later, never
//! before. When the simulation is slower than the wall it runs as fast as it can.

use std::time::{Duration, Instant};
use units::Ns;

/// How virtual time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// From event to event at once: requests take what the processor takes.
    #[default]
    Free,
    /// With the wall clock: requests take what the model says.
    Wall,
}

/// A sleeping thread is woken late by about this much: 50 to 90 µs on a virtual
/// machine, measured. For less than that a thread looks at the clock instead.
const LATE: Duration = Duration::from_micros(90);

/// Virtual time as a wall clock shows it.
pub(crate) struct WallClock {
    start: Instant,
}

impl WallClock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// The virtual time that belongs to this moment.
    pub(crate) fn now(&self) -> Ns {
        Ns(u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// How long a thread may sleep before `time`; none if it is too near.
    pub(crate) fn sleep_before(&self, time: Ns) -> Option<Duration> {
        let left = Duration::from_nanos(time.0.saturating_sub(self.now().0));
        left.checked_sub(LATE).filter(|span| !span.is_zero())
    }
}
