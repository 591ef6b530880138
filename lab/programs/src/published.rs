//! The workloads of the SkyByte paper, as it describes them.

use units::Bytes;

/// A row of the paper's table of workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name here.
    pub name: &'static str,
    /// Memory footprint; the paper gives hundredths of 10⁹ bytes.
    pub footprint: Bytes,
    /// Stores of a thousand accesses.
    pub writes_per_mille: u64,
    /// Misses of the last-level cache for ten thousand instructions.
    pub misses_per_10k: u64,
    /// What its simulator touched of that, by the data published with it; a workload without
    /// has none there.
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
/// Table I of the paper, and what was replayed of it by the data published with its simulator.
pub const PUBLISHED: [Published; 7] = [
    row("bfs", [913, 250, 1229], Some(1634)),
    row("bc", [818, 110, 394], Some(573)),
    row("radix", [960, 290, 71], Some(136)),
    row("srad", [816, 240, 75], Some(89)),
    row("ycsb", [961, 50, 922], Some(663)),
    row("tpcc", [1577, 360, 10], Some(61)),
    row("dlrm", [1235, 320, 51], None),
];

/// Instructions that the paper replays of a workload: a hundred million of each of eight
/// threads, and as many in all where there are more threads.
//= skybyte 6.1
pub(crate) const SECTION: u64 = 800_000_000;

/// Published numbers of the workload called `name`, if the paper has it.
#[must_use]
pub fn published(name: &str) -> Option<&'static Published> {
    PUBLISHED.iter().find(|row| row.name == name)
}
