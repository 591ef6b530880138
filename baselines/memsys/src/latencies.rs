//! Latency histogram of accesses, by classes of time.
//!
//! Times below 100 ns have classes of 12.5 ns. Above, each power of two is divided into eight
//! classes of equal width. So 200 ns is the end of a class, and a class is at most an eighth of
//! its times wide.
//!
//! Invariant: a time belongs to the first class that does not end before it.

use crate::tick::Tick;

/// The width of the first classes: 12.5 ns.
const UNIT: u64 = 25 * Tick::PER_NS / 2;
/// Classes in each power of two.
const PARTS: usize = 8;
/// Powers of two; the last one ends after 26 s, and its last class takes all longer times.
const POWERS: usize = 28;
const CLASSES: usize = PARTS * (POWERS + 1);

/// Counts of accesses by latency, and the longest latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    classes: [u64; CLASSES],
    longest: Tick,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            classes: [0; CLASSES],
            longest: Tick::ZERO,
        }
    }
}

/// The class that `time` belongs to.
#[inline]
fn class(time: Tick) -> usize {
    let units = time.0.saturating_sub(1) / UNIT;
    let power = (units / PARTS as u64).checked_ilog2().unwrap_or(0);
    let class = units >> power;
    (power as usize * PARTS + class as usize).min(CLASSES - 1)
}

/// The end of a class, inclusive.
fn end(class: usize) -> Tick {
    let power = (class / PARTS).saturating_sub(1);
    let units = (class - power * PARTS + 1) as u64;
    Tick((UNIT * units) << power)
}

impl Latencies {
    #[inline]
    pub(crate) fn add(&mut self, time: Tick) {
        self.classes[class(time)] += 1;
        self.longest = self.longest.max(time);
    }

    /// Resets the longest latency, so that it covers only later accesses.
    pub(crate) fn forget_longest(&mut self) {
        self.longest = Tick::ZERO;
    }

    /// Counts since `before`. The longest is kept as it is: subtraction cannot recover it.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            classes: std::array::from_fn(|class| self.classes[class] - before.classes[class]),
            longest: self.longest,
        }
    }

    /// The sum of both histograms.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self {
            classes: std::array::from_fn(|class| self.classes[class] + other.classes[class]),
            longest: self.longest.max(other.longest),
        }
    }

    /// Number of accesses.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Share of accesses that took no longer than `time`, if `time` is the end of a class, as
    /// 200 ns is; otherwise of those in classes that end before it.
    #[must_use]
    pub fn share_within(&self, time: Tick) -> f64 {
        let ended = (0..CLASSES).take_while(|&class| end(class) <= time);
        let within: u64 = ended.map(|class| self.classes[class]).sum();
        within as f64 / self.count().max(1) as f64
    }

    /// The latency within which `share` of the accesses completed: the end of its class, or the
    /// longest if that is in the class; zero without accesses.
    #[must_use]
    pub fn percentile(&self, share: f64) -> Tick {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut passed = 0;
        let reached = (0..CLASSES).find(|&class| {
            passed += self.classes[class];
            passed >= wanted.max(1)
        });
        reached.map_or(Tick::ZERO, |class| end(class).min(self.longest))
    }

    /// The longest latency; zero without accesses.
    #[must_use]
    pub const fn longest(&self) -> Tick {
        self.longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ns;

    #[test]
    fn a_time_is_in_the_class_that_ends_next() {
        let mut before = Tick::ZERO;
        for number in 0..CLASSES - 1 {
            let last = end(number);
            assert!(last > before, "{number}");
            assert_eq!((class(Tick(before.0 + 1)), class(last)), (number, number));
            // No wider than 12.5 ns, or an eighth of its times.
            assert!((last - before).0 <= UNIT.max(before.0 / 8));
            before = last;
        }
        assert_eq!((class(Tick::ZERO), class(Tick::NEVER)), (0, CLASSES - 1));
        assert!((0..CLASSES).any(|number| end(number) == Tick::of(Ns(200))));
        assert!(end(CLASSES - 1) > Tick::of(Ns::secs(26)));
    }

    #[test]
    fn shares_and_percentiles_are_those_of_the_times() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.percentile(0.99), Tick::ZERO);
        latencies.add(Tick::of(Ns::secs(1)));
        let before = latencies;
        latencies.forget_longest();
        let mut rng = sim::Seed(5).stream("latencies");
        let mut times: Vec<u64> = (0..20_000).map(|_| 1 << (4 + rng.below(16))).collect();
        for time in &mut times {
            *time += rng.below(*time);
            latencies.add(Tick::of(Ns(*time)));
        }
        // What ends with the 200th nanosecond is within it.
        times.extend([200; 100]);
        for _ in 0..100 {
            latencies.add(Tick::of(Ns(200)));
        }
        times.sort_unstable();
        let latencies = latencies.since(&before);
        let within = times.iter().filter(|&&time| time <= 200).count() as f64;
        let share = latencies.share_within(Tick::of(Ns(200)));
        assert!((share - within / times.len() as f64).abs() < 1e-12);
        for share in [0.5, 0.99, 0.9999] {
            let exact = times[(times.len() as f64 * share).ceil() as usize - 1];
            let told = latencies.percentile(share).ns_up().0;
            assert!(
                (exact..=exact + exact / 8 + 13).contains(&told),
                "{exact} {told}"
            );
        }
        let longest = Tick::of(Ns(times[times.len() - 1]));
        assert_eq!(latencies.longest(), longest);
        assert_eq!(latencies.percentile(1.0), longest);
        let twice = latencies.and(&latencies);
        assert_eq!((twice.count(), twice.longest()), (40_200, longest));
    }
}
