//! Sizes of items.
//!
//! Invariant: an item has one size, whenever it is set. `cachebench` draws the sizes of all items
//! before it begins too (`WorkloadGenerator`).

//= cachelib 5
use sim::Rng;

/// Bytes of an item in memory besides its key and value (`CacheItem`: hooks of the list and of
/// the table, references, flags, times), rounded up to a multiple of 8.
//= cachelib 1
const IN_MEMORY: u64 = 32;
/// Bytes of the header before a value on flash: of the packed `NvmItem`, 18 for pool, flags, two
/// times and the number of blobs, and 8 for the length of its only blob (`BlobInfo`).
//= cachelib 1
const ON_FLASH: u64 = 26;
/// Bytes of the descriptor of an entry in a region: two lengths, two checksums, a hash.
//= cachelib 3
const DESCRIPTOR: u64 = 24;
/// Alignment of the entries of a region, in bytes (`kMinAllocAlignSize`).
//= cachelib 3
const ALIGNMENT: u64 = 512;

/// Ranges of sizes, each with its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ranges {
    bounds: Vec<u64>,
    weights: Vec<u64>,
}

impl Ranges {
    /// Ranges between neighbours of `bounds`; `None` unless the bounds ascend, stay below 2^31 and
    /// each range has a weight.
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

/// Bytes of an item's key and value.
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

    /// Bytes handed to flash: key, value and the header of the value.
    pub(super) fn on_flash(self) -> u64 {
        u64::from(self.key) + u64::from(self.value) + ON_FLASH
    }

    /// Bytes of the item's entry in a region.
    pub(super) fn in_region(self) -> u64 {
        (self.on_flash() + DESCRIPTOR).next_multiple_of(ALIGNMENT)
    }
}

/// Upper bound on the size of an item.
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
