//! Random places of a region, by one distribution.
//!
//! Invariant: a place is below the number of places, and nothing is kept for each.

use super::value::ZoneShare;
use super::words::Distribution;
use crate::generate::{Shuffle, Zipf};
use sim::Rng;
use sim::fixed::{LOG_ONE, exp2_negative, log2};

/// Draws of a normal place: the mean of this many uniform ones.
const NORMAL_DRAWS: u64 = 12;

/// One, in the fixed point of parameters.
const MILLION: u64 = 1_000_000;

/// Generator of places by one distribution.
#[derive(Clone, Debug)]
pub(super) enum Places {
    Uniform {
        count: u64,
    },
    /// Every place once before any place comes again.
    Permuted {
        count: u64,
        next: u64,
        shuffle: Shuffle,
    },
    Zipf(Zipf),
    /// Place `count * u ^ power` of a uniform `u`; popular places are scattered.
    Pareto {
        count: u64,
        /// The power, with 32 bits after the point.
        power: u64,
        scatter: Shuffle,
    },
    /// The mean of uniform places, moved by up to half the deviation, and scattered.
    Normal {
        count: u64,
        deviation: u64,
        scatter: Shuffle,
    },
    /// Zones: the sum of accesses up to and including each, its first place and its places.
    Zoned(Vec<(u64, u64, u64)>),
}

impl Places {
    /// Places of `distribution` below `count`, which is at least 1; a place is `unit` bytes.
    /// Uniform places repeat only if `repeats`.
    pub(super) fn new(
        distribution: &Distribution,
        (count, unit): (u64, u64),
        repeats: bool,
        rng: &mut Rng,
    ) -> Self {
        match distribution {
            Distribution::Uniform if repeats => Self::Uniform { count },
            Distribution::Uniform => Self::Permuted {
                count,
                next: 0,
                shuffle: Shuffle::new(count, rng),
            },
            Distribution::Zipf(theta) => Self::Zipf(Zipf::new(count, *theta, rng)),
            Distribution::Pareto(h) => Self::Pareto {
                count,
                power: pareto_power(*h),
                scatter: Shuffle::new(count, rng),
            },
            Distribution::Normal(deviation) => Self::Normal {
                count,
                deviation: share(count, *deviation, 100 * MILLION).min(count / 2),
                scatter: Shuffle::new(count, rng),
            },
            Distribution::Zoned(zones) => Self::zoned(zones, count, |z| share(count, z, 10_000)),
            Distribution::ZonedAbsolute(zones) => Self::zoned(zones, count, |z| z / unit),
        }
    }

    fn zoned(zones: &[ZoneShare], count: u64, places: impl Fn(u64) -> u64) -> Self {
        let (mut sum, mut first) = (0, 0_u64);
        let zone = |zone: &ZoneShare| {
            sum += zone.accesses;
            // A zone has a place at least, and none beyond the region.
            let start = first.min(count - 1);
            let places = places(zone.length).clamp(1, count - start);
            first = start + places;
            (sum, start, places)
        };
        Self::Zoned(zones.iter().map(zone).collect())
    }

    /// Draws a place below the number of places.
    pub(super) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Self::Uniform { count } => rng.below(*count),
            Self::Permuted {
                count,
                next,
                shuffle,
            } => {
                if *next == *count {
                    // A new pass has a new permutation.
                    *shuffle = Shuffle::new(*count, rng);
                    *next = 0;
                }
                *next += 1;
                shuffle.at(*next - 1)
            }
            Self::Zipf(zipf) => zipf.draw(rng),
            Self::Pareto {
                count,
                power,
                scatter,
            } => {
                let log = 64 * LOG_ONE - log2(rng.next_u64().max(1));
                let exponent = (u128::from(log) * u128::from(*power)) >> 32;
                let part = exp2_negative(u64::try_from(exponent).unwrap_or(u64::MAX));
                let place = (u128::from(*count - 1) * u128::from(part)) >> 62;
                scatter.at(place as u64)
            }
            Self::Normal {
                count,
                deviation,
                scatter,
            } => {
                let sum: u64 = (0..NORMAL_DRAWS).map(|_| rng.below(*count)).sum();
                let moved = sum / NORMAL_DRAWS + rng.below(*deviation + 1);
                scatter.at(moved.saturating_sub(*deviation / 2).min(*count - 1))
            }
            Self::Zoned(zones) => {
                let drawn = rng.below(zones.last().map_or(1, |zone| zone.0));
                let zone = zones.partition_point(|zone| zone.0 <= drawn);
                let (_, first, places) = zones[zone];
                first + rng.below(places)
            }
        }
    }
}

