//! The page cache in the device's DRAM: cached pages by recency, and the contents of dirty ones.
//!
//! Invariants: a page is in one slot or in none. The list from newest to oldest contains every used
//! slot once. Only dirty pages have contents here: a clean page equals flash, or the log behind the
//! cache.

use crate::layout::NONE;
use crate::map::Touched;
use crate::media::SavedSlot;
use nand::Payload;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Contents that only the cache has.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    /// `None` if contents are not kept.
    pub(super) payload: Option<Payload>,
    /// Frontier that will write the page.
    pub(super) frontier: u16,
    /// Origin of the data.
    pub(super) tag: u16,
}

#[derive(Clone, Debug)]
struct Slot {
    page: u32,
    newer: u32,
    older: u32,
    dirty: Option<Dirty>,
}

/// Write-back cache of pages, with eviction of the least recently used.
pub(super) struct Cache {
    capacity: u32,
    /// Slot of each page of the drive, or `NONE`.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    dirty: u32,
    /// Slots with dirty pages, one bit each.
    dirty_slots: Vec<u64>,
    /// Pages that are being fetched from flash.
    pub(super) fetching: BTreeSet<u32>,
    /// Lists that receive each page whose dirty contents changed.
    watches: Vec<Touched>,
}

impl Cache {
    pub(super) fn new(capacity: u32, pages: u32) -> Self {
        Self {
            capacity,
            slot_of: vec![NONE; pages as usize],
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            dirty: 0,
            dirty_slots: Vec::new(),
            fetching: BTreeSet::new(),
            watches: Vec::new(),
        }
    }

    pub(super) fn watch(&mut self) -> Touched {
        let watch = Touched::default();
        self.watches.push(Rc::clone(&watch));
        watch
    }

    pub(super) fn unwatch(&mut self, watch: &Touched) {
        self.watches.retain(|other| !Rc::ptr_eq(other, watch));
    }

    fn tell(&self, page: u32) {
        for watch in &self.watches {
            watch.borrow_mut().push(page);
        }
    }

    pub(super) fn has(&self, page: u32) -> bool {
        self.slot_of[page as usize] != NONE
    }

    /// The contents of `page` if it is dirty.
    pub(super) fn dirty(&self, page: u32) -> Option<&Dirty> {
        let slot = self.slot_of[page as usize];
        self.slots.get(slot as usize)?.dirty.as_ref()
    }

    /// Takes the contents of a dirty page out; the page stays dirty.
    pub(super) fn take_contents(&mut self, page: u32) -> Option<Payload> {
        let slot = self.slot_of[page as usize];
        let slot = self.slots.get_mut(slot as usize)?;
        slot.dirty.as_mut()?.payload.take()
    }

    /// Marks `page` as used. Returns whether it is cached.
    pub(super) fn touch(&mut self, page: u32) -> bool {
        let slot = self.slot_of[page as usize];
        if slot != NONE {
            self.unlink(slot);
            self.link_newest(slot);
        }
        slot != NONE
    }

    /// Returns whether `page` is cached or has room; evicts the least recently used page for it if
    /// that page is clean.
    pub(super) fn make_room(&mut self, page: u32) -> bool {
        let used = (self.slots.len() - self.free.len()) as u32;
        if self.has(page) || used < self.capacity {
            return true;
        }
        let oldest = &self.slots[self.oldest as usize];
        let is_clean = oldest.dirty.is_none();
        if is_clean {
            self.remove(oldest.page);
        }
        is_clean
    }

    /// Puts `page` into the cache, or replaces its dirty contents. There must be room.
    pub(super) fn put(&mut self, page: u32, dirty: Option<Dirty>) {
        if !self.touch(page) {
            let slot = Slot {
                page,
                newer: NONE,
                older: NONE,
                dirty: None,
            };
            let index = self.free.pop().unwrap_or(self.slots.len() as u32);
            match self.slots.get_mut(index as usize) {
                Some(free) => *free = slot,
                None => self.slots.push(slot),
            }
            self.slot_of[page as usize] = index;
            self.link_newest(index);
        }
        if let Some(dirty) = dirty {
            let slot = self.slot_of[page as usize];
            let before = self.slots[slot as usize].dirty.replace(dirty);
            self.dirty += u32::from(before.is_none());
            self.mark(slot, true);
            self.tell(page);
        }
    }

