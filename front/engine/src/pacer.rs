//! The wall clock that paces virtual time.
//!
//! Invariants: under [`Pace::Wall`] an event happens at its time on the wall clock or later, never
//! before, and under [`Pace::Dilated`] at a multiple of it; a simulation slower than the wall clock runs as fast as it can. Under [`Pace::Free`]
//! virtual time is never behind the wall clock, so that timestamps of files are right, and only
//! waits longer than [`LEAP`] really take time.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};
use units::Ns;

/// Relation of virtual time to the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// Waits of a drive are skipped: requests take the time of the processor. Longer waits are
    /// timers, such as those of write-back, and keep their time.
    #[default]
    Free,
    /// Requests take the time of the model on the wall clock.
    Wall,
    /// As [`Pace::Wall`], with each second of virtual time this many seconds long.
    Dilated(NonZeroU32),
}

/// Longest wait that [`Pace::Free`] skips. The longest wait of a drive is an erase of some 10 ms;
/// the shortest timer of a file system is 5 s.
const LEAP: Ns = Ns::ms(100);

impl Pace {
    /// Longest wait that is skipped.
    pub(crate) const fn leap(self) -> Ns {
        match self {
            Self::Free => LEAP,
            Self::Wall | Self::Dilated(_) => Ns::ZERO,
        }
    }

    /// Whether the wall clock paces requests.
    pub(crate) fn is_paced(self) -> bool {
        self != Self::Free
    }

    /// Seconds on the wall clock of a second of virtual time.
    fn dilation(self) -> u32 {
        match self {
            Self::Free | Self::Wall => 1,
            Self::Dilated(factor) => factor.get(),
        }
    }
}

/// Wake-up latency of a sleeping thread: 50 to 90 µs on a virtual machine, measured. For a shorter
/// wait the thread polls the clock instead.
const LATE: Duration = Duration::from_micros(90);

/// Virtual time derived from the wall clock.
#[derive(Clone, Copy)]
pub(crate) struct WallClock {
    start: Instant,
    dilation: u32,
    /// Virtual time that was skipped.
    ahead: Ns,
}

impl WallClock {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            start: Instant::now(),
            dilation: pace.dilation(),
            ahead: Ns::ZERO,
        }
    }

    /// Virtual time of this moment.
    pub(crate) fn now(&self) -> Ns {
        self.at(Instant::now())
    }

    /// Virtual time of `moment`, if nothing was skipped since.
    pub(crate) fn at(&self, moment: Instant) -> Ns {
        let past = moment.saturating_duration_since(self.start) / self.dilation;
        let past = u64::try_from(past.as_nanos()).unwrap_or(u64::MAX);
        Ns(past.saturating_add(self.ahead.0))
    }

    /// Skips virtual time forward to at least `now`.
    pub(crate) fn catch_up(&mut self, now: Ns) {
        self.ahead.0 += now.0.saturating_sub(self.now().0);
    }

    /// Time that a thread may sleep before `time`; none if `time` is too near.
    pub(crate) fn sleep_before(&self, time: Ns) -> Option<Duration> {
        let left = Duration::from_nanos(time.0.saturating_sub(self.now().0));
        let left = left.saturating_mul(self.dilation);
        left.checked_sub(LATE).filter(|span| !span.is_zero())
    }
}
