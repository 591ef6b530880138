//! How sizes shrink with the memory of the workload.
//!
//! A run at the paper's size takes hours. So its memory is divided by a power of two,
//! and with it the drive, its DRAM, the host's memory for moved pages and what a sample
//! of pages takes in; so that what of the workload fits where stays as it was. Latencies
//! and the numbers of cores, channels and dies stay.
//!
//! Processor caches shrink too, or they would be larger than the drive's DRAM; but not
//! below a floor, as the small structures of a program, such as counts of digits, do not
//! shrink with its data. The floors are a choice of ours: at the small scale the last
//! cache is a thirty-second of the drive's DRAM, as in the paper, and those before it are
//! larger than they would be.

use memsys::{CacheConfig, Config, NodeConfig, Tiering};
use programs::{Workload, published};
use units::{Bytes, GIB, KIB, MIB};

/// Least bytes of the caches.
const L1_LEAST: u64 = 2 * KIB;
const L2_LEAST: u64 = 4 * KIB;
const LLC_LEAST: u64 = 64 * KIB;
/// Least entries of the TLBs.
const FIRST_LEAST: u64 = 16;
const SECOND_LEAST: u64 = 64;

/// The memory for which a recorded program has the smallest computer: a program that touches
/// less has that too. Below, the host's memory for moved pages is as small as can be, and the
/// drive's DRAM soon holds no set of its cache beside its log.
const RECORDED_LEAST: u64 = 4 * MIB;

/// What the paper has of what it does not run, which is taken to stand for its smallest
/// workload.
const UNPUBLISHED: u64 = 8 * GIB;

/// Bytes of the paper's run of `workload`.
pub(crate) fn paper(workload: &Workload) -> u64 {
    published(&workload.name()).map_or(UNPUBLISHED, |row| row.footprint.0)
}

/// What sizes of the paper are divided by for `workload`, which uses `footprint`. What was
/// recorded touches no page that it does not need, so its pages are taken for all that it has.
pub(crate) fn divisor(workload: &Workload, footprint: Bytes) -> u64 {
    let recorded = workload.footprint().is_none();
    let least = if recorded { RECORDED_LEAST } else { 0 };
    let by_size = || factor(paper(workload), footprint.0.max(least));
    workload.divisor().unwrap_or_else(by_size)
}

/// The least whole MiB for which [`factor`] is `most` at most.
pub(crate) fn least(paper: u64, most: u64) -> Bytes {
    Bytes((paper * 4 / (6 * most) / MIB + 1) * MIB)
}

/// The largest power of two that `paper` bytes can be divided by without becoming less
/// than half as much again as `here`.
pub(crate) fn factor(paper: u64, here: u64) -> u64 {
    let ratio = paper * 4 / (here.max(1) * 3);
    1 << ratio.max(1).ilog2()
}

/// The computer whose sizes are divided by `factor`, a power of two, around a program
/// of `footprint` bytes.
pub(crate) fn shrink(config: &mut Config, factor: u64, footprint: Bytes) {
    let cache = |cache: &mut CacheConfig, least: u64| {
        cache.size = Bytes((cache.size.0 / factor).max(least));
        // Whole sets, of which there are a power of two.
        cache.ways = cache.ways.min(cache.size.0 / 64);
    };
    cache(&mut config.l1, L1_LEAST);
    cache(&mut config.l2, L2_LEAST);
    cache(&mut config.llc, LLC_LEAST);
    let tlb = &mut config.tlb;
    tlb.first = (tlb.first / factor).max(FIRST_LEAST);
    tlb.second = (tlb.second / factor).max(SECOND_LEAST);
    // A run is shorter as its memory is smaller: the share of pages that is sampled in a
    // run stays.
    if let Tiering::Sampled(_, sampling) = &mut config.tiering {
        sampling.pages = (sampling.pages / factor).max(1);
        sampling.period.0 = (sampling.period.0 / factor).max(1);
    }
    // Enough for all of it, where there is no drive, and for moved pages. Programs leave the
    // first of their addresses unused.
    let memory = (16 * GIB / factor).max(2 * (footprint.0 + MIB).next_power_of_two());
    config.nodes = vec![NodeConfig {
        memory: Bytes(memory),
    }];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_powers_of_two_near_the_ratio() {
        for (paper, here, wanted) in [
            (9_130_000_000, 9_130_000_000, 1),
            (9_130_000_000, 9_130_000_000 / 64, 64),
            (9_130_000_000, 9_130_000_000 / 1_024, 1_024),
            (1_000, 2_000, 1),
            (1_000, 0, 1_024),
        ] {
            assert_eq!(factor(paper, here), wanted, "{paper} {here}");
        }
    }

    #[test]
    fn the_least_is_the_first_that_is_divided_by_no_more() {
        for paper in [8 * GIB, 9_130_000_000, 15_770_000_000] {
            for most in (0..13).map(|bits| 1 << bits) {
                let least = least(paper, most);
                assert!(factor(paper, least.0) <= most, "{paper} {most}");
                assert!(factor(paper, least.0 - MIB) > most, "{paper} {most}");
            }
        }
    }

    #[test]
    fn a_small_computer_can_exist() {
        for factor in (0..12).map(|bits| 1 << bits) {
            let mut config = Config::default();
            shrink(&mut config, factor, Bytes(1 << 20));
            config.check().unwrap();
            let private = config.cores * (config.l1.size.0 + config.l2.size.0);
            assert!(private <= config.llc.size.0, "{factor}");
        }
    }
}
