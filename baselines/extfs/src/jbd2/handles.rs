//! Handles: opening and closing them, and changes of blocks through them.
//!
//! Invariants: the log always has room for all of the running transaction, so a
//! commit never waits for room; a transaction takes no more than a quarter of the
//! log, and a handle that would exceed that starts the next transaction.

use super::transaction::{Content, Entry, Handle, Transaction};
use super::{Core, Mode, cache};
use crate::buffer::Buffer;
use crate::persist::Run;
use host::Purpose;
use std::cell::Cell;
use std::rc::Rc;
use vfs::{Errno, Result};

/// Reason why a handle cannot be opened yet.
enum Obstacle {
    /// The running transaction is closing, or has to be closed first.
    Switch,
    /// The log is too full.
    Room,
}

impl Core {
    /// Opens a handle for `blocks` blocks; waits for a commit or for room in the log if
    /// necessary. `ENOSPC` if no transaction can hold so many, `EROFS` after an abort.
    pub(super) async fn begin(self: &Rc<Self>, blocks: usize) -> Result<Handle> {
        if blocks > self.largest() {
            return Err(Errno::ENOSPC);
        }
        loop {
            if self.is_aborted() {
                return Err(Errno::EROFS);
            }
            match self.try_begin(blocks) {
                Ok(handle) => return Ok(handle),
                Err(Obstacle::Switch) => self.switched.wait(&self.sim).await,
                Err(Obstacle::Room) => self.make_room().await,
            }
        }
    }

    fn try_begin(self: &Rc<Self>, blocks: usize) -> std::result::Result<Handle, Obstacle> {
        let running = self.state.borrow().running.clone();
        if let Some(transaction) = running {
            if transaction.locked.get() {
                return Err(Obstacle::Switch);
            }
            if !self.fits(&transaction, blocks) {
                self.request_commit(transaction.id);
                return Err(Obstacle::Switch);
            }
            if !self.has_room() {
                return Err(Obstacle::Room);
            }
            return Ok(handle(transaction, blocks));
        }
        if !self.has_room() {
            return Err(Obstacle::Room);
        }
        Ok(handle(self.open_transaction(), blocks))
    }

    /// Starts the next transaction, and its timer.
    fn open_transaction(self: &Rc<Self>) -> Rc<Transaction> {
        let mut state = self.state.borrow_mut();
        let transaction = Rc::new(Transaction::new(state.next, self.sim.now()));
        state.next += 1;
        state.running = Some(Rc::clone(&transaction));
        drop(state);
        self.start_timer();
        transaction
    }

    /// Reserves `blocks` more for `handle`. False if they do not fit the transaction or
    /// it is closing.
    pub(super) fn extend(&self, handle: &Handle, blocks: usize) -> bool {
        let transaction = &handle.transaction;
        let fits = self.fits(transaction, blocks);
        let may = fits && !transaction.locked.get();
        if may {
            reserve(handle, blocks);
        }
        may
    }

    /// Whether `transaction` may log `blocks` more.
    fn fits(&self, transaction: &Transaction, blocks: usize) -> bool {
        transaction.size() + blocks <= self.largest()
    }

    /// Closes `handle` and returns the number of its transaction; requests the commit of
    /// a full transaction.
    pub(super) fn end(self: &Rc<Self>, handle: &Handle) -> u64 {
        let transaction = &handle.transaction;
        transaction
            .reserved
            .set(transaction.reserved.get() - handle.credits.get());
        transaction.handles.set(transaction.handles.get() - 1);
        if transaction.locked.get() {
            if transaction.handles.get() == 0 {
                self.settled.notify(&self.sim);
            }
        } else if transaction.size() >= self.largest() {
            self.request_commit(transaction.id);
        }
        transaction.id
    }

