//! What all parts of a mounted strategy share.

use super::config::LineOptions;
use super::durable::Durable;
use super::journal::DataJournal;
use super::medium::{Medium, failed};
use super::table::{Limits, TxTable};
use host::BytePort;
use sim::{Semaphore, Signal, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::Result;

/// Most blocks of one command: 1 MiB, as Linux sends it to a drive without a limit.
pub(super) const COMMAND_BLOCKS: usize = 256;

pub(super) struct Core<P, D> {
    pub(super) sim: Sim,
    pub(super) medium: Medium<P>,
    pub(super) durable: D,
    /// The journal of blocks that the file system has, if it has one.
    pub(super) journal: Option<DataJournal>,
    pub(super) options: LineOptions,
    pub(super) table: RefCell<TxTable>,
    /// A transaction has been closed or has committed, or contents have landed.
    pub(super) progress: Rc<Signal>,
    /// Something failed that nobody can go on from.
    pub(super) aborted: Cell<bool>,
    /// Block writes of contents that have ended, and how many of them a flush has
    /// made durable.
    pub(super) written: Cell<u64>,
    flushed: Cell<u64>,
    /// Held by who flushes.
    flushing: Semaphore,
}

impl<P: BytePort, D: Durable<P>> Core<P, D> {
    pub(super) fn new(
        sim: &Sim,
        port: P,
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
            aborted: Cell::default(),
            written: Cell::default(),
            flushed: Cell::default(),
            flushing: Semaphore::new(sim, 1),
            options,
        }
    }

    /// A flush that covers all block writes that have ended; those who want the
    /// same share it.
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

    /// Nothing can be changed any more.
    pub(super) fn abort(&self) {
        self.aborted.set(true);
        self.progress.notify(&self.sim);
    }
}
