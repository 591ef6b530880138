//! [`Persist`] for a strategy of cache lines: the interface to the body of the file system.

use super::compare::lines_of;
use super::config::LineOptions;
use super::core::Core;
use super::durable::Durable;
use super::journal::DataJournal;
use super::medium::{Medium, SECTORS, failed};
use super::metrics::Metrics;
use crate::buffer::{BLOCK, Buffer};
use crate::persist::{DataWrite, Persist, Run, TxId};
use host::{BlockPort, ByteDisk, Purpose, Who};
use nand::Payload;
use sim::Sim;
use std::rc::Rc;
use units::{Extent, Placement};
use vfs::Result;

/// A strategy that persists changes as cache lines; `D` makes the lines of one transaction
/// durable together.
pub struct Lines<D> {
    core: Rc<Core<D>>,
}

impl<D> Clone for Lines<D> {
    fn clone(&self) -> Self {
        Self {
            core: Rc::clone(&self.core),
        }
    }
}

/// A handle on a transaction: close it with `end` or `write_data`.
#[must_use = "a transaction commits once each of its handles is closed"]
pub struct Handle(u64);

impl<D: Durable> Lines<D> {
    /// Creates the strategy for a file system without a block journal on `port`.
    pub fn new(sim: &Sim, port: &ByteDisk, options: LineOptions, durable: D) -> Self {
        Self::with_journal(sim, port, options, durable, None)
    }

    /// Creates the strategy for a file system on `port`; file contents may go through `journal`.
    pub fn with_journal(
        sim: &Sim,
        port: &ByteDisk,
        options: LineOptions,
        durable: D,
        journal: Option<DataJournal>,
    ) -> Self {
        let core = Rc::new(Core::new(sim, port.clone(), options, (durable, journal)));
        Self { core }
    }

    /// The drive and its blocks of metadata in memory.
    #[must_use]
    pub fn medium(&self) -> &Medium {
        &self.core.medium
    }

    /// The part of the strategy that makes lines of a transaction durable.
    #[must_use]
    pub fn durable(&self) -> &D {
        &self.core.durable
    }

    /// Counters since the mount, those of the table of transactions included.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let counts = self.core.table.borrow().counts();
        Metrics {
            joins: counts.joins,
            reopened: counts.reopened,
            follows: counts.follows,
            waits: counts.waits,
            ..self.core.medium.metrics()
        }
    }

    /// Asserts the invariants of the table of transactions, for tests.
    pub fn check(&self) {
        self.core.table.borrow().check();
    }
}

impl<D: Durable> Persist for Lines<D> {
    type Tx = Handle;

    fn is_dax(&self) -> bool {
        self.core.options.in_place
    }

    fn wants_duplicates(&self) -> bool {
        self.core.wants_duplicates()
    }

    fn direct_unit(&self, len: u64) -> u64 {
        self.core.direct_unit(len)
    }

    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        self.core.medium.read(block, purpose).await
    }

    fn create(&self, tx: &Handle, block: u64, purpose: Purpose) -> Rc<Buffer> {
        let buffer = self.core.medium.blank(block, purpose);
        self.core
            .meet(|table| table.touch(tx.0, &buffer, u64::MAX, true));
        buffer
    }

    async fn begin(&self, blocks: usize) -> Result<Handle> {
        self.core.begin(blocks).await.map(Handle)
    }

    fn extend(&self, tx: &mut Handle, blocks: usize) -> bool {
        self.core.table.borrow_mut().extend(tx.0, blocks)
    }

    fn id(&self, tx: &Handle) -> TxId {
        TxId(tx.0)
    }

    fn newest(&self) -> TxId {
        TxId(self.core.table.borrow().newest())
    }

    fn write(&self, tx: &Handle, buffer: &Rc<Buffer>, at: usize, bytes: &[u8]) {
        let mask = lines_of(at, at + bytes.len());
        self.core
            .meet(|table| table.touch(tx.0, buffer, mask, false));
        buffer.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn forget(&self, tx: &Handle, block: u64) {
        self.core.meet(|table| table.forget(tx.0, block));
        self.core.medium.drop_block(block);
    }

    fn free(&self, tx: &Handle, run: Run) {
        self.core.table.borrow_mut().free(tx.0, run);
    }

    fn freed(&self) -> Vec<Run> {
        let freed = self.core.table.borrow_mut().freed();
        match self.core.journal() {
            Some(journal) => journal.release(freed),
            None => freed,
        }
    }

    async fn end(&self, tx: Handle) -> Result<TxId> {
        self.core.end(tx.0);
        Ok(TxId(tx.0))
    }

    async fn settle(&self, id: TxId) -> Result<()> {
        self.core.settle(id.0).await
    }

    async fn write_data(&self, tx: Option<Handle>, writes: &[DataWrite<'_>]) -> Result<TxId> {
        let handle = tx.map(|tx| tx.0);
        self.core.write_data(handle, writes).await?;
        Ok(handle.map_or_else(|| self.newest(), TxId))
    }

    async fn read_data(&self, start: u64, pages: &mut [Payload], who: Who) -> Result<()> {
        self.core.read_data(start, pages, who).await
    }

    async fn force(&self, upto: TxId) -> Result<()> {
        self.core.force(upto.0).await
    }

    async fn force_all(&self) -> Result<()> {
        self.core.force(u64::MAX).await?;
        self.core.drain().await
    }

    async fn discard(&self, run: Run) -> Result<()> {
        let (mut start, end) = (run.start, run.start.saturating_add(run.len));
        while start < end {
            let count = (end - start).min(u64::from(u32::MAX) / SECTORS);
            let extent = Extent::new(start * SECTORS, (count * SECTORS) as u32);
            self.core.medium.port.trim(extent).await.map_err(failed)?;
            start += count;
        }
        Ok(())
    }

    /// Commits everything: a committed line is home, since the log of the drive is part of the
    /// drive.
    async fn checkpoint(&self) -> Result<()> {
        self.force_all().await
    }

    async fn shut_down(&self) -> Result<()> {
        self.force_all().await?;
        self.core.leave_journal().await?;
        self.core.durable.leave(&self.core.medium).await
    }

    fn is_read_only(&self) -> bool {
        self.core.aborted.get()
    }

    /// Whether a mount after a power cut has to recover a journal: an undo journal of lines or a
    /// journal of blocks. A redo log of lines needs nothing here: the drive replays it first.
    fn needs_recovery(&self) -> bool {
        D::UNDOES || self.core.journal.is_some()
    }

    async fn read_direct(&self, start: u64, offset: u64, out: &mut [u8], who: Who) -> Result<()> {
        let at = start * BLOCK as u64 + offset;
        self.core.read_direct(at, out, who).await
    }

    async fn write_direct(
        &self,
        start: u64,
        offset: u64,
        bytes: &[u8],
        placement: Placement,
        who: Who,
    ) -> Result<()> {
        let at = start * BLOCK as u64 + offset;
        self.core.write_direct(at, bytes, (placement, who)).await
    }
}
