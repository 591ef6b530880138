//! What was done so far.

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

            /// What came after `before`.
            fn sub(self, before: Self) -> Self {
                Self { $($name: self.$name - before.$name,)* }
            }
        }
    };
}

metrics! {
    /// Transactions that were closed and had something to store.
    transactions,
    /// Of these, those of one line, which is atomic as it is.
    single_lines,
    /// Those committed under a number: by the firmware, or a mark in a journal.
    commits,
    /// Lines that were written to a journal, with marks of commits.
    journal_lines,
    /// Times that a transaction found no room in a journal.
    journal_waits,
    /// Lines of metadata that were stored.
    metadata_lines,
    /// Lines of file contents that were stored.
    data_lines,
    /// Stores; adjacent lines of a block are one.
    stores,
    /// Verifications.
    verifies,
    /// Flush commands.
    flushes,
    /// Transactions that became one with another, since they met at a line or
    /// somebody had left one.
    joins,
    /// Of these, those of which one was closed and waited for its turn to be stored.
    reopened,
    /// Transactions that had to follow one that was on its way to the drive.
    follows,
    /// Times that a handle found no room, or had to let a transaction close first.
    waits,
    /// Pages compared with their duplicates.
    comparisons,
    /// Pages of which nothing had changed.
    same_pages,
    /// Pages written by bytes.
    byte_pages,
    /// Pages written by blocks.
    block_pages,
    /// Pages written to the journal first.
    journaled_pages,
    /// Records of the journal that they were in.
    records,
    /// Pages written home from the journal: of those that were in several records,
    /// only the last.
    homed_pages,
    /// New blocks of metadata written as blocks.
    new_blocks,
    /// Times that the superblock was written as a block.
    superblocks,
    /// Direct requests served by bytes.
    byte_requests,
    /// TxIDs that the drive still knew, and that were left out.
    skipped_ids,
}
