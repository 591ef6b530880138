//! Options of a journal, and the errors of opening one.

use crate::persist::Run;
use ssd::IoError;
use units::{Ns, Origin, Placement};
use vfs::Errno;

/// Order between file contents and the log, as in the mount option `data=` of ext4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// File contents that a transaction maps for the first time are durable before it.
    #[default]
    Ordered,
    /// A commit does not wait for file contents; after a power cut a file may show
    /// older contents of its blocks.
    Writeback,
    /// File contents go through the log.
    Journal,
}

/// Options of a journal. Default times are those of ext4 and of the kernel's
/// flusher unless noted otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalConfig {
    /// Runs of blocks that hold the log, in log order.
    pub runs: Vec<Run>,
    /// Whether file contents go through the log, before it, or unordered.
    pub mode: Mode,
    /// Age at which a transaction is committed: 5 s (`JBD2_DEFAULT_MAX_COMMIT_AGE`).
    pub commit_interval: Ns,
    /// Period of the flusher: 5 s (`dirty_writeback_interval`).
    pub flush_interval: Ns,
    /// Age of dirty blocks at which the flusher writes: 30 s (`dirty_expire_interval`).
    pub dirty_expire: Ns,
    /// Bound on blocks in memory; dirty and pinned blocks may exceed it. The default of
    /// 65,536 is a choice of ours.
    pub cache_blocks: usize,
    /// Placement handle of writes to the log.
    pub journal_placement: Placement,
    /// Placement handle of home writes of metadata.
    pub metadata_placement: Placement,
    /// Origin to which requests for the log and metadata are attributed.
    pub origin: Origin,
    /// Seconds since 1970 at simulated time zero; the base of times in commit blocks.
    pub epoch: u64,
    /// Processor time of a commit, a choice of ours: 2 us.
    pub cost_per_commit: Ns,
    /// Processor time of each copied block, a choice of ours: 1 us, for a checksum and
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

/// Reason why a journal cannot be opened or inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The first block is no superblock of a journal.
    #[error("there is no journal where one should be: its superblock is missing")]
    NotAJournal,
    /// The block size, in bytes, differs from 4096.
    #[error("the journal has blocks of {0} bytes; only 4096 is supported")]
    BlockSize(u32),
    /// Bits of features that are not supported.
    #[error("the journal has features that are not known here (bits {0:#x})")]
    Feature(u32),
    /// Bits of features (fast or asynchronous commits) with a log that only e2fsck replays.
    #[error(
        "the journal has to be recovered by e2fsck first: it uses fast or asynchronous \
             commits (bits {0:#x})"
    )]
    Foreign(u32),
    /// The undo journal of pmfs occupies its blocks ([`crate::lines::undo`]).
    #[error(
        "lines that were changed have to be brought back first, from an undo journal: \
             mount it as pmfs once (`flashloom mount pmfs`), and unmount it"
    )]
    Lent,
    /// The checksum of the superblock of the journal is wrong.
    #[error("the superblock of the journal has a wrong checksum")]
    SuperblockSum,
    /// Fields of the superblock contradict each other or the medium, or the log is too small.
    #[error("the journal does not lie where it says, or is too small to be used")]
    Shape,
    /// The superblock states more blocks than the runs of the journal have.
    #[error("the journal has {has} blocks but says {needs}")]
    TooShort {
        /// Blocks in the runs of the journal.
        has: u32,
        /// Blocks stated by the superblock.
        needs: u32,
    },
    /// A copy has a home outside the file system or within the journal.
    #[error(
        "transaction {sequence} of the journal holds a copy of block {block}, which is not \
             a block of the file system outside the journal"
    )]
    Target {
        /// Sequence number of the transaction.
        sequence: u32,
        /// Home of the copy, a block of the file system.
        block: u64,
    },
    /// The checksum of a copy is wrong.
    #[error(
        "the copy of block {block} in transaction {sequence} of the journal has a wrong \
             checksum"
    )]
    Copy {
        /// Sequence number of the transaction.
        sequence: u32,
        /// Home of the copy, a block of the file system.
        block: u64,
    },
    /// A read or write of the medium failed.
    #[error("the journal cannot be read or written: {0}")]
    Io(#[from] IoError),
}

impl JournalError {
    /// `errno` recorded in the superblock after an error of the medium: `-EIO`.
    pub(super) const RECORDED: i32 = -(Errno::EIO as i32);
}
