//! The block journal of ext4, in the format and with the behaviour of Linux' jbd2.
//!
//! A change of metadata goes to a log as a copy of its whole block; transactions of many changes
//! commit together; copies go home later. The log is that of Linux to the byte, so e2fsck and the
//! kernel replay what is written here, and what they wrote is replayed here.
//!
//! # The life of a block
//!
//! A block changed by a handle joins the **running** transaction. A commit (requested
//! by a force, by the timer, or by size) closes that transaction and copies its
//! blocks; the transaction is **committing** while the copies go to the log, and the
//! next transaction runs. Once committed, the block awaits its **checkpoint**: it is
//! written home when the log needs room or when the block has been dirty for long.
//!
//! # Invariants
//!
//! - A transaction is durable at the end of the write of its commit block, and
//!   every transaction before it is.
//! - A flush precedes each commit block and follows all writes of its transaction:
//!   copies, revoke blocks, and file contents in ordered mode.
//! - Nothing goes home before its transaction is durable, and the tail of the log
//!   moves past a transaction only when a flush has followed its last home write.
//! - A metadata block that is freed is named in a revoke block, so that a replay does
//!   not overwrite its next contents; the block is reused only once the revoke block
//!   is durable.
//! - After an error of the medium nothing commits any more: the file system is
//!   read-only, and both superblocks record the error. A failed write of file contents
//!   does not count: as with `data_err=ignore`, the default of ext4, the
//!   transaction that maps them commits, and the next force of the file reports it.
//! - Tasks exist while there is something to commit, to time or to flush, so a
//!   simulation comes to rest.
//!
//! Futures of this strategy must run to completion; a future dropped halfway leaves
//! other tasks waiting.
//!
//! # Differences from Linux
//!
//! - Copies are taken when a transaction is closed, where Linux takes them only of
//!   blocks that change during the commit; so no handle waits for a block in flight
//!   to the log.
//! - One round of checkpointing writes home as many of the oldest transactions as the
//!   log needs room for, with one flush, where Linux takes them one by one.
//! - The flusher goes by age alone, not by the amount of dirty memory.
//! - With `data=journal`, contents that do not fit their transaction are written
//!   around the log before it commits. So freed blocks whose contents the log
//!   holds are revoked, which Linux can leave out.
//! - A log with fast commits or asynchronous commits is recovered by e2fsck, not
//!   here: [`Jbd2::open`] rejects it unless it is clean. The checksum over a whole
//!   transaction, a part of asynchronous commits, is ignored.

mod area;
mod cache;
mod checkpoint;
mod commit;
mod config;
mod data;
mod force;
mod format;
mod handles;
mod log;
mod recover;
mod scan;
mod transaction;

pub(crate) use area::{Area, Place, Seal, write_durably};
pub use config::{JournalConfig, JournalError, Mode};
pub use recover::{Inspected, InspectedCopy, Inspection, Recovery, inspect};
pub use transaction::Handle;

use crate::buffer::{BLOCK, Buffer};
use crate::persist::{DataWrite, Persist, Run, TxId};
use cache::{Cache, Slot};
use force::Flushes;
use format::Form;
pub(crate) use format::Superblock;
use host::{BlockPort, Disk, Purpose, Who};
pub(crate) use log::{Map, Piece as LogPiece, write_pieces};
use log::{Span, extent};
use nand::{Payload, UNIT};
use recover::Recover;
use sim::{Boxed, Lock, Semaphore, Signal, Sim};
use ssd::{Content, IoError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use transaction::{Checkpoint, Transaction};
use units::{Extent, Ns, Placement};
use vfs::{Errno, Result};

/// Fewest blocks of a log that transactions use. Linux asks for 1,024 in all; a
/// smaller one is for tests.
const SMALLEST: u32 = 31;

/// Counters of a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions whose commit block is durable.
    pub commits: u64,
    /// Flush commands sent to the medium, failed ones included.
    pub flushes: u64,
    /// Blocks in memory at the time of the call.
    pub cached: usize,
}

struct State {
    span: Span,
    /// Whether the superblock on the medium marks the log as in use.
    in_use: bool,
    next: u64,
    running: Option<Rc<Transaction>>,
    /// The committing transaction, and its first block in the log.
    committing: Option<(Rc<Transaction>, u32)>,
    committed: u64,
    /// The last transaction whose commit was requested.
    requested: u64,
    checkpoints: BTreeMap<u64, Checkpoint>,
    freed: Vec<Run>,
    /// Blocks of file contents in the log, each with the last transaction that logged it.
    data: BTreeMap<u64, u64>,
    /// The last transaction that logged file contents.
    data_upto: u64,
    dirty_since: Option<Ns>,
    flushes: Flushes,
    counts: Counts,
    aborted: bool,
    committer: bool,
    timer: bool,
    flusher: bool,
}

