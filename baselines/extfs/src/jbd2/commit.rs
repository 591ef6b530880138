//! Commit: close the transaction, copy its changed blocks, write the copies to the
//! log, and write the commit block.
//!
//! Invariants: one transaction commits at a time, in the order of their numbers. Copies are taken
//! at the instant when its last handle closes, so the next transaction starts at once and may
//! change any block. The durable point is the end of the write of the commit block: a flush
//! precedes that write, so copies, file contents of an ordered transaction and the start of the log
//! on the medium are durable by then.

use super::format::{REVOKES, TAGS, Tag};
use super::log::{self, payload, write_pieces};
use super::recover::copy_for_log;
use super::transaction::{Checkpoint, Entry, Transaction};
use super::{Core, JournalError};
use crate::buffer::BLOCK;
use crate::format::superblock as sb;
use host::{BlockPort, Purpose};
use nand::Payload;
use ssd::{Content, IoError};
use std::rc::Rc;
use units::Ns;

/// The committing transaction and its copies.
struct Work {
    transaction: Rc<Transaction>,
    logged: Vec<(Rc<Entry>, Payload)>,
    forgotten: Vec<Rc<Entry>>,
    /// Revoke blocks, descriptor blocks and copies: the log up to the commit block.
    blocks: Vec<Payload>,
    /// Block of the log of the first of `blocks`, and that of the commit block.
    start: u32,
    commit: u32,
}

impl Core {
    /// Requests the commit of every transaction up to `id`; starts the commit task if
    /// it is not running.
    pub(super) fn request_commit(self: &Rc<Self>, id: u64) {
        let mut state = self.state.borrow_mut();
        state.requested = state.requested.max(id);
        if !std::mem::replace(&mut state.committer, true) {
            drop(state);
            let core = Rc::clone(self);
            self.sim.spawn_detached(async move { core.commits().await });
        }
    }

    /// The commit task: ends when no requested commit is left.
    async fn commits(self: Rc<Self>) {
        while let Some(transaction) = self.next_commit() {
            if let Err(error) = self.commit(transaction).await {
                self.abort(error).await;
            }
        }
        self.state.borrow_mut().committer = false;
    }

    fn next_commit(&self) -> Option<Rc<Transaction>> {
        let state = self.state.borrow();
        let running = state.running.as_ref();
        let wanted = running.filter(|running| running.id <= state.requested && !state.aborted);
        wanted.cloned()
    }

    async fn commit(self: &Rc<Self>, transaction: Rc<Transaction>) -> Result<(), IoError> {
        self.close(&transaction).await;
        let work = self.switch(transaction)?;
        self.switched.notify(&self.sim);
        let computing = self.port.compute(self.cost(&work));
        computing.over(&self.sim).await;
        self.mark_used(&work).await?;
        let at = (self.config.journal_placement, self.journal_who());
        let span = self.state.borrow().span;
        let blocks = work.blocks.clone();
        let pieces = log::pieces(&self.map, &span, work.start, blocks, at);
        write_pieces(&self.port, &pieces).await?;
        self.settle(&work.transaction).await;
        let tail = self.tail_worth_moving();
        work.transaction.flushing.set(true);
        if !vfs::mutant::is("ext4-commit-without-flush") {
            self.flush().await?;
        }
        self.write_commit_block(&work).await?;
        self.wait_for_home_writes(&work.forgotten).await;
        self.finish(work);
        match tail {
            Some((id, at)) => self.move_tail(id, at).await,
            None => Ok(()),
        }
    }

    /// Locks the transaction against new handles and waits until every handle is closed.
    async fn close(&self, transaction: &Transaction) {
        transaction.locked.set(true);
        while transaction.handles.get() > 0 {
            self.settled.wait(&self.sim).await;
        }
    }

