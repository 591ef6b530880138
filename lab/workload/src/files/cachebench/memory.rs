//! Items in DRAM, in the order of their last use.
//!
//! Invariant: once [`Memory::evict`] returns `None`, the items together have at most as many bytes
//! as the memory.

//= cachelib 1
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Item {
    /// Number of the item's last use.
    used: u64,
    bytes: u64,
    /// Whether flash holds the item's version.
    clean: bool,
}

/// Items in memory, by key and by last use.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    items: BTreeMap<u32, Item>,
    /// Keys by the number of their last use, the oldest first.
    order: BTreeMap<u64, u32>,
    uses: u64,
    bytes: u64,
    most: u64,
}

impl Memory {
    pub(super) fn new(most: u64) -> Self {
        Self {
            items: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            most,
        }
    }

    /// Marks an item as used last; returns `false` if it is not in memory.
    pub(super) fn touch(&mut self, key: u32) -> bool {
        let Some(item) = self.items.get_mut(&key) else {
            return false;
        };
        self.order.remove(&item.used);
        self.uses += 1;
        item.used = self.uses;
        self.order.insert(self.uses, key);
        true
    }

    pub(super) fn has(&self, key: u32) -> bool {
        self.items.contains_key(&key)
    }

    /// Inserts an item, which must not be in memory, as the one used last.
    pub(super) fn insert(&mut self, key: u32, bytes: u64, clean: bool) {
        self.uses += 1;
        let used = self.uses;
        self.items.insert(key, Item { used, bytes, clean });
        self.order.insert(used, key);
        self.bytes += bytes;
    }

    /// Removes an item; returns whether it was clean, or `None` if it was not in memory.
    pub(super) fn remove(&mut self, key: u32) -> Option<bool> {
        let item = self.items.remove(&key)?;
        self.order.remove(&item.used);
        self.bytes -= item.bytes;
        Some(item.clean)
    }

    /// Marks an item dirty, since flash dropped its version.
    pub(super) fn soil(&mut self, key: u32) {
        if let Some(item) = self.items.get_mut(&key) {
            item.clean = false;
        }
    }

    /// Evicts the item used least recently while the items exceed the memory; returns its key and
    /// whether it was clean.
    pub(super) fn evict(&mut self) -> Option<(u32, bool)> {
        if self.bytes <= self.most {
            return None;
        }
        let key = *self.order.first_key_value()?.1;
        self.remove(key).map(|clean| (key, clean))
    }
}
