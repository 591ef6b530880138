//! Blocks in memory: metadata, and file contents that the log holds.
//!
//! Invariants: a block that differs from the medium stays; so does one that
//! somebody holds; of the others those used last stay, up to the bound. Who asks
//! for a block that is being read waits for that read.

use super::transaction::Entry;
use crate::buffer::{Buffer, Table};
use host::Purpose;
use sim::Signal;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Blocks that one insertion looks at for room; so a cache that is full of
/// blocks that must stay grows, and insertions stay cheap.
const LOOKS: usize = 8;

/// A place of the cache.
pub(super) enum Slot {
    /// Being read; the signal says when that has ended.
    Loading(Rc<Signal>),
    Ready(Rc<Entry>),
}

/// The cache.
pub(super) struct Cache {
    slots: Table<Slot>,
    /// Blocks by when they were used last, as far as is known: an entry knows
    /// better, and is moved to its place when it comes to the front.
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

    /// What is at `block`; counts as a use.
    pub(super) fn get(&mut self, block: u64) -> Option<&Slot> {
        let slot = self.slots.get(block)?;
        if let Slot::Ready(entry) = slot {
            self.clock += 1;
            entry.used.set(self.clock);
        }
        Some(slot)
    }

    /// The entry of `block`, if it is in memory; no use.
    pub(super) fn entry(&self, block: u64) -> Option<&Rc<Entry>> {
        match self.slots.get(block) {
            Some(Slot::Ready(entry)) => Some(entry),
            _ => None,
        }
    }

    /// What is in memory of the blocks from `start` up to `end`.
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

    /// A read has failed.
    pub(super) fn give_up(&mut self, block: u64) {
        if let Some(Slot::Loading(_)) = self.slots.get(block) {
            self.slots.remove(block);
        }
    }

    /// Puts in what was read, unless something newer is there; gives what is
    /// there then.
    pub(super) fn loaded(&mut self, buffer: Buffer) -> Rc<Entry> {
        if let Some(entry) = self.entry(buffer.block) {
            return Rc::clone(entry);
        }
        self.insert(Entry::of_buffer(buffer))
    }

    /// Puts in a new entry.
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

    /// Drops the block at the front of the order, or puts it where it belongs.
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

    /// Takes `entry` out.
    pub(super) fn remove(&mut self, entry: &Rc<Entry>) {
        if self
            .entry(entry.block)
            .is_some_and(|e| Rc::ptr_eq(e, entry))
        {
            self.slots.remove(entry.block);
            self.order.remove(&entry.used.get());
        }
    }

    /// Blocks in memory.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

/// A block of metadata that is all zeros.
pub(super) fn blank(block: u64, purpose: Purpose) -> Buffer {
    Buffer::new(block, purpose, Box::new([0; crate::buffer::BLOCK]))
}
