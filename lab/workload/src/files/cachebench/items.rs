//! How large items are.
//!
//! Invariant: an item has one size, whenever it is set. `cachebench` too draws the sizes of
//! all items before it begins (`WorkloadGenerator`).

//= cachelib 5
use sim::Rng;

/// Bytes of an item in memory besides its key and value (`CacheItem`: hooks of the list and of
/// the table, references, flags, times), rounded up to a multiple of 8.
//= cachelib 1
const IN_MEMORY: u64 = 32;
/// Bytes that a value has before it where it is on flash: of `NvmItem`, which is packed, 18 for
/// its pool, flags, two times and how many blobs it is of, and 8 for how long its only one is
/// (`BlobInfo`).
//= cachelib 1
const ON_FLASH: u64 = 26;
/// Bytes of the descriptor of an entry in a region: two lengths, two checksums, a hash.
//= cachelib 3
const DESCRIPTOR: u64 = 24;
/// What entries of a region are multiples of (`kMinAllocAlignSize`).
//= cachelib 3
const ALIGNMENT: u64 = 512;

/// Ranges of sizes, each with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    bounds: Vec<u64>,
    weights: Vec<u64>,
}

impl Ranges {
    /// Ranges between neighbours of `bounds`; none unless these ascend and each range has a
    /// weight.
    pub(super) fn new(bounds: &[u64], weights: &[u64]) -> Option<Self> {
        let ascend = bounds.windows(2).all(|two| two[0] < two[1]);
        // Sizes of keys and values have 32 bits in CacheLib.
        let fit = bounds.iter().all(|bound| *bound < 1 << 31);
        let each = !weights.is_empty() && bounds.len() == weights.len() + 1;
        (ascend && fit && each).then(|| Self {
            bounds: bounds.to_vec(),
            weights: weights.to_vec(),
        })
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let mut left = rng.below(self.weights.iter().sum());
        let mut range = 0;
        while left >= self.weights[range] {
            left -= self.weights[range];
            range += 1;
        }
        let (least, end) = (self.bounds[range], self.bounds[range + 1]);
        least + rng.below(end - least)
    }
}

/// Bytes of the key and of the value of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    key: u32,
    value: u32,
}

impl Size {
    pub(super) fn draw((keys, values): &(Ranges, Ranges), rng: &mut Rng) -> Self {
        Self {
            key: keys.draw(rng) as u32,
            value: values.draw(rng) as u32,
        }
    }

    pub(super) fn in_memory(self) -> u64 {
        u64::from(self.key) + u64::from(self.value) + IN_MEMORY
    }

    /// What is handed to flash: a key, and a value with what is before it.
    pub(super) fn on_flash(self) -> u64 {
        u64::from(self.key) + u64::from(self.value) + ON_FLASH
    }

    /// Bytes of its entry in a region.
    pub(super) fn in_region(self) -> u64 {
        (self.on_flash() + DESCRIPTOR).next_multiple_of(ALIGNMENT)
    }
}

/// An item that is as long as any.
pub(super) struct Longest(Size);

impl Longest {
    pub(super) fn of(keys: &[u64], values: &[u64]) -> Self {
        let last = |bounds: &[u64]| bounds.last().map_or(0, |last| *last as u32);
        Self(Size {
            key: last(keys),
            value: last(values),
        })
    }

    pub(super) fn in_memory(&self) -> u64 {
        self.0.in_memory()
    }

    pub(super) fn in_region(&self) -> u64 {
        self.0.in_region()
    }
}
