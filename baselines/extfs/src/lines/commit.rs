//! The path of a transaction to the drive.
//!
//! A transaction that is closed is brought there by a task of its own, unless somebody
//! opens it again while it waits: those that it follows commit first, and contents that
//! it waits for land; its lines are copied, if that was not done as it was closed;
//! contents that were written before are made durable; its new blocks are written; its
//! lines become durable, as the member of the family does it. Who closed it goes on at
//! once, and waits for it when nothing is locked any more.
//!
//! Invariants: of a line there is at most one version on the drive that is not
//! durable; after a failure nothing becomes durable any more.

use super::core::Core;
use super::durable::Durable;
use super::journal::{CommitEntry, Copies};
use super::medium::broken;
use super::snapshot::Piece;
use super::table::{Closing, Next, Refusal, TxTable};
use crate::persist::Run;
use host::BytePort;
use std::rc::Rc;
use vfs::{Errno, Result};

impl<P: BytePort, D: Durable<P>> Core<P, D> {
    /// Opens a handle.
    pub(super) async fn begin(&self, blocks: usize) -> Result<u64> {
        loop {
            if self.aborted.get() {
                return Err(Errno::EROFS);
            }
            let begun = self.meet(|table| table.begin(blocks));
            match begun {
                Ok(handle) => return Ok(handle),
                Err(Refusal::TooLarge) => return Err(Errno::ENOSPC),
                Err(Refusal::Wait) => self.progress.wait(&self.sim).await,
            }
        }
    }

    /// Closes a handle. With the last one of its transaction that sets out for the
    /// drive; whoever opens it again sends it off again.
    pub(super) fn end(self: &Rc<Self>, handle: u64) {
        let closing = self.meet(|table| {
            table.queue_up(handle);
            table.end(handle, Vec::new())
        });
        if let Some(closing) = closing {
            self.post(closing);
        }
    }

    /// Sends a closed transaction off.
    pub(super) fn post(self: &Rc<Self>, closing: Closing) {
        let core = Rc::clone(self);
        self.sim.spawn_detached(async move {
            // Those who wait for it, and all who come later, are told of a failure.
            let _ = core.commit(closing).await;
        });
    }

    /// Waits until a handle that has ended is durable: `EIO` if it may not be.
    pub(super) async fn settle(&self, handle: u64) -> Result<()> {
        while !self.table.borrow_mut().is_durable(handle) {
            if self.aborted.get() {
                return Err(Errno::EIO);
            }
            if !self.medium.help().await {
                self.progress.wait(&self.sim).await;
            }
        }
        Ok(())
    }

    /// Brings a closed transaction to the drive, unless others take it over.
    //= bytefs 4.3
    //= bytefs 4.7
    async fn commit(self: &Rc<Self>, mut closing: Closing) -> Result<()> {
        // Others may begin now, while this is on its way.
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
        // It takes in nobody any more: those who had to wait for that may begin.
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
        // Also contents that were written outside of transactions: a size may grow
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

    /// Wakes those who closed what `change` has opened again: they go on at once, so
    /// that nobody waits for a handle with something in hand that it needs.
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

    /// Whether a new block goes as one, before anything leads to it.
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

    /// A transaction of one line is atomic without a number.
    //= bytefs 4.4
    async fn store_line(&self, piece: &Piece) -> Result<()> {
        self.medium.count(|m| m.single_lines += 1);
        self.medium.store(piece, 0).await.map_err(broken)?;
        self.medium.verify().await
    }

    /// Waits until every handle up to `upto` is durable, and all contents that were
    /// written until now: `EIO` if that fails, `EROFS` if something failed before.
    pub(super) async fn force(&self, upto: u64) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EROFS);
        }
        let upto = self
            .journal()
            .map_or(upto, |journal| upto.max(journal.upto()));
        let upto = upto.min(self.table.borrow().newest());
        while self.table.borrow_mut().want(upto) && !self.aborted.get() {
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

    /// Waits for those copied transactions that have lines of `run`, so that what
    /// is written there next is newer than they are.
    pub(super) async fn wait_for_lines(&self, run: Run) {
        let before = self.table.borrow().copied_on(run);
        for number in before {
            self.wait_committed(number).await;
        }
    }
}
