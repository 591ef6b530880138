//! Checkpointing: committed blocks are written home, which frees space in the log.
//!
//! A block is written home when a handle finds the log too full, or when the block has been dirty
//! for the flusher's age limit. The tail of the log moves past a transaction only once each of its
//! blocks is home or committed again later, and only after a flush that began then.
//!
//! Invariants: a block is written home by one write at a time, with the bytes of its newest
//! committed transaction; a block that belongs to an open transaction is not written home.

use super::format::TAGS;
use super::log::{LARGEST, Piece, write_pieces};
use super::transaction::{Content, Entry};
use super::{Core, Mode};
use host::Who;
use nand::Payload;
use ssd::IoError;
use std::rc::Rc;
use units::Placement;
use vfs::{Errno, Result};

impl Core {
    /// Blocks that a transaction may log: a quarter of the log, as in jbd2.
    pub(super) fn largest(&self) -> usize {
        self.state.borrow().span.size() as usize / 4
    }

    /// Blocks that a transaction may log including file contents that its handles add
    /// when they close: in mode `Journal` half as many again, a choice of ours.
    pub(super) fn largest_with_data(&self) -> usize {
        let largest = self.largest();
        match self.config.mode {
            Mode::Journal => largest + largest / 2,
            Mode::Ordered | Mode::Writeback => largest,
        }
    }

    /// Blocks that must be free for a handle to open: the largest transaction with its descriptor
    /// blocks, and the reserve of jbd2 for revoke blocks (32; fewer in a tiny log).
    fn room(&self) -> u32 {
        let largest = self.largest_with_data();
        let size = self.state.borrow().span.size();
        (largest + largest.div_ceil(TAGS) + 2) as u32 + (size / 8).min(32)
    }

    pub(super) fn has_room(&self) -> bool {
        self.state.borrow().span.free() >= self.room()
    }

    /// Frees space in the log by a checkpoint. If that is not enough, requests the
    /// commit of the oldest open transaction and waits for it.
    pub(super) async fn make_room(self: &Rc<Self>) {
        let turn = self.checkpointing.acquire(1).await;
        if self.has_room() || self.is_aborted() {
            return;
        }
        let made = self.checkpoint_oldest().await;
        if let Err(error) = made {
            self.abort(error).await;
        }
        drop(turn);
        if !self.has_room() && !self.is_aborted() {
            self.wait_for_commit().await;
        }
    }

    /// Writes home as many of the oldest transactions as [`Self::room`] requires, then
    /// flushes and moves the tail.
    async fn checkpoint_oldest(&self) -> std::result::Result<(), IoError> {
        let entries = self.entries_in_the_way();
        self.write_home(entries).await?;
        let (id, at) = self.tail();
        if id == self.state.borrow().span.tail_id {
            return Ok(());
        }
        self.flush().await?;
        self.move_tail(id, at).await
    }

    /// Commits the oldest open transaction, which still holds blocks of the log.
    async fn wait_for_commit(self: &Rc<Self>) {
        if let Some(id) = self.oldest_open() {
            self.request_commit(id);
            self.wait_committed(id).await;
        }
    }

    /// The oldest transaction that has not committed.
    fn oldest_open(&self) -> Option<u64> {
        let state = self.state.borrow();
        let committing = state
            .committing
            .as_ref()
            .map(|(transaction, _)| transaction.id);
        committing.or(state.running.as_ref().map(|running| running.id))
    }

    /// Blocks to write home so that [`Self::room`] blocks become free: the blocks of
    /// the oldest transactions.
    fn entries_in_the_way(&self) -> Vec<Rc<Entry>> {
        let room = self.room();
        let state = self.state.borrow();
        let mut entries = Vec::new();
        for (&id, checkpoint) in &state.checkpoints {
            if state.span.free() + state.span.distance(checkpoint.start) >= room {
                break;
            }
            let own = checkpoint
                .entries
                .iter()
                .filter(|e| e.checkpoint.get() == id);
            entries.extend(own.cloned());
        }
        entries
    }

