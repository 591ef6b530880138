//! A cache in memory and in two files, as `cachebench` of CacheLib drives it.
//!
//! A model of what CacheLib and Navy, its cache on flash, ask of a file system, and no more:
//! items are numbers, and what a bucket or a region holds is known without being stored.
//! [`memory`] has items in DRAM, [`small`] the buckets of Navy's `BigHash`, [`large`] the
//! regions of its `BlockCache`; [`items`] says how large an item is, and [`engine`] runs the
//! clients, the threads that write and the one that has regions cleaned.
//!
//! Invariants:
//! - What a get finds is what was set last, or nothing.
//! - What is done on flash with one item is done in the order in which it was asked for.
//! - A bucket never holds more than its bytes; a region is written once, as a whole, before
//!   anything of it is read from its file.
//! - A region is not used again while somebody reads it.
//!
//! What is simpler than in CacheLib: memory has no slabs, items are not chained and never
//! expire, nothing that a region loses is inserted again, two gets of one item read it twice,
//! gets are read by who asks and not by threads of Navy, and checksums cost nothing. Each
//! engine has a file of its own, where CacheLib would have one behind the other in one. Each
//! item is looked for in the engine of its size alone, where Navy asks `BigHash` first. An item
//! in memory moves up at every get, where `cachebench` has that once in 60 s at most
//! (`lruRefreshSec`). Blocks are of 4 KiB, for drives that have such, where `cachebench` has
//! 512 bytes: a read of an entry has up to 3.5 KiB more at either end. Jobs that remove hold no
//! bytes, so that any number of them may wait.

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

/// Blocks in which files are read and written past the page cache. `cachebench` has 512 bytes
/// (`navyBlockSize`); 4 KiB, which Navy has by itself (`blockSize` of `NavyConfig`), are a
/// choice of ours, for drives of blocks of 4 KiB.
//= cachelib 4
const BLOCK: u64 = 4_096;

/// What can be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CacheBench {
    /// Items that are asked for.
    pub(super) keys: u64,
    pub(super) theta: Theta,
    /// Sizes of keys and of values: where ranges of them begin and end, and how likely each is.
    pub(super) key_sizes: Vec<u64>,
    pub(super) key_weights: Vec<u64>,
    pub(super) value_sizes: Vec<u64>,
    pub(super) value_weights: Vec<u64>,
    /// Hundredths of operations that get and that set; the rest deletes.
    pub(super) gets: u64,
    pub(super) sets: u64,
    /// Whether an item that a get misses is set.
    pub(super) lookaside: bool,
    /// Bytes in memory, and of both files together.
    pub(super) memory: u64,
    pub(super) flash: u64,
    /// Hundredths of the bytes on flash that small items have.
    pub(super) small: u64,
    /// Most bytes of a key and its value that are small.
    pub(super) small_max: u64,
    /// Bytes of a region, and how many are kept clean.
    pub(super) region: u64,
    pub(super) clean: u64,
    /// Whether the region that was read least recently is reused first, and not the oldest.
    pub(super) lru: bool,
    /// Hundredths of items that leave memory that are written to flash.
    pub(super) admit: u64,
    /// Most bytes that wait to be written.
    pub(super) parcels: u64,
    /// Whether the files are allocated as a whole at first.
    pub(super) allocate: bool,
    /// Clients, and threads that write.
    pub(super) threads: u32,
    pub(super) writers: u32,
    /// Operations in all.
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

    /// Buckets of the file of small items.
    const fn buckets(&self) -> u64 {
        self.flash / 100 * self.small / small::BUCKET
    }

    /// Bytes of the file of large items: whole regions.
    const fn large_bytes(&self) -> u64 {
        let rest = self.flash - self.buckets() * small::BUCKET;
        rest / self.region * self.region
    }
}
