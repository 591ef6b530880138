//! What all parts of a mounted strategy share, and blocks of metadata in memory.
//!
//! Invariants: a block is in memory at most once, and stays there while somebody
//! holds it or lines of it have not committed; who asks for one that is being read
//! waits for that read; a read that a new block of the same number has overtaken
//! counts for nothing.

use crate::config::Options;
use crate::ids::Ids;
use crate::metrics::Metrics;
use crate::table::TxTable;
use extfs::{BLOCK, Buffer, Cache};
use host::{BytePort, Purpose, Who};
use sim::{Lock, Semaphore, Signal, Sim};
use ssd::IoError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Extent, Placement, SECTOR};
use vfs::{Errno, Result};

/// Host sectors of a block.
pub(crate) const SECTORS: u64 = BLOCK as u64 / SECTOR;
/// Most blocks of one command: 1 MiB, as Linux sends it to a drive without a limit.
pub(crate) const COMMAND_BLOCKS: usize = 256;

/// The sectors of blocks.
pub(crate) fn extent(start: u64, blocks: usize) -> Extent {
    Extent::new(start * SECTORS, (blocks as u64 * SECTORS) as u32)
}

pub(crate) struct Core<P> {
    pub(crate) sim: Sim,
    pub(crate) port: P,
    pub(crate) options: Options,
    /// Where the drive shall put blocks of metadata.
    pub(crate) placement: Placement,
    pub(crate) table: RefCell<TxTable>,
    pub(crate) ids: Lock<Ids>,
    pub(crate) metrics: Cell<Metrics>,
    /// A transaction has been closed or has committed, or contents have landed.
    pub(crate) progress: Signal,
    /// Something failed that nobody can go on from.
    pub(crate) aborted: Cell<bool>,
    /// Block writes of contents that have ended, and how many of them a flush has
    /// made durable.
    pub(crate) written: Cell<u64>,
    pub(crate) flushed: Cell<u64>,
    /// Held by who flushes.
    pub(crate) flushing: Semaphore,
    cache: RefCell<Cache>,
    loading: RefCell<BTreeMap<u64, Rc<Signal>>>,
    /// Blocks in memory before clean ones are looked for again.
    limit: Cell<usize>,
}

impl<P: BytePort> Core<P> {
    pub(crate) fn new(sim: &Sim, port: P, options: Options, ids: Ids, to: Placement) -> Self {
        Self {
            sim: sim.clone(),
            port,
            placement: to,
            table: RefCell::new(TxTable::new(options.limits())),
            ids: Lock::new(sim, ids),
            metrics: Cell::default(),
            progress: Signal::default(),
            aborted: Cell::default(),
            written: Cell::default(),
            flushed: Cell::default(),
            flushing: Semaphore::new(sim, 1),
            cache: RefCell::default(),
            loading: RefCell::default(),
            limit: Cell::new(options.cache_blocks),
            options,
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut Metrics)) {
        let mut metrics = self.metrics.get();
        change(&mut metrics);
        self.metrics.set(metrics);
    }

    pub(crate) const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.options.origin,
            purpose,
        }
    }

    /// The buffer of `block`, if it is in memory.
    pub(crate) fn cached(&self, block: u64) -> Option<Rc<Buffer>> {
        self.cache.borrow().get(block).map(Rc::clone)
    }

    //= bytefs 4.5
    pub(crate) async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        loop {
            if let Some(buffer) = self.cached(block) {
                return Ok(buffer);
            }
            let loading = self.loading.borrow().get(&block).map(Rc::clone);
            match loading {
                Some(signal) => signal.wait(&self.sim).await,
                None => self.load(block, purpose).await?,
            }
        }
    }

    async fn load(&self, block: u64, purpose: Purpose) -> Result<()> {
        if block >= self.port.capacity().0 / BLOCK as u64 {
            return Err(Errno::EIO);
        }
        let signal = Rc::new(Signal::default());
        let kept = Rc::clone(&signal);
        self.loading.borrow_mut().insert(block, kept);
        let mut bytes = Box::new([0; BLOCK]);
        let mut sink = bytes.as_mut_slice();
        let who = self.who(purpose);
        let read = self.port.read(extent(block, 1), &mut sink, who).await;
        signal.notify(&self.sim);
        let mut loading = self.loading.borrow_mut();
        if !loading.get(&block).is_some_and(|s| Rc::ptr_eq(s, &signal)) {
            return Ok(());
        }
        loading.remove(&block);
        read.map_err(failed)?;
        self.keep(Rc::new(Buffer::new(block, purpose, bytes)));
        Ok(())
    }

    fn keep(&self, buffer: Rc<Buffer>) {
        let mut cache = self.cache.borrow_mut();
        cache.insert(buffer);
        if cache.len() > self.limit.get() {
            // What has lines that did not commit is held by the table.
            cache.shrink(self.options.cache_blocks, |_| true);
            // What cannot be let go now is not looked at again at once.
            self.limit
                .set(cache.len() + self.options.cache_blocks / 8 + 1);
        }
    }

    /// A buffer of `block`, all zeros.
    pub(crate) fn blank(&self, block: u64, purpose: Purpose) -> Rc<Buffer> {
        if let Some(signal) = self.loading.borrow_mut().remove(&block) {
            signal.notify(&self.sim);
        }
        let buffer = self.cached(block).unwrap_or_else(|| {
            let buffer = Rc::new(Buffer::new(block, purpose, Box::new([0; BLOCK])));
            self.keep(Rc::clone(&buffer));
            buffer
        });
        buffer.bytes_mut().fill(0);
        buffer.purpose.set(purpose);
        buffer.checked.set(true);
        buffer
    }

    /// Lets go of `block`, whatever it holds.
    pub(crate) fn drop_block(&self, block: u64) {
        self.cache.borrow_mut().remove(block);
    }

    /// A flush that covers all block writes that have ended; those who want the
    /// same share it.
    pub(crate) async fn flush(&self) -> Result<()> {
        let wanted = self.written.get();
        if self.flushed.get() >= wanted {
            return Ok(());
        }
        let _turn = self.flushing.acquire(1).await;
        if self.flushed.get() >= wanted {
            return Ok(());
        }
        let covered = self.written.get();
        self.count(|m| m.flushes += 1);
        self.port.flush().await.map_err(failed)?;
        self.flushed.set(covered);
        Ok(())
    }

    /// Nothing can be changed any more.
    pub(crate) fn abort(&self) {
        self.aborted.set(true);
        self.progress.notify(&self.sim);
    }
}

/// What a program learns of a failed command.
pub(crate) fn failed(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}