    /// The first transaction that a recovery would need now, and its first block in the log.
    fn tail(&self) -> (u64, u32) {
        let state = self.state.borrow();
        if let Some((&id, checkpoint)) = state.checkpoints.first_key_value() {
            return (id, checkpoint.start);
        }
        if let Some((committing, start)) = &state.committing {
            return (committing.id, *start);
        }
        let running = state.running.as_ref().map(|running| running.id);
        (running.unwrap_or(state.next), state.span.head)
    }

    /// The tail to move to after a commit, whose flush covers all home writes so far.
    /// `None` if the move would free less than the largest transaction, as in jbd2.
    pub(super) fn tail_worth_moving(&self) -> Option<(u64, u32)> {
        let (id, at) = self.tail();
        let freed = self.state.borrow().span.distance(at) as usize;
        (freed >= self.largest()).then_some((id, at))
    }

    /// Durably sets the tail of the log to transaction `id`, which starts at block `at`.
    /// Does nothing if the tail is already there or the log is unused.
    pub(super) async fn move_tail(&self, id: u64, at: u32) -> std::result::Result<(), IoError> {
        let mut superblock = self.superblock.lock().await;
        if !self.is_ahead(id) {
            return Ok(());
        }
        superblock.start = at;
        superblock.sequence = id as u32;
        self.write_superblock(&superblock, true).await?;
        let mut state = self.state.borrow_mut();
        state.span.tail = at;
        state.span.tail_id = id;
        state.data.retain(|_, last| *last >= id);
        Ok(())
    }

    /// Whether the log is in use and starts before transaction `id`.
    fn is_ahead(&self, id: u64) -> bool {
        let state = self.state.borrow();
        state.in_use && id > state.span.tail_id
    }

    /// Drops `entry` from its checkpoint: its committed bytes are home or superseded.
    pub(super) fn uncount(&self, entry: &Entry) {
        let id = entry.checkpoint.replace(0);
        let mut state = self.state.borrow_mut();
        let Some(checkpoint) = state.checkpoints.get_mut(&id) else {
            return;
        };
        checkpoint.left -= 1;
        if checkpoint.left == 0 {
            state.checkpoints.remove(&id);
        }
    }

    /// Writes home those of `entries` that no open transaction has, in block order,
    /// and waits for home writes of `entries` already in flight.
    pub(super) async fn write_home(
        &self,
        entries: Vec<Rc<Entry>>,
    ) -> std::result::Result<(), IoError> {
        let may = |entry: &Rc<Entry>| {
            entry.checkpoint.get() != 0 && !entry.is_joined() && !entry.writing.get()
        };
        let (mut chosen, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(may);
        chosen.sort_unstable_by_key(|entry| entry.block);
        let pieces = self.home_pieces(&chosen);
        let versions: Vec<_> = chosen.iter().map(|e| e.checkpoint.get()).collect();
        chosen.iter().for_each(|entry| entry.writing.set(true));
        let written = write_pieces(&self.port, &pieces).await;
        for (entry, version) in chosen.iter().zip(versions) {
            entry.writing.set(false);
            if written.is_ok() && entry.checkpoint.get() == version {
                self.uncount(entry);
            }
            if entry.is_data() && entry.is_idle() {
                self.cache.borrow_mut().remove(entry);
            }
        }
        self.homed.notify(&self.sim);
        while others.iter().any(|entry| entry.writing.get()) {
            self.homed.wait(&self.sim).await;
        }
        written
    }

    fn home_pieces(&self, entries: &[Rc<Entry>]) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for entry in entries {
            let (payload, placement, who) = self.home_copy(entry);
            match pieces.last_mut() {
                Some(last)
                    if last.start + last.payloads.len() as u64 == entry.block
                        && (last.placement, last.who) == (placement, who)
                        && last.payloads.len() < LARGEST =>
                {
                    last.payloads.push(payload);
                }
                _ => pieces.push(Piece {
                    start: entry.block,
                    payloads: vec![payload],
                    placement,
                    who,
                }),
            }
        }
        pieces
    }