struct Core {
    sim: Sim,
    port: Disk,
    config: JournalConfig,
    map: Map,
    form: Form,
    blocks: u64,
    state: RefCell<State>,
    cache: RefCell<Cache>,
    superblock: Lock<Superblock>,
    /// Held by the task that checkpoints.
    checkpointing: Semaphore,
    /// Fires when a transaction was closed: the next one may run.
    switched: Signal,
    /// Fires when a handle was closed or a write of file contents ended.
    settled: Signal,
    committed: Signal,
    homed: Signal,
    flushed: Signal,
}

/// The block journal over a port.
pub struct Jbd2 {
    core: Rc<Core>,
}

impl Clone for Jbd2 {
    fn clone(&self) -> Self {
        Self {
            core: Rc::clone(&self.core),
        }
    }
}

/// The first block of a new journal of `blocks` blocks. The other blocks may hold
/// any bytes except an older log.
#[must_use]
pub fn format(blocks: u32, uuid: [u8; 16]) -> Box<[u8; BLOCK]> {
    Superblock::new(blocks, uuid).encode()
}

impl Jbd2 {
    /// Recovers the journal and opens it.
    ///
    /// # Errors
    /// If there is no journal, if it is damaged or of an unknown kind, or if the medium fails.
    /// Nothing is written then, except for part of a replay during which the medium failed.
    pub fn open(
        sim: &Sim,
        port: &impl BlockPort,
        config: JournalConfig,
    ) -> Boxed<'static, std::result::Result<(Self, Recovery), JournalError>> {
        Self::boxed(sim.clone(), Disk::from(port), config)
    }

    fn boxed(
        sim: Sim,
        port: Disk,
        config: JournalConfig,
    ) -> Boxed<'static, std::result::Result<(Self, Recovery), JournalError>> {
        Box::pin(async move { Self::on(&sim, port, config).await })
    }

    async fn on(
        sim: &Sim,
        port: Disk,
        config: JournalConfig,
    ) -> std::result::Result<(Self, Recovery), JournalError> {
        let blocks = port.capacity().0 / UNIT as u64;
        let map = Map::new(&config.runs, blocks)?;
        let who = Who {
            origin: config.origin,
            purpose: Purpose::Journal,
        };
        let recover = Recover {
            port: &port,
            map: &map,
            blocks,
            journal: (config.journal_placement, who),
            metadata: config.metadata_placement,
        };
        let (superblock, report) = recover.run().await?;
        if superblock.end() - superblock.first < SMALLEST {
            return Err(JournalError::Shape);
        }
        let core = Core::new(sim, port, config, map, superblock);
        let core = Rc::new(core);
        Ok((Self { core }, report))
    }

    /// Durably clears the error recorded in the superblock of the journal.
    ///
    /// # Errors
    /// `EIO` if the write of that superblock fails.
    pub async fn clear_errno(&self) -> Result<()> {
        let mut superblock = self.core.superblock.lock().await;
        superblock.errno = 0;
        let written = self.core.write_superblock(&superblock, true).await;
        written.map_err(data::failed)
    }

    /// Whether an error of the medium has ended the journal.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.core.is_aborted()
    }

    /// Counters since [`Self::open`], and the blocks in memory now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            cached: self.core.cache.borrow().len(),
            ..self.core.state.borrow().counts
        }
    }
}

impl State {
    fn new(superblock: &Superblock) -> Self {
        let next = match superblock.sequence {
            0 => 1 << 32,
            sequence => u64::from(sequence),
        };
        Self {
            span: Span {
                first: superblock.first,
                end: superblock.end(),
                head: superblock.first,
                tail: superblock.first,
                tail_id: next,
            },
            in_use: false,
            next,
            running: None,
            committing: None,
            committed: next - 1,
            requested: 0,
            checkpoints: BTreeMap::new(),
            freed: Vec::new(),
            data: BTreeMap::new(),
            data_upto: 0,
            dirty_since: None,
            flushes: Flushes::default(),
            counts: Counts::default(),
            aborted: false,
            committer: false,
            timer: false,
            flusher: false,
        }
    }
}

impl Core {
    fn new(sim: &Sim, port: Disk, config: JournalConfig, map: Map, superblock: Superblock) -> Self {
        Self {
            sim: sim.clone(),
            blocks: port.capacity().0 / UNIT as u64,
            port,
            map,
            form: Form::ours(&superblock.uuid),
            state: RefCell::new(State::new(&superblock)),
            cache: RefCell::new(Cache::new(config.cache_blocks)),
            superblock: Lock::new(sim, superblock),
            checkpointing: Semaphore::new(sim, 1),
            switched: Signal::default(),
            settled: Signal::default(),
            committed: Signal::default(),
            homed: Signal::default(),
            flushed: Signal::default(),
            config,
        }
    }

    fn is_aborted(&self) -> bool {
        self.state.borrow().aborted
    }

