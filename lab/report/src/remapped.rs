//! Counters of a layer that remaps addresses.

use serde::{Deserialize, Serialize};

/// A layer between host and drive that appends: each write gets the address after the previous one.
/// Counters cover the run, without the preconditioning before it; sizes are those at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remapped {
    /// Form of the tables: `compact` or `tree`.
    pub variant: String,
    /// Capacity that the layer offers to the host, in bytes.
    pub offered_bytes: u64,
    /// Bytes of `offered_bytes` that were mapped at the end.
    pub mapped_bytes: u64,
    /// Memory of the tables at the end, in bytes, in their actual form.
    pub table_bytes: u64,
    /// Memory of the same tables if they were kept as ordered trees, in bytes.
    pub tree_bytes: u64,
    /// Memory of the same tables if they were kept as compact rows, in bytes.
    pub compact_bytes: u64,
    /// Memory of the reverse mapping, from the drive to the host's addresses, in bytes.
    pub physical_bytes: u64,
    /// Sectors of 512 bytes to which writes gave new addresses.
    pub remapped_sectors: u64,
    /// Size of `remapped_sectors` in bytes.
    pub written_bytes: u64,
    /// Number of transactions in the log.
    pub transactions: u64,
    /// Bytes written to the log.
    pub log_bytes: u64,
    /// Log blocks of 4 KiB for each 2 MiB of writes.
    pub log_blocks_per_2mib: f64,
    /// Number of checkpoints written.
    pub checkpoints: u64,
    /// Bytes of the checkpoints, without the tables.
    pub checkpoint_bytes: u64,
    /// Bytes of tables written, by checkpoints and to free memory.
    pub paged_bytes: u64,
    /// Tables evicted from memory.
    pub tables_dropped: u64,
    /// Tables read from the drive.
    pub tables_read: u64,
    /// Number of reads by the host.
    pub reads: u64,
    /// Commands that these reads needed beyond one for each.
    pub read_splits: u64,
    /// Commands that writes needed beyond one for each.
    pub write_splits: u64,
    /// Writes of parts of 4 KiB units, each with a read before it.
    pub partial_writes: u64,
    /// Mapped bytes that the host discarded.
    pub discarded_bytes: u64,
    /// Bytes that the layer deallocated on the drive.
    pub trimmed_bytes: u64,
    /// Bytes that cleaning moved.
    pub moved_bytes: u64,
    /// Cleaning passes in the background, while the host was idle.
    pub background_passes: u64,
    /// Cleaning passes that a write waited for.
    pub foreground_passes: u64,
    /// Times that the append position moved to another place.
    pub jumps: u64,
    /// Errors of background work, which no request reports.
    pub background_errors: u64,
    /// The last error of background work.
    pub last_background_error: Option<String>,
    /// Virtual time of the last mount, ns.
    pub recovery_ns: u64,
    /// Transactions that the last mount replayed from the log.
    pub recovered_transactions: u64,
}
