//! Synthetic workloads: a description, and the requests that it yields.
//!
//! Invariants: a generator yields the same requests for the same description,
//! region and seed; every request lies within its region; nothing is kept per
//! block, so a generator costs the same memory on any drive.

mod arrivals;
mod logs;
mod synthetic;

pub use arrivals::Arrivals;
pub use logs::Logs;
pub use sim::Theta;
pub use synthetic::{Order, Synthetic};

pub(crate) use logs::LogsIter;
pub(crate) use sim::{Shuffle, Zipf};
pub(crate) use synthetic::SyntheticIter;

use units::{Bytes, SECTOR};

/// Part of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A number of bytes.
    Bytes(Bytes),
    /// Hundredths of the drive.
    Percent(u64),
}

impl Part {
    /// Bytes of this part of `whole`, cut to whole sectors.
    #[must_use]
    pub fn of(self, whole: Bytes) -> Bytes {
        let bytes = match self {
            Self::Bytes(bytes) => bytes.0,
            Self::Percent(percent) => {
                (u128::from(whole.0) * u128::from(percent.min(100)) / 100) as u64
            }
        };
        Bytes(bytes / SECTOR * SECTOR)
    }
}

/// Error: the drive is too small for a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the workload {label:?} expected room for {needed}, but it has {room} of the drive")]
pub struct NoRoom {
    /// Name of the workload or of its log.
    pub label: String,
    /// Bytes that it needs at least.
    pub needed: Bytes,
    /// Bytes that it would get.
    pub room: Bytes,
}

/// Limits of a generator, which stops at the first that it reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Reads, writes and trims in all; flushes do not count.
    pub ops: u64,
    /// Bytes of reads, writes and trims in all.
    pub bytes: Part,
}

impl Limit {
    /// Limits that are never reached.
    pub const NONE: Self = Self {
        ops: u64::MAX,
        bytes: Part::Bytes(Bytes(u64::MAX)),
    };
}

/// Remainder of a [`Limit`] on one drive.
#[derive(Clone, Copy, Debug)]
struct Budget {
    ops: u64,
    bytes: u64,
}

impl Budget {
    fn new(limit: Limit, capacity: Bytes) -> Self {
        Self {
            ops: limit.ops,
            bytes: limit.bytes.of(capacity).0,
        }
    }

    /// Takes one request of `bytes` off the budget; `false` if the budget is used up.
    fn spend(&mut self, bytes: u64) -> bool {
        if self.ops == 0 || self.bytes == 0 {
            return false;
        }
        self.ops -= 1;
        self.bytes = self.bytes.saturating_sub(bytes);
        true
    }
}

/// Request sizes, each with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(Vec<(Bytes, u64)>);

impl Sizes {
    /// One size; `None` as for [`Self::weighted`].
    pub fn one(size: Bytes) -> Option<Self> {
        Self::weighted(vec![(size, 1)])
    }

    /// Several sizes; `None` if the weights sum to 0 or overflow, or if a size is 0, no multiple of
    /// a sector or larger than a request may be.
    #[must_use]
    pub fn weighted(sizes: Vec<(Bytes, u64)>) -> Option<Self> {
        let largest = crate::trace::MAX_SECTORS * SECTOR;
        let fits = |b: Bytes| b.0 > 0 && b.0 <= largest && b.0.is_multiple_of(SECTOR);
        let weight = sizes.iter().try_fold(0_u64, |sum, s| sum.checked_add(s.1));
        (weight? > 0 && sizes.iter().all(|s| fits(s.0))).then_some(Self(sizes))
    }

    /// The smallest size, to which requests are aligned.
    fn smallest(&self) -> u64 {
        self.0
            .iter()
            .map(|s| s.0.0)
            .min()
            .expect("checked when made")
    }

    /// The largest size.
    fn largest(&self) -> u64 {
        self.0
            .iter()
            .map(|s| s.0.0)
            .max()
            .expect("checked when made")
    }

    /// Draws a size, by the weights.
    fn draw(&self, rng: &mut sim::Rng) -> u64 {
        if let [(size, _)] = self.0.as_slice() {
            return size.0;
        }
        let mut rest = rng.below(self.0.iter().map(|s| s.1).sum());
        for (size, weight) in &self.0 {
            if rest < *weight {
                return size.0;
            }
            rest -= weight;
        }
        unreachable!("a draw is below the sum of the weights")
    }
}
