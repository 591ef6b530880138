//! Row locks: each has one owner and a queue of waiters.
//!
//! Deadlocks are impossible: a transaction takes locks in the order of [`Lock`], a delivery takes
//! them by district, and no lock that a delivery takes is waited for by the owner of a lock that
//! the delivery takes later.

use crate::files::ThreadId;
use std::collections::{BTreeMap, VecDeque};

/// Lock on a row that is changed, or on the next delivery of a district.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Warehouse(u32),
    District(u32),
    Delivery(u32),
    /// District and customer.
    Customer(u32, u32),
    /// Warehouse and item.
    Stock(u32, u32),
}

#[derive(Clone, Debug)]
struct Held {
    owner: ThreadId,
    waiting: VecDeque<ThreadId>,
}

/// Locks that have an owner.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(BTreeMap<Lock, Held>);

impl Locks {
    /// Takes `lock` for `thread` if it is free, else queues the thread. Returns whether the thread
    /// owns it; a queued thread must call again when woken.
    pub(super) fn take(&mut self, lock: Lock, thread: ThreadId) -> bool {
        let held = self.0.entry(lock).or_insert_with(|| Held {
            owner: thread,
            waiting: VecDeque::new(),
        });
        let mine = held.owner == thread;
        if !mine && !held.waiting.contains(&thread) {
            held.waiting.push_back(thread);
        }
        mine
    }

    /// Passes `lock` from its owner to the next waiter, which is returned.
    pub(super) fn release(&mut self, lock: Lock) -> Option<ThreadId> {
        let held = self.0.get_mut(&lock)?;
        match held.waiting.pop_front() {
            Some(next) => held.owner = next,
            None => {
                self.0.remove(&lock);
                return None;
            }
        }
        Some(held.owner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
