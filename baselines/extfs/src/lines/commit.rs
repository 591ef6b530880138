//! The path of a transaction of cache lines to the drive.
//!
//! A closed transaction commits in a task of its own, unless a new handle reopens it while it
//! waits. In order: its predecessors commit, and writes of contents that it waits for end; its
//! lines are copied, unless they were copied at the close; a flush makes earlier contents durable;
//! its new blocks are written; its lines become durable through [`Durable::persist`]. The caller
//! that closed it continues at once, and waits for the commit only when it holds no lock. With a
//! commit interval it does not wait: the closed transaction is deferred, and takes up later handles,
//! until a force, its age or its size makes it commit.
//!
//! Invariants: a line has at most one version on the drive that is not durable; after
//! a failure nothing becomes durable any more.

use super::core::Core;
use super::durable::Durable;
use super::journal::{CommitEntry, Copies};
use super::medium::broken;
use super::snapshot::Piece;
use super::table::{Closing, Next, Refusal, TxTable};
use crate::persist::Run;
use std::rc::Rc;
use units::Ns;
use vfs::{Errno, Result};

impl<D: Durable> Core<D> {
    /// Opens a handle for `blocks` blocks; waits for room. `ENOSPC` if no transaction can
    /// hold so many, `EROFS` after an abort.
    pub(super) async fn begin(self: &Rc<Self>, blocks: usize) -> Result<u64> {
        loop {
            if self.aborted.get() {
                return Err(Errno::EROFS);
            }
            let begun = self.meet(|table| table.begin(blocks));
            match begun {
                Ok(handle) => return Ok(handle),
                Err(Refusal::TooLarge) => return Err(Errno::ENOSPC),
                Err(Refusal::Wait) => {
                    self.commit_deferred(u64::MAX);
                    self.progress.wait(&self.sim).await;
                }
            }
        }
    }

    /// Closes `handle`. The last open handle of a transaction posts it for commit; a
    /// handle that reopens the transaction posts it again at its own close.
    pub(super) fn end(self: &Rc<Self>, handle: u64) {
        let closing = self.meet(|table| {
            table.queue_up(handle);
            table.end(handle, Vec::new())
        });
        if let Some(closing) = closing {
            self.close(closing);
        }
    }

    /// Commits a closed transaction: now, or later with a commit interval in the options.
    //= bytefs 4.8
    pub(super) fn close(self: &Rc<Self>, closing: Closing) {
        let Some(interval) = self.options.commit_interval else {
            return self.post(closing);
        };
        let now = self.table.borrow_mut().defer(closing);
        match now {
            Some(closing) => self.post(closing),
            None => self.start_timer(interval),
        }
    }

    /// Starts the task that commits deferred transactions after `interval`, unless it runs.
    fn start_timer(self: &Rc<Self>, interval: Ns) {
        if !self.timed.replace(true) {
            let core = Rc::clone(self);
            self.sim.spawn_detached(async move {
                core.sim.sleep(interval).await;
                core.timed.set(false);
                core.commit_deferred(u64::MAX);
            });
        }
    }

    /// Starts the commits of deferred transactions that have a handle up to `upto`.
    fn commit_deferred(self: &Rc<Self>, upto: u64) {
        let closings = self.table.borrow_mut().undefer(upto);
        for closing in closings {
            self.post(closing);
        }
    }

    /// Starts the commit task of a closed transaction.
    pub(super) fn post(self: &Rc<Self>, closing: Closing) {
        let core = Rc::clone(self);
        self.sim.spawn_detached(async move {
            // `settle`, `force` and `begin` report a failure by `aborted`.
            let _ = core.commit(closing).await;
        });
    }

    /// Waits until a closed handle is durable, if calls wait for that. `EIO` if the strategy aborts
    /// before.
    pub(super) async fn settle(&self, handle: u64) -> Result<()> {
        match self.options.commit_interval {
            Some(_) if self.aborted.get() => Err(Errno::EIO),
            Some(_) => Ok(()),
            None => self.wait_durable(handle).await,
        }
    }

    /// Waits until a closed handle is durable. `EIO` if the strategy aborts before.
    pub(super) async fn wait_durable(&self, handle: u64) -> Result<()> {
        let waits = !vfs::mutant::is("bytefs-call-returns-before-commit");
        while waits && !self.table.borrow_mut().is_durable(handle) {
            if self.aborted.get() {
                return Err(Errno::EIO);
            }
            if !self.medium.help().await {
                self.progress.wait(&self.sim).await;
            }
        }
        Ok(())
    }

