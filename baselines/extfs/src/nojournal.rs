//! No journal: changes stay in memory and go home when they are forced.
//!
//! That is ext4 without a journal. A power cut may leave any part of what was
//! not forced, so the structure may be damaged; what was forced is there.
//!
//! Invariants: what is dirty is in the cache; a block that stopped being metadata
//! is never written again by this strategy.

use crate::buffer::{BLOCK, Buffer, Cache};
use crate::persist::{DataWrite, Persist, Run, TxId};
use host::{BlockPort, Purpose, Who};
use nand::Payload;
use ssd::{Content, IoError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use units::{Extent, Origin, Placement, SECTOR};
use vfs::{DirtyPage, Errno, Result};

const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// Most blocks of one command: 1 MiB, which is what Linux sends at most to a
/// drive that names no limit of its own.
const COMMAND_BLOCKS: usize = 256;

/// Changes stay in memory until they are forced.
pub struct NoJournal<B> {
    port: B,
    /// Buffers in memory before clean ones are let go.
    most: usize,
    /// Where the drive shall put metadata.
    placement: Placement,
    cache: RefCell<Cache>,
    dirty: RefCell<BTreeSet<u64>>,
    transaction: Cell<u64>,
    freed: RefCell<Vec<Run>>,
}

/// What a failure of the medium means to a file.
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

impl<B: BlockPort> NoJournal<B> {
    /// Over `port`, keeping up to `most` blocks of clean metadata in memory;
    /// metadata go to `placement`.
    #[must_use]
    pub fn new(port: B, most: usize, placement: Placement) -> Self {
        Self {
            port,
            most,
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
        let dirty = std::mem::take(&mut *self.dirty.borrow_mut());
        let mut blocks = dirty.into_iter().peekable();
        while let Some(first) = blocks.next() {
            let Some(buffer) = self.cached(first) else {
                continue;
            };
            let purpose = buffer.purpose.get();
            let mut payloads = vec![payload(&buffer)];
            while payloads.len() < COMMAND_BLOCKS
                && let Some(next) = blocks.peek().and_then(|&block| self.cached(block))
                && next.block == first + payloads.len() as u64
                && next.purpose.get() == purpose
            {
                payloads.push(payload(&next));
                blocks.next();
            }
            self.write_blocks(first, &payloads, self.placement, who(purpose))
                .await?;
        }
        Ok(())
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
    if offset % SECTOR != 0 || len % SECTOR != 0 {
        return Err(Errno::EINVAL);
    }
    let first = start * SECTORS + offset / SECTOR;
    Ok(Extent::new(first, (len / SECTOR) as u32))
}

impl<B: BlockPort> Persist for NoJournal<B> {
    type Tx = ();

    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        if let Some(buffer) = self.cached(block) {
            return Ok(buffer);
        }
        let mut bytes = Box::new([0; BLOCK]);
        let mut sink = bytes.as_mut_slice();
        let read = self.port.read(extent(block, 1), &mut sink, who(purpose));
        read.await.map_err(errno)?;
        // Somebody else may have been quicker, and may have changed it since.
        if let Some(buffer) = self.cached(block) {
            return Ok(buffer);
        }
        let buffer = Rc::new(Buffer::new(block, purpose, bytes));
        let mut cache = self.cache.borrow_mut();
        cache.insert(Rc::clone(&buffer));
        if cache.len() > self.most + self.most / 8 {
            let dirty = self.dirty.borrow();
            cache.shrink(self.most, |b| !dirty.contains(&b.block));
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
