//! Locks of rows: one owner each, and those who wait in their order.
//!
//! Nobody waits in a circle: a transaction takes locks in the order of [`Lock`], those of a
//! delivery by district, and a delivery takes none that one waits for who holds what it
//! takes later.

use crate::files::ThreadId;
use std::collections::{BTreeMap, VecDeque};

/// A row that is changed, or the next order that is delivered in a district.
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

/// All locks that somebody has.
#[derive(Clone, Debug, Default)]
pub(super) struct Locks(BTreeMap<Lock, Held>);

impl Locks {
    /// Whether `thread` has `lock` now. If not it gets it later, and has to ask again.
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

    /// Takes `lock` from its owner; who has it next.
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