    /// Commits a closed transaction, unless it is reopened or merged into another one.
    //= bytefs 4.3
    //= bytefs 4.7
    async fn commit(self: &Rc<Self>, mut closing: Closing) -> Result<()> {
        // Handles that wait for room may begin now, during this commit.
        self.progress.notify(&self.sim);
        let (pieces, copies) = loop {
            let next = self.table.borrow_mut().next(&mut closing);
            match next {
                Next::Leave => return Ok(()),
                Next::Wait if !self.aborted.get() => self.progress.wait(&self.sim).await,
                Next::Wait => break (Vec::new(), Copies::new()),
                Next::Store(pieces, copies) => break (pieces, copies),
            }
        };
        // The transaction accepts no more handles: those that waited for that may begin.
        self.progress.notify(&self.sim);
        let brought = self.bring(&pieces, copies).await;
        let durable = brought.is_ok();
        self.table.borrow_mut().done(closing.number, durable);
        match brought {
            Ok(()) => self.progress.notify(&self.sim),
            Err(_) => self.abort(),
        }
        brought
    }

    async fn bring(self: &Rc<Self>, pieces: &[Piece], copies: Copies) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EIO);
        }
        if let Some(journal) = self.journal().filter(|_| !copies.is_empty()) {
            let (entry, copies) = self.write_record(journal, copies).await?;
            self.flush().await?;
            self.medium.count(|m| m.transactions += 1);
            self.store_pieces(pieces, Some(&entry)).await?;
            self.committed(journal, &entry, copies);
            return Ok(());
        }
        if pieces.is_empty() {
            return Ok(());
        }
        // The flush also covers contents written outside of transactions: a size may grow
        // over them.
        //= bytefs 4.6
        //= bytefs 4.8
        if pieces.iter().any(Piece::is_metadata) {
            self.flush().await?;
        }
        self.medium.count(|m| m.transactions += 1);
        if let [piece] = pieces
            && piece.is_whole_superblock()
        {
            self.medium.count(|m| m.superblocks += 1);
            return self.medium.write_block(piece).await;
        }
        self.store_pieces(pieces, None).await
    }

    /// Applies `change` to the table. If `change` reopened a transaction, wakes its commit
    /// task and its waiters, so that no task waits for a handle while it holds a resource
    /// that the handle needs.
    pub(super) fn meet<T>(&self, change: impl FnOnce(&mut TxTable) -> T) -> T {
        let mut table = self.table.borrow_mut();
        let before = table.counts().reopened;
        let changed = change(&mut table);
        if table.counts().reopened != before {
            self.progress.notify(&self.sim);
        }
        changed
    }

    pub(super) async fn wait_committed(&self, number: u64) {
        while self.table.borrow().is_pending(number) {
            self.progress.wait(&self.sim).await;
        }
    }

    /// Whether a new block is written by the block interface, before any line maps it.
    fn goes_by_block(&self, piece: &Piece) -> bool {
        piece.new && piece.is_whole() && piece.lines() >= u64::from(self.options.byte_lines)
    }

    async fn store_pieces(&self, pieces: &[Piece], entry: Option<&CommitEntry>) -> Result<()> {
        let by_block = |piece: &&Piece| self.goes_by_block(piece);
        let writes = pieces.iter().filter(by_block).map(|piece| {
            self.medium.count(|m| m.new_blocks += 1);
            self.medium.write_block(piece)
        });
        let written = sim::join_all(writes.collect()).await;
        written.into_iter().collect::<Result<()>>()?;
        let by_bytes = pieces.iter().filter(|piece| !self.goes_by_block(piece));
        let by_bytes: Vec<&Piece> = by_bytes.collect();
        let lines = by_bytes.iter().map(|piece| piece.lines()).sum::<u64>();
        match (lines, entry) {
            (0, None) => Ok(()),
            (1, None) => self.store_line(by_bytes[0]).await,
            _ => self.durable.persist(&self.medium, &by_bytes, entry).await,
        }
    }

    /// Stores the only line of a transaction: atomic without a TxID.
    //= bytefs 4.4
    async fn store_line(&self, piece: &Piece) -> Result<()> {
        self.medium.count(|m| m.single_lines += 1);
        self.medium.store(piece, 0).await.map_err(broken)?;
        if vfs::mutant::is("bytefs-line-not-verified") {
            return Ok(());
        }
        self.medium.verify().await
    }

    /// Waits until every handle up to `upto` is durable, and all contents written until
    /// now. `EIO` if that fails, `EROFS` if the strategy aborted before.
    pub(super) async fn force(self: &Rc<Self>, upto: u64) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EROFS);
        }
        let upto = self
            .journal()
            .map_or(upto, |journal| upto.max(journal.upto()));
        let upto = upto.min(self.table.borrow().newest());
        while self.table.borrow_mut().want(upto) && !self.aborted.get() {
            self.commit_deferred(upto);
            self.progress.wait(&self.sim).await;
        }
        if self.aborted.get() {
            return Err(Errno::EIO);
        }
        let flushed = self.flush().await;
        if flushed.is_err() {
            self.abort();
        }
        flushed
    }

    /// Waits for the commit of copied transactions with lines of `run`, so that the next
    /// write there is newer than their lines.
    pub(super) async fn wait_for_lines(&self, run: Run) {
        let before = self.table.borrow().copied_on(run);
        for number in before {
            self.wait_committed(number).await;
        }
    }
}
