//! Transactions: pairs become durable in the log, and then update the tables.
//!
//! # The order
//!
//! 1. The data of all pairs are flushed to the medium.
//! 2. The pairs are written to the log with force, from the mark that begins the transaction to the
//!    one that commits it. **Here they are durable.**
//! 3. The tables are updated, and superseded units become reusable.
//!
//! Invariants: transactions commit one at a time; a transaction takes effect only if all of its
//! blocks are on the medium; the log always has room for the open transaction, after a checkpoint
//! if necessary.
//= remap 3.5

use crate::format::{NONE, PER_LOG, Record, base_of, encode_log, payload};
use crate::port::{Remap, Shared};
use host::{BlockPort, Purpose};
use sim::Sim;
use ssd::IoError;
use std::rc::{Rc, Weak};

/// Pairs by which the prefetch of a table entry precedes its update, so that this many cache misses
/// overlap.
const AHEAD: usize = 16;

impl<P: BlockPort> Shared<P> {
    /// Makes every published pair durable.
    pub(crate) async fn commit(&self) -> Result<(), IoError> {
        let number = {
            let state = self.state.borrow();
            (!state.open.is_empty()).then_some(state.number)
        };
        self.commit_up_to(1, number).await
    }

    /// Makes the pairs of open transaction `number` durable unless another task has done so; `None`
    /// means that there is nothing to commit. Only a multiple of `grain` pairs commits: the
    /// remainder stays in the open transaction.
    async fn commit_up_to(&self, grain: usize, number: Option<u64>) -> Result<(), IoError> {
        let _turn = self.commits.acquire(1).await;
        self.writable()?;
        {
            let state = &mut *self.state.borrow_mut();
            let whole = state.open.len() / grain * grain;
            if whole == 0 || number.is_none_or(|number| number < state.number) {
                return Ok(());
            }
            std::mem::swap(&mut state.open, &mut state.closing);
            state.closing.split(whole, &mut state.open);
            state.number += u64::from(state.open.is_empty());
            state.since = self.sim.now();
        }
        self.room.notify(&self.sim);
        self.transact().await.map_err(|error| self.fail(error))
    }

    async fn transact(&self) -> Result<(), IoError> {
        let blocks = self.state.borrow().closing.len().div_ceil(PER_LOG) as u32;
        if self.state.borrow().log.used + blocks > self.layout.log_units {
            self.checkpoint().await?;
        }
        self.port.flush().await?;
        self.write_log(blocks).await?;
        self.apply().await?;
        let used = u64::from(self.state.borrow().log.used);
        let most = u64::from(self.options.checkpoint_percent);
        if used * 100 >= u64::from(self.layout.log_units) * most {
            self.checkpoint().await?;
        }
        Ok(())
    }

    async fn write_log(&self, blocks: u32) -> Result<(), IoError> {
        let (mut units, mut payloads) = (Vec::new(), Vec::new());
        {
            let state = self.state.borrow();
            let chunks = (0..).zip(state.closing.pairs().chunks(PER_LOG));
            for (index, pairs) in chunks {
                let record = Record {
                    tx: state.log.next_tx,
                    index,
                    blocks: blocks as u16,
                    base: base_of(state.log.sequence),
                };
                let at = (state.log.head + u32::from(index)) % self.layout.log_units;
                units.push(self.layout.log + at);
                payloads.push(payload(encode_log(pairs, record, self.sums)));
            }
        }
        self.write_units(&units, &payloads, Purpose::Journal, true)
            .await?;
        let state = &mut *self.state.borrow_mut();
        state.log.head = (state.log.head + blocks) % self.layout.log_units;
        state.log.used += blocks;
        state.log.next_tx = state.log.next_tx.wrapping_add(1);
        state.metrics.log_blocks += u64::from(blocks);
        state.metrics.transactions += 1;
        state.metrics.pairs += state.closing.len() as u64;
        Ok(())
    }

    /// Applies the logged transaction to the tables and the physical side.
    async fn apply(&self) -> Result<(), IoError> {
        let pairs = self.state.borrow().closing.len();
        for at in 0..pairs {
            let pair = {
                let state = self.state.borrow();
                if let Some(later) = state.closing.pairs().get(at + AHEAD) {
                    state.tables.prefetch(later.orig);
                }
                state.closing.pairs()[at]
            };
            let part = self.state.borrow().tables.partition_of(pair.orig);
            while !self.state.borrow().tables.is_in_memory(part) {
                self.load(part).await?;
            }
            let state = &mut *self.state.borrow_mut();
            let old = state.tables.set(pair.orig, pair.trans);
            if pair.trans != NONE {
                state.space.settle(pair.trans, pair.orig);
            }
            if let Some(old) = old {
                state.space.supersede(old);
            }
        }
        {
            let state = &mut *self.state.borrow_mut();
            state.closing.clear();
            state.space.release();
        }
        self.room.notify(&self.sim);
        self.shrink().await
    }
}

impl<P: BlockPort> Remap<P> {
    /// Starts the task that commits by age, and a commit by size once the transaction is large
    /// enough.
    pub(crate) fn note_pending(&self) {
        let shared = &self.shared;
        if !shared.timer.replace(true) {
            let (sim, weak) = (shared.sim.clone(), Rc::downgrade(shared));
            shared.sim.spawn_detached(commit_by_age(sim, weak));
        }
        let len = shared.state.borrow().open.len() as u32;
        if len == shared.options.commit_pairs {
            let shared = Rc::clone(shared);
            self.shared.sim.spawn_detached(async move {
                shared.commit_large().await;
            });
        }
    }
}

/// Commits the open transaction whenever it is old enough, until it is empty or the layer is
/// closed. Ends after an error: the layer then refuses writes, so the next write or flush returns
/// the error.
async fn commit_by_age<P: BlockPort>(sim: Sim, weak: Weak<Shared<P>>) {
    while let Some(shared) = weak.upgrade() {
        let until = {
            let state = shared.state.borrow();
            state.since + shared.options.commit_interval
        };
        let mut ends = shared.closed.get() || shared.state.borrow().open.is_empty();
        if !ends && sim.now() >= until {
            let failed = shared.commit().await.err();
            ends = failed.is_some();
            failed.into_iter().for_each(|e| shared.note_background(e));
        }
        if ends {
            shared.timer.set(false);
            break;
        }
        drop(shared);
        sim.sleep_until(until).await;
    }
}

impl<P: BlockPort> Shared<P> {
    /// Commits the open transaction by size, in whole log blocks or multiples of `commit_pairs`,
    /// whichever is smaller.
    async fn commit_large(&self) {
        if !self.closed.get() {
            let grain = (self.options.commit_pairs as usize).min(PER_LOG);
            let number = self.state.borrow().number;
            let failed = self.commit_up_to(grain, Some(number)).await.err();
            failed.into_iter().for_each(|e| self.note_background(e));
        }
    }
}
