//! Counters of a device and snapshots of its state.

use crate::cache::Stays;
use ssd::{Cause, Ledger, ReadCause};
use units::Ns;

/// Event counts and summed times of the front (cache, log, registers) since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lines of 64 bytes that the host has read, those answered with a delay hint included.
    pub reads: u64,
    /// Reads answered from the data cache.
    pub cache_hits: u64,
    /// Reads answered from the write log, after a miss of the cache.
    pub log_hits: u64,
    /// Reads that missed cache and log but needed no flash: the page is unwritten, in the
    /// drive's write buffer, or in a register that it has just arrived in.
    pub buffer_hits: u64,
    /// Reads that needed flash, or joined a fetch in flight.
    pub misses: u64,
    /// Misses that joined a fetch in flight.
    pub coalesced: u64,
    /// Misses that the device answered with a delay hint.
    pub delays: u64,
    /// Delay hints sent because garbage collection blocked the page.
    pub delays_by_collection: u64,
    /// Lines of 64 bytes that the device accepted from the host.
    pub writes: u64,
    /// Accepted writes whose page was in the cache.
    pub write_hits: u64,
    /// Writes that started a page fetch or joined one in flight (without a log only).
    pub write_misses: u64,
    /// Refusals of a write for want of room; a retry that finds no room counts again.
    pub stalls: u64,
    /// Time from the first refused write until there was room again, summed.
    pub stall_time: Ns,
    /// Pages read from flash on demand.
    pub fetches: u64,
    /// Latency of demand fetches, summed: from the end of the look-up until the page arrived.
    pub fetch_time: Ns,
    /// Pages that the prefetcher requested.
    pub prefetches: u64,
    /// Prefetched pages that a later access found in the cache.
    pub prefetches_used: u64,
    /// Prefetched pages that an access requested while their fetch was in flight.
    pub prefetches_late: u64,
    /// Dirty pages that the cache wrote back on eviction.
    pub evictions: u64,
    /// Clean pages written back on eviction, as [`crate::CacheConfig::clean_write_back`] asks.
    pub clean_evictions: u64,
    /// Completed compactions of a half of the log.
    pub compactions: u64,
    /// Duration of completed compactions, summed.
    pub compaction_time: Ns,
    /// Pages that compactions wrote to the drive.
    pub compacted_pages: u64,
    /// Compacted pages whose contents came from the cache.
    pub compacted_from_cache: u64,
    /// Pages that compactions read from flash before merging.
    pub compacted_after_read: u64,
    /// Log lines that compactions merged into pages.
    pub compacted_lines: u64,
    /// Hot-page notices sent to the host.
    pub hot: u64,
    /// Pages dropped because the host moved them to its own memory.
    pub dropped_pages: u64,
    /// Lines of dropped pages that flash did not have.
    pub dropped_lines: u64,
    /// Page reads from flash that failed.
    pub media_errors: u64,
    /// Reads and writes beyond the end of the device.
    pub out_of_range: u64,
}

/// A snapshot of a device: counts since power-on, and fill levels of its DRAM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Counters of the front (cache, log, registers).
    pub front: Counters,
    /// Reads and programs of the drive, by cause.
    pub drive: Ledger,
    /// Current size of the log's index, in bytes; 0 without a log.
    pub index_bytes: u64,
    /// Largest size of the log's index since power-on, sampled when a half fills and now.
    pub most_index_bytes: u64,
    /// Entries of the log in use.
    pub log_entries: u64,
    /// Pages of 4 KiB that the cache holds.
    pub cached_pages: u32,
    /// Current hot threshold: a page with more accesses than this is hot.
    pub hot_threshold: u16,
    /// Histograms of how many lines of a page were used during its stay in the cache.
    pub stays: Stays,
}

impl Metrics {
    /// Flash pages read: fetched on demand or ahead, for compaction, for garbage
    /// collection.
    #[must_use]
    pub fn flash_reads(&self) -> [(&'static str, u64); 3] {
        [ReadCause::CacheFetch, ReadCause::LogCleaning, ReadCause::Gc]
            .map(|cause| (cause.name(), self.drive.reads[cause as usize]))
    }

    /// Flash pages programmed: written back, for compaction, for garbage collection.
    #[must_use]
    pub fn flash_programs(&self) -> [(&'static str, u64); 3] {
        [Cause::Eviction, Cause::LogCleaning, Cause::Gc].map(|cause| {
            let pages = self.drive.programmed.get(cause as usize);
            (cause.name(), pages.map_or(0, |tags| tags.iter().sum()))
        })
    }
}
