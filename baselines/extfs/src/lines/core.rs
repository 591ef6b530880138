//! State shared by all parts of a mounted strategy of cache lines.

use super::config::LineOptions;
use super::durable::Durable;
use super::journal::DataJournal;
use super::medium::{Medium, failed};
use super::table::{Limits, TxTable};
use host::{BlockPort, ByteDisk};
use sim::{Semaphore, Signal, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::Result;

/// Most blocks of one command: 1 MiB, as Linux sends it to a drive without a limit.
pub(super) const COMMAND_BLOCKS: usize = 256;

pub(super) struct Core<D> {
    pub(super) sim: Sim,
    pub(super) medium: Medium,
    pub(super) durable: D,
    /// The block journal of the file system, if it has one.
    pub(super) journal: Option<DataJournal>,
    pub(super) options: LineOptions,
    pub(super) table: RefCell<TxTable>,
    /// Fires when a transaction closed or committed, or a write of contents ended.
    pub(super) progress: Rc<Signal>,
    /// Whether a task waits for the age of deferred transactions.
    pub(super) timed: Cell<bool>,
    /// A commit or flush failed: the strategy is read-only.
    pub(super) aborted: Cell<bool>,
    /// Block writes of contents that have ended, and the count of them that a flush has
    /// made durable.
    pub(super) written: Cell<u64>,
    flushed: Cell<u64>,
    /// Held by the task that flushes.
    flushing: Semaphore,
}

impl<D: Durable> Core<D> {
    pub(super) fn new(
        sim: &Sim,
        port: ByteDisk,
        options: LineOptions,
        (durable, journal): (D, Option<DataJournal>),
    ) -> Self {
        let logging = journal.as_ref().filter(|journal| journal.in_use());
        let limits = Limits {
            lines: options.open_lines,
            handles: options.handles,
            keeps_old: D::UNDOES,
            copies: logging.map_or(usize::MAX, DataJournal::largest),
        };
        let progress = Rc::new(Signal::default());
        Self {
            sim: sim.clone(),
            medium: Medium::new(sim, port, options, Rc::clone(&progress)),
            durable,
            journal,
            table: RefCell::new(TxTable::new(limits)),
            progress,
            timed: Cell::default(),
            aborted: Cell::default(),
            written: Cell::default(),
            flushed: Cell::default(),
            flushing: Semaphore::new(sim, 1),
            options,
        }
    }

    /// Flushes unless all ended block writes are durable; concurrent calls share a flush
    /// that covers them.
    pub(super) async fn flush(&self) -> Result<()> {
        let wanted = self.written.get();
        if self.flushed.get() >= wanted {
            return Ok(());
        }
        let _turn = self.flushing.acquire(1).await;
        if self.flushed.get() >= wanted {
            return Ok(());
        }
        let covered = self.written.get();
        self.medium.count(|m| m.flushes += 1);
        self.medium.port.flush().await.map_err(failed)?;
        self.flushed.set(covered);
        Ok(())
    }

    /// Makes the strategy read-only and wakes all waiters.
    pub(super) fn abort(&self) {
        self.aborted.set(true);
        self.progress.notify(&self.sim);
    }
}