    fn home_copy(&self, entry: &Entry) -> (Payload, Placement, Who) {
        let payload = entry.payload();
        match &*entry.content.borrow() {
            Content::Data(_, placement, who) => (payload, *placement, *who),
            Content::Buffer(buffer) => {
                let who = self.who(buffer.purpose.get());
                (payload, self.config.metadata_placement, who)
            }
        }
    }

    /// Starts the flusher, unless it runs already or no block awaits a checkpoint.
    pub(super) fn start_flusher(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        if state.checkpoints.is_empty() {
            return;
        }
        state.dirty_since.get_or_insert(self.sim.now());
        if !std::mem::replace(&mut state.flusher, true) {
            drop(state);
            let core = Rc::clone(self);
            self.sim.spawn_detached(async move { core.flusher().await });
        }
    }

    /// The kernel's flusher: wakes every `flush_interval` and, once the oldest dirty block exceeds
    /// `dirty_expire`, writes all dirty blocks home. It ends when no block is dirty.
    async fn flusher(self: Rc<Self>) {
        while !self.is_clean() && !self.is_aborted() {
            self.sim.sleep(self.config.flush_interval).await;
            // After an error the superblock at home records it; an older copy in memory
            // would overwrite that record.
            if self.is_aborted() || !self.is_expired() {
                continue;
            }
            let all = self.dirty();
            if let Err(error) = self.write_home(all).await {
                self.abort(error).await;
            }
            self.state.borrow_mut().dirty_since = Some(self.sim.now());
        }
        let mut state = self.state.borrow_mut();
        state.flusher = false;
        state.dirty_since = None;
    }

    fn is_clean(&self) -> bool {
        self.state.borrow().checkpoints.is_empty()
    }

    fn is_expired(&self) -> bool {
        let since = self.state.borrow().dirty_since;
        since.is_some_and(|since| self.sim.now().since(since) >= self.config.dirty_expire)
    }

    pub(super) fn dirty(&self) -> Vec<Rc<Entry>> {
        let state = self.state.borrow();
        let each = state.checkpoints.iter();
        each.flat_map(|(&id, checkpoint)| {
            let own = checkpoint.entries.iter();
            own.filter(move |e| e.checkpoint.get() == id).cloned()
        })
        .collect()
    }

    /// Commits, writes every block home, and marks the log empty on the medium.
    pub(super) async fn shut_down(self: &Rc<Self>) -> Result<()> {
        loop {
            self.force_all().await.map_err(|_| Errno::EIO)?;
            let _turn = self.checkpointing.acquire(1).await;
            let all = self.dirty();
            let home = async {
                self.write_home(all).await?;
                self.flush().await?;
                self.empty_log().await
            };
            match home.await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    self.abort(error).await;
                    return Err(Errno::EIO);
                }
            }
        }
    }

    /// Marks the log empty on the medium. Returns false, and writes nothing, if a
    /// recovery would still need the log.
    async fn empty_log(&self) -> std::result::Result<bool, IoError> {
        let mut superblock = self.superblock.lock().await;
        let Some(next) = self.leave_log() else {
            return Ok(false);
        };
        superblock.sequence = next as u32;
        superblock.start = 0;
        self.write_superblock(&superblock, true).await?;
        Ok(true)
    }

    /// Takes the log out of use and returns the number of the next transaction; `None`
    /// if a recovery would still need the log.
    fn leave_log(&self) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        if state.committing.is_some() || !state.checkpoints.is_empty() {
            return None;
        }
        state.in_use = false;
        state.span.tail = state.span.head;
        state.data.clear();
        let running = state.running.as_ref().map(|running| running.id);
        Some(running.unwrap_or(state.next))
    }
}
