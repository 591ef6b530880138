//! The interface between the body and a strategy, which makes changes durable.
//!
//! # The contract
//!
//! - [`Persist::begin`] opens a handle on a transaction; changes made with it
//!   become durable together or not at all, and never before those of an earlier
//!   transaction.
//! - [`Persist::write`] changes a buffer at once in memory; every reader sees the
//!   newest bytes. It never waits, so changes between two waits of the body appear
//!   to other tasks as one.
//! - File contents that a transaction maps for the first time are on the medium
//!   before the transaction is durable, unless the strategy is configured
//!   otherwise (`data=writeback`).
//! - Blocks given to [`Persist::free`] may be reused once [`Persist::freed`] has
//!   returned them.

use crate::buffer::Buffer;
use host::{Purpose, Who};
use nand::Payload;
use std::rc::Rc;
use units::{Placement, SECTOR};
use vfs::{DirtyPage, Result};

/// The number of a transaction. Later ones are greater; 0 is older than all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TxId(pub u64);

/// A range of adjacent blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// Number of the first block.
    pub start: u64,
    /// Length of the run in blocks.
    pub len: u64,
}

/// File contents to be written to the blocks from `start` on, one page a block.
#[derive(Clone, Copy, Debug)]
pub struct DataWrite<'a> {
    /// The block of the first page.
    pub start: u64,
    /// Pages for the blocks from `start` on, one each.
    pub pages: &'a [DirtyPage],
    /// Position in the file up to which the blocks hold the bytes of
    /// [`DirtyPage::before`]; 0 if they are new to the file.
    pub held: u64,
    /// The end of the file. Pages hold zeros behind it, and no reader looks there before
    /// zeros are written or the file grows over it.
    pub end: u64,
    /// Placement handle of the write.
    pub placement: Placement,
    /// Origin and purpose to which the write is attributed.
    pub who: Who,
}

