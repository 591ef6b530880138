//! What a layer that remaps addresses says of itself.

use serde::{Deserialize, Serialize};

/// A layer between host and drive that gives each write the address behind the one before:
/// over the run, but for what it holds at the end. What brought it to its past is not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remapped {
    /// How its tables are kept: `compact` or `tree`.
    pub variant: String,
    /// Bytes that it offers of the drive.
    pub offered_bytes: u64,
    /// Bytes of them that lead anywhere at the end.
    pub mapped_bytes: u64,
    /// Memory of its tables at the end, as they are kept.
    pub table_bytes: u64,
    /// The same tables, were they kept as ordered trees.
    pub tree_bytes: u64,
    /// The same, were they kept as compact rows.
    pub compact_bytes: u64,
    /// Memory of what leads from the drive back to the host's addresses.
    pub physical_bytes: u64,
    /// Sectors of 512 bytes that writes were given new addresses for.
    pub remapped_sectors: u64,
    /// The same in bytes.
    pub written_bytes: u64,
    /// Transactions of its log.
    pub transactions: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Blocks of 4 KiB of its log for each 2 MiB that were written.
    pub log_blocks_per_2mib: f64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Bytes of these, without the tables.
    pub checkpoint_bytes: u64,
    /// Bytes of tables that were written, by checkpoints and to save memory.
    pub paged_bytes: u64,
    /// Tables that were dropped from memory.
    pub tables_dropped: u64,
    /// Tables that were read.
    pub tables_read: u64,
    /// Reads of the host.
    pub reads: u64,
    /// Commands beyond one for each of them.
    pub read_splits: u64,
    /// Commands beyond one for each write.
    pub write_splits: u64,
    /// Writes of parts of units of 4 KiB, each with a read before it.
    pub partial_writes: u64,
    /// Bytes that the host discarded and that led anywhere.
    pub discarded_bytes: u64,
    /// Bytes that were deallocated on the drive.
    pub trimmed_bytes: u64,
    /// Bytes that its cleaning moved.
    pub moved_bytes: u64,
    /// Passes of cleaning while nobody asked for anything.
    pub background_passes: u64,
    /// Passes that a write waited for.
    pub foreground_passes: u64,
    /// How often it went on to append elsewhere.
    pub jumps: u64,
    /// Errors of work that nobody waited for.
    pub background_errors: u64,
    /// The last of them.
    pub last_background_error: Option<String>,
    /// Virtual time that its last mount took, ns.
    pub recovery_ns: u64,
    /// Transactions that that mount took from the log.
    pub recovered_transactions: u64,
}