    fn who(&self, purpose: Purpose) -> Who {
        Who {
            origin: self.config.origin,
            purpose,
        }
    }

    fn journal_who(&self) -> Who {
        self.who(Purpose::Journal)
    }

    async fn write_superblock(
        &self,
        superblock: &Superblock,
        fua: bool,
    ) -> std::result::Result<(), IoError> {
        let block = log::payload(&superblock.encode());
        let extent = extent(self.map.home(0).0, 1);
        let placement = self.config.journal_placement;
        let copies = [block];
        let content = Content::Sectors(&copies);
        let who = self.journal_who();
        self.port.write(extent, content, placement, who, fua).await
    }

    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        loop {
            let signal = match self.cache.borrow_mut().get(block) {
                Some(Slot::Ready(entry)) => return Ok(entry.buffer(purpose)),
                Some(Slot::Loading(signal)) => Some(Rc::clone(signal)),
                None => None,
            };
            let Some(signal) = signal else {
                return self.load(block, purpose).await;
            };
            signal.wait(&self.sim).await;
        }
    }

    async fn load(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        if block >= self.blocks {
            return Err(Errno::EIO);
        }
        let signal = self.cache.borrow_mut().load(block);
        let mut bytes = Box::new([0; BLOCK]);
        let mut sink = bytes.as_mut_slice();
        let read = self
            .port
            .read(extent(block, 1), &mut sink, self.who(purpose));
        let read = read.await;
        signal.notify(&self.sim);
        let mut cache = self.cache.borrow_mut();
        if read.is_err() {
            cache.give_up(block);
            return Err(Errno::EIO);
        }
        let entry = cache.loaded(Buffer::new(block, purpose, bytes));
        Ok(entry.buffer(purpose))
    }
}

impl Persist for Jbd2 {
    type Tx = Handle;

    async fn read(&self, block: u64, purpose: Purpose) -> Result<Rc<Buffer>> {
        self.core.read(block, purpose).await
    }

    fn create(&self, tx: &Handle, block: u64, purpose: Purpose) -> Rc<Buffer> {
        self.core.create(tx, block, purpose)
    }

    async fn begin(&self, blocks: usize) -> Result<Handle> {
        self.core.begin(blocks).await
    }

    fn extend(&self, tx: &mut Handle, blocks: usize) -> bool {
        self.core.extend(tx, blocks)
    }

    fn id(&self, tx: &Handle) -> TxId {
        TxId(tx.transaction.id)
    }

    fn newest(&self) -> TxId {
        TxId(self.core.newest())
    }

    fn write(&self, tx: &Handle, buffer: &Rc<Buffer>, at: usize, bytes: &[u8]) {
        self.core.write(tx, buffer, at, bytes);
    }

    fn forget(&self, tx: &Handle, block: u64) {
        self.core.forget(tx, block);
    }

    fn free(&self, tx: &Handle, run: Run) {
        self.core.free(tx, run);
    }

    fn freed(&self) -> Vec<Run> {
        std::mem::take(&mut self.core.state.borrow_mut().freed)
    }

    async fn end(&self, tx: Handle) -> Result<TxId> {
        Ok(TxId(self.core.end(&tx)))
    }

    async fn write_data(&self, tx: Option<Handle>, writes: &[DataWrite<'_>]) -> Result<TxId> {
        self.core.write_data(tx, writes).await.map(TxId)
    }

    async fn read_data(&self, start: u64, pages: &mut [Payload], who: Who) -> Result<()> {
        self.core.read_data(start, pages, who).await
    }

    async fn force(&self, upto: TxId) -> Result<()> {
        self.core.force(upto.0).await
    }

    async fn force_all(&self) -> Result<()> {
        self.core.sync().await
    }

    async fn discard(&self, run: Run) -> Result<()> {
        let mut start = run.start;
        let end = run.start.saturating_add(run.len);
        while start < end {
            let count = (end - start).min(u64::from(u32::MAX) / log::SECTORS);
            let extent = Extent::new(start * log::SECTORS, (count * log::SECTORS) as u32);
            let trimmed = self.core.port.trim(extent).await;
            trimmed.map_err(data::failed)?;
            start += count;
        }
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        self.core.is_aborted()
    }

    async fn shut_down(&self) -> Result<()> {
        self.core.shut_down().await
    }

    async fn read_direct(&self, start: u64, offset: u64, out: &mut [u8], who: Who) -> Result<()> {
        self.core.read_direct(start, offset, out, who).await
    }

    async fn write_direct(
        &self,
        start: u64,
        offset: u64,
        bytes: &[u8],
        placement: Placement,
        who: Who,
    ) -> Result<()> {
        let write = self
            .core
            .write_direct(start, offset, bytes, (placement, who));
        write.await
    }
}

#[cfg(test)]
mod tests;
