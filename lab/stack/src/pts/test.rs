//! The requests of each test. `docs/SOURCES.md` has the sources of their sizes and mixes.

use super::{MOST_ROUNDS, Point, ROUNDS};
use std::fmt::Write;
use units::{KIB, MIB, Ns};

/// A test of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Random requests of eight sizes in seven mixes.
    //= pts 2
    Iops,
    /// Requests of 128 KiB in order.
    //= pts 3
    Throughput128K,
    /// Requests of 1 MiB in order.
    //= pts 3
    Throughput1M,
    /// Random requests one at a time, of three sizes in three mixes.
    //= pts 4
    Latency,
    /// Random writes of 4 KiB from the empty drive on.
    //= pts 5
    Saturation,
    /// The enterprise workload of JESD219.
    Endurance,
}

/// Mixes of the test of IOPS: percentages of reads.
const MIXES: [u8; 7] = [100, 95, 65, 50, 35, 5, 0];
/// Sizes of the test of IOPS in bytes.
const SIZES: [u64; 8] = [
    MIB,
    128 * KIB,
    64 * KIB,
    32 * KIB,
    16 * KIB,
    8 * KIB,
    4 * KIB,
    512,
];
/// Sizes of the test of latency in bytes.
const SMALL_SIZES: [u64; 3] = [8 * KIB, 4 * KIB, 512];
/// Random requests in flight, other than those of the test of latency. The tester may choose.
const RANDOM_DEPTH: u32 = 128;
/// Requests in order in flight. The tester may choose.
const ORDERED_DEPTH: u32 = 32;

/// The workload of JESD219 for enterprises: sizes with their percentages, three fifths of the
/// requests writes, half of the requests to a twentieth of the addresses and 30 % to the next 15 %.
/// Requests start at multiples of 4 KiB.
//= jesd219 1
const ENTERPRISE: &str = "[enterprise]
rw=randrw
rwmixwrite=60
bssplit=512/4:1k/1:1536/1:2k/1:2560/1:3k/1:3584/1:4k/67:8k/10:16k/7:32k/3:64k/3
blockalign=4k
random_distribution=zoned:50/5:30/15:20/80
norandommap
iodepth=32
size=100%
io_size=25%
";

impl Test {
    /// All tests, in the order of the specification.
    pub const ALL: [Self; 6] = [
        Self::Iops,
        Self::Throughput128K,
        Self::Throughput1M,
        Self::Latency,
        Self::Saturation,
        Self::Endurance,
    ];

    /// Name in options and documents.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Throughput128K => "throughput-128k",
            Self::Throughput1M => "throughput-1m",
            Self::Latency => "latency",
            Self::Saturation => "saturation",
            Self::Endurance => "endurance",
        }
    }

    /// The tracked quantity, which has to be steady, with its unit.
    #[must_use]
    pub const fn tracks(self) -> &'static str {
        match self {
            Self::Iops | Self::Saturation => "IOPS of random writes of 4 KiB",
            Self::Throughput128K | Self::Throughput1M => "MB/s of writes in order",
            Self::Latency => "mean latency of random writes of 4 KiB, ns",
            Self::Endurance => "write amplification of one capacity of writes",
        }
    }

    /// The measurements of a round, in order: the percentage of reads, and the size in bytes.
    #[must_use]
    pub fn measurements(self) -> Vec<(u8, u64)> {
        let all = |mixes: &[u8], sizes: &[u64]| {
            let of_mix = |mix: &u8| sizes.iter().map(|size| (*mix, *size)).collect::<Vec<_>>();
            mixes.iter().flat_map(of_mix).collect()
        };
        match self {
            Self::Iops => all(&MIXES, &SIZES),
            Self::Throughput128K => all(&[100, 0], &[128 * KIB]),
            Self::Throughput1M => all(&[100, 0], &[MIB]),
            Self::Latency => all(&[100, 65, 0], &SMALL_SIZES),
            Self::Saturation => all(&[0], &[4 * KIB]),
            Self::Endurance => Vec::new(),
        }
    }

    /// The tracked quantity of a round.
    pub(super) fn tracked(self, points: &[Point]) -> f64 {
        let is_tracked = |point: &&Point| match self {
            Self::Throughput128K | Self::Throughput1M => point.read_percent == 0,
            _ => (point.read_percent, point.block_bytes) == (0, 4 * KIB),
        };
        let point = points.iter().find(is_tracked);
        let point = point.copied().unwrap_or_default();
        match self {
            Self::Throughput128K | Self::Throughput1M => point.mb_per_s,
            Self::Latency => point.mean_ns,
            _ => point.iops,
        }
    }

    /// Requests in flight at a time.
    #[must_use]
    pub const fn depth(self) -> u32 {
        match self {
            Self::Iops | Self::Saturation => RANDOM_DEPTH,
            Self::Throughput128K | Self::Throughput1M | Self::Endurance => ORDERED_DEPTH,
            Self::Latency => 1,
        }
    }

    /// Number of rounds after which the test ends without a steady state. That of saturation, which
    /// has to show how the drive gets there, always ends after four capacities of writes.
    #[must_use]
    pub const fn most_rounds(self) -> usize {
        match self {
            Self::Saturation => 20,
            _ => MOST_ROUNDS,
        }
    }

    /// The jobs before the first round: the capacity is written twice in order, except to see how
    /// an empty drive fills.
    pub(super) fn before(self) -> String {
        match self {
            Self::Saturation => String::new(),
            _ => "[before]\nrw=write\nbs=128k\niodepth=32\nsize=100%\nloops=2\n".to_owned(),
        }
    }

    /// Whether garbage collection has come to its usual state, with `written` bytes before the
    /// first round and in each round, on a drive of `capacity` bytes: the capacity was written
    /// twice before the last five rounds and, by random writes with many in flight, once in them.
    /// The specification asks for less, so that a drive with much spare space can seem steady
    /// before its first collection.
    #[must_use]
    pub fn is_settled(self, written: &[u64], capacity: u64) -> bool {
        let (before, last) = written.split_at(written.len().saturating_sub(ROUNDS));
        let capacities = match self {
            Self::Iops | Self::Saturation => 1,
            _ => 0,
        };
        before.iter().sum::<u64>() >= 2 * capacity
            && last.iter().sum::<u64>() >= capacities * capacity
    }

    /// The jobs of a round, each of which takes `point`; of the test of saturation one that writes a
    /// fifth of the capacity.
    pub(super) fn round(self, point: Ns) -> String {
        if self == Self::Endurance {
            return ENTERPRISE.to_owned();
        }
        if self == Self::Saturation {
            let depth = self.depth();
            return format!(
                "[0]\nrw=randwrite\nbs=4k\nnorandommap\nsize=100%\nio_size=20%\niodepth={depth}\n"
            );
        }
        let order = match self {
            Self::Throughput128K | Self::Throughput1M => "",
            _ => "rand",
        };
        let (depth, ns) = (self.depth(), point.0);
        let mut text = format!(
            "[global]\nrw={order}rw\nnorandommap\nsize=100%\niodepth={depth}\ntime_based\n\
             runtime={ns}ns\nstonewall\n"
        );
        for (index, (mix, bytes)) in self.measurements().into_iter().enumerate() {
            let added = write!(text, "[{index}]\nrwmixread={mix}\nbs={bytes}\n");
            added.expect("a string takes any text");
        }
        text
    }
}