    /// Removes `page`, and returns its contents if it was dirty.
    pub(super) fn remove(&mut self, page: u32) -> Option<Dirty> {
        let index = std::mem::replace(&mut self.slot_of[page as usize], NONE);
        if index == NONE {
            return None;
        }
        self.unlink(index);
        self.free.push(index);
        self.wash(index)
    }

    /// Makes `page` clean, and returns its contents if it was dirty.
    pub(super) fn take_dirty(&mut self, page: u32) -> Option<Dirty> {
        match self.slot_of[page as usize] {
            NONE => None,
            index => self.wash(index),
        }
    }

    fn wash(&mut self, index: u32) -> Option<Dirty> {
        let slot = &mut self.slots[index as usize];
        let page = slot.page;
        let dirty = slot.dirty.take()?;
        self.dirty -= 1;
        self.mark(index, false);
        self.tell(page);
        Some(dirty)
    }

    fn mark(&mut self, index: u32, dirty: bool) {
        let (word, bit) = (index as usize / 64, 1 << (index % 64));
        if self.dirty_slots.len() <= word {
            self.dirty_slots.resize(word + 1, 0);
        }
        match dirty {
            true => self.dirty_slots[word] |= bit,
            false => self.dirty_slots[word] &= !bit,
        }
    }

    /// Dirty pages, least recently used first.
    pub(super) fn dirty_pages(&self) -> Vec<u32> {
        let dirty = self.oldest_first().filter(|slot| slot.dirty.is_some());
        dirty.map(|slot| slot.page).collect()
    }

    /// Dirty pages, by slot: without a walk over the clean ones.
    pub(super) fn dirty_by_slot(&self) -> Vec<u32> {
        let mut pages = Vec::with_capacity(self.dirty as usize);
        for (word, &bits) in (0..).zip(&self.dirty_slots) {
            let mut bits: u64 = bits;
            while bits != 0 {
                let index: usize = word * 64 + bits.trailing_zeros() as usize;
                pages.push(self.slots[index].page);
                bits &= bits - 1;
            }
        }
        pages
    }

    /// The least recently used page, if it is dirty.
    pub(super) fn victim(&self) -> Option<u32> {
        let oldest = self.slots.get(self.oldest as usize)?;
        oldest.dirty.is_some().then_some(oldest.page)
    }

    fn oldest_first(&self) -> impl Iterator<Item = &Slot> {
        let slot = |index: u32| self.slots.get(index as usize);
        std::iter::successors(slot(self.oldest), move |s| slot(s.newer))
    }

    /// Dirty pages that the battery keeps, least recently used first.
    pub(super) fn saved(&self) -> Vec<SavedSlot> {
        let dirty = self.dirty_pages().into_iter();
        dirty.filter_map(|page| self.saved_page(page)).collect()
    }

    /// The battery's entry for `page`; `None` if it is not dirty.
    pub(super) fn saved_page(&self, page: u32) -> Option<SavedSlot> {
        self.dirty(page).map(|dirty| SavedSlot {
            page,
            tag: dirty.tag,
            frontier: dirty.frontier,
            payload: dirty.payload.clone().into_iter().collect(),
        })
    }

    fn unlink(&mut self, index: u32) {
        let Slot { newer, older, .. } = self.slots[index as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.slots[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.slots[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let before = std::mem::replace(&mut self.newest, index);
        let slot = &mut self.slots[index as usize];
        (slot.newer, slot.older) = (NONE, before);
        match before {
            NONE => self.oldest = index,
            _ => self.slots[before as usize].newer = index,
        }
    }

    /// Panics if an invariant does not hold.
    pub(super) fn check(&self) {
        let mut used = 0;
        let mut dirty = 0;
        for slot in self.oldest_first() {
            let index = self.slot_of[slot.page as usize];
            assert_eq!(self.slots[index as usize].page, slot.page);
            used += 1;
            dirty += u32::from(slot.dirty.is_some());
        }
        assert!(used <= self.capacity, "{used} pages of {}", self.capacity);
        assert_eq!(used as usize, self.slots.len() - self.free.len());
        assert_eq!(dirty, self.dirty, "dirty pages");
        assert_eq!(
            self.dirty_by_slot().len(),
            dirty as usize,
            "marks of dirty slots"
        );
    }
}
