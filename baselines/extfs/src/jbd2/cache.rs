//! Blocks in memory: metadata, and file contents that the log holds.
//!
//! Invariants: dirty and pinned blocks stay in memory; of the others the most recently used stay,
//! up to the bound. A read of a block that is being loaded waits for that load.

use super::transaction::Entry;
use crate::buffer::{Buffer, Table};
use host::Purpose;
use sim::Signal;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Blocks that one insertion examines for eviction: insertions stay cheap, and a
/// cache full of dirty or pinned blocks grows.
const LOOKS: usize = 8;

/// State of a block in the cache.
pub(super) enum Slot {
    /// The block is being read; the signal fires at the end of the read.
    Loading(Rc<Signal>),
    Ready(Rc<Entry>),
}

/// The cache of blocks, bounded by `bound` and evicted approximately by last use.
pub(super) struct Cache {
    slots: Table<Slot>,
    /// Blocks by a possibly outdated time of their last use. The entry has the true time,
    /// and moves to its place when it reaches the front.
    order: BTreeMap<u64, u64>,
    clock: u64,
    bound: usize,
}

impl Cache {
    pub(super) const fn new(bound: usize) -> Self {
        Self {
            slots: Table::new(),
            order: BTreeMap::new(),
            clock: 0,
            bound,
        }
    }

    /// The slot of `block`; counts as a use.
    pub(super) fn get(&mut self, block: u64) -> Option<&Slot> {
        let slot = self.slots.get(block)?;
        if let Slot::Ready(entry) = slot {
            self.clock += 1;
            entry.used.set(self.clock);
        }
        Some(slot)
    }

    /// The entry of `block`, if it is in memory; does not count as a use.
    pub(super) fn entry(&self, block: u64) -> Option<&Rc<Entry>> {
        match self.slots.get(block) {
            Some(Slot::Ready(entry)) => Some(entry),
            _ => None,
        }
    }

    /// Slots of the blocks in `start..end` that are in memory.
    pub(super) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Slot)> {
        self.slots.range(start, end)
    }

    /// Notes that `block` is being read.
    pub(super) fn load(&mut self, block: u64) -> Rc<Signal> {
        let signal = Rc::new(Signal::default());
        let slot = Slot::Loading(Rc::clone(&signal));
        self.slots.insert(block, slot);
        signal
    }

    /// Removes the slot of `block` after a failed read.
    pub(super) fn give_up(&mut self, block: u64) {
        if let Some(Slot::Loading(_)) = self.slots.get(block) {
            self.slots.remove(block);
        }
    }

    /// Inserts a block that was read, unless a newer entry is there already. Returns the
    /// entry in the cache.
    pub(super) fn loaded(&mut self, buffer: Buffer) -> Rc<Entry> {
        if let Some(entry) = self.entry(buffer.block) {
            return Rc::clone(entry);
        }
        self.insert(Entry::of_buffer(buffer))
    }

    /// Inserts a new entry and evicts an idle one if the cache is full.
    pub(super) fn insert(&mut self, entry: Entry) -> Rc<Entry> {
        self.make_room();
        self.clock += 1;
        entry.used.set(self.clock);
        self.order.insert(self.clock, entry.block);
        let entry = Rc::new(entry);
        let slot = Slot::Ready(Rc::clone(&entry));
        self.slots.insert(entry.block, slot);
        entry
    }

    fn make_room(&mut self) {
        for _ in 0..LOOKS {
            if self.slots.len() < self.bound {
                return;
            }
            let Some((stamp, block)) = self.order.pop_first() else {
                return;
            };
            self.look_at(stamp, block);
        }
    }

    /// Evicts the block at the front of the order if it is idle, or moves it to its place.
    fn look_at(&mut self, stamp: u64, block: u64) {
        let Some(Slot::Ready(entry)) = self.slots.get(block) else {
            return;
        };
        let used = entry.used.get();
        if self.order.contains_key(&used) {
            // A later entry of the same block has its own place.
            return;
        }
        if used == stamp && entry.is_idle() {
            self.slots.remove(block);
            return;
        }
        if used == stamp {
            self.clock += 1;
            entry.used.set(self.clock);
        }
        self.order.insert(entry.used.get(), block);
    }

    /// Removes `entry`, unless the slot of its block holds another entry.
    pub(super) fn remove(&mut self, entry: &Rc<Entry>) {
        if self
            .entry(entry.block)
            .is_some_and(|e| Rc::ptr_eq(e, entry))
        {
            self.slots.remove(entry.block);
            self.order.remove(&entry.used.get());
        }
    }

    /// Blocks in memory, those being read included.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

/// A buffer of zeros for a new block of metadata.
pub(super) fn blank(block: u64, purpose: Purpose) -> Buffer {
    Buffer::new(block, purpose, Box::new([0; crate::buffer::BLOCK]))
}