    /// Takes the copies and space in the log. After it a new transaction may run.
    fn switch(&self, transaction: Rc<Transaction>) -> Result<Work, IoError> {
        let entries = transaction.entries.take();
        let (mut logged, mut forgotten) = (Vec::with_capacity(entries.len()), Vec::new());
        for entry in entries {
            entry.running.set(0);
            entry.committing.set(transaction.id);
            if entry.forgotten.get() == transaction.id {
                forgotten.push(entry);
            } else {
                self.note_data(&entry, transaction.id);
                let copy = entry.payload();
                logged.push((entry, copy));
            }
        }
        let blocks = self.log_blocks(&transaction, &logged);
        let (start, commit) = self.take_place(&transaction, blocks.len() as u32)?;
        Ok(Work {
            transaction,
            logged,
            forgotten,
            blocks,
            start,
            commit,
        })
    }

    /// Takes `blocks` blocks at the head of the log and one for the commit block.
    /// Returns the first block and the commit block.
    ///
    /// # Errors
    ///
    /// [`IoError::ReadOnly`] if the log is full: handles of the transaction forgot more
    /// blocks than revoke blocks in the reserve can name.
    fn take_place(
        &self,
        transaction: &Rc<Transaction>,
        blocks: u32,
    ) -> Result<(u32, u32), IoError> {
        let mut state = self.state.borrow_mut();
        if blocks + 1 >= state.span.free() {
            return Err(IoError::ReadOnly);
        }
        let start = state.span.head;
        let commit = state.span.after(start, blocks);
        if !state.in_use {
            state.span.tail = start;
            state.span.tail_id = transaction.id;
        }
        state.span.head = state.span.after(commit, 1);
        state.running = None;
        state.committing = Some((Rc::clone(transaction), start));
        Ok((start, commit))
    }

    /// Revoke blocks, then descriptor blocks with their copies.
    fn log_blocks(
        &self,
        transaction: &Transaction,
        logged: &[(Rc<Entry>, Payload)],
    ) -> Vec<Payload> {
        let sequence = transaction.id as u32;
        let revoked: Vec<u64> = transaction.revoked.borrow().iter().copied().collect();
        let revokes = revoked.chunks(REVOKES);
        let mut blocks: Vec<_> = revokes
            .map(|part| payload(&self.form.revoke(sequence, part)))
            .collect();
        for part in logged.chunks(TAGS) {
            let place = blocks.len();
            blocks.push(Payload::Zero);
            let mut tags = Vec::with_capacity(part.len());
            for (entry, original) in part {
                let (copy, escaped) = copy_for_log(original);
                let sum = self.sum(sequence, &copy);
                tags.push(Tag {
                    home: entry.block,
                    escaped,
                    sum,
                });
                blocks.push(copy);
            }
            blocks[place] = payload(&self.form.descriptor(sequence, &tags));
        }
        blocks
    }

    fn sum(&self, sequence: u32, copy: &Payload) -> u32 {
        match copy {
            Payload::Bytes(bytes) => self.form.sum(sequence, &**bytes),
            other => self.form.sum(sequence, &other.to_bytes()),
        }
    }

    fn cost(&self, work: &Work) -> Ns {
        let copies = self.config.cost_per_block.0 * work.logged.len() as u64;
        Ns(self.config.cost_per_commit.0 + copies)
    }

    /// Marks the log as in use on the medium. The flush before the commit block makes
    /// the mark durable.
    async fn mark_used(&self, work: &Work) -> Result<(), IoError> {
        if self.state.borrow().in_use {
            return Ok(());
        }
        let mut superblock = self.superblock.lock().await;
        superblock.start = work.start;
        superblock.sequence = work.transaction.id as u32;
        if !vfs::mutant::is("ext4-log-not-marked") {
            self.write_superblock(&superblock, false).await?;
        }
        self.state.borrow_mut().in_use = true;
        Ok(())
    }

    /// Waits for in-flight writes of file contents that the transaction maps.
    async fn settle(&self, transaction: &Transaction) {
        while transaction.in_flight.get() > 0 {
            self.settled.wait(&self.sim).await;
        }
    }

