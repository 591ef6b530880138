//! The wall clock beside virtual time.
//!
//! Invariants: paced by the wall, an event happens when its time has come there or
//! later, never before; when the simulation is slower than the wall it runs as
//! fast as it can. Run freely, virtual time is never behind the wall, so files
//! have true times, and only long waits are waited for.

use std::time::{Duration, Instant};
use units::Ns;

/// How virtual time passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// What a drive waits for is skipped: requests take what the processor takes.
    /// Longer waits are timers, such as those of write-back, and keep their time.
    #[default]
    Free,
    /// With the wall clock: requests take what the model says.
    Wall,
}

/// Waits up to this are skipped by [`Pace::Free`]. The longest one of a drive is an
/// erase of some 10 ms; the shortest timer of a file system is 5 s.
const LEAP: Ns = Ns::ms(100);

impl Pace {
    /// How long a wait is skipped.
    pub(crate) const fn leap(self) -> Ns {
        match self {
            Self::Free => LEAP,
            Self::Wall => Ns::ZERO,
        }
    }
}

/// A sleeping thread is woken late by about this much: 50 to 90 µs on a virtual
/// machine, measured. For less than that a thread looks at the clock instead.
const LATE: Duration = Duration::from_micros(90);

/// Virtual time as a wall clock shows it.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    start: Instant,
    /// What was skipped.
    ahead: Ns,
}

impl WallClock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            ahead: Ns::ZERO,
        }
    }

    /// The virtual time that belongs to this moment.
    pub(crate) fn now(&self) -> Ns {
        let past = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Ns(past.saturating_add(self.ahead.0))
    }

    /// The virtual time that belonged to a moment, if nothing was skipped since.
    pub(crate) fn at(&self, moment: Instant) -> Ns {
        let past = moment.saturating_duration_since(self.start).as_nanos();
        let past = u64::try_from(past).unwrap_or(u64::MAX);
        Ns(past.saturating_add(self.ahead.0))
    }

    /// Lets it show at least `now`.
    pub(crate) fn catch_up(&mut self, now: Ns) {
        self.ahead.0 += now.0.saturating_sub(self.now().0);
    }

    /// How long a thread may sleep before `time`; none if it is too near.
    pub(crate) fn sleep_before(&self, time: Ns) -> Option<Duration> {
        let left = Duration::from_nanos(time.0.saturating_sub(self.now().0));
        left.checked_sub(LATE).filter(|span| !span.is_zero())
    }
}
