//! Counters and gauges of a mounted layer.

use crate::config::Variant;
use units::Ns;

/// Counters since the mount, and gauges (`entries`, `variant`, `table_bytes`, `physical_bytes`) as
/// of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Mapped units, by committed pairs.
    pub entries: u64,
    /// Data structure of the tables.
    pub variant: Variant,
    /// Bytes of memory of the tables that are loaded.
    pub table_bytes: u64,
    /// Bytes of memory of the physical side: the address that each unit holds, and the free
    /// bitmaps.
    pub physical_bytes: u64,
    /// Units written for requests; a partial write counts as one.
    pub written_units: u64,
    /// Pairs written to the log, discards and moves included.
    pub pairs: u64,
    /// Transactions written to the log.
    pub transactions: u64,
    /// Log blocks written, 4 KiB each.
    pub log_blocks: u64,
    /// Table pages written, by checkpoints and before a table is dropped.
    pub table_blocks: u64,
    /// Blocks of checkpoint headers and directories written.
    pub checkpoint_blocks: u64,
    /// Checkpoints written since the mount, apart from the mount's own.
    pub checkpoints: u64,
    /// Tables dropped from memory to stay below [`crate::Options::memory`].
    pub tables_dropped: u64,
    /// Tables loaded by reading at least one page.
    pub tables_read: u64,
    /// Reads that the host issued, apart from empty ones.
    pub reads: u64,
    /// Commands beyond the first of each read: a read becomes one command for each mapped run.
    pub read_splits: u64,
    /// Commands beyond the first of each write, where the append run ended.
    pub write_splits: u64,
    /// Writes within one unit, each of which merges with the old contents.
    pub partial_writes: u64,
    /// Mapped units that discards unmapped.
    pub discarded_units: u64,
    /// Units deallocated on the medium below.
    pub trimmed_units: u64,
    /// Units that cleaning copied into holes.
    pub moves: u64,
    /// Passes of background cleaning that moved at least one unit.
    pub passes: u64,
    /// Passes of cleaning that a write waited for.
    pub foreground_passes: u64,
    /// Moves of the append pointer to another run. A write that waits for cleaning counts one even
    /// if the pointer had moved meanwhile.
    pub jumps: u64,
    /// Errors of background work: commits by age or size, and cleaning. See
    /// [`crate::Remap::background_error`].
    pub background_errors: u64,
    /// Virtual time that the mount took.
    pub recovery: Ns,
    /// Transactions that the mount replayed from the log.
    pub replayed: u64,
}

impl Metrics {
    /// Counters since `before`; gauges and the facts of the mount (`recovery`, `replayed`) as of
    /// `self`.
    #[must_use]
    pub const fn since(self, before: &Self) -> Self {
        Self {
            written_units: self.written_units - before.written_units,
            pairs: self.pairs - before.pairs,
            transactions: self.transactions - before.transactions,
            log_blocks: self.log_blocks - before.log_blocks,
            table_blocks: self.table_blocks - before.table_blocks,
            checkpoint_blocks: self.checkpoint_blocks - before.checkpoint_blocks,
            checkpoints: self.checkpoints - before.checkpoints,
            tables_dropped: self.tables_dropped - before.tables_dropped,
            tables_read: self.tables_read - before.tables_read,
            reads: self.reads - before.reads,
            read_splits: self.read_splits - before.read_splits,
            write_splits: self.write_splits - before.write_splits,
            partial_writes: self.partial_writes - before.partial_writes,
            discarded_units: self.discarded_units - before.discarded_units,
            trimmed_units: self.trimmed_units - before.trimmed_units,
            moves: self.moves - before.moves,
            passes: self.passes - before.passes,
            foreground_passes: self.foreground_passes - before.foreground_passes,
            jumps: self.jumps - before.jumps,
            background_errors: self.background_errors - before.background_errors,
            ..self
        }
    }

    /// Log blocks for each 2 MiB written: 1 in the paper. 0 if nothing was written.
    //= remap 3.5
    #[must_use]
    pub fn log_blocks_per_2mib(&self) -> f64 {
        match self.written_units {
            0 => 0.0,
            units => self.log_blocks as f64 * 512.0 / units as f64,
        }
    }
}
