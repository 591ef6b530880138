//! The map: the position of the newest version of each mapped page.
//!
//! An entry has 32 bits. From the bottom up: [`AS_BEFORE`]; the places of the flash, counted from 1;
//! slots of the write buffer, counted down from the top; [`NONE`] for a page without a version.
//!
//! Entries that no write has changed take no memory: a chunk of the table is allocated when one of
//! its entries is first set, and the operating system supplies its zeros when they are first read.
//! The past of the drive gives their positions.

use crate::layout::NONE;
use crate::past::Past;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Entry of a page whose position is the one in the past.
const AS_BEFORE: u32 = 0;

/// Maximum number of slots that a write buffer can have, copies by collection included.
pub(crate) const MAX_SLOTS: u32 = 1 << 24;

/// Maximum number of places: one less than the lowest entry of a slot, because entries of places
/// begin at 1.
pub(crate) const MAX_PLACES: u32 = u32::MAX - MAX_SLOTS - 1;

/// Entry of slot 0; slot s has the entry s below.
const SLOT_0: u32 = NONE - 1;

const _: () = assert!(MAX_PLACES < SLOT_0 - (MAX_SLOTS - 1));

/// Entries of a chunk, as a power of two: 4 MiB of memory.
const CHUNK_BITS: u32 = 20;
const CHUNK: u32 = 1 << CHUNK_BITS;

/// Position of the newest version of a mapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Nowhere,
    Buffer(u32),
    Flash(u32),
}

/// Table of positions, indexed by mapped page.
pub(crate) struct Map {
    len: u32,
    /// Chunks of [`CHUNK`] entries; empty until one of the entries is set.
    chunks: Vec<Box<[u32]>>,
    /// Positions of all pages at first; without it they are nowhere.
    past: Option<Arc<Past>>,
    /// Lists that receive each page whose newest version was written or relocated.
    watches: Vec<Touched>,
}

/// Pages that changed, in the order of the changes; a page may appear repeatedly.
pub(crate) type Touched = Rc<RefCell<Vec<u32>>>;

impl Map {
    pub(crate) fn new(pages: u32, past: Option<Arc<Past>>) -> Self {
        Self {
            len: pages,
            chunks: vec![Box::default(); pages.div_ceil(CHUNK) as usize],
            past,
            watches: Vec::new(),
        }
    }

    #[inline]
    fn entry(&self, page: u32) -> u32 {
        debug_assert!(page < self.len);
        let chunk = &self.chunks[(page >> CHUNK_BITS) as usize];
        let entry = chunk.get((page & (CHUNK - 1)) as usize);
        entry.copied().unwrap_or(AS_BEFORE)
    }

    #[inline]
    pub(crate) fn get(&self, page: u32) -> Where {
        match self.entry(page) {
            AS_BEFORE => self.before(page),
            NONE => Where::Nowhere,
            entry if entry > MAX_PLACES => Where::Buffer(SLOT_0 - entry),
            entry => Where::Flash(entry - 1),
        }
    }

    /// The slot of the write buffer that has the newest version of `page`. Costs less than
    /// [`Map::get`] for a page that is as the past left it.
    #[inline]
    pub(crate) fn slot(&self, page: u32) -> Option<u32> {
        // The difference wraps for `NONE`, the only entry above those of slots.
        let slot = SLOT_0.wrapping_sub(self.entry(page));
        (slot < MAX_SLOTS).then_some(slot)
    }

    /// Position of `page` in the past.
    fn before(&self, page: u32) -> Where {
        let place = self.past.as_ref().and_then(|past| past.place(page));
        place.map_or(Where::Nowhere, Where::Flash)
    }

