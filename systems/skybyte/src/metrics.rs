//! What a device counts.

use crate::cache::Stays;
use ssd::{Cause, Ledger, ReadCause};
use units::Ns;

/// What the front counts, since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Lines read.
    pub reads: u64,
    /// Of those, found in the cache.
    pub cache_hits: u64,
    /// Found in the log.
    pub log_hits: u64,
    /// Not found there, and answered without flash: the page is nowhere, in the drive's
    /// write buffer, or has just arrived.
    pub buffer_hits: u64,
    /// Flash had to be read, or was being read.
    pub misses: u64,
    /// Of those, misses of pages that were on their way.
    pub coalesced: u64,
    /// Misses that were answered with a hint that it takes long.
    pub delays: u64,
    /// Of those, because garbage collection was in the way.
    pub delays_by_collection: u64,
    /// Lines written.
    pub writes: u64,
    /// Of those, to pages in the cache.
    pub write_hits: u64,
    /// Writes for which a page had to be fetched, or was on its way.
    pub write_misses: u64,
    /// Times that a write was refused for want of room: one that comes again to no room is
    /// refused again.
    pub stalls: u64,
    /// Time during which some write was refused and no room had been made.
    pub stall_time: Ns,
    /// Pages fetched since somebody asked.
    pub fetches: u64,
    /// How long these took, summed: from the end of the look-up until the page was there.
    pub fetch_time: Ns,
    /// Pages fetched ahead.
    pub prefetches: u64,
    /// Of those, asked for while they were in the cache.
    pub prefetches_used: u64,
    /// Of those, asked for while they were on their way.
    pub prefetches_late: u64,
    /// Pages written back that nothing else had.
    pub evictions: u64,
    /// Pages written back though flash had them.
    pub clean_evictions: u64,
    /// Compactions that have ended.
    pub compactions: u64,
    /// How long they took, summed.
    pub compaction_time: Ns,
    /// Pages that they wrote.
    pub compacted_pages: u64,
    /// Of those, pages that the cache had.
    pub compacted_from_cache: u64,
    /// Of those, pages that were read from flash first.
    pub compacted_after_read: u64,
    /// Lines that they wrote.
    pub compacted_lines: u64,
    /// Times the host was told that a page is hot.
    pub hot: u64,
    /// Pages that the host took.
    pub dropped_pages: u64,
    /// Lines of those that flash did not have.
    pub dropped_lines: u64,
    /// Pages that could not be read from flash.
    pub media_errors: u64,
    /// Reads and writes beyond the end of the device.
    pub out_of_range: u64,
}

/// What is known of a device at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Of the front.
    pub front: Counters,
    /// Of the drive behind it.
    pub drive: Ledger,
    /// Bytes that the index of the log takes now.
    pub index_bytes: u64,
    /// The most it has taken.
    pub most_index_bytes: u64,
    /// Entries of the log in use.
    pub log_entries: u64,
    /// Pages in the cache.
    pub cached_pages: u32,
    /// Accesses beyond which a page is hot now.
    pub hot_threshold: u16,
    /// How much of pages was used while they were in the cache.
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