    /// Adds the block of `entry` to the transaction of `handle`, for one credit if the
    /// transaction does not log the block yet.
    pub(super) fn log(&self, handle: &Handle, entry: &Rc<Entry>) {
        let transaction = &handle.transaction;
        let before = transaction.logged.get();
        transaction.log(entry);
        if transaction.logged.get() == before {
            return;
        }
        let credits = handle.credits.get();
        debug_assert!(
            credits > 0,
            "a handle changes more blocks than it asked for"
        );
        if credits > 0 {
            handle.credits.set(credits - 1);
            transaction.reserved.set(transaction.reserved.get() - 1);
        }
    }

    /// Writes `bytes` to `buffer` at offset `at` and logs its block.
    pub(super) fn write(&self, handle: &Handle, buffer: &Rc<Buffer>, at: usize, bytes: &[u8]) {
        let cache = self.cache.borrow();
        let entry = cache.entry(buffer.block);
        let entry = entry.expect("a buffer that somebody holds stays in memory");
        self.log(handle, entry);
        buffer.bytes_mut()[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Turns `block` into metadata of zeros and logs it.
    pub(super) fn create(&self, handle: &Handle, block: u64, purpose: Purpose) -> Rc<Buffer> {
        let mut cache = self.cache.borrow_mut();
        let present = cache.entry(block).cloned();
        let entry = present.unwrap_or_else(|| {
            let buffer = cache::blank(block, purpose);
            cache.insert(Entry::of_buffer(buffer))
        });
        self.log(handle, &entry);
        let buffer = entry.buffer(purpose);
        buffer.purpose.set(purpose);
        buffer.bytes_mut().fill(0);
        buffer
    }

    /// Notes that `block` is no longer metadata.
    pub(super) fn forget(&self, handle: &Handle, block: u64) {
        let cache = self.cache.borrow();
        let transaction = &handle.transaction;
        let entry = cache.entry(block);
        if entry.is_some_and(|entry| transaction.logs(entry)) {
            // The credit that this block frees may serve another block.
            reserve(handle, 1);
        }
        transaction.forget(block, entry);
    }

    /// Frees `run` at the commit of the transaction. File contents of `run` in the log
    /// are revoked like metadata.
    pub(super) fn free(&self, handle: &Handle, run: Run) {
        if vfs::mutant::is("ext4-reuse-before-commit") {
            self.state.borrow_mut().freed.push(run);
            return;
        }
        handle.transaction.freed.borrow_mut().push(run);
        if self.config.mode == Mode::Journal {
            for block in self.logged_data(run) {
                self.forget(handle, block);
            }
        }
    }

    /// Blocks of `run` whose file contents are in the log or in an open transaction, sorted.
    pub(super) fn logged_data(&self, run: Run) -> Vec<u64> {
        let end = run.start.saturating_add(run.len);
        let state = self.state.borrow();
        let mut blocks: Vec<_> = state.data.range(run.start..end).map(|(&b, _)| b).collect();
        let cache = self.cache.borrow();
        let present = cache.range(run.start, end);
        blocks.extend(present.filter_map(|(block, slot)| match slot {
            cache::Slot::Ready(entry) if entry.is_data() => Some(block),
            _ => None,
        }));
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Logs `content` as the new file contents of `block`.
    pub(super) fn log_data(&self, handle: &Handle, block: u64, content: Content) {
        let mut cache = self.cache.borrow_mut();
        let present = cache.entry(block).cloned();
        let entry = match present {
            Some(entry) => {
                *entry.content.borrow_mut() = content;
                entry
            }
            None => cache.insert(Entry::new(block, content)),
        };
        self.log(handle, &entry);
    }
}

fn handle(transaction: Rc<Transaction>, blocks: usize) -> Handle {
    transaction.handles.set(transaction.handles.get() + 1);
    let handle = Handle {
        transaction,
        credits: Cell::default(),
    };
    reserve(&handle, blocks);
    handle
}

pub(super) fn reserve(handle: &Handle, blocks: usize) {
    let reserved = &handle.transaction.reserved;
    reserved.set(reserved.get() + blocks);
    handle.credits.set(handle.credits.get() + blocks);
}
