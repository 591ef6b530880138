//! A cache in memory and in two files, as `cachebench` of CacheLib drives it.
//!
//! The model makes the calls that CacheLib and Navy, its flash cache, make to a file system, and no
//! more: items are numbers, and the contents of a bucket or a region are tracked without being
//! stored. [`memory`] holds items in DRAM, [`small`] the buckets of Navy's `BigHash`, [`large`] the
//! regions of its `BlockCache`; [`items`] draws the sizes of items; [`engine`] runs the clients,
//! the writers and the thread that reclaims regions.
//!
//! Invariants:
//! - A get finds the version that was set last, or nothing.
//! - Jobs on flash for one item are done in the order in which they were queued.
//! - A bucket never holds more than its bytes; a region is written once, as a whole, before
//!   anything of it is read from its file.
//! - A region is not reused while a get reads it.
//!
//! Simpler than in CacheLib: memory has no slabs, items are not chained and never expire, items of
//! a reclaimed region are not inserted again, two gets of one item read it twice, gets are read by
//! the client and not by threads of Navy, and checksums cost nothing. Each engine has a file of its
//! own, where CacheLib puts one behind the other in one file. An item is looked up in the engine of
//! its size alone, where Navy asks `BigHash` first. An item in memory moves up at every get, where
//! `cachebench` moves it at most once in 60 s (`lruRefreshSec`). Blocks have 4 KiB, for drives with
//! such blocks, where `cachebench` has 512 bytes: a read of an entry has up to 3.5 KiB more at
//! either end. Removal jobs hold no bytes, so any number of them may be queued.

mod engine;
mod flash;
mod items;
mod large;
mod memory;
mod params;
mod small;
#[cfg(test)]
mod tests;

use super::Source;
use crate::generate::Theta;
use items::Ranges;
pub(super) use params::PARAMS;
use sim::Seed;
use units::Ns;

/// Block size of files opened past the page cache. `cachebench` uses 512 bytes (`navyBlockSize`); 4
/// KiB, Navy's own default (`blockSize` of `NavyConfig`), is our choice, for drives with blocks of
/// 4 KiB.
//= cachelib 4
const BLOCK: u64 = 4_096;

/// Parameters of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheBench {
    /// Number of items.
    pub(super) keys: u64,
    pub(super) theta: Theta,
    /// Bounds of the ranges of key and value sizes, and the weight of each range.
    pub(super) key_sizes: Vec<u64>,
    pub(super) key_weights: Vec<u64>,
    pub(super) value_sizes: Vec<u64>,
    pub(super) value_weights: Vec<u64>,
    /// Hundredths of operations that get and that set; the rest delete.
    pub(super) gets: u64,
    pub(super) sets: u64,
    /// Whether a get that misses sets its item.
    pub(super) lookaside: bool,
    /// Bytes of the cache in memory, and of both files together.
    pub(super) memory: u64,
    pub(super) flash: u64,
    /// Hundredths of the bytes on flash for the buckets of small items.
    pub(super) small: u64,
    /// Upper bound on the bytes of a small item's key and value.
    pub(super) small_max: u64,
    /// Bytes of a region, and the number of regions to keep clean.
    pub(super) region: u64,
    pub(super) clean: u64,
    /// Whether the region read least recently is reused first, instead of the oldest.
    pub(super) lru: bool,
    /// Hundredths of the items evicted from memory that are admitted to flash.
    pub(super) admit: u64,
    /// Upper bound on the bytes queued for flash.
    pub(super) parcels: u64,
    /// Whether the files are allocated as a whole before the first operation.
    pub(super) allocate: bool,
    /// Number of clients, and of threads that write small items.
    pub(super) threads: u32,
    pub(super) writers: u32,
    /// Total of operations.
    pub(super) ops: u64,
    pub(super) until: Option<Ns>,
}

impl CacheBench {
    pub(super) fn open(&self, seed: Seed) -> Result<Box<dyn Source>, String> {
        self.engine(seed)
            .map(|engine| Box::new(engine) as Box<dyn Source>)
    }

    fn engine(&self, seed: Seed) -> Result<engine::Engine, String> {
        let keys = Ranges::new(&self.key_sizes, &self.key_weights);
        let values = Ranges::new(&self.value_sizes, &self.value_weights);
        let sizes = keys.zip(values).ok_or(
            "expected sizes that ascend and a weight for each two neighbours, such as \
             value=256:1k:4k,value-weights=20:80",
        )?;
        let longest = items::Longest::of(&self.key_sizes, &self.value_sizes);
        self.check(&longest)
            .map(|()| engine::Engine::new(self, &sizes, seed))
    }

    fn check(&self, longest: &items::Longest) -> Result<(), String> {
        let regions = self.large_bytes() / self.region;
        let least = large::buffers(self.clean) + self.clean + 1;
        let expected = |what: String| Err(format!("expected {what}"));
        if self.gets + self.sets > 100 {
            return expected("shares of gets and sets of 100 together at most".to_owned());
        }
        if self.memory < longest.in_memory() {
            return expected(format!(
                "a memory that holds an item of {} bytes",
                longest.in_memory()
            ));
        }
        if !self.region.is_multiple_of(BLOCK) || self.region < longest.in_region() {
            return expected(format!(
                "regions of a multiple of {BLOCK} bytes that hold an item of {}",
                longest.in_region()
            ));
        }
        if self.small_max > small::ITEM_MAX {
            return expected(format!("small items of {} bytes at most", small::ITEM_MAX));
        }
        if regions < least {
            return expected(format!(
                "a flash of at least {least} regions for large items"
            ));
        }
        if regions > large::REGIONS_MAX {
            return expected(format!(
                "regions so long that the flash has {} at most, found {regions}",
                large::REGIONS_MAX
            ));
        }
        if self.buckets() == 0 {
            return expected("a flash of at least one bucket for small items".to_owned());
        }
        Ok(())
    }

    /// Number of buckets in the file of small items.
    const fn buckets(&self) -> u64 {
        self.flash / 100 * self.small / small::BUCKET
    }

    /// Bytes of the file of large items, in whole regions.
    const fn large_bytes(&self) -> u64 {
        let rest = self.flash - self.buckets() * small::BUCKET;
        rest / self.region * self.region
    }
}
