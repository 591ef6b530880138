//! What a journal is told, and why one is refused.

use crate::persist::Run;
use ssd::IoError;
use units::{Ns, Origin, Placement};
use vfs::Errno;

/// Which file contents go through the log, and which before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// What a transaction points to for the first time is durable before it.
    #[default]
    Ordered,
    /// File contents are not waited for; after a power cut a file may show what
    /// its blocks held before.
    Writeback,
    /// File contents go through the log.
    Journal,
}

/// What a journal is and does. Times are those of ext4 and of the kernel's
/// flusher unless said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Where the log is, in its order.
    pub runs: Vec<Run>,
    /// What goes through the log.
    pub mode: Mode,
    /// Age at which a transaction is committed: 5 s (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
    pub commit_interval: Ns,
    /// How often the flusher looks: 5 s (`dirty_writeback_interval`).
    pub flush_interval: Ns,
    /// Age at which it writes: 30 s (`dirty_expire_interval`).
    pub dirty_expire: Ns,
    /// Blocks in memory, as far as none of them has to stay. 65,536 is a choice
    /// of ours.
    pub cache_blocks: usize,
    /// Handle for the log.
    pub journal_placement: Placement,
    /// Handle for metadata.
    pub metadata_placement: Placement,
    /// Whom the log and metadata are booked under.
    pub origin: Origin,
    /// Seconds since 1970 when the clock stood at zero; commit blocks bear it.
    pub epoch: u64,
    /// Processor time of a commit, a choice of ours: 2 us.
    pub cost_per_commit: Ns,
    /// Processor time of each copy, a choice of ours: 1 us, for a checksum and
    /// a copy of 4 KiB at some 8 GB/s each.
    pub cost_per_block: Ns,
}

impl JournalConfig {
    /// Defaults for a log in `runs`.
    #[must_use]
    pub const fn new(runs: Vec<Run>) -> Self {
        Self {
            runs,
            mode: Mode::Ordered,
            commit_interval: Ns::secs(5),
            flush_interval: Ns::secs(5),
            dirty_expire: Ns::secs(30),
            cache_blocks: 65_536,
            journal_placement: Placement(0),
            metadata_placement: Placement(0),
            origin: Origin(0),
            epoch: 0,
            cost_per_commit: Ns::us(2),
            cost_per_block: Ns::us(1),
        }
    }
}

/// Why there is no journal to work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// No superblock of a journal.
    #[error("there is no journal where one should be: its superblock is missing")]
    NotAJournal,
    /// Other blocks than ours.
    #[error("the journal has blocks of {0} bytes; only 4096 is supported")]
    BlockSize(u32),
    /// A feature that nobody told us of.
    #[error("the journal has features that are not known here (bits {0:#x})")]
    Feature(u32),
    /// A feature whose logs others replay.
    #[error(
        "the journal has to be recovered by e2fsck first: it uses fast or asynchronous \
             commits (bits {0:#x})"
    )]
    Foreign(u32),
    /// An undo journal has its blocks.
    #[error(
        "lines that were changed have to be brought back first, from an undo journal: \
             mount it as pmfs once (`flashloom mount pmfs`), and unmount it"
    )]
    Lent,
    /// The superblock is damaged.
    #[error("the superblock of the journal has a wrong checksum")]
    SuperblockSum,
    /// Numbers that contradict each other.
    #[error("the journal does not lie where it says, or is too small to be used")]
    Shape,
    /// The superblock speaks of more blocks than there are.
    #[error("the journal has {has} blocks but says {needs}")]
    TooShort {
        /// Blocks there are.
        has: u32,
        /// Blocks it says.
        needs: u32,
    },
    /// A copy goes nowhere.
    #[error(
        "transaction {sequence} of the journal holds a copy of block {block}, which is not \
             a block of the file system outside the journal"
    )]
    Target {
        /// The transaction.
        sequence: u32,
        /// The block.
        block: u64,
    },
    /// A copy is damaged.
    #[error(
        "the copy of block {block} in transaction {sequence} of the journal has a wrong \
             checksum"
    )]
    Copy {
        /// The transaction.
        sequence: u32,
        /// The block.
        block: u64,
    },
    /// The medium failed.
    #[error("the journal cannot be read or written: {0}")]
    Io(#[from] IoError),
}

impl JournalError {
    /// What a journal records when the medium has failed: the number of `EIO`.
    pub(super) const RECORDED: i32 = -(Errno::EIO as i32);
}
