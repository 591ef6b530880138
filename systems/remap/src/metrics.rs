//! What is counted.

use crate::config::Variant;
use units::Ns;

/// Counts since the layer was mounted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Units that are mapped.
    pub entries: u64,
    /// How tables are kept.
    pub variant: Variant,
    /// Bytes of the tables that are in memory.
    pub table_bytes: u64,
    /// Bytes of the physical side: which address each unit holds, and which are free.
    pub physical_bytes: u64,
    /// Units that requests wrote.
    pub written_units: u64,
    /// Pairs that were committed.
    pub pairs: u64,
    /// Transactions.
    pub transactions: u64,
    /// Blocks of the log.
    pub log_blocks: u64,
    /// Blocks of tables that were written, by checkpoints and to save memory.
    pub table_blocks: u64,
    /// Blocks of checkpoints and their directories.
    pub checkpoint_blocks: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Tables that were dropped from memory.
    pub tables_dropped: u64,
    /// Tables that were read.
    pub tables_read: u64,
    /// Reads, and commands beyond one for each that they became.
    pub reads: u64,
    /// See [`Metrics::reads`].
    pub read_splits: u64,
    /// Commands beyond one for each write.
    pub write_splits: u64,
    /// Writes of parts of units, each with a read before it.
    pub partial_writes: u64,
    /// Units that were discarded.
    pub discarded_units: u64,
    /// Units that were deallocated below.
    pub trimmed_units: u64,
    /// Units that cleaning moved.
    pub moves: u64,
    /// Passes of cleaning in the background.
    pub passes: u64,
    /// Passes that a write waited for.
    pub foreground_passes: u64,
    /// How often the append pointer went on elsewhere.
    pub jumps: u64,
    /// Errors of work that nobody waits for: commits by age or size, and cleaning. See
    /// [`crate::Remap::background_error`].
    pub background_errors: u64,
    /// What recovery took, in virtual time.
    pub recovery: Ns,
    /// Transactions that recovery took from the log.
    pub replayed: u64,
}

impl Metrics {
    /// What was counted since it was `before`; what there is, is as of now.
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

    /// Blocks of the log for each 2 MiB that were written: 1 in the paper.
    //= remap 3.5
    #[must_use]
    pub fn log_blocks_per_2mib(&self) -> f64 {
        match self.written_units {
            0 => 0.0,
            units => self.log_blocks as f64 * 512.0 / units as f64,
        }
    }
}
