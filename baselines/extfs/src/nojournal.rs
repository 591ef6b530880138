//! Persistence without a journal: changes stay in memory until they are forced.
//!
//! This is ext4 without a journal. A power cut may leave any part of the changes that were not
//! forced, so the structure may be damaged; forced changes survive.
//!
//! Invariants: a dirty block stays in the cache until it is written, so no read sees older bytes
//! of the medium. One task at a time writes changes back, so a flush covers all earlier ones.
//! Freed blocks are reused only while no write-back is in progress.

use crate::buffer::{BLOCK, Buffer, Cache};
use crate::fs::ExtFs;
use crate::persist::{DataWrite, Persist, Run, TxId};
use host::{BlockPort, Disk, Purpose, Who};
use nand::Payload;
use sim::{Semaphore, Sim};
use ssd::{Content, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use units::{Extent, Origin, Placement, SECTOR};
use vfs::{AnyBody, DirtyPage, Errno, Result};

const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// Most blocks of one command: 1 MiB, the maximum that Linux sends to a drive that names no limit
/// of its own.
const COMMAND_BLOCKS: usize = 256;

/// [`Persist`] strategy without a journal.
pub struct NoJournal {
    port: Disk,
    /// Held by the task that writes changes back.
    turn: Semaphore,
    /// Number of buffers that an eviction of clean ones aims for.
    most: usize,
    /// Number of buffers above which clean ones are evicted.
    limit: Cell<usize>,
    /// Placement handle of metadata.
    placement: Placement,
    cache: RefCell<Cache>,
    dirty: RefCell<BTreeSet<u64>>,
    transaction: Cell<u64>,
    freed: RefCell<Vec<Run>>,
}

/// Error number of a failed command: `EROFS` for a read-only drive, else `EIO`.
pub(crate) fn errno(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

fn extent(start: u64, blocks: u64) -> Extent {
    Extent::new(start * SECTORS, (blocks * SECTORS) as u32)
}

const fn who(purpose: Purpose) -> Who {
    Who {
        origin: Origin(0),
        purpose,
    }
}

impl NoJournal {
    /// Over `port`, keeping up to `most` blocks of clean metadata in memory;
    /// metadata go to `placement`.
    #[must_use]
    pub fn new(sim: &Sim, port: &impl BlockPort, most: usize, placement: Placement) -> Self {
        Self {
            port: Disk::from(port),
            turn: Semaphore::new(sim, 1),
            most,
            limit: Cell::new(most),
            placement,
            cache: RefCell::default(),
            dirty: RefCell::default(),
            transaction: Cell::new(1),
            freed: RefCell::default(),
        }
    }

    /// Writes home all that is dirty: blocks that follow one another and serve
    /// the same purpose with one command.
    async fn write_home(&self) -> Result<()> {
        let dirty: Vec<u64> = self.dirty.borrow().iter().copied().collect();
        let mut rest = &dirty[..];
        while let Some(&first) = rest.first() {
            let batch = self.batch(rest);
            rest = &rest[batch.len().max(1)..];
            let Some(buffer) = batch.first() else {
                continue;
            };
            let who = who(buffer.purpose.get());
            let payloads: Vec<_> = batch.iter().map(|buffer| payload(buffer)).collect();
            for buffer in &batch {
                self.dirty.borrow_mut().remove(&buffer.block);
            }
            let written = self.write_blocks(first, &payloads, self.placement, who);
            if let Err(error) = written.await {
                let blocks = batch.iter().map(|buffer| buffer.block);
                self.dirty.borrow_mut().extend(blocks);
                return Err(error);
            }
        }
        Ok(())
    }

    /// The first of `blocks` that are still dirty, follow one another and serve the same purpose.
    fn batch(&self, blocks: &[u64]) -> Vec<Rc<Buffer>> {
        let (cache, dirty) = (self.cache.borrow(), self.dirty.borrow());
        let mut batch: Vec<Rc<Buffer>> = Vec::new();
        for block in blocks.iter().take(COMMAND_BLOCKS) {
            let joins = batch
                .first()
                .is_none_or(|first| first.block + batch.len() as u64 == *block);
            let Some(buffer) = cache.get(*block).filter(|_| joins && dirty.contains(block)) else {
                break;
            };
            if batch
                .first()
                .is_some_and(|first| first.purpose != buffer.purpose)
            {
                break;
            }
            batch.push(Rc::clone(buffer));
        }
        batch
    }

    fn cached(&self, block: u64) -> Option<Rc<Buffer>> {
        self.cache.borrow().get(block).map(Rc::clone)
    }

    async fn write_blocks(
        &self,
        start: u64,
        payloads: &[Payload],
        placement: Placement,
        who: Who,
    ) -> Result<()> {
        let content = Content::Sectors(payloads);
        let extent = extent(start, payloads.len() as u64);
        let done = self.port.write(extent, content, placement, who, false);
        done.await.map_err(errno)
    }

    async fn write_run(&self, write: &DataWrite<'_>) -> Result<()> {
        for (index, pages) in write.pages.chunks(COMMAND_BLOCKS).enumerate() {
            let payloads: Vec<_> = pages.iter().map(|p: &DirtyPage| p.now.clone()).collect();
            let start = write.start + (index * COMMAND_BLOCKS) as u64;
            self.write_blocks(start, &payloads, write.placement, write.who)
                .await?;
        }
        Ok(())
    }

    fn now(&self) -> TxId {
        TxId(self.transaction.get())
    }

    async fn write_home_and_flush(&self) -> Result<()> {
        let _turn = self.turn.acquire(1).await;
        self.transaction.set(self.transaction.get() + 1);
        self.write_home().await?;
        self.port.flush().await.map_err(errno)
    }
}

fn payload(buffer: &Buffer) -> Payload {
    Payload::Bytes(Arc::new(*buffer.bytes()))
}

/// The sectors from `offset` bytes into block `start` on.
fn direct(start: u64, offset: u64, len: usize) -> Result<Extent> {
    let len = len as u64;
    if !offset.is_multiple_of(SECTOR) || !len.is_multiple_of(SECTOR) {
        return Err(Errno::EINVAL);
    }
    let first = start * SECTORS + offset / SECTOR;
    Ok(Extent::new(first, (len / SECTOR) as u32))
}

impl From<ExtFs<NoJournal>> for AnyBody {
    fn from(body: ExtFs<NoJournal>) -> Self {
        Self::new(body)
    }
}

impl Persist for NoJournal {
    type Tx = ();

    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        if let Some(buffer) = self.cached(block) {
            return Ok(buffer);
        }
        let mut bytes = Box::new([0; BLOCK]);
        let mut sink = bytes.as_mut_slice();
        let read = self.port.read(extent(block, 1), &mut sink, who(purpose));
        read.await.map_err(errno)?;
        // Another task may have loaded the block meanwhile, and changed it since.
        if let Some(buffer) = self.cached(block) {
            return Ok(buffer);
        }
        let buffer = Rc::new(Buffer::new(block, purpose, bytes));
        let mut cache = self.cache.borrow_mut();
        cache.insert(Rc::clone(&buffer));
        if cache.len() > self.limit.get() {
            let dirty = self.dirty.borrow();
            cache.shrink(self.most, |b| !dirty.contains(&b.block));
            // Headroom, so that blocks that cannot be evicted are not scanned again at once.
            self.limit.set(cache.len() + self.most / 8 + 1);
        }
        Ok(buffer)
    }

    fn create(&self, (): &(), block: u64, purpose: Purpose) -> Rc<Buffer> {
        self.dirty.borrow_mut().insert(block);
        if let Some(buffer) = self.cached(block) {
            buffer.bytes_mut().fill(0);
            buffer.purpose.set(purpose);
            buffer.checked.set(true);
            return buffer;
        }
        let buffer = Rc::new(Buffer::new(block, purpose, Box::new([0; BLOCK])));
        buffer.checked.set(true);
        self.cache.borrow_mut().insert(Rc::clone(&buffer));
        buffer
    }

    async fn begin(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn extend(&self, (): &mut (), _: usize) -> bool {
        true
    }

    fn newest(&self) -> TxId {
        self.now()
    }

    fn id(&self, (): &()) -> TxId {
        self.now()
    }

    fn write(&self, (): &(), buffer: &Rc<Buffer>, at: usize, bytes: &[u8]) {
        buffer.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
        self.dirty.borrow_mut().insert(buffer.block);
    }

    fn forget(&self, (): &(), block: u64) {
        self.dirty.borrow_mut().remove(&block);
        self.cache.borrow_mut().remove(block);
    }

    fn free(&self, (): &(), run: Run) {
        self.freed.borrow_mut().push(run);
    }

    fn freed(&self) -> Vec<Run> {
        if self.turn.free() == 0 {
            return Vec::new();
        }
        std::mem::take(&mut *self.freed.borrow_mut())
    }

    async fn end(&self, (): ()) -> Result<TxId> {
        Ok(self.now())
    }

    async fn write_data(&self, _: Option<()>, writes: &[DataWrite<'_>]) -> Result<TxId> {
        if let [write] = writes {
            self.write_run(write).await?;
        } else {
            let all = writes.iter().map(|write| self.write_run(write)).collect();
            sim::join_all(all)
                .await
                .into_iter()
                .collect::<Result<()>>()?;
        }
        Ok(self.now())
    }

    async fn read_data(&self, start: u64, mut pages: &mut [Payload], who: Who) -> Result<()> {
        let extent = extent(start, pages.len() as u64);
        self.port.read(extent, &mut pages, who).await.map_err(errno)
    }

    async fn force(&self, _: TxId) -> Result<()> {
        self.write_home_and_flush().await
    }

    async fn force_all(&self) -> Result<()> {
        self.write_home_and_flush().await
    }

    async fn discard(&self, run: Run) -> Result<()> {
        self.port
            .trim(extent(run.start, run.len))
            .await
            .map_err(errno)
    }

    async fn shut_down(&self) -> Result<()> {
        self.write_home_and_flush().await
    }

    fn needs_recovery(&self) -> bool {
        false
    }

    async fn read_direct(
        &self,
        start: u64,
        offset: u64,
        mut out: &mut [u8],
        who: Who,
    ) -> Result<()> {
        let extent = direct(start, offset, out.len())?;
        self.port.read(extent, &mut out, who).await.map_err(errno)
    }

    async fn write_direct(
        &self,
        start: u64,
        offset: u64,
        bytes: &[u8],
        placement: Placement,
        who: Who,
    ) -> Result<()> {
        let extent = direct(start, offset, bytes.len())?;
        let content = Content::Bytes(bytes);
        let done = self.port.write(extent, content, placement, who, false);
        done.await.map_err(errno)
    }
}
