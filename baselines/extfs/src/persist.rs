//! How changes persist: what the body asks of a strategy.
//!
//! # The contract
//!
//! - [`Persist::begin`] opens a handle on a transaction; changes made with it
//!   become durable together or not at all, and never before those of an earlier
//!   transaction.
//! - [`Persist::write`] changes a buffer at once in memory; everybody reads the
//!   newest bytes. It never waits, so several changes between two waits of the
//!   body are seen by others as one.
//! - File contents that a transaction points to for the first time are on the
//!   medium before the transaction is durable, unless the strategy was told
//!   otherwise (`data=writeback`).
//! - What [`Persist::free`] was told may be handed out again once
//!   [`Persist::freed`] has returned it.

use crate::buffer::Buffer;
use host::{Purpose, Who};
use nand::Payload;
use std::rc::Rc;
use units::{Placement, SECTOR};
use vfs::{DirtyPage, Result};

/// The number of a transaction. Later ones are greater; 0 is older than all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TxId(pub u64);

/// Blocks that lie one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The first.
    pub start: u64,
    /// How many.
    pub len: u64,
}

/// File contents to be written to the blocks from `start` on, one page a block.
#[derive(Clone, Copy, Debug)]
pub struct DataWrite<'a> {
    /// The first block.
    pub start: u64,
    /// Pages for it and those after it.
    pub pages: &'a [DirtyPage],
    /// The place in the file up to which the blocks hold what [`DirtyPage::before`]
    /// says; 0 where they are new to the file.
    pub held: u64,
    /// The end of the file. What pages have behind it are zeros, and nobody reads
    /// there before zeros were written or the file has grown over it.
    pub end: u64,
    /// Where the drive shall put them.
    pub placement: Placement,
    /// Whom they are booked under.
    pub who: Who,
}

/// A strategy. All block numbers are those of the file system.
#[allow(async_fn_in_trait, reason = "a simulation is one thread")]
pub trait Persist: 'static {
    /// A handle on an open transaction. It must be given to [`Persist::end`] or
    /// to [`Persist::write_data`].
    type Tx;

    /// Whether contents of files are read and written where they lie, without a cache:
    /// then [`Persist::read_direct`] and [`Persist::write_direct`] take any offset and
    /// length, and what they have written is durable when they end.
    fn is_dax(&self) -> bool {
        false
    }

    /// Whether [`DataWrite`] has to come with what the pages held before.
    fn wants_duplicates(&self) -> bool {
        false
    }

    /// A block of metadata, from memory or from the medium. As long as anybody
    /// holds it, everybody is given the same buffer, so the body may keep those
    /// that it needs often.
    ///
    /// # Errors
    /// `EIO`.
    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>>;

    /// A block that becomes metadata: all zeros, without looking at the medium.
    /// Its zeros count as changed.
    fn create(&self, tx: &Self::Tx, block: u64, purpose: Purpose) -> Rc<Buffer>;

    /// Opens a handle that will change up to `blocks` blocks of metadata.
    /// Waits while there is no room for them.
    ///
    /// # Errors
    /// `EROFS` if nothing can be changed any more; `ENOSPC` if no transaction
    /// can ever be so large.
    async fn begin(&self, blocks: usize) -> Result<Self::Tx>;

    /// Asks for room for `blocks` more without waiting. False if there is none:
    /// the caller ends the handle at a consistent point and begins another one.
    fn extend(&self, tx: &mut Self::Tx, blocks: usize) -> bool;

    /// The transaction that `tx` belongs to.
    fn id(&self, tx: &Self::Tx) -> TxId;

    /// The newest transaction that any handle has been opened on. What comes to
    /// memory again was last changed by this one or by one before it.
    fn newest(&self) -> TxId;

    /// Changes the bytes of `buffer` from `at` on.
    fn write(&self, tx: &Self::Tx, buffer: &Rc<Buffer>, at: usize, bytes: &[u8]);

    /// Says that a block is no longer metadata: what is logged of it must not be
    /// replayed over what comes there next.
    fn forget(&self, tx: &Self::Tx, block: u64);

    /// Says that the transaction frees these blocks.
    fn free(&self, tx: &Self::Tx, run: Run);

    /// Runs whose transactions have become durable since the last call.
    fn freed(&self) -> Vec<Run>;

    /// Closes a handle. What it changed becomes durable later, or here where each
    /// handle is a transaction of its own.
    ///
    /// # Errors
    /// `EIO`, if this strategy makes it durable here.
    async fn end(&self, tx: Self::Tx) -> Result<TxId>;

    /// Waits until the transaction `id` is as durable as a call shall find it that
    /// returns after it: not at all, where programs have to force what they want to
    /// last. Called with nothing locked.
    ///
    /// # Errors
    /// `EIO`: it may be durable or not, and nothing can be changed any more.
    async fn settle(&self, _id: TxId) -> Result<()> {
        Ok(())
    }

    /// Writes file contents that `tx`, if there is one, points to for the first
    /// time, and closes it.
    ///
    /// # Errors
    /// `EIO`.
    async fn write_data(&self, tx: Option<Self::Tx>, writes: &[DataWrite<'_>]) -> Result<TxId>;

    /// Reads file contents from the blocks from `start` on.
    ///
    /// # Errors
    /// `EIO`.
    async fn read_data(&self, start: u64, pages: &mut [Payload], who: Who) -> Result<()>;

    /// Makes durable every transaction up to `upto`, and all file contents that
    /// were written before.
    ///
    /// # Errors
    /// `EIO`; `EROFS` if nothing can be changed any more since before.
    async fn force(&self, upto: TxId) -> Result<()>;

    /// Makes everything durable; no handle is open that will not be closed.
    ///
    /// # Errors
    /// As [`Persist::force`].
    async fn force_all(&self) -> Result<()>;

    /// Tells the medium that nobody needs the contents of `run` any more.
    ///
    /// # Errors
    /// `EIO`.
    async fn discard(&self, run: Run) -> Result<()>;

    /// Brings all metadata home and leaves nothing to recover.
    ///
    /// # Errors
    /// `EIO`.
    async fn shut_down(&self) -> Result<()>;

    /// Whether nothing can be changed any more, since something failed.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether a power cut leaves something that only this strategy, or one of
    /// the same format, can bring home. The superblock says so while mounted, if
    /// the file system has a journal.
    fn needs_recovery(&self) -> bool {
        true
    }

    /// Makes everything durable and brings all metadata home, then goes on: what
    /// is home afterwards does not depend on recovery. Used where the superblock
    /// itself says whether to recover.
    ///
    /// # Errors
    /// `EIO`.
    async fn checkpoint(&self) -> Result<()> {
        self.shut_down().await
    }

    /// What offset and length of a direct request of `len` bytes must be multiples
    /// of: a sector, for a medium of blocks.
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
