//! Counters of a strategy of cache lines, for reports.

use std::ops::Sub;

macro_rules! metrics {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters since the mount.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Metrics {
            /// All counters with their names, in the order of reports.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }

        impl Sub for Metrics {
            type Output = Self;

            /// Growth of each counter since `before`.
            fn sub(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

metrics! {
    /// Transactions with lines to store, or a record in the journal.
    transactions,
    /// Transactions of a single line, stored without a TxID: the store of a line is atomic.
    single_lines,
    /// Transactions committed under a TxID: by the firmware, or a mark in a journal.
    commits,
    /// Lines stored to a journal, marks of commits included.
    journal_lines,
    /// Times that a transaction found no room in a journal.
    journal_waits,
    /// Lines of metadata that were stored.
    metadata_lines,
    /// Lines of file contents that were stored.
    data_lines,
    /// Store requests; adjacent lines of a block share one.
    stores,
    /// Verifications that stored lines reached the drive.
    verifies,
    /// Flush commands sent to the drive.
    flushes,
    /// Transactions merged with another one: both changed a line, or a handle joined a closed one.
    joins,
    /// Merges in which one transaction was closed and waited to be stored.
    reopened,
    /// Transactions that had to follow one already being committed.
    follows,
    /// Times that a handle found no room, or had to let a transaction close first.
    waits,
    /// Pages compared with their duplicates.
    comparisons,
    /// Compared pages without a changed line.
    same_pages,
    /// Pages written by bytes: their changed lines, or all of them in place.
    byte_pages,
    /// Pages written by the block interface.
    block_pages,
    /// Pages written to the journal first.
    journaled_pages,
    /// Records of the journal that hold these pages.
    records,
    /// Pages written home from the journal; a page in several records counts once, by its
    /// last version.
    homed_pages,
    /// New blocks of metadata written as blocks.
    new_blocks,
    /// Times that the superblock was written as a block.
    superblocks,
    /// Direct requests served by bytes.
    byte_requests,
    /// TxIDs skipped because the drive still knew them.
    skipped_ids,
}
