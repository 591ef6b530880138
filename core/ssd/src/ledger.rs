//! The ledger: every flash page that is programmed or read is booked to a cause, and every
//! programmed one also to the origin of its data.

use serde::{Deserialize, Serialize};

/// Reason why flash was programmed. The pages of all causes add up to all pages programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// New data of the host.
    Host,
    /// Sectors of a mapped page that a partial write of the host did not cover (read-modify-write).
    Rmw,
    /// Valid pages relocated by garbage collection.
    Gc,
    /// Pages relocated by static wear levelling.
    WearLevelling,
    /// Pages that log cleaning assembled from cache lines.
    LogCleaning,
    /// Dirty pages that the cache of a front wrote back.
    Eviction,
    /// Translation pages of a paged map.
    Map,
    /// Pages that the drive copied by a copy command of the host.
    Copy,
    /// Pages with which a zoned drive preserves its zones: backups of units that are not full, and
    /// copies of blocks that a power cut tore.
    Zone,
    /// Summaries at the end of lines.
    Summary,
    /// Records and checkpoints of the journal of deallocations.
    Journal,
    /// Filler of units that had to be written before they were full.
    Padding,
}

impl Cause {
    /// Every cause, in the order of its number.
    pub const ALL: [Self; 12] = [
        Self::Host,
        Self::Rmw,
        Self::Gc,
        Self::WearLevelling,
        Self::LogCleaning,
        Self::Eviction,
        Self::Map,
        Self::Copy,
        Self::Zone,
        Self::Summary,
        Self::Journal,
        Self::Padding,
    ];

    /// The cause's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Rmw => "rmw",
            Self::Gc => "gc",
            Self::WearLevelling => "wear",
            Self::LogCleaning => "log-cleaning",
            Self::Eviction => "eviction",
            Self::Map => "mapping",
            Self::Copy => "copy",
            Self::Zone => "zone",
            Self::Summary => "summary",
            Self::Journal => "journal",
            Self::Padding => "padding",
        }
    }
}

/// Reason why flash was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadCause {
    /// Data that a read of the host asked for.
    Host,
    /// Sectors of a mapped page that a partial write of the host does not cover.
    Rmw,
    /// Pages that garbage collection, wear levelling or a copy command moves.
    Gc,
    /// Pages that log cleaning merges cache lines into.
    LogCleaning,
    /// Pages fetched into the cache of a front.
    CacheFetch,
    /// Translation pages of a paged map.
    Map,
    /// Spare areas, summaries and journal at power-on.
    Recovery,
    /// Pages that no command had asked for: the read-ahead of reads in order.
    ReadAhead,
}

impl ReadCause {
    /// Every cause, in the order of its number.
    pub const ALL: [Self; 8] = [
        Self::Host,
        Self::Rmw,
        Self::Gc,
        Self::LogCleaning,
        Self::CacheFetch,
        Self::Map,
        Self::Recovery,
        Self::ReadAhead,
    ];

    /// The cause's name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Rmw => "rmw",
            Self::Gc => "gc",
            Self::LogCleaning => "log-cleaning",
            Self::CacheFetch => "cache-fetch",
            Self::Map => "mapping",
            Self::Recovery => "recovery",
            Self::ReadAhead => "read-ahead",
        }
    }
}

/// Traffic of one placement handle since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleStats {
    /// Sectors of 512 bytes that the host wrote to the handle.
    pub host_sectors: u64,
    /// Pages programmed for the handle. Relocated pages are included where the drive knows their
    /// handle: with one handle, or with persistently isolated ones.
    pub media_pages: u64,
    /// Valid pages of collected lines that hold only data of the handle, counted when chosen.
    pub moved_pages: u64,
}

impl HandleStats {
    const fn since(self, before: Self) -> Self {
        Self {
            host_sectors: self.host_sectors - before.host_sectors,
            media_pages: self.media_pages - before.media_pages,
            moved_pages: self.moved_pages - before.moved_pages,
        }
    }
}

