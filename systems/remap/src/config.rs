//! What can be chosen, with where it comes from.

use units::{Bytes, GIB, MIB, Ns, Origin};

/// How a table keeps its entries in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// A red-black tree by original address, as in the paper.
    //= remap 3.3
    Tree,
    /// Rows of 12 bytes an entry, six for each address: what the paper says that an entry
    /// takes, which no tree does.
    #[default]
    Compact,
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Tree, Self::Compact];

    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Compact => "compact",
        }
    }
}

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Identity: it seeds all checksums.
    pub uuid: [u8; 16],
    /// Original addresses of a table. 4 GiB in the paper.
    //= remap 3.3
    pub partition: Bytes,
    /// Percent of the data area that are not offered, so that there is room to append in
    /// and to clean. The paper has no number; 10 is a choice of ours, of the size of the
    /// spare flash of a drive.
    pub spare_percent: u32,
    /// Log blocks for each 10,000 units of data. The paper writes one for each 512 of them,
    /// which is 20 for a log that has to hold all data once.
    //= remap 3.5
    pub log_per_10000: u32,
    /// Whether tables and data of an older layer are deallocated on the medium, as makers of
    /// file systems do.
    pub discard: bool,
}

impl Default for FormatOptions {
    fn default() -> Self {
        Self {
            uuid: *b"\x1f\x1a\x55\x10\x00\x00\x40\x00\x80\x00remap\x01",
            partition: Bytes(4 * GIB),
            spare_percent: 10,
            log_per_10000: 20,
            discard: true,
        }
    }
}

/// How to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How tables are kept.
    pub variant: Variant,
    /// Most bytes of tables in memory, or all of them if none. At least one table is kept.
    //= remap 3.3
    pub memory: Option<Bytes>,
    /// Entries after which a transaction commits of its own accord: 510 fill one block of
    /// the log and stand for 2 MiB of data.
    //= remap 3.5
    pub commit_pairs: u32,
    /// Age at which it does: that of a commit of ext4, whose policy the paper takes.
    //= remap 3.5
    pub commit_interval: Ns,
    /// A checkpoint follows a commit that leaves the log so full, in percent: a choice of
    /// ours, early enough for the transaction that is open then.
    pub checkpoint_percent: u32,
    /// Shortest run of free units to append to, and what cleaning in the foreground makes:
    /// a choice of ours, so that a request of 128 KiB of a page cache is seldom cut.
    pub shortest_run: Bytes,
    /// Percent of the data area that the longest free run is to have: with less, cleaning
    /// begins once nobody has asked for anything for `idle`. A choice of ours.
    pub clean_percent: u32,
    /// How long nobody asks before cleaning begins in the background: a choice of ours.
    pub idle: Ns,
    /// Whether cleaning runs in the background at all.
    pub background: bool,
    /// Shortest run of units that became free which is deallocated below, or none for
    /// never, as in the paper, which says nothing of it: what the host discards, and what
    /// cleaning in the background empties.
    pub trim: Option<Bytes>,
    /// Time of a processor for one unit that is looked up: a choice of ours, about a cache
    /// miss. `cargo bench -p remap` has what it takes here.
    pub lookup: Ns,
    /// The same for one that is inserted.
    pub insert: Ns,
    /// Who writes log and tables and moves data, in the traffic.
    pub origin: Origin,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            memory: None,
            commit_pairs: 510,
            commit_interval: Ns::secs(5),
            checkpoint_percent: 80,
            shortest_run: Bytes(MIB),
            clean_percent: 10,
            idle: Ns::ms(10),
            background: true,
            trim: None,
            lookup: Ns(100),
            insert: Ns(100),
            origin: Origin(0),
        }
    }
}