/// The power ln h / ln (1 - h), with 32 bits after the point, of `h` in millionths.
fn pareto_power(h: u64) -> u64 {
    let one = log2(MILLION);
    let (of_h, of_rest) = (one - log2(h), one - log2(MILLION - h));
    let power = (u128::from(of_h) << 32) / u128::from(of_rest.max(1));
    u64::try_from(power).unwrap_or(u64::MAX)
}

/// `part` of `whole` of `count`.
fn share(count: u64, part: u64, whole: u64) -> u64 {
    (u128::from(count) * u128::from(part) / u128::from(whole)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    const COUNT: u64 = 1_000;

    /// Number of draws of each place, the largest first.
    fn counts(distribution: &Distribution, draws: u64) -> Vec<u64> {
        let mut rng = Seed(1).stream("places");
        let mut places = Places::new(distribution, (COUNT, 4096), false, &mut rng);
        let mut counts = vec![0_u64; COUNT as usize];
        (0..draws).for_each(|_| counts[places.draw(&mut rng) as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    fn top(counts: &[u64], part: usize) -> f64 {
        let all: u64 = counts.iter().sum();
        counts[..part].iter().sum::<u64>() as f64 / all as f64
    }

    #[test]
    fn uniform_places_come_once_a_pass() {
        assert!(
            counts(&Distribution::Uniform, COUNT)
                .iter()
                .all(|&n| n == 1)
        );
    }

    #[test]
    fn pareto_of_a_fifth_gives_a_fifth_of_the_places_four_fifths() {
        let top = top(&counts(&Distribution::Pareto(200_000), 200_000), 200);
        assert!((top - 0.8).abs() < 0.01, "{top}");
    }

    #[test]
    fn normal_places_gather() {
        // The mean of 12 uniform draws has a deviation of a twelfth of the range: 68 % lie within
        // a sixth of it.
        let top = top(&counts(&Distribution::Normal(0), 200_000), 167);
        assert!((top - 0.683).abs() < 0.015, "{top}");
    }

    #[test]
    fn zones_get_their_shares() {
        let zones = |text, is_absolute| super::super::value::zones(text, is_absolute).unwrap();
        let mut rng = Seed(1).stream("zones");
        for distribution in [
            Distribution::Zoned(zones("50/5:30/15:20/80", false)),
            Distribution::ZonedAbsolute(zones("50/200k:30/600k:20/3200k", true)),
        ] {
            let mut places = Places::new(&distribution, (COUNT, 4096), true, &mut rng);
            let mut hits = [0_u64; 3];
            for _ in 0..100_000 {
                let place = places.draw(&mut rng);
                assert!(place < COUNT);
                hits[usize::from(place >= 50) + usize::from(place >= 200)] += 1;
            }
            for (hits, wanted) in hits.iter().zip([50_000_u64, 30_000, 20_000]) {
                assert!(hits.abs_diff(wanted) < 1_000, "{hits}");
            }
        }
        // Zones that exceed the region stay within it.
        let beyond = Distribution::ZonedAbsolute(zones("50/1g:50/1t", true));
        let mut places = Places::new(&beyond, (COUNT, 4096), true, &mut rng);
        assert!((0..1_000).all(|_| places.draw(&mut rng) < COUNT));
    }
}