/// Work of a drive's front since power-on. Lines are cache lines of 64 bytes, pages are of 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteStats {
    /// Lines loaded without reading flash: from log, cache or write buffer, or unwritten ones.
    pub load_hits: u64,
    /// Lines whose load had to read the flash.
    pub load_misses: u64,
    /// Lines that the host stored.
    pub stored_lines: u64,
    /// Transactions that have committed.
    pub commits: u64,
    /// Cleanings of the write log.
    pub cleanings: u64,
    /// Pages that log cleaning wrote.
    pub cleaned_pages: u64,
    /// Uncommitted lines that log cleaning moved to the end of the log.
    pub migrated_lines: u64,
    /// Pages fetched from flash into the cache.
    pub fetched_pages: u64,
    /// Dirty pages that the cache wrote back.
    pub evicted_pages: u64,
    /// Virtual time that stores and commits waited for room in the log, summed, ns.
    pub stall_ns: u64,
}

impl ByteStats {
    const fn since(self, before: Self) -> Self {
        Self {
            load_hits: self.load_hits - before.load_hits,
            load_misses: self.load_misses - before.load_misses,
            stored_lines: self.stored_lines - before.stored_lines,
            commits: self.commits - before.commits,
            cleanings: self.cleanings - before.cleanings,
            cleaned_pages: self.cleaned_pages - before.cleaned_pages,
            migrated_lines: self.migrated_lines - before.migrated_lines,
            fetched_pages: self.fetched_pages - before.fetched_pages,
            evicted_pages: self.evicted_pages - before.evicted_pages,
            stall_ns: self.stall_ns - before.stall_ns,
        }
    }
}

/// Events of the zones of a drive since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Zones that were reset.
    pub resets: u64,
    /// Zones that were finished before they were full.
    pub finishes: u64,
    /// Zones that the controller closed to free a place among the open ones.
    pub evictions: u64,
    /// Sectors of 4 KiB that copy commands wrote.
    pub copied_sectors: u64,
    /// Zones that went offline because no good block could replace a bad one.
    pub lost: u64,
}

impl ZoneStats {
    const fn since(self, before: Self) -> Self {
        Self {
            resets: self.resets - before.resets,
            finishes: self.finishes - before.finishes,
            evictions: self.evictions - before.evictions,
            copied_sectors: self.copied_sectors - before.copied_sectors,
            lost: self.lost - before.lost,
        }
    }
}

/// Everything counted since power-on. Pages are mapped pages unless said otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Pages programmed, indexed by cause, then by origin.
    pub programmed: Vec<Vec<u64>>,
    /// Flash pages read, indexed by [`ReadCause`].
    pub reads: [u64; ReadCause::ALL.len()],
    /// Pages of host reads that came from read-ahead, or waited for it.
    pub ahead_pages: u64,
    /// Map look-ups that found their part of the map, a translation page or an entry, in DRAM or
    /// already being loaded. Always 0 without a paged map.
    pub map_hits: u64,
    /// Map look-ups whose part of the map was not in DRAM.
    pub map_misses: u64,
    /// Evictions of a dirty part, each of which writes a translation page. Pages programmed for
    /// [`Cause::Map`] can be fewer, because the write buffer merges versions.
    pub map_write_backs: u64,
    /// Dirty entries in these write-backs; 0 if the cache holds whole translation pages.
    pub map_entries_written: u64,
    /// Sectors of 512 bytes that the host read.
    pub host_read_sectors: u64,
    /// Sectors of 512 bytes that the host wrote.
    pub host_write_sectors: u64,
    /// Sectors of 512 bytes that the host deallocated.
    pub host_trim_sectors: u64,
    /// Flush commands that the host issued.
    pub flushes: u64,
    /// Writes redirected to another reclaim group because theirs was full.
    pub redirected: u64,
    /// Lines chosen as victims of garbage collection or wear levelling.
    pub lines_collected: u64,
    /// Victims among `lines_collected` that were chosen while a write waited for space.
    pub lines_collected_foreground: u64,
    /// Virtual time in which at least one frontier of the host waited for a free line, ns.
    pub stall_ns: u64,
    /// Valid pages of all victims, counted when they were chosen.
    pub victim_pages: u64,
    /// Victims by their share of valid pages, in tenths: index 0 is below 10 %.
    pub victims: [u64; 10],
    /// Traffic of each placement handle, by its index.
    pub handles: Vec<HandleStats>,
    /// Counters of the byte-addressable front.
    pub bytes: ByteStats,
    /// Counters of the zones.
    pub zones: ZoneStats,
}

