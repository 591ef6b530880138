//! Scaling of sizes with the memory of the workload.
//!
//! A run at the paper's size takes hours. So its memory is divided by a power of two, and with it
//! the drive, its DRAM, the host's memory for moved pages and the number of pages in a sample, so
//! that the same share of the workload fits each level as in the paper. Latencies and the numbers
//! of cores, channels and dies stay.
//!
//! Processor caches shrink too, or they would be larger than the drive's DRAM; but not below a
//! floor, as the small structures of a program, such as counts of digits, do not shrink with its
//! data. The floors are our own choice: at the small scale the last-level cache is a thirty-second
//! of the drive's DRAM, as in the paper, and the caches before it are larger than in proportion.

use memsys::{CacheConfig, Config, NodeConfig, Tiering};
use programs::{Workload, published};
use units::{Bytes, GIB, KIB, MIB};

/// Smallest sizes of the caches, in bytes.
const L1_LEAST: u64 = 2 * KIB;
const L2_LEAST: u64 = 4 * KIB;
const LLC_LEAST: u64 = 64 * KIB;
/// Smallest numbers of entries of the TLBs.
const FIRST_LEAST: u64 = 16;
const SECOND_LEAST: u64 = 64;

/// Smallest memory for which the computer of a recorded program is scaled: a program that touches
/// less gets the same computer. Below it the host's memory for moved pages is at its minimum, and
/// the drive's DRAM soon holds no cache set beside its log.
const RECORDED_LEAST: u64 = 4 * MIB;

/// Footprint in the paper that is assumed for workloads the paper does not run: that of its
/// smallest workload.
const UNPUBLISHED: u64 = 8 * GIB;

/// Bytes of the paper's run of `workload`.
pub(crate) fn paper(workload: &Workload) -> u64 {
    published(&workload.name()).map_or(UNPUBLISHED, |row| row.footprint.0)
}

/// Divisor of the paper's sizes for `workload`, which uses `footprint`. A recording contains only
/// pages that were touched, which are taken for its whole memory.
pub(crate) fn divisor(workload: &Workload, footprint: Bytes) -> u64 {
    let recorded = workload.footprint().is_none();
    let least = if recorded { RECORDED_LEAST } else { 0 };
    let by_size = || factor(paper(workload), footprint.0.max(least));
    workload.divisor().unwrap_or_else(by_size)
}

/// Smallest whole number of MiB for which [`factor`] is at most `most`.
pub(crate) fn least(paper: u64, most: u64) -> Bytes {
    Bytes((paper * 4 / (6 * most) / MIB + 1) * MIB)
}

/// Largest power of two by which `paper` can be divided so that the quotient is at least three
/// quarters of `here`.
pub(crate) fn factor(paper: u64, here: u64) -> u64 {
    let ratio = paper * 4 / (here.max(1) * 3);
    1 << ratio.max(1).ilog2()
}

/// Divides the sizes of the computer by `factor`, a power of two, for a program of `footprint`
/// bytes.
pub(crate) fn shrink(config: &mut Config, factor: u64, footprint: Bytes) {
    let cache = |cache: &mut CacheConfig, least: u64| {
        cache.size = Bytes((cache.size.0 / factor).max(least));
        // The sets are whole, and their number is a power of two.
        cache.ways = cache.ways.min(cache.size.0 / 64);
    };
    cache(&mut config.l1, L1_LEAST);
    cache(&mut config.l2, L2_LEAST);
    cache(&mut config.llc, LLC_LEAST);
    let tlb = &mut config.tlb;
    tlb.first = (tlb.first / factor).max(FIRST_LEAST);
    tlb.second = (tlb.second / factor).max(SECOND_LEAST);
    // A run is shorter in proportion to its memory: the share of pages sampled in a run stays.
    if let Tiering::Sampled(_, sampling) = &mut config.tiering {
        sampling.pages = (sampling.pages / factor).max(1);
        sampling.period.0 = (sampling.period.0 / factor).max(1);
    }
    // The memory holds the whole program on designs without a drive, and the moved pages on the
    // others. Programs leave the first of their addresses unused.
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
    fn least_is_the_smallest_footprint_with_that_divisor() {
        for paper in [8 * GIB, 9_130_000_000, 15_770_000_000] {
            for most in (0..13).map(|bits| 1 << bits) {
                let least = least(paper, most);
                assert!(factor(paper, least.0) <= most, "{paper} {most}");
                assert!(factor(paper, least.0 - MIB) > most, "{paper} {most}");
            }
        }
    }

    #[test]
    fn shrunk_computers_are_valid() {
        for factor in (0..12).map(|bits| 1 << bits) {
            let mut config = Config::default();
            shrink(&mut config, factor, Bytes(1 << 20));
            config.check().unwrap();
            let private = config.cores * (config.l1.size.0 + config.l2.size.0);
            assert!(private <= config.llc.size.0, "{factor}");
        }
    }
}
