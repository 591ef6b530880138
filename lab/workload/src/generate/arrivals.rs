//! When requests are issued.

use sim::Rng;
use sim::fixed::exponential;
use units::Ns;

/// When a generator's requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// When the ones before complete: a closed loop, all times are zero.
    Closed,
    /// At even distances.
    Fixed {
        /// Requests per second, not 0.
        per_second: u64,
    },
    /// At random, independent of each other.
    Poisson {
        /// Requests per second on average, not 0.
        per_second: u64,
    },
    /// At even distances for `on`, then none for `off`, and so on.
    Bursts {
        /// Requests per second within a burst, not 0.
        per_second: u64,
        /// How long a burst lasts, not 0.
        on: Ns,
        /// How long the drive is left alone after it.
        off: Ns,
    },
}

const SECOND: u64 = 1_000_000_000;

/// The times of one generator's requests.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    arrivals: Arrivals,
    count: u64,
    /// Sum of the random distances so far.
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

    /// When the next request is issued.
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
        // In 256ths of a nanosecond, so that high rates keep their mean.
        let gap = exponential(rng.next_u64(), SECOND * 256 / per_second);
        self.random = self.random.saturating_add(gap);
        now / 256
    }
}

/// The time of request `count`, without the error of adding up distances.
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