impl Ledger {
    /// The counts added since `before`, an earlier state of this ledger.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |now: &[u64], then: &[u64]| {
            let pairs = now.iter().zip(then.iter().chain(std::iter::repeat(&0)));
            pairs.map(|(now, then)| now - then).collect::<Vec<u64>>()
        };
        let none = Vec::new();
        let causes = self.programmed.iter().enumerate();
        let handles = self.handles.iter().enumerate();
        let handle = |h: usize| before.handles.get(h).copied().unwrap_or_default();
        Self {
            programmed: causes
                .map(|(c, now)| less(now, before.programmed.get(c).unwrap_or(&none)))
                .collect(),
            reads: std::array::from_fn(|c| self.reads[c] - before.reads[c]),
            ahead_pages: self.ahead_pages - before.ahead_pages,
            map_hits: self.map_hits - before.map_hits,
            map_misses: self.map_misses - before.map_misses,
            map_write_backs: self.map_write_backs - before.map_write_backs,
            map_entries_written: self.map_entries_written - before.map_entries_written,
            host_read_sectors: self.host_read_sectors - before.host_read_sectors,
            host_write_sectors: self.host_write_sectors - before.host_write_sectors,
            host_trim_sectors: self.host_trim_sectors - before.host_trim_sectors,
            flushes: self.flushes - before.flushes,
            redirected: self.redirected - before.redirected,
            lines_collected: self.lines_collected - before.lines_collected,
            lines_collected_foreground: self.lines_collected_foreground
                - before.lines_collected_foreground,
            stall_ns: self.stall_ns - before.stall_ns,
            victim_pages: self.victim_pages - before.victim_pages,
            victims: std::array::from_fn(|i| self.victims[i] - before.victims[i]),
            handles: handles.map(|(h, now)| now.since(handle(h))).collect(),
            bytes: self.bytes.since(before.bytes),
            zones: self.zones.since(before.zones),
        }
    }

    /// An empty ledger for `origins` origins and `handles` handles.
    #[must_use]
    pub fn new(origins: usize, handles: usize) -> Self {
        Self {
            programmed: vec![vec![0; origins]; Cause::ALL.len()],
            handles: vec![HandleStats::default(); handles],
            ..Self::default()
        }
    }

    #[inline]
    pub(crate) fn program(&mut self, cause: u8, tag: u16, pages: u64) {
        self.programmed[usize::from(cause)][usize::from(tag)] += pages;
    }

    /// Pages programmed for `cause`, over all origins.
    #[must_use]
    pub fn by_cause(&self, cause: Cause) -> u64 {
        self.programmed[cause as usize].iter().sum()
    }

    /// Pages of user data programmed, new and relocated.
    #[must_use]
    pub fn user_pages(&self) -> u64 {
        let causes = [
            Cause::Host,
            Cause::Rmw,
            Cause::Gc,
            Cause::WearLevelling,
            Cause::LogCleaning,
            Cause::Eviction,
            Cause::Copy,
        ];
        causes.into_iter().map(|cause| self.by_cause(cause)).sum()
    }

    /// Pages programmed for all causes.
    #[must_use]
    pub fn programmed_pages(&self) -> u64 {
        self.programmed.iter().flatten().sum()
    }
}

/// Counters over a drive's life, kept through power cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smart {
    /// Sectors of 512 bytes that hosts read.
    pub host_read_sectors: u64,
    /// Sectors of 512 bytes that hosts wrote.
    pub host_write_sectors: u64,
    /// Mapped pages programmed for all causes.
    pub programmed_pages: u64,
    /// Pages of user data among `programmed_pages`, new and relocated. 0 in drive files written
    /// before this counter existed.
    #[serde(default)]
    pub user_pages: u64,
    /// Blocks erased. 0 in drive files written before this counter existed.
    #[serde(default)]
    pub erased_blocks: u64,
    /// Read commands that the drive received.
    pub read_commands: u64,
    /// Write commands that the drive received.
    pub write_commands: u64,
    /// Times the drive was powered on.
    pub power_cycles: u64,
    /// Power cycles of those in which the power was lost without a shutdown.
    pub unsafe_shutdowns: u64,
    /// Reads that failed for unreadable flash.
    pub media_errors: u64,
}
