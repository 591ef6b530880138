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
    /// Translation pages of a paged map.
    Map,
    /// Summaries at the end of lines.
    Summary,
    /// Journal of deallocations and its checkpoints.
    Journal,
    /// Nothing: units that had to be written before they were full.
    Padding,
}

impl Cause {
    /// All causes, by number.
    pub const ALL: [Self; 8] = [
        Self::Host,
        Self::Rmw,
        Self::Gc,
        Self::WearLevelling,
        Self::Map,
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
            Self::Map => "mapping",
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
    /// A translation page.
    Map,
    /// Spare areas, summaries and journal at power-on.
    Recovery,
}

impl ReadCause {
    /// All causes, by number.
    pub const ALL: [Self; 5] = [Self::Host, Self::Rmw, Self::Gc, Self::Map, Self::Recovery];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Rmw => "rmw",
            Self::Gc => "gc",
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
}

impl Ledger {
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
        let causes = [Cause::Host, Cause::Rmw, Cause::Gc, Cause::WearLevelling];
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