    /// Prefetches the entry of `page` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        let chunk = &self.chunks[(page >> CHUNK_BITS) as usize];
        sim::prefetch(chunk, (page & (CHUNK - 1)) as usize);
    }

    #[inline]
    pub(crate) fn set(&mut self, page: u32, place: Where) {
        let number = (page >> CHUNK_BITS) as usize;
        if self.chunks[number].is_empty() {
            self.allocate(number);
        }
        self.chunks[number][(page & (CHUNK - 1)) as usize] = match place {
            Where::Nowhere => NONE,
            Where::Buffer(slot) => SLOT_0 - slot,
            Where::Flash(place) => place + 1,
        };
        self.touch(page);
    }

    #[cold]
    fn allocate(&mut self, chunk: usize) {
        let left = self.len as usize - (chunk << CHUNK_BITS);
        self.chunks[chunk] = vec![AS_BEFORE; left.min(CHUNK as usize)].into_boxed_slice();
    }

    /// Pages whose entry was set, ascending.
    pub(crate) fn changed(&self) -> impl Iterator<Item = u32> {
        let chunks = (0_u32..).zip(&self.chunks);
        chunks.flat_map(|(number, chunk)| {
            let pages = (number << CHUNK_BITS..).zip(chunk.iter());
            let set = pages.filter(|(_, entry)| **entry != AS_BEFORE);
            set.map(|(page, _)| page)
        })
    }

    /// Runs of pages below `end` that `is_bare` holds for, as first page and count, ascending; the
    /// function is called for pages with a set entry. The others are bare if there is no past, in
    /// which every page of the host has a place.
    pub(crate) fn bare(&self, end: u32, is_bare: impl Fn(Where) -> bool) -> Vec<(u32, u32)> {
        let mut runs = Vec::new();
        let untouched = self.past.is_none();
        for (number, chunk) in (0..end.div_ceil(CHUNK)).zip(&self.chunks) {
            let first = number << CHUNK_BITS;
            let pages = CHUNK.min(end - first);
            if chunk.is_empty() && untouched {
                extend(&mut runs, first, pages);
            }
            for (page, entry) in (first..first + pages).zip(chunk.iter()) {
                let bare = match *entry {
                    AS_BEFORE => untouched,
                    _ => is_bare(self.get(page)),
                };
                if bare {
                    extend(&mut runs, page, 1);
                }
            }
        }
        runs
    }

    /// Reports to every watch that `page` has a new version.
    #[inline]
    pub(crate) fn touch(&self, page: u32) {
        for watch in &self.watches {
            watch.borrow_mut().push(page);
        }
    }

    /// Registers a new watch; it receives the changes from here on.
    pub(crate) fn watch(&mut self) -> Touched {
        let watch = Touched::default();
        self.watches.push(Rc::clone(&watch));
        watch
    }

    /// Removes `watch` from the receivers of changes.
    pub(crate) fn unwatch(&mut self, watch: &Touched) {
        self.watches.retain(|other| !Rc::ptr_eq(other, watch));
    }

    /// Bytes of host memory that the entries take.
    pub(crate) fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(|chunk| touched(chunk));
        chunks.sum::<usize>() + self.chunks.len() * size_of::<Box<[u32]>>()
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }
}

/// Adds `count` pages from `first` on to ascending runs.
fn extend(runs: &mut Vec<(u32, u32)>, first: u32, count: u32) {
    match runs.last_mut() {
        Some(run) if run.0 + run.1 == first => run.1 += count,
        _ => runs.push((first, count)),
    }
}

/// Bytes of the memory pages of 4 KiB that hold an item other than zero; the others of a table that
/// was allocated as zeros take no memory.
pub(crate) fn touched<T: Copy + Default + PartialEq>(table: &[T]) -> usize {
    const PAGE: usize = 4096;
    let pages = table.chunks(PAGE / size_of::<T>());
    let used = pages.filter(|page| page.iter().any(|item| *item != T::default()));
    used.count() * PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_of_each_kind_is_read_back() {
        let mut map = Map::new(MAX_PLACES, None);
        let all = [
            Where::Nowhere,
            Where::Flash(0),
            Where::Flash(1 << 31),
            Where::Flash(MAX_PLACES - 1),
            Where::Buffer(0),
            Where::Buffer(MAX_SLOTS - 1),
        ];
        for page in [0, CHUNK - 1, CHUNK, 1 << 31, MAX_PLACES - 1] {
            assert_eq!((map.get(page), map.slot(page)), (Where::Nowhere, None));
            for place in all {
                map.set(page, place);
                let slot = match place {
                    Where::Buffer(slot) => Some(slot),
                    _ => None,
                };
                assert_eq!((map.get(page), map.slot(page)), (place, slot), "{page}");
            }
        }
        let changed: Vec<_> = map.changed().collect();
        assert_eq!(changed, [0, CHUNK - 1, CHUNK, 1 << 31, MAX_PLACES - 1]);
        assert!(map.memory() < 1 << 20, "{}", map.memory());
    }

    #[test]
    fn bare_pages_join_into_runs_across_chunks() {
        let mut map = Map::new(4 * CHUNK, None);
        map.set(7, Where::Flash(3));
        map.set(CHUNK, Where::Flash(4));
        map.set(2 * CHUNK, Where::Buffer(5));
        let runs = map.bare(3 * CHUNK + 1, |place| place == Where::Buffer(5));
        let first = (8, CHUNK - 8);
        assert_eq!(runs, [(0, 7), first, (CHUNK + 1, 2 * CHUNK)]);
    }
}
