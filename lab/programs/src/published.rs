//! The workloads of the SkyByte paper, with the properties that it gives.

use units::Bytes;

/// One row of the paper's table of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Name of the workload in this crate.
    pub name: &'static str,
    /// Memory footprint. The paper gives it in GB (10⁹ bytes) with two decimals.
    pub footprint: Bytes,
    /// Stores per thousand accesses.
    pub writes_per_mille: u64,
    /// Misses of the last-level cache per ten thousand instructions.
    pub misses_per_10k: u64,
    /// Memory that the paper's simulator touched, according to the data published with it; `None`
    /// for a workload that is missing there.
    pub replayed: Option<Bytes>,
}

const fn row(
    name: &'static str,
    [hundredths, writes, misses]: [u64; 3],
    replayed_millions: Option<u64>,
) -> Published {
    Published {
        name,
        footprint: Bytes(hundredths * 10_000_000),
        writes_per_mille: writes,
        misses_per_10k: misses,
        replayed: match replayed_millions {
            Some(millions) => Some(Bytes(millions * 1_000_000)),
            None => None,
        },
    }
}

//= skybyte table 1
/// Table I of the paper, with the memory touched in the data published with its simulator.
pub const PUBLISHED: [Published; 7] = [
    row("bfs", [913, 250, 1229], Some(1634)),
    row("bc", [818, 110, 394], Some(573)),
    row("radix", [960, 290, 71], Some(136)),
    row("srad", [816, 240, 75], Some(89)),
    row("ycsb", [961, 50, 922], Some(663)),
    row("tpcc", [1577, 360, 10], Some(61)),
    row("dlrm", [1235, 320, 51], None),
];

/// Number of instructions that the paper replays of a workload: a hundred million for each of eight
/// threads. With more threads, the total is the same.
//= skybyte 6.1
pub(crate) const SECTION: u64 = 800_000_000;

/// Published numbers of the workload called `name`, if it is in the paper.
#[must_use]
pub fn published(name: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|row| row.name == name)
}
