//! The page cleaner, which writes dirty pages and makes checkpoints, and its writer threads.
//!
//! Invariant: a batch goes through its phases in order: its log is durable, copies are in the
//! doublewrite buffer and durable, pages are in their places, these are durable. A checkpoint is
//! made between batches.
//!
//! The cleaner examines the state once a second, at the next turn of any connection, and whenever
//! it is woken.

use super::Commit;
use super::choose;
use super::client::fd_of;
use super::engine::{Effect, InnoDb, LOGS, WRITERS, Work};
use super::redo::{BLOCK, Turn as Want};
use super::schema::{PAGE, PageId, SYSTEM};
use crate::files::ycsb::job::Todo;
use crate::files::{Call, ThreadId, Turn};
use std::collections::{BTreeSet, VecDeque};
use units::Ns;

/// First pages of the two parts of the doublewrite buffer, and pages of each part.
//= mysql 14.6
const DOUBLEWRITE: [u32; 2] = [64, 128];
const PART: usize = 64;
/// Interval at which the cleaner examines the state, and intervals after which it makes a
/// checkpoint anyway.
//= innodb 2
const TICK: Ns = Ns(1_000_000_000);
const CHECKPOINT_TICKS: u32 = 7;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Idle,
    /// Waits for the log up to this position, then continues with its batch.
    Log(u64),
    /// Waits for the log up to this position, then writes the checkpoint.
    Checkpoint(u64),
    /// Hands out the pages of the batch, then waits for the writers.
    Hands,
    Waits,
    /// All pages of the batch are durable in their places.
    Placed,
    /// Makes the log durable up to this position, once a second.
    Second(u64),
}

/// State of the cleaner.
#[derive(Clone, Debug, Default)]
pub(super) struct Cleaner {
    pub(super) job: Work,
    phase: Phase,
    batch: BTreeSet<PageId>,
    /// Pages of the batch left to write, and pages not yet in their places.
    queue: VecDeque<PageId>,
    outstanding: usize,
    /// Page that each writer is writing.
    writes: [Option<PageId>; WRITERS as usize],
    /// Pages left to write in this second.
    quota: u64,
    /// Whether the tail of the LRU list is to be cleaned.
    pub(super) tail: bool,
    /// Whether the log is due to be made durable in this second.
    second: bool,
    tick_at: Ns,
    ticks: u32,
}

impl InnoDb {
    /// Updates the cleaner's quotas, once a second.
    pub(super) fn tick(&mut self) {
        if self.now < self.cleaner.tick_at {
            return;
        }
        let cleaner = &mut self.cleaner;
        cleaner.tick_at = self.now + TICK;
        cleaner.ticks += 1;
        cleaner.tail = true;
        cleaner.second = self.tpcc.commit != Commit::Durable;
        cleaner.quota = choose::quota(&self.pool, &self.redo, self.tpcc.io);
        self.wake_cleaner();
    }

    pub(super) fn cleaner_turn(&mut self) -> Turn {
        let thread = self.cleaner_thread();
        loop {
            if self.is_over() {
                return self.parking.done(thread);
            }
            match self.cleaner.job.next() {
                Some(Todo::Call(call)) => return Turn::now(call),
                Some(Todo::Effect(effect)) => {
                    self.apply(effect);
                    continue;
                }
                None => {}
            }
            let goes_on = match self.cleaner.phase {
                Phase::Idle => self.decide(),
                Phase::Log(to) => self.after_log(to, Self::copy),
                Phase::Checkpoint(to) => self.after_log(to, |engine| engine.checkpoint(to)),
                Phase::Second(to) => self.after_log(to, |engine| {
                    engine.cleaner.phase = Phase::Idle;
                }),
                Phase::Hands => self.hand_out(),
                Phase::Waits if self.cleaner.outstanding > 0 => false,
                Phase::Waits => self.force(),
                Phase::Placed => self.end_batch(),
            };
            if !goes_on {
                return self.parking.park(thread);
            }
        }
    }

    /// Chooses the next phase; returns `false` if there is nothing to do.
    fn decide(&mut self) -> bool {
        if !self.ready {
            return false;
        }
        self.unstall();
        if std::mem::take(&mut self.cleaner.second) {
            self.cleaner.phase = Phase::Second(self.redo.stream.end);
            return true;
        }
        self.cleaner.batch = self.choose();
        if !self.cleaner.batch.is_empty() {
            let pages = self.cleaner.batch.iter();
            let newest = pages.map(|page| self.pool.begin_write(*page)).max();
            self.cleaner.phase = Phase::Log(newest.unwrap_or(0));
            return true;
        }
        let to = self.pool.oldest().unwrap_or(self.redo.stream.end);
        let age = self.redo.stream.end - self.redo.checkpoint;
        let due = self.must_stall()
            || age > self.redo.limits.checkpoint
            || self.cleaner.ticks >= CHECKPOINT_TICKS;
        let makes = due && to > self.redo.checkpoint;
        if makes {
            self.cleaner.ticks = 0;
            self.cleaner.phase = Phase::Checkpoint(to);
        }
        makes
    }