/// A strategy: makes changes of the body durable. All block numbers are those of the file system.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Persist: 'static {
    /// A handle on an open transaction. It must be given to [`Persist::end`] or
    /// to [`Persist::write_data`].
    type Tx;

    /// Whether file contents are read and written in place, without a cache: then
    /// [`Persist::read_direct`] and [`Persist::write_direct`] take any offset and length,
    /// and a direct write is durable when it ends.
    fn is_dax(&self) -> bool {
        false
    }

    /// Whether [`DataWrite`] must carry [`DirtyPage::before`].
    fn wants_duplicates(&self) -> bool {
        false
    }

    /// A block of metadata, from memory or from the medium. While a reference to the buffer exists,
    /// every call returns the same buffer, so the body may keep buffers that it needs often.
    ///
    /// # Errors
    /// `EIO` if the medium fails or `block` lies outside it.
    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>>;

    /// A block that becomes metadata: all zeros, without looking at the medium.
    /// Its zeros count as changed.
    fn create(&self, tx: &Self::Tx, block: u64, purpose: Purpose) -> Rc<Buffer>;

    /// Opens a handle that will change up to `blocks` blocks of metadata.
    /// Waits while there is no room for them.
    ///
    /// # Errors
    /// `EROFS` if nothing can be changed any more; `ENOSPC` if no transaction can ever be so large.
    async fn begin(&self, blocks: usize) -> Result<Self::Tx>;

    /// Reserves `blocks` more for `tx` without waiting. False if there is no room:
    /// the caller ends the handle at a consistent point and begins another one.
    fn extend(&self, tx: &mut Self::Tx, blocks: usize) -> bool;

    /// The number of the transaction of `tx`.
    fn id(&self, tx: &Self::Tx) -> TxId;

    /// The newest transaction with a handle. Metadata loaded again from the medium was
    /// last changed by this transaction or an earlier one.
    fn newest(&self) -> TxId;

    /// Writes `bytes` to `buffer` at offset `at`, within the transaction of `tx`.
    fn write(&self, tx: &Self::Tx, buffer: &Rc<Buffer>, at: usize, bytes: &[u8]);

    /// Notes that `block` is no longer metadata: its logged copies must not be replayed
    /// over its next contents.
    fn forget(&self, tx: &Self::Tx, block: u64);

    /// Notes that the transaction of `tx` frees the blocks of `run`.
    fn free(&self, tx: &Self::Tx, run: Run);

    /// Freed runs whose transactions became durable since the last call.
    fn freed(&self) -> Vec<Run>;

    /// Closes a handle. Its changes become durable later, or here if the strategy makes
    /// each handle a transaction.
    ///
    /// # Errors
    /// `EIO`, if this strategy makes it durable here.
    async fn end(&self, tx: Self::Tx) -> Result<TxId>;

    /// Waits until transaction `id` is as durable as the strategy promises when a call
    /// returns. Does not wait if durability needs a force. The caller holds no lock.
    ///
    /// # Errors
    /// `EIO`: it may be durable or not, and nothing can be changed any more.
    async fn settle(&self, _id: TxId) -> Result<()> {
        Ok(())
    }

    /// Writes file contents that `tx`, if given, maps for the first time, and closes `tx`.
    ///
    /// # Errors
    /// `EIO` if the medium fails.
    async fn write_data(&self, tx: Option<Self::Tx>, writes: &[DataWrite<'_>]) -> Result<TxId>;

    /// Reads file contents from the blocks from `start` on, one page a block.
    ///
    /// # Errors
    /// `EIO` if the medium fails.
    async fn read_data(&self, start: u64, pages: &mut [Payload], who: Who) -> Result<()>;

    /// Makes durable every transaction up to `upto`, and all file contents that
    /// were written before.
    ///
    /// # Errors
    /// `EIO`; `EROFS` if the strategy was read-only before.
    async fn force(&self, upto: TxId) -> Result<()>;

    /// Makes everything durable. May wait for open handles, so each must close without it.
    ///
    /// # Errors
    /// As [`Persist::force`].
    async fn force_all(&self) -> Result<()>;

    /// Deallocates the blocks of `run` on the medium.
    ///
    /// # Errors
    /// `EIO` if the medium fails.
    async fn discard(&self, run: Run) -> Result<()>;

    /// Writes all metadata home and leaves nothing to recover.
    ///
    /// # Errors
    /// `EIO` if the medium fails.
    async fn shut_down(&self) -> Result<()>;

    /// Whether a failure has made the strategy read-only.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether a power cut leaves changes that only this strategy, or one of the same format, can
    /// recover. The superblock records this while mounted, if the file system has a journal.
    fn needs_recovery(&self) -> bool {
        true
    }

    /// Makes everything durable and writes all metadata home without unmounting, so
    /// that the state on the medium needs no recovery. Used for the superblock, which
    /// itself records whether to recover.
    ///
    /// # Errors
    /// `EIO`.
    async fn checkpoint(&self) -> Result<()> {
        self.shut_down().await
    }

    /// Alignment in bytes of offset and length of a direct request of `len` bytes: a
    /// sector, for a medium of blocks.
    fn direct_unit(&self, _len: u64) -> u64 {
        SECTOR
    }

    /// Reads bytes around all caches, `offset` bytes into block `start`.
    ///
    /// # Errors
    /// `EINVAL` if the medium cannot read at such an offset or length; `EIO`.
    async fn read_direct(&self, start: u64, offset: u64, out: &mut [u8], who: Who) -> Result<()>;

    /// Writes bytes around all caches, `offset` bytes into block `start`.
    ///
    /// # Errors
    /// `EINVAL` if the medium cannot write at such an offset or length; `EIO`.
    async fn write_direct(
        &self,
        start: u64,
        offset: u64,
        bytes: &[u8],
        placement: Placement,
        who: Who,
    ) -> Result<()>;
}
