//! Who caused what: every page that is programmed or read is booked to a cause,
//! and every programmed one to the origin of its data.

use serde::{Deserialize, Serialize};

/// Why flash was programmed. The causes of a run add up to all it programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// New data of the host.
    Host,
    /// The rest of a mapped page that the host wrote a part of.
    Rmw,
    /// Moved by garbage collection.
    Gc,
    /// Moved by static wear levelling.
    WearLevelling,
    /// Pages that log cleaning made of lines.
    LogCleaning,
    /// Pages that the cache of a front wrote back.
    Eviction,
    /// Translation pages of a paged map.
    Map,
    /// Copied by the drive for the host, who asked for it.
    Copy,
    /// What a zoned drive writes to keep its zones: backups of units that are not full,
    /// and copies of blocks that a power cut tore.
    Zone,
    /// Summaries at the end of lines.
    Summary,
    /// Journal of deallocations and its checkpoints.
    Journal,
    /// Nothing: units that had to be written before they were full.
    Padding,
}

impl Cause {
    /// All causes, by number.
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

    /// Name in reports.
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

/// Why flash was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadCause {
    /// A read of the host.
    Host,
    /// The rest of a mapped page that the host writes a part of.
    Rmw,
    /// To move data.
    Gc,
    /// The rest of a page of which log cleaning writes lines.
    LogCleaning,
    /// A page that goes to the cache of a front.
    CacheFetch,
    /// A translation page.
    Map,
    /// Spare areas, summaries and journal at power-on.
    Recovery,
}

impl ReadCause {
    /// All causes, by number.
    pub const ALL: [Self; 7] = [
        Self::Host,
        Self::Rmw,
        Self::Gc,
        Self::LogCleaning,
        Self::CacheFetch,
        Self::Map,
        Self::Recovery,
    ];

    /// Name in reports.
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
        }
    }
}

/// Traffic of one placement handle since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandleStats {
    /// Sectors of 512 bytes that the host wrote to it.
    pub host_sectors: u64,
    /// Pages programmed for it. Moves are included where the drive knows whose
    /// data it moves: with one handle, or persistently isolated ones.
    pub media_pages: u64,
    /// Pages moved out of lines that hold its data only.
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

/// What the front of a drive did since power-on. Lines are of 64 bytes, pages of
/// 4 KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteStats {
    /// Lines that were loaded from memory: log, cache, write buffer, or nowhere.
    pub load_hits: u64,
    /// Lines for which the flash was read.
    pub load_misses: u64,
    /// Lines that the host stored.
    pub stored_lines: u64,
    /// Transactions that have committed.
    pub commits: u64,
    /// Log cleanings.
    pub cleanings: u64,
    /// Pages that cleaning wrote.
    pub cleaned_pages: u64,
    /// Lines that cleaning moved to the end of the log, since they had not committed.
    pub migrated_lines: u64,
    /// Pages that came into the cache from flash.
    pub fetched_pages: u64,
    /// Pages that the cache wrote back.
    pub evicted_pages: u64,
    /// Virtual time that stores and commits waited for the log, summed, ns.
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

/// What became of zones since power-on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneStats {
    /// Zones that were reset.
    pub resets: u64,
    /// Zones that were finished before they were full.
    pub finishes: u64,
    /// Zones that the controller closed to open others.
    pub evictions: u64,
    /// Sectors of 4 KiB that the drive copied.
    pub copied_sectors: u64,
    /// Zones that went offline for want of blocks.
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

/// Everything counted since power-on. Pages are mapped pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Pages programmed, by cause and then by origin.
    pub programmed: Vec<Vec<u64>>,
    /// Flash pages read, by cause.
    pub reads: [u64; ReadCause::ALL.len()],
    /// Look-ups that found their translation page in DRAM, or on its way there;
    /// paged maps only.
    pub map_hits: u64,
    /// Look-ups that did not.
    pub map_misses: u64,
    /// Sectors of 512 bytes that the host read.
    pub host_read_sectors: u64,
    /// Sectors of 512 bytes that the host wrote.
    pub host_write_sectors: u64,
    /// Sectors of 512 bytes that the host deallocated.
    pub host_trim_sectors: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Writes whose reclaim group was full, and that went to another one.
    pub redirected: u64,
    /// Lines reclaimed.
    pub lines_collected: u64,
    /// Of those, lines whose collection began while a write waited for space.
    pub lines_collected_foreground: u64,
    /// Virtual time in which any of the host's frontiers waited for a free line,
    /// ns.
    pub stall_ns: u64,
    /// Valid pages of all victims when they were chosen.
    pub victim_pages: u64,
    /// Victims by how full of valid pages they were, in tenths.
    pub victims: [u64; 10],
    /// By handle.
    pub handles: Vec<HandleStats>,
    /// Of the front.
    pub bytes: ByteStats,
    /// Of the zones.
    pub zones: ZoneStats,
}

impl Ledger {
    /// What was counted after `before`, which is what this ledger once was.
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
            map_hits: self.map_hits - before.map_hits,
            map_misses: self.map_misses - before.map_misses,
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

    /// A ledger for `origins` origins and `handles` handles.
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

    /// Pages programmed for `cause`.
    #[must_use]
    pub fn by_cause(&self, cause: Cause) -> u64 {
        self.programmed[cause as usize].iter().sum()
    }

    /// Pages of user data programmed, new and moved.
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

    /// Pages programmed in all.
    #[must_use]
    pub fn programmed_pages(&self) -> u64 {
        self.programmed.iter().flatten().sum()
    }
}

/// What a drive counts over its life, through power cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Smart {
    /// 512-byte sectors that hosts read.
    pub host_read_sectors: u64,
    /// 512-byte sectors that hosts wrote.
    pub host_write_sectors: u64,
    /// Mapped pages programmed.
    pub programmed_pages: u64,
    /// Of those, pages of user data, new and moved; drive files from before this was
    /// counted have 0.
    #[serde(default)]
    pub user_pages: u64,
    /// Blocks erased; drive files from before this was counted have 0.
    #[serde(default)]
    pub erased_blocks: u64,
    /// Read commands.
    pub read_commands: u64,
    /// Write commands.
    pub write_commands: u64,
    /// Times the drive was powered on.
    pub power_cycles: u64,
    /// Of those, times the power had gone without a shutdown.
    pub unsafe_shutdowns: u64,
    /// Reads that could not be answered.
    pub media_errors: u64,
}
