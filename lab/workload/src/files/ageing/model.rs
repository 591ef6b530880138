//! Distributions of the files on a used file system: sizes, lifetimes and directories.
//!
//! Invariant: all arithmetic is on integers, so that a draw is equal on every machine.
//!
//! Sizes and depths are the defaults of Impressions (Agrawal, Arpaci-Dusseau, Arpaci-Dusseau, FAST
//! 2009, Table 2), which were fitted to the file systems of a large company (Agrawal et al., FAST
//! 2007). Lifetimes follow from the ages of files in the profile `agrawal` of Geriatrix (Kadekodi,
//! Nagarajan, Ganger, Gibson, USENIX ATC 2018), which is of the same file systems.

use super::super::draw::{lognormal, pareto};
use sim::Rng;
use sim::fixed::exponential;

/// Sizes by count: a lognormal body with μ = 9.48 and σ = 2.46 for 99,994 files of 100,000.
const BODY: (u64, u64) = (99_994, 100_000);
/// μ and σ of the body, in thousandths.
const MU_SIGMA: (u64, u64) = (9_480, 2_460);
/// Sizes of the other files: a Pareto tail from 512 MB on, with k = 0.91, in hundredths.
const TAIL: (u64, u64) = (512 << 20, 91);

/// Mean of the Poisson distribution of depths, in hundredths.
const DEPTH: u64 = 649;

/// A new directory is made in a directory with a probability in proportion to this number and the
/// count of its subdirectories.
const ATTRACTION: u64 = 2;

/// Files by lifetime: centre and half width of a range in hours, and the number of 10,000 files
/// whose lifetime is in it, uniformly distributed.
///
/// In a population in equilibrium, the share of files of an age is in proportion to the share of
/// files that live longer. So the density of ages, which the profile gives in steps, falls at the
/// end of each step by the share of files that die there; a range lies symmetrically about that
/// end and is as wide as the step before it. The first four steps, to 240 hours, are one step here:
/// their densities rise, as those of no equilibrium can.
const LIFETIMES: [(u64, u64, u64); 7] = [
    (240, 120, 2_394),
    (688, 224, 2_989),
    (1_946, 629, 1_483),
    (5_503, 1_779, 2_033),
    (15_768, 5_132, 1_038),
    (44_024, 14_128, 62),
    (122_640, 39_308, 1),
];

/// Mean of [`LIFETIMES`] in hours.
pub(super) const MEAN_LIFETIME: u64 = 3_592;

/// Bytes of a new file. A file of more than `most` bytes is drawn again.
pub(super) fn size(rng: &mut Rng, most: u64) -> u64 {
    loop {
        let size = match rng.chance(BODY.0, BODY.1) {
            true => lognormal(rng, MU_SIGMA.0, MU_SIGMA.1),
            false => pareto(rng, TAIL.0, TAIL.1),
        };
        if size <= most {
            return size;
        }
    }
}

/// The lifetime of a new file in hours.
pub(super) fn lifetime(rng: &mut Rng) -> u64 {
    within(rng, |&(_, _, files)| files)
}

/// The rest of the lifetime of a file that was found on the file system, in hours. A long-lived
/// file is more likely to be found, at any time of its life.
pub(super) fn rest_of_lifetime(rng: &mut Rng) -> u64 {
    loop {
        let hours = within(rng, |&(centre, _, files)| centre * files);
        if rng.chance(hours, longest_beside(hours)) {
            return rng.below(hours);
        }
    }
}

/// The end of the range that contains `hours`.
fn longest_beside(hours: u64) -> u64 {
    let ends = LIFETIMES.iter().map(|(centre, half, _)| centre + half);
    ends.filter(|&end| hours < end).min().unwrap_or(hours)
}

/// A lifetime from a range that `weight` draws.
fn within(rng: &mut Rng, weight: impl Fn(&(u64, u64, u64)) -> u64) -> u64 {
    let mut left = rng.below(LIFETIMES.iter().map(&weight).sum());
    let mut ranges = LIFETIMES.iter();
    let range = ranges.find(|range| {
        let found = left < weight(range);
        left = left.saturating_sub(weight(range));
        found
    });
    let &(centre, half, _) = range.unwrap_or(&LIFETIMES[0]);
    centre - half + rng.below(2 * half)
}

