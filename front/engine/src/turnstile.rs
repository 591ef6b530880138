//! Rate limit for expensive requests of clients that are not authenticated yet.
//!
//! Invariant: in any span of time at most `together` requests are admitted, plus one for each
//! `period` of the span.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// A token bucket: admits a burst, then one request each period.
#[derive(Debug)]
pub struct Turnstile {
    /// Capacity of the bucket: the largest burst.
    together: u32,
    /// Time after which one token is added.
    period: Duration,
    left: Cell<u32>,
    since: Cell<Instant>,
}

impl Turnstile {
    /// A full bucket at `now`: admits a burst of `together` requests, and one more after each
    /// `period`, which must not be zero.
    #[must_use]
    pub const fn new(together: u32, period: Duration, now: Instant) -> Self {
        Self {
            together,
            period,
            left: Cell::new(together),
            since: Cell::new(now),
        }
    }

    /// Takes a token if there is one; returns whether the request may proceed.
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
    fn turnstile_admits_a_burst_then_one_each_period() {
        let (start, period) = (Instant::now(), Duration::from_millis(20));
        let turnstile = Turnstile::new(64, period, start);
        let count = |now| (0..1000).filter(|_| turnstile.admits(now)).count();
        assert_eq!(count(start), 64);
        assert_eq!(count(start + period - Duration::from_nanos(1)), 0);
        assert_eq!(count(start + period), 1);
        assert_eq!(count(start + period * 4 + period / 2), 3);
        // A fraction of a period is not lost, and the bucket never exceeds its capacity.
        assert_eq!(count(start + period * 5), 1);
        assert_eq!(count(start + period * 100_000), 64);
    }
}