    /// Chooses the pages of the next batch: pages that stall changes, then those of this second's
    /// quota, then those at the tail of the LRU list.
    fn choose(&mut self) -> BTreeSet<PageId> {
        let pool = &self.pool;
        if self.redo.is_too_old(pool.oldest()) {
            return choose::batch(pool, pool.by_age(), choose::BATCH);
        }
        if self.must_stall() {
            // Only a checkpoint is missing.
            return BTreeSet::new();
        }
        if self.cleaner.quota > 0 {
            let most = self.cleaner.quota as usize;
            let batch = choose::batch(pool, pool.by_age(), most);
            let done = batch.len() as u64;
            self.cleaner.quota = match done {
                0 => 0,
                done => self.cleaner.quota.saturating_sub(done),
            };
            if done > 0 {
                return batch;
            }
        }
        if self.cleaner.tail {
            let tail = pool.at_tail(choose::depth(pool));
            let batch = choose::batch(pool, tail, choose::BATCH);
            self.cleaner.tail = !batch.is_empty();
            return batch;
        }
        BTreeSet::new()
    }

    /// Runs `then` once the log is durable up to `to`; returns `false` if the cleaner has to wait.
    fn after_log(&mut self, to: u64, then: impl FnOnce(&mut Self)) -> bool {
        let thread = self.cleaner_thread();
        match self.redo.stream.want(thread, to, false) {
            Want::Wait => return false,
            Want::Lead => self.cleaner.job = self.log_job(true),
            Want::Nothing => then(self),
        }
        true
    }

    /// Queues the copy of the batch to the doublewrite buffer, if it is enabled.
    //= mysql 14.6
    fn copy(&mut self) {
        self.cleaner.phase = Phase::Hands;
        if !self.tpcc.doublewrite {
            return;
        }
        let fd = fd_of(SYSTEM);
        let mut left = self.cleaner.batch.len();
        for first in DOUBLEWRITE {
            let pages = left.min(PART);
            left -= pages;
            if pages > 0 {
                let (at, len) = (u64::from(first) * PAGE, pages as u64 * PAGE);
                self.cleaner.job.call(Call::Pwrite { fd, at, len });
            }
        }
        self.cleaner.job.call(Call::Fsync { fd });
    }

    fn hand_out(&mut self) -> bool {
        let cleaner = &mut self.cleaner;
        cleaner.queue = cleaner.batch.iter().copied().collect();
        cleaner.outstanding = cleaner.queue.len();
        cleaner.phase = Phase::Waits;
        for writer in 1..=WRITERS {
            self.parking.wake(ThreadId(self.tpcc.threads + writer));
        }
        true
    }

    /// Queues the syncs of the batch's files.
    fn force(&mut self) -> bool {
        let spaces: BTreeSet<u8> = self.cleaner.batch.iter().map(|page| page.space).collect();
        for space in spaces {
            let fd = fd_of(space);
            self.cleaner.job.call(Call::Fsync { fd });
        }
        self.cleaner.phase = Phase::Placed;
        true
    }

    fn end_batch(&mut self) -> bool {
        self.cleaner.batch.clear();
        self.cleaner.phase = Phase::Idle;
        self.unstall();
        true
    }

    /// Queues the write of a checkpoint: all changes before `to` are durable in their pages.
    //= mysql 14.12
    fn checkpoint(&mut self, to: u64) {
        let (fd, at) = (LOGS[0], self.redo.checkpoint_place());
        let len = BLOCK;
        self.cleaner.job.call(Call::Pwrite { fd, at, len });
        self.cleaner.job.call(Call::Fsync { fd });
        self.cleaner.job.effect(Effect::Checkpointed(to));
        self.cleaner.phase = Phase::Idle;
    }

    /// Turn of one of the writer threads.
    pub(super) fn writer_turn(&mut self, thread: ThreadId, writer: usize) -> Turn {
        if let Some(page) = self.cleaner.writes[writer].take() {
            self.pool.written(page);
            self.wake_page(page);
            self.cleaner.outstanding -= 1;
            if self.cleaner.outstanding == 0 {
                self.wake_cleaner();
            }
        }
        if self.is_over() {
            return self.parking.done(thread);
        }
        let Some(page) = self.cleaner.queue.pop_front() else {
            return self.parking.park(thread);
        };
        self.cleaner.writes[writer] = Some(page);
        Turn::now(Call::Pwrite {
            fd: fd_of(page.space),
            at: page.offset(),
            len: PAGE,
        })
    }
}
