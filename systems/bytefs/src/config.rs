//! Options of a mount of ByteFS, each with its default and source.

use extfs::lines::LineOptions;
use units::{Ns, Origin, Placement};
use vfs::Timestamp;

/// Handles of a transaction that commits by a force, our choice: it bounds the work of one commit.
const DEFERRED_HANDLES: usize = 4_096;

/// Parts of the mechanism that a mount uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= bytefs 5.4
pub enum Variant {
    /// ByteFS-Log: metadata by bytes in transactions of the firmware, file contents by
    /// blocks alone.
    Log,
    /// ByteFS: file contents also go by bytes if the change is small.
    #[default]
    Full,
}

/// Contents of a transaction: metadata alone, or file contents too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
//= bytefs 4.6
pub enum Data {
    /// Metadata alone; file contents that they map are durable before them.
    #[default]
    Ordered,
    /// File contents too: small changes in the transaction of the firmware, others in the
    /// blocks of a journal, which commits with that transaction.
    Journal,
}

/// Options of a mount; the defaults are those of the paper where it states one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Parts of the mechanism in use.
    pub variant: Variant,
    /// Whether file contents commit with the metadata that maps them.
    pub data: Data,
    /// A page with fewer changed cache lines than this, of 64, goes by bytes. A new block
    /// of metadata counts as 64 changed lines. 8 is R < 1/8, read strictly
    /// (`bytefs 4.6`); with 0 all pages go by blocks.
    pub byte_lines: u32,
    /// Largest direct request, in bytes, that goes by bytes: 512 (`bytefs 4.6` says
    /// "no greater than").
    pub direct_bytes: u64,
    /// Bound on cache lines in uncommitted transactions, counted as reserved by handles:
    /// 2^20, our choice, or the capacity of the drive's log for transactions if that is
    /// less: a little under half of its lines, which are 3,355,443 in 256 MiB with 16
    /// bytes beside each. A handle that would exceed the bound waits; a handle that can
    /// never fit fails with `ENOSPC`. With less than 5,056 the largest handle of the body,
    /// of 79 blocks, would fail; a drive with less, a log under 795 KiB, is rejected.
    pub open_lines: u64,
    /// Whether calls that change names or attributes wait for their commit. By default a
    /// transaction commits when a force asks for it, at an age of `commit_interval`, or
    /// when the lines of all transactions take a quarter of `open_lines`.
    //= bytefs 4.8
    pub strict: bool,
    /// Age at which a transaction commits without a force, unless `strict`: 5 s, as in ext4.
    pub commit_interval: Ns,
    /// Handles per transaction if `strict`: 64, our choice; further handles wait until it is
    /// closed. Bounds the time that a call stays uncommitted. Otherwise 4,096.
    pub handles: usize,
    /// TxIDs per reservation, which stores one cache line: 65,536, our choice.
    pub tx_ids: u32,
    /// Bound on clean blocks of metadata in memory: 65,536 (256 MiB), our choice.
    pub cache_blocks: usize,
    /// Whether freed blocks are deallocated on the drive.
    pub discard: bool,
    /// Whether writes carry placement handles by kind of data, if the drive has handles.
    pub placed: bool,
    /// Time of day at simulated time zero.
    pub start: Timestamp,
    /// Origin to which requests for metadata are attributed.
    pub origin: Origin,
    /// Processor time to compare a page with its duplicate: 312 ns, the 936 cycles of
    /// `bytefs 4.6` at 3 GHz, the highest clock of its processor.
    pub compare: Ns,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            variant: Variant::default(),
            data: Data::default(),
            byte_lines: 8,
            direct_bytes: 512,
            open_lines: 1 << 20,
            strict: false,
            commit_interval: Ns::secs(5),
            handles: 64,
            tx_ids: 1 << 16,
            cache_blocks: 1 << 16,
            discard: false,
            placed: false,
            start: Timestamp::default(),
            origin: Origin(0),
            compare: Ns(312),
        }
    }
}

impl Options {
    /// The options of transactions of cache lines; `placement` is that of metadata.
    pub(crate) fn lines(&self, placement: Placement) -> LineOptions {
        let full = self.variant == Variant::Full;
        LineOptions {
            in_place: false,
            compares: full,
            byte_lines: self.byte_lines,
            direct_bytes: full.then_some(self.direct_bytes),
            open_lines: self.open_lines,
            handles: match self.strict {
                true => self.handles,
                false => self.handles.max(DEFERRED_HANDLES),
            },
            commit_interval: (!self.strict).then_some(self.commit_interval),
            cache_blocks: self.cache_blocks,
            origin: self.origin,
            placement,
            compare: self.compare,
        }
    }
}
