//! Options of a format and of a mount, each with its default and its source.

use units::{Bytes, GIB, MIB, Ns, Origin};

/// Data structure that holds the entries of a table in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// A red-black tree by original address, as in the paper.
    //= remap 3.3
    Tree,
    /// Sorted rows of 12 bytes an entry, six for each address: the size that the paper names, which
    /// no tree reaches.
    #[default]
    Compact,
}

impl Variant {
    /// Every variant, in the order in which reports list them.
    pub const ALL: [Self; 2] = [Self::Tree, Self::Compact];

    /// Name of the variant in reports, and in the names of the benchmarks.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Compact => "compact",
        }
    }
}

/// Parameters of a new layer, fixed at its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatOptions {
    /// Identity of the layer; seeds the checksums of all its blocks.
    pub uuid: [u8; 16],
    /// Original addresses that one table covers: 4 KiB to 4 GiB. 4 GiB in the paper.
    //= remap 3.3
    pub partition: Bytes,
    /// Share of the data area withheld from the host, as room to append and to clean: 1 to 50
    /// percent. The paper has no number; 10 is our choice, about the spare flash of a drive.
    pub spare_percent: u32,
    /// Log blocks for each 10,000 units of the medium, 1 to 1000. The paper writes one block for
    /// each 512 units, which is 20 for a log that holds all data once.
    //= remap 3.5
    pub log_per_10000: u32,
    /// Whether the format deallocates the table and data areas of the medium, as `mkfs` does.
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

/// Parameters of a mount; the medium does not record them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Data structure of the tables in memory.
    pub variant: Variant,
    /// Limit on the memory of tables; `None` keeps all of them. At least one table stays in memory.
    //= remap 3.3
    pub memory: Option<Bytes>,
    /// Pairs at which the open transaction commits by itself: 510 fill one block of the log and
    /// stand for 2 MiB of data.
    //= remap 3.5
    pub commit_pairs: u32,
    /// Age at which the open transaction commits by itself: the commit interval of ext4, whose
    /// policy the paper takes.
    //= remap 3.5
    pub commit_interval: Ns,
    /// Share of the log, in percent, at which a commit writes a checkpoint. Our choice: early
    /// enough to leave room for the transaction that is open meanwhile.
    pub checkpoint_percent: u32,
    /// Shortest free run to append to; foreground cleaning makes a few such runs. Our choice, so
    /// that a 128 KiB request of a page cache is seldom split. A layer with little spare space uses
    /// shorter runs.
    pub shortest_run: Bytes,
    /// Share of the data area, in percent, that the longest free run should have. Below it,
    /// background cleaning begins once the layer has been idle for `idle`. Our choice.
    pub clean_percent: u32,
    /// Time without a request before background cleaning begins. Our choice.
    pub idle: Ns,
    /// Whether cleaning runs in the background; a write that finds no run cleans in any case.
    pub background: bool,
    /// Shortest run of freed units that the layer deallocates on the medium below, after a discard
    /// and after background cleaning. `None` never deallocates, as in the paper, which does not
    /// mention it.
    pub trim: Option<Bytes>,
    /// Processor time for the lookup of one unit. Our choice, about one cache miss; `cargo bench -p
    /// remap` measures the lookup.
    pub lookup: Ns,
    /// Processor time for the insertion of one unit, like `lookup`.
    pub insert: Ns,
    /// Origin that the layer's own traffic carries: log, tables and moved data.
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