    async fn write_commit_block(&self, work: &Work) -> Result<(), IoError> {
        let now = self.sim.now().0;
        let seconds = self.seconds();
        let sequence = work.transaction.id as u32;
        let time = (seconds, (now % 1_000_000_000) as u32);
        let block = self.form.commit(sequence, time, 0);
        let extent = log::extent(self.map.home(work.commit).0, 1);
        let copies = [payload(&block)];
        let (placement, who) = (self.config.journal_placement, self.journal_who());
        let content = Content::Sectors(&copies);
        let fua = !vfs::mutant::is("ext4-commit-block-not-forced");
        self.port.write(extent, content, placement, who, fua).await
    }

    /// Simulated time in seconds since 1970.
    fn seconds(&self) -> u64 {
        self.config.epoch + self.sim.now().0 / 1_000_000_000
    }

    /// Waits for in-flight home writes of `entries`, so that an old write cannot land
    /// on a block after its reallocation.
    pub(super) async fn wait_for_home_writes(&self, entries: &[Rc<Entry>]) {
        while entries.iter().any(|entry| entry.writing.get()) {
            self.homed.wait(&self.sim).await;
        }
    }

    /// Retires the durable transaction: its blocks await a checkpoint, its freed runs
    /// may be reused.
    fn finish(self: &Rc<Self>, work: Work) {
        let id = work.transaction.id;
        for entry in &work.forgotten {
            self.drop_forgotten(entry, id);
        }
        let mut entries = Vec::with_capacity(work.logged.len());
        for (entry, _) in work.logged {
            self.uncount(&entry);
            entry.committing.set(0);
            entry.checkpoint.set(id);
            entries.push(entry);
        }
        let mut state = self.state.borrow_mut();
        if !entries.is_empty() {
            let checkpoint = Checkpoint {
                start: work.start,
                left: entries.len(),
                entries,
            };
            state.checkpoints.insert(id, checkpoint);
        }
        let mut freed = work.transaction.freed.take();
        state.freed.append(&mut freed);
        state.committed = id;
        state.committing = None;
        state.counts.commits += 1;
        drop(state);
        self.start_flusher();
        self.committed.notify(&self.sim);
    }

    fn drop_forgotten(&self, entry: &Rc<Entry>, id: u64) {
        self.uncount(entry);
        entry.committing.set(0);
        if entry.forgotten.get() == id {
            entry.forgotten.set(0);
        }
        if entry.running.get() == 0 {
            self.cache.borrow_mut().remove(entry);
        }
    }

    fn note_data(&self, entry: &Entry, id: u64) {
        if entry.is_data() {
            self.state.borrow_mut().data.insert(entry.block, id);
        }
    }

    /// Stops all commits after `error` of the medium. Unless the error is
    /// [`IoError::ReadOnly`], records it in both superblocks on a best-effort basis.
    pub(super) async fn abort(&self, error: IoError) {
        let first = !std::mem::replace(&mut self.state.borrow_mut().aborted, true);
        for signal in [&self.switched, &self.committed, &self.settled, &self.homed] {
            signal.notify(&self.sim);
        }
        if !first || error == IoError::ReadOnly {
            return;
        }
        let mut superblock = self.superblock.lock().await;
        superblock.errno = JournalError::RECORDED;
        // The medium may be the very thing that fails.
        let _ = self.write_superblock(&superblock, true).await;
        let _ = self.mark_file_system().await;
    }

    /// Records in the superblock of the file system that it has to be checked. Edits
    /// the copy on the medium: the one in memory may hold uncommitted changes.
    async fn mark_file_system(&self) -> Result<(), IoError> {
        let mut block = Box::new([0; BLOCK]);
        let (extent, who) = (log::extent(0, 1), self.who(Purpose::Superblock));
        let mut sink = block.as_mut_slice();
        self.port.read(extent, &mut sink, who).await?;
        let bytes = &mut block[sb::OFFSET..sb::OFFSET + sb::SIZE];
        if !sb::record_error(bytes, self.seconds() as u32) {
            return Ok(());
        }
        let copies = [payload(&block)];
        let (placement, content) = (self.config.metadata_placement, Content::Sectors(&copies));
        self.port.write(extent, content, placement, who, true).await
    }
}
