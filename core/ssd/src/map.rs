//! The map: the position of the newest version of each mapped page.
//!
//! Entries that no write has changed are zero, so they take no memory: the operating system supplies
//! zeros when they are first read. The past of the drive gives their positions.

use crate::layout::NONE;
use crate::past::Past;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Entry of a page whose position is the one in the past.
const AS_BEFORE: u32 = 0;

/// Flag of a map entry whose other bits name a slot of the write buffer. The others are places,
/// counted from 1: the last place of the flash belongs to a summary, so no entry has this value.
const IN_BUFFER: u32 = 1 << 31;

/// Position of the newest version of a mapped page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Nowhere,
    Buffer(u32),
    Flash(u32),
}

/// Table of positions, indexed by mapped page.
pub(crate) struct Map {
    entries: Vec<u32>,
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
            entries: vec![AS_BEFORE; pages as usize],
            past,
            watches: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, page: u32) -> Where {
        match self.entries[page as usize] {
            AS_BEFORE => self.before(page),
            NONE => Where::Nowhere,
            entry if entry & IN_BUFFER != 0 => Where::Buffer(entry & !IN_BUFFER),
            entry => Where::Flash(entry - 1),
        }
    }

    /// The slot of the write buffer that has the newest version of `page`. Costs less than
    /// [`Map::get`] for a page that is as the past left it.
    #[inline]
    pub(crate) fn slot(&self, page: u32) -> Option<u32> {
        let entry = self.entries[page as usize];
        (entry & IN_BUFFER != 0 && entry != NONE).then_some(entry & !IN_BUFFER)
    }

    /// Position of `page` in the past.
    fn before(&self, page: u32) -> Where {
        let place = self.past.as_ref().and_then(|past| past.place(page));
        place.map_or(Where::Nowhere, Where::Flash)
    }

    /// Prefetches the entry of `page` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, page: u32) {
        sim::prefetch(&self.entries, page as usize);
    }

    #[inline]
    pub(crate) fn set(&mut self, page: u32, place: Where) {
        self.entries[page as usize] = match place {
            Where::Nowhere => NONE,
            Where::Buffer(slot) => slot | IN_BUFFER,
            Where::Flash(place) => place + 1,
        };
        self.touch(page);
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
        touched(&self.entries)
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
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
