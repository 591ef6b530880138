//! The drive, and blocks of its metadata in memory.
//!
//! Invariants: a block is in memory at most once, and stays there while somebody
//! holds it or lines of it are not durable; who asks for one that is being read
//! waits for that read; a read that a new block of the same number has overtaken
//! counts for nothing.

use super::config::LineOptions;
use super::metrics::Metrics;
use super::snapshot::Piece;
use crate::buffer::{BLOCK, Buffer, Cache};
use host::{BytePort, Purpose, Who};
use sim::{Signal, Sim};
use ssd::{ByteError, Content, IoError};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use units::{Extent, SECTOR};
use vfs::{Errno, Result};

/// Host sectors of a block.
pub(super) const SECTORS: u64 = BLOCK as u64 / SECTOR;

/// The sectors of blocks.
pub(super) fn extent(start: u64, blocks: usize) -> Extent {
    Extent::new(start * SECTORS, (blocks as u64 * SECTORS) as u32)
}

/// What a program learns of a failed command.
pub(super) fn failed(error: IoError) -> Errno {
    match error {
        IoError::ReadOnly => Errno::EROFS,
        _ => Errno::EIO,
    }
}

/// What a program learns of a failed access by bytes.
#[must_use]
pub fn broken(error: ByteError) -> Errno {
    match error {
        ByteError::Io(error) => failed(error),
        _ => Errno::EIO,
    }
}

/// Stores of which one task waits for all.
#[derive(Default)]
struct Batch {
    /// That have not ended.
    left: Cell<usize>,
    failure: Cell<Option<ByteError>>,
}

/// Adjacent lines that are to be stored.
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

/// Stores that have not begun, the oldest first.
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

/// The drive, and blocks of its metadata in memory.
pub struct Medium<P> {
    pub(super) sim: Sim,
    pub(super) port: P,
    pub(super) options: LineOptions,
    metrics: Cell<Metrics>,
    cache: RefCell<Cache>,
    loading: RefCell<BTreeMap<u64, Rc<Signal>>>,
    /// Blocks in memory before clean ones are looked for again.
    limit: Cell<usize>,
    /// Lines that anybody may store.
    offered: Offered,
    /// There are such, or some were stored.
    progress: Rc<Signal>,
}

impl<P: BytePort> Medium<P> {
    pub(super) fn new(sim: &Sim, port: P, options: LineOptions, progress: Rc<Signal>) -> Self {
        Self {
            sim: sim.clone(),
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

    /// The port.
    pub const fn port(&self) -> &P {
        &self.port
    }

    /// What was counted.
    pub(super) const fn metrics(&self) -> Metrics {
        self.metrics.get()
    }

    /// Counts something.
    pub fn count(&self, change: impl FnOnce(&mut Metrics)) {
        let mut metrics = self.metrics.get();
        change(&mut metrics);
        self.metrics.set(metrics);
    }

    /// Who metadata for `purpose` are booked under.
    pub const fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.options.origin,
            purpose,
        }
    }

    /// The buffer of `block`, if it is in memory.
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
            // What has lines that did not commit is held by the table.
            cache.shrink(self.options.cache_blocks, |_| true);
            // What cannot be let go now is not looked at again at once.
            self.limit
                .set(cache.len() + self.options.cache_blocks / 8 + 1);
        }
    }

    /// A buffer of `block`, all zeros.
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

    /// Lets go of `block`, whatever it holds.
    pub(super) fn drop_block(&self, block: u64) {
        self.cache.borrow_mut().remove(block);
    }

    /// A block of metadata, durable when this ends.
    pub(super) async fn write_block(&self, piece: &Piece) -> Result<()> {
        let who = piece.booked.who(self.options.origin);
        let content = Content::Bytes(piece.block_bytes());
        let (extent, to) = (extent(piece.block, 1), self.options.placement);
        let written = self.port.write(extent, content, to, who, true);
        written.await.map_err(failed)
    }

    /// Stores the lines of `piece` for transaction `id`; 0 is none.
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

    /// Stores the lines of all `pieces` for transaction `id`, in no order, together with
    /// those who wait for a transaction meanwhile: so each call pays for lines on its own
    /// core, also where one transaction has those of many.
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

    /// Stores some of the lines that are offered, if there are any.
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

    /// Makes all that was stored durable.
    ///
    /// # Errors
    /// `EIO`; `EROFS` if nothing can be written any more.
    //= bytefs 4.2
    pub async fn verify(&self) -> Result<()> {
        self.count(|m| m.verifies += 1);
        self.port.verify().await.map_err(broken)
    }
}
