//! Cache of whole translation pages.

use crate::layout::NONE;

#[derive(Clone, Copy)]
struct Entry {
    newer: u32,
    older: u32,
    cached: bool,
    dirty: bool,
    loading: bool,
}

/// Translation pages in DRAM, as a list linked in the order of their last use.
pub(super) struct Pages {
    entries: Vec<Entry>,
    newest: u32,
    oldest: u32,
    cached: u32,
    capacity: u32,
}

impl Pages {
    /// An empty cache for `capacity` of `map_pages` translation pages.
    pub(super) fn new(map_pages: u32, capacity: u64) -> Self {
        let entry = Entry {
            newer: NONE,
            older: NONE,
            cached: false,
            dirty: false,
            loading: false,
        };
        Self {
            entries: vec![entry; map_pages as usize],
            newest: NONE,
            oldest: NONE,
            cached: 0,
            capacity: u32::try_from(capacity.max(1)).unwrap_or(u32::MAX),
        }
    }

    fn unlink(&mut self, index: u32) {
        let Entry { newer, older, .. } = self.entries[index as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.newest, index);
        let entry = &mut self.entries[index as usize];
        (entry.newer, entry.older) = (NONE, before);
        match before {
            NONE => self.oldest = index,
            _ => self.entries[before as usize].newer = index,
        }
    }

    /// Moves translation page `index` to the newest end. Returns whether it was cached already, or
    /// being loaded.
    pub(super) fn touch(&mut self, index: u32, dirty: bool) -> bool {
        let held = self.entries[index as usize].cached;
        if held {
            self.unlink(index);
        } else {
            self.entries[index as usize].cached = true;
            self.cached += 1;
        }
        self.entries[index as usize].dirty |= dirty;
        self.link_newest(index);
        held
    }

    /// Whether a translation page has to be evicted.
    pub(super) fn is_over(&self) -> bool {
        self.cached > self.capacity
    }

    /// Evicts the least recently used translation page. Returns its index if it was dirty.
    pub(super) fn evict(&mut self) -> Option<u32> {
        let oldest = self.oldest;
        self.unlink(oldest);
        let entry = &mut self.entries[oldest as usize];
        entry.cached = false;
        self.cached -= 1;
        std::mem::take(&mut entry.dirty).then_some(oldest)
    }

    pub(super) fn is_loading(&self, index: u32) -> bool {
        self.entries[index as usize].loading
    }

    pub(super) fn set_loading(&mut self, index: u32, loading: bool) {
        self.entries[index as usize].loading = loading;
    }
}
