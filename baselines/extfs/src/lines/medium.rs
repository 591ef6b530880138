//! The drive's port, and the cache of metadata blocks.
//!
//! Invariants: a block is in memory at most once, and stays there while it is referenced or lines
//! of it are not durable. A read of a block that is being loaded waits for that load. The result
//! of a load is dropped if a new block of the same number was created meanwhile.

use super::config::LineOptions;
use super::metrics::Metrics;
use super::snapshot::Piece;
use crate::buffer::{BLOCK, Buffer, Cache};
use host::{BlockPort, ByteDisk, BytePort, Disk, Purpose, Who};
use sim::{Signal, Sim};
use ssd::{ByteError, Content, IoError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use units::{Extent, SECTOR};
use vfs::{Errno, Result};

/// Host sectors of a block.
pub(super) const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// Sectors of `blocks` blocks from block `start` on.
pub(super) fn extent(start: u64, blocks: usize) -> Extent {
    Extent::new(start * SECTORS, (blocks as u64 * SECTORS) as u32)
}

/// Error number of a failed block command: `EROFS` for a read-only drive, else `EIO`.
pub(super) fn failed(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

/// Error number of a failed access by bytes: `EROFS` for a read-only drive, else `EIO`.
#[must_use]
pub fn broken(error: ByteError) -> Errno {
    match error {
        ByteError::Io(error) => failed(error),
        _ => Errno::EIO,
    }
}

/// Completion state of a group of stores; one task waits until all have ended.
#[derive(Default)]
struct Batch {
    /// Number of stores that have not ended.
    left: Cell<usize>,
    failure: Cell<Option<ByteError>>,
}

/// A pending store of adjacent lines.
struct Store {
    batch: Rc<Batch>,
    at: u64,
    bytes: Box<[u8]>,
    id: u32,
    who: Who,
}

impl Store {
    fn new(batch: &Rc<Batch>, (at, bytes): (u64, &[u8]), (id, who): (u32, Who)) -> Self {
        batch.left.set(batch.left.get() + 1);
        Self {
            batch: Rc::clone(batch),
            at,
            bytes: bytes.into(),
            id,
            who,
        }
    }
}

/// Queue of stores that have not begun, the oldest first.
#[derive(Default)]
struct Offered(RefCell<VecDeque<Store>>);

impl Offered {
    fn push(&self, store: Store) {
        self.0.borrow_mut().push_back(store);
    }

    fn pop(&self) -> Option<Store> {
        self.0.borrow_mut().pop_front()
    }
}

/// The drive's port with the cache of metadata blocks.
pub struct Medium {
    pub(super) sim: Sim,
    pub(super) port: ByteDisk,
    /// The blocks of `port`.
    pub(super) blocks: Disk,
    pub(super) options: LineOptions,
    metrics: Cell<Metrics>,
    cache: RefCell<Cache>,
    loading: RefCell<BTreeMap<u64, Rc<Signal>>>,
    /// Number of cached blocks above which clean ones are evicted.
    limit: Cell<usize>,
    /// Stores that any waiting task may execute.
    offered: Offered,
    /// Notified when stores are offered, and when the last one of a batch has ended.
    progress: Rc<Signal>,
}

impl Medium {
    pub(super) fn new(
        sim: &Sim,
        port: ByteDisk,
        options: LineOptions,
        progress: Rc<Signal>,
    ) -> Self {
        Self {
            sim: sim.clone(),
            blocks: port.blocks(),
            port,
            metrics: Cell::default(),
            cache: RefCell::default(),
            loading: RefCell::default(),
            limit: Cell::new(options.cache_blocks),
            offered: Offered::default(),
            progress,
            options,
        }
    }

    /// Port of the drive that holds the file system.
    pub const fn port(&self) -> &ByteDisk {
        &self.port
    }

    /// Counters of this medium since the mount.
    pub(super) const fn metrics(&self) -> Metrics {
        self.metrics.get()
    }

    /// Applies `change` to the counters.
    pub fn count(&self, change: impl FnOnce(&mut Metrics)) {
        let mut metrics = self.metrics.get();
        change(&mut metrics);
        self.metrics.set(metrics);
    }

    /// Label of requests for metadata of `purpose`: the origin of the mount's options.
    pub const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.options.origin,
            purpose,
        }
    }

    /// The cached buffer of `block`; `None` if the block is not in memory.
    pub fn cached(&self, block: u64) -> Option<Rc<Buffer>> {
        self.cache.borrow().get(block).map(Rc::clone)
    }

    //= bytefs 4.5
    pub(super) async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
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
        let read = if self.options.in_place {
            let at = block * BLOCK as u64;
            let loaded = self.port.load(at, sink, who).await;
            loaded.map_err(broken)
        } else {
            let read = self.port.read(extent(block, 1), &mut sink, who).await;
            read.map_err(failed)
        };
        signal.notify(&self.sim);
        let mut loading = self.loading.borrow_mut();
        if !loading.get(&block).is_some_and(|s| Rc::ptr_eq(s, &signal)) {
            return Ok(());
        }
        loading.remove(&block);
        read?;
        self.keep(Rc::new(Buffer::new(block, purpose, bytes)));
        Ok(())
    }

    fn keep(&self, buffer: Rc<Buffer>) {
        let mut cache = self.cache.borrow_mut();
        cache.insert(buffer);
        if cache.len() > self.limit.get() {
            // The transaction table holds references to blocks with uncommitted lines.
            cache.shrink(self.options.cache_blocks, |_| true);
            // Headroom, so that blocks that cannot be evicted are not scanned again at once.
            self.limit
                .set(cache.len() + self.options.cache_blocks / 8 + 1);
        }
    }

    /// Buffer of a new `block`, all zeros; supersedes a load of the block in progress.
    pub(super) fn blank(&self, block: u64, purpose: Purpose) -> Rc<Buffer> {
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

    /// Removes `block` from the cache, dirty or not.
    pub(super) fn drop_block(&self, block: u64) {
        self.cache.borrow_mut().remove(block);
    }

    /// Writes a block of metadata with FUA: it is durable when this returns.
    pub(super) async fn write_block(&self, piece: &Piece) -> Result<()> {
        let who = piece.booked.who(self.options.origin);
        let content = Content::Bytes(piece.block_bytes());
        let (extent, to) = (extent(piece.block, 1), self.options.placement);
        let written = self.port.write(extent, content, to, who, true);
        written.await.map_err(failed)
    }

    /// Stores the lines of `piece` in transaction `id` of the firmware; 0 stands for none.
    ///
    /// # Errors
    /// Of [`BytePort::store`].
    pub async fn store(&self, piece: &Piece, id: u32) -> std::result::Result<(), ByteError> {
        let who = piece.booked.who(self.options.origin);
        for (at, bytes) in piece.stores() {
            self.port.store(at, bytes, id, who).await?;
        }
        self.count_stores(piece);
        Ok(())
    }

    fn count_stores(&self, piece: &Piece) {
        let stores = piece.stores().count() as u64;
        self.count(|m| {
            m.stores += stores;
            if piece.is_metadata() {
                m.metadata_lines += piece.lines();
            } else {
                m.data_lines += piece.lines();
            }
        });
    }

    /// Stores the lines of all `pieces` for transaction `id`, in any order. Tasks that wait for a
    /// transaction help with it, so the cost of a transaction with lines of many calls
    /// is spread over the cores of these calls.
    ///
    /// # Errors
    /// Of [`BytePort::store`].
    pub async fn store_all(
        &self,
        pieces: &[&Piece],
        id: u32,
    ) -> std::result::Result<(), ByteError> {
        let batch = Rc::new(Batch::default());
        for piece in pieces {
            let who = piece.booked.who(self.options.origin);
            for (at, bytes) in piece.stores() {
                self.offered
                    .push(Store::new(&batch, (at, bytes), (id, who)));
            }
            self.count_stores(piece);
        }
        self.progress.notify(&self.sim);
        while self.help().await {}
        while batch.left.get() > 0 {
            self.progress.wait(&self.sim).await;
        }
        batch.failure.get().map_or(Ok(()), Err)
    }

    /// Executes the oldest offered store; returns false if there is none.
    pub(super) async fn help(&self) -> bool {
        let Some(store) = self.offered.pop() else {
            return false;
        };
        let Store {
            batch,
            at,
            bytes,
            id,
            who,
        } = store;
        let stored = self.port.store(at, &bytes, id, who).await;
        let failure = batch.failure.get().or(stored.err());
        batch.failure.set(failure);
        batch.left.set(batch.left.get() - 1);
        if batch.left.get() == 0 {
            self.progress.notify(&self.sim);
        }
        true
    }

    /// Makes all completed stores durable.
    ///
    /// # Errors
    /// `EIO`; `EROFS` if the drive has become read-only.
    //= bytefs 4.2
    pub async fn verify(&self) -> Result<()> {
        self.count(|m| m.verifies += 1);
        self.port.verify().await.map_err(broken)
    }
}