/// The level of the directory of a new file, from 0.
pub(super) fn level(rng: &mut Rng) -> usize {
    let mut sum = 0;
    let arrivals = (0..).find(|_| {
        sum += exponential(rng.next_u64(), 100 << 16);
        sum > DEPTH << 16
    });
    arrivals.unwrap_or_default()
}

/// The parent of each of `count` directories, by number; the first is the root, its own parent. The
/// growth of the tree is that of Impressions, 3.3.1.
pub(super) fn tree(rng: &mut Rng, count: usize) -> Vec<usize> {
    let mut parents = vec![0];
    // Each directory is in here as often as its attraction: twice, and once for each subdirectory.
    let mut drawn: Vec<usize> = vec![0; ATTRACTION as usize];
    for made in 1..count {
        let parent = drawn[rng.below(drawn.len() as u64) as usize];
        parents.push(parent);
        drawn.push(parent);
        drawn.extend([made; ATTRACTION as usize]);
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    const DRAWS: usize = 100_000;

    /// Share of `draws` that are below `bound`.
    fn below(draws: &[u64], bound: f64) -> f64 {
        let count = draws.iter().filter(|&&draw| (draw as f64) < bound).count();
        count as f64 / draws.len() as f64
    }

    #[test]
    fn sizes_have_the_quantiles_of_a_lognormal_distribution() {
        let mut rng = Seed(1).stream("sizes");
        let sizes: Vec<u64> = (0..DRAWS).map(|_| size(&mut rng, u64::MAX)).collect();
        // Standard normal quantiles and their probabilities.
        let quantiles: [(f64, f64); 4] =
            [(-2.0, 0.02275), (-1.0, 0.15866), (0.0, 0.5), (1.0, 0.84134)];
        for (z, probability) in quantiles.into_iter().chain([(2.0, 0.97725)]) {
            let found = below(&sizes, (9.48 + 2.46 * z).exp());
            assert!((found - probability).abs() < 0.005, "{z}: {found}");
        }
        let most = 1 << 20;
        assert!((0..DRAWS).all(|_| size(&mut rng, most) <= most));
    }

    #[test]
    fn lifetimes_have_the_stated_mean() {
        let mut rng = Seed(1).stream("lifetimes");
        let sum: u64 = (0..DRAWS).map(|_| lifetime(&mut rng)).sum();
        let mean = sum as f64 / DRAWS as f64;
        assert!((mean / MEAN_LIFETIME as f64 - 1.0).abs() < 0.03, "{mean}");
    }

    #[test]
    fn ages_in_equilibrium_are_those_of_the_profile() {
        let mut rng = Seed(1).stream("ages");
        // In an equilibrium, the rest of a lifetime is distributed as the age.
        let ages: Vec<u64> = (0..DRAWS).map(|_| rest_of_lifetime(&mut rng)).collect();
        let profile = [
            (240.0, 31.0),
            (687.87, 44.0),
            (1_945.59, 75.0),
            (5_502.98, 144.0),
            (15_768.0, 146.0),
            (44_023.9, 23.0),
            (122_640.0, 1.0),
        ];
        let mut sum = 0.0;
        for (age, weight) in profile {
            sum += weight / 464.0;
            let found = below(&ages, age);
            // The ranges spread what the steps of the profile hold together.
            assert!((found - sum).abs() < 0.04, "{age}: {found} for {sum}");
        }
    }

    #[test]
    fn levels_have_mean_and_variance_of_a_poisson_distribution() {
        let mut rng = Seed(1).stream("levels");
        let levels: Vec<f64> = (0..DRAWS).map(|_| level(&mut rng) as f64).collect();
        let mean = levels.iter().sum::<f64>() / DRAWS as f64;
        let variance = levels.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / DRAWS as f64;
        assert!((mean - 6.49).abs() < 0.05, "{mean}");
        assert!((variance - 6.49).abs() < 0.15, "{variance}");
    }

    #[test]
    fn directories_of_a_tree_come_after_their_parents() {
        let parents = tree(&mut Seed(1).stream("tree"), 1_000);
        assert!((1..1_000).all(|made| parents[made] < made));
        // One with n subdirectories is drawn n + 2 times as often as an empty one is drawn twice:
        // some have many, and more than half have none.
        let mut counts = vec![0; 1_000];
        parents[1..].iter().for_each(|&parent| counts[parent] += 1);
        assert!(counts.iter().filter(|&&n| n == 0).count() > 500);
        assert!(counts.iter().any(|&n| n > 20));
    }
}
