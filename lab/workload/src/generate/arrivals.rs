//! Times at which a generator issues its requests.

use sim::Rng;
use sim::fixed::exponential;
use units::Ns;

/// Rule that sets the times at which a generator issues its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// A closed loop: completions set the pace, and all times are zero.
    Closed,
    /// Arrivals at equal distances.
    Fixed {
        /// Requests per second, not 0.
        per_second: u64,
    },
    /// At random distances that are independent of each other (exponential).
    Poisson {
        /// Requests per second on average, not 0.
        per_second: u64,
    },
    /// At equal distances for `on`, then none for `off`, and so on.
    Bursts {
        /// Requests per second within a burst, not 0.
        per_second: u64,
        /// Length of a burst, not 0.
        on: Ns,
        /// Length of the rest after each burst.
        off: Ns,
    },
}

const SECOND: u64 = 1_000_000_000;

/// Generator of the times of one generator's requests.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    arrivals: Arrivals,
    count: u64,
    /// Sum of the random distances so far, in 256ths of a nanosecond.
    random: u64,
}

impl Clock {
    pub(super) const fn new(arrivals: Arrivals) -> Self {
        Self {
            arrivals,
            count: 0,
            random: 0,
        }
    }

    /// Time of the next request, from the beginning of the workload.
    pub(super) fn tick(&mut self, rng: &mut Rng) -> Ns {
        let count = self.count;
        self.count += 1;
        Ns(match self.arrivals {
            Arrivals::Closed => 0,
            Arrivals::Fixed { per_second } => even(count, per_second),
            Arrivals::Poisson { per_second } => self.random(rng, per_second),
            Arrivals::Bursts {
                per_second,
                on,
                off,
            } => {
                let busy = even(count, per_second);
                busy.saturating_add((busy / on.0).saturating_mul(off.0))
            }
        })
    }

    fn random(&mut self, rng: &mut Rng, per_second: u64) -> u64 {
        let now = self.random;
        // The gap is in 256ths of a nanosecond, so that high rates keep their mean.
        let gap = exponential(rng.next_u64(), SECOND * 256 / per_second);
        self.random = self.random.saturating_add(gap);
        now / 256
    }
}

/// Time of request `count`; computed from the count, so that rounding does not accumulate.
fn even(count: u64, per_second: u64) -> u64 {
    let ns = u128::from(count) * u128::from(SECOND) / u128::from(per_second);
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    fn times(arrivals: Arrivals, count: usize) -> Vec<u64> {
        let mut rng = Seed(5).stream("arrivals");
        let mut clock = Clock::new(arrivals);
        (0..count).map(|_| clock.tick(&mut rng).0).collect()
    }

    #[test]
    fn even_arrivals_do_not_drift() {
        let at = times(Arrivals::Fixed { per_second: 3 }, 4);
        assert_eq!(at, [0, 333_333_333, 666_666_666, SECOND]);
    }

    #[test]
    fn bursts_leave_the_drive_alone() {
        let arrivals = Arrivals::Bursts {
            per_second: 1_000,
            on: Ns::ms(2),
            off: Ns::ms(10),
        };
        let ms = 1_000_000;
        assert_eq!(times(arrivals, 5), [0, ms, 12 * ms, 13 * ms, 24 * ms]);
    }

    #[test]
    fn random_arrivals_keep_their_rate() {
        let at = times(Arrivals::Poisson { per_second: 1_000 }, 100_001);
        assert!(
            at[100_000].abs_diff(100 * SECOND) < 2 * SECOND,
            "{}",
            at[100_000]
        );
        assert!(at.is_sorted());
    }
}
