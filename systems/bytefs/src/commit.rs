//! The path of a transaction to the drive.
//!
//! Whoever closes a transaction brings it there, unless somebody opens it again while
//! it waits, in this order: those before it have committed; contents that it leads to
//! are on the medium; its lines are copied; its new blocks and its lines are stored
//! under a TxID; one verification; `COMMIT`. **The end of `COMMIT` is the durable
//! point.**
//!
//! Invariants: of a line there is at most one version on the drive that has not
//! committed; after a failure nothing commits any more.

use crate::core::{Core, extent, failed};
use crate::format::Record;
use crate::snapshot::Piece;
use crate::table::{Closing, Next, Refusal, TxTable};
use extfs::Run;
use host::{BytePort, Purpose};
use ssd::wlog::{CommitError, LINE, StoreError};
use ssd::{ByteError, Content};
use vfs::{Errno, Result};

/// What a program learns of a failed access by bytes.
fn broken(error: ByteError) -> Errno {
    match error {
        ByteError::Io(error) => failed(error),
        _ => Errno::EIO,
    }
}

impl<P: BytePort> Core<P> {
    /// Opens a handle.
    pub(crate) async fn begin(&self, blocks: usize) -> Result<u64> {
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

    /// Closes a handle; with the last one of its transaction that commits, or
    /// whoever opens it again has it to do.
    pub(crate) async fn end(&self, handle: u64) -> Result<()> {
        let closing = self.table.borrow_mut().end(handle, Vec::new());
        match closing {
            Some(closing) => self.commit(closing).await,
            None => Ok(()),
        }
    }

    /// Brings a closed transaction to the drive, unless others take it over.
    //= bytefs 4.3
    //= bytefs 4.7
    pub(crate) async fn commit(&self, mut closing: Closing) -> Result<()> {
        // Others may begin now, while this is on its way.
        self.progress.notify(&self.sim);
        let pieces = loop {
            let next = self.table.borrow_mut().next(&mut closing);
            match next {
                Next::Leave => return Ok(()),
                Next::Wait if !self.aborted.get() => self.progress.wait(&self.sim).await,
                Next::Wait => break Vec::new(),
                Next::Store(pieces) => break pieces,
            }
        };
        // It takes in nobody any more: those who had to wait for that may begin.
        self.progress.notify(&self.sim);
        let brought = self.bring(&pieces).await;
        let durable = brought.is_ok();
        self.table.borrow_mut().done(closing.number, durable);
        match brought {
            Ok(()) => self.progress.notify(&self.sim),
            Err(_) => self.abort(),
        }
        brought
    }

    async fn bring(&self, pieces: &[Piece]) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EIO);
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
        self.count(|m| m.transactions += 1);
        if let [piece] = pieces
            && piece.is_whole_superblock()
        {
            self.count(|m| m.superblocks += 1);
            return self.write_block(piece).await;
        }
        self.store_pieces(pieces).await
    }

    /// Wakes those who closed what `change` has opened again: they go on at once, so
    /// that nobody waits for a handle with something in hand that it needs.
    pub(crate) fn meet<T>(&self, change: impl FnOnce(&mut TxTable) -> T) -> T {
        let mut table = self.table.borrow_mut();
        let before = table.counts().reopened;
        let changed = change(&mut table);
        if table.counts().reopened != before {
            self.progress.notify(&self.sim);
        }
        changed
    }

    pub(crate) async fn wait_committed(&self, number: u64) {
        while self.table.borrow().is_pending(number) {
            self.progress.wait(&self.sim).await;
        }
    }

    /// Whether a new block goes as one, before anything leads to it.
    fn goes_by_block(&self, piece: &Piece) -> bool {
        piece.new && piece.is_whole() && piece.lines() >= u64::from(self.options.byte_lines)
    }

    async fn store_pieces(&self, pieces: &[Piece]) -> Result<()> {
        let by_block = |piece: &&Piece| self.goes_by_block(piece);
        for piece in pieces.iter().filter(by_block) {
            self.count(|m| m.new_blocks += 1);
            self.write_block(piece).await?;
        }
        let by_bytes = pieces.iter().filter(|piece| !self.goes_by_block(piece));
        let by_bytes: Vec<&Piece> = by_bytes.collect();
        match by_bytes.iter().map(|piece| piece.lines()).sum::<u64>() {
            0 => Ok(()),
            1 => self.store_line(by_bytes[0]).await,
            _ => self.store_lines(&by_bytes).await,
        }
    }

    /// A block of metadata, durable when this ends.
    async fn write_block(&self, piece: &Piece) -> Result<()> {
        let who = piece.booked.who(self.options.origin);
        let content = Content::Bytes(piece.block_bytes());
        let (extent, to) = (extent(piece.block, 1), self.placement);
        let written = self.port.write(extent, content, to, who, true);
        written.await.map_err(failed)
    }

    /// A transaction of one line is atomic without a number.
    //= bytefs 4.4
    async fn store_line(&self, piece: &Piece) -> Result<()> {
        self.count(|m| m.single_lines += 1);
        self.store(piece, 0).await.map_err(broken)?;
        self.verify().await
    }

    async fn store_lines(&self, pieces: &[&Piece]) -> Result<()> {
        let id = self.store_first(pieces[0]).await?;
        for piece in &pieces[1..] {
            self.store(piece, id).await.map_err(broken)?;
        }
        self.verify().await?;
        self.count(|m| m.commits += 1);
        self.port.commit(id).await.map_err(broken)
    }

    /// Stores the first piece under a number that the drive takes.
    async fn store_first(&self, piece: &Piece) -> Result<u32> {
        for _ in 0..self.options.tx_ids.max(1) {
            let id = self.next_id().await?;
            match self.store(piece, id).await {
                Ok(()) => return Ok(id),
                Err(ByteError::Store(StoreError::Committed(_))) => {
                    self.count(|m| m.skipped_ids += 1);
                }
                Err(error) => return Err(broken(error)),
            }
        }
        Err(broken(CommitError::Committed(0).into()))
    }

    async fn store(&self, piece: &Piece, id: u32) -> std::result::Result<(), ByteError> {
        let who = piece.booked.who(self.options.origin);
        let mut stores = 0;
        for (at, bytes) in piece.stores() {
            self.port.store(at, bytes, id, who).await?;
            stores += 1;
        }
        self.count(|m| {
            m.stores += stores;
            if piece.is_metadata() {
                m.metadata_lines += piece.lines();
            } else {
                m.data_lines += piece.lines();
            }
        });
        Ok(())
    }

    //= bytefs 4.2
    async fn verify(&self) -> Result<()> {
        self.count(|m| m.verifies += 1);
        self.port.verify().await.map_err(broken)
    }

    /// The next number, of those that were reserved.
    async fn next_id(&self) -> Result<u32> {
        let mut ids = self.ids.lock().await;
        loop {
            if let Some(id) = ids.take() {
                return Ok(id);
            }
            let record = ids.reservation(self.options.tx_ids);
            self.write_record(record).await?;
            ids.reserved(record);
        }
    }

    /// Replaces the record, also in the block that it shares with the superblock.
    pub(crate) async fn write_record(&self, record: Record) -> Result<()> {
        let line = record.encode();
        if let Some(buffer) = self.cached(0) {
            buffer.bytes_mut()[..LINE].copy_from_slice(&line);
        }
        let who = self.who(Purpose::Superblock);
        let stored = self.port.store(0, &line, 0, who).await;
        stored.map_err(broken)?;
        self.verify().await
    }

    /// Says that nobody has it mounted any more.
    pub(crate) async fn leave(&self) -> Result<()> {
        let record = self.ids.lock().await.left();
        self.write_record(record).await
    }

    /// Waits until every handle up to `upto` is durable, and all contents that were
    /// written until now: `EIO` if that fails, `EROFS` if something failed before.
    pub(crate) async fn force(&self, upto: u64) -> Result<()> {
        if self.aborted.get() {
            return Err(Errno::EROFS);
        }
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
    pub(crate) async fn wait_for_lines(&self, run: Run) {
        let before = self.table.borrow().copied_on(run);
        for number in before {
            self.wait_committed(number).await;
        }
    }
}
