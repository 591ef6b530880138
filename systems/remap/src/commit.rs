//! Transactions: pairs become durable in a log, and then what tables say.
//!
//! # The order
//!
//! 1. The data of all pairs are forced to the medium.
//! 2. The pairs are written to the log, from the mark that begins the transaction to the
//!    one that commits it. **Here they are durable.**
//! 3. Tables are updated, and what the pairs supersede may be used again.
//!
//! Invariants: one transaction after the other; a transaction is as a whole on the medium
//! or counts for nothing, whichever of its blocks are there; the log always has room for
//! the one that is open.
//= remap 3.5

use crate::format::{NONE, PER_LOG, Record, base_of, encode_log, payload};
use crate::port::{Remap, Shared};
use host::{BlockPort, Purpose};
use ssd::IoError;
use std::rc::Rc;

impl<P: BlockPort> Shared<P> {
    /// Makes all that was published durable.
    pub(crate) async fn commit(&self) -> Result<(), IoError> {
        let _turn = self.commits.acquire(1).await;
        self.writable()?;
        {
            let state = &mut *self.state.borrow_mut();
            if state.open.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut state.open, &mut state.closing);
            state.number += 1;
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

    /// Updates tables by the transaction that was written.
    async fn apply(&self) -> Result<(), IoError> {
        let pairs = self.state.borrow().closing.len();
        for at in 0..pairs {
            let pair = self.state.borrow().closing.pairs()[at];
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
    /// Lets a transaction commit of its own accord once it is large or old enough; `begins`
    /// if it got its first pair.
    pub(crate) fn note_pending(&self, begins: bool) {
        let shared = &self.shared;
        let (number, len) = {
            let state = shared.state.borrow();
            (state.number, state.open.len() as u32)
        };
        if begins {
            let (sim, weak) = (shared.sim.clone(), Rc::downgrade(shared));
            let interval = shared.options.commit_interval;
            shared.sim.spawn_detached(async move {
                sim.sleep(interval).await;
                if let Some(shared) = weak.upgrade() {
                    shared.commit_number(number).await;
                }
            });
        }
        if len == shared.options.commit_pairs {
            let shared = Rc::clone(shared);
            self.shared.sim.spawn_detached(async move {
                shared.commit_number(number).await;
            });
        }
    }
}

impl<P: BlockPort> Shared<P> {
    /// Commits the open transaction if it is still the one of this number. An error is told
    /// to whoever asks for something next.
    async fn commit_number(&self, number: u64) {
        if self.state.borrow().number == number && !self.closed.get() {
            let _ = self.commit().await;
        }
    }
}
