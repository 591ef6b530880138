//! Items in DRAM, the one that was used least recently at the end.
//!
//! Invariant: the items together have no more bytes than there are, once [`Memory::evict`]
//! gives none.

//= cachelib 1
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Item {
    /// When it was used last, in uses.
    used: u64,
    bytes: u64,
    /// Whether flash has the same.
    clean: bool,
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    items: BTreeMap<u32, Item>,
    /// By when they were used last.
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

    /// Uses an item, if it is here.
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

    /// Puts an item here that is not, as the one that was used last.
    pub(super) fn insert(&mut self, key: u32, bytes: u64, clean: bool) {
        self.uses += 1;
        let used = self.uses;
        self.items.insert(key, Item { used, bytes, clean });
        self.order.insert(used, key);
        self.bytes += bytes;
    }

    /// Takes an item away; whether it was clean, if it was here.
    pub(super) fn remove(&mut self, key: u32) -> Option<bool> {
        let item = self.items.remove(&key)?;
        self.order.remove(&item.used);
        self.bytes -= item.bytes;
        Some(item.clean)
    }

    /// Flash no longer has what it had of an item.
    pub(super) fn soil(&mut self, key: u32) {
        if let Some(item) = self.items.get_mut(&key) {
            item.clean = false;
        }
    }

    /// Takes away the item that was used least recently, and whether it was clean, while there
    /// are too many bytes.
    pub(super) fn evict(&mut self) -> Option<(u32, bool)> {
        if self.bytes <= self.most {
            return None;
        }
        let key = *self.order.first_key_value()?.1;
        self.remove(key).map(|clean| (key, clean))
    }
}
