//! How often strangers may have the thread of a simulation do what takes long.
//!
//! Invariant: over any time there are no more than come together at first, and one for each
//! period of it.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Counts who wants to pass: some together, and then one after the other.
#[derive(Debug)]
pub struct Turnstile {
    /// So many may come together.
    together: u32,
    /// After so long there may be one more.
    period: Duration,
    left: Cell<u32>,
    since: Cell<Instant>,
}

impl Turnstile {
    /// One that `together` may pass at `now`, and one more after each `period`.
    #[must_use]
    pub const fn new(together: u32, period: Duration, now: Instant) -> Self {
        Self {
            together,
            period,
            left: Cell::new(together),
            since: Cell::new(now),
        }
    }

    /// Whether there may be one more at this moment.
    #[must_use]
    pub fn admits(&self, now: Instant) -> bool {
        let past = now.saturating_duration_since(self.since.get());
        let periods = past.as_nanos() / self.period.as_nanos();
        let more = periods.min(self.together.into()) as u32;
        if more == self.together {
            self.since.set(now);
        } else {
            self.since.set(self.since.get() + self.period * more);
        }
        let left = (self.left.get() + more).min(self.together);
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_come_together_and_then_one_after_the_other() {
        let (start, period) = (Instant::now(), Duration::from_millis(20));
        let turnstile = Turnstile::new(64, period, start);
        let count = |now| (0..1000).filter(|_| turnstile.admits(now)).count();
        assert_eq!(count(start), 64);
        assert_eq!(count(start + period - Duration::from_nanos(1)), 0);
        assert_eq!(count(start + period), 1);
        assert_eq!(count(start + period * 4 + period / 2), 3);
        // What was begun of a period is not lost, and no more is saved than there was.
        assert_eq!(count(start + period * 5), 1);
        assert_eq!(count(start + period * 100_000), 64);
    }
}
