//! The map: the position of the newest version of each mapped page.

use crate::layout::NONE;
use std::cell::RefCell;
use std::rc::Rc;

/// Flag of a map entry whose other bits name a slot of the write buffer.
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
    /// Lists that receive each page whose newest version was written or relocated.
    watches: Vec<Touched>,
}

/// Pages that changed, in the order of the changes; a page may appear repeatedly.
pub(crate) type Touched = Rc<RefCell<Vec<u32>>>;

impl Map {
    pub(crate) fn new(pages: u32) -> Self {
        Self {
            entries: vec![NONE; pages as usize],
            watches: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, page: u32) -> Where {
        match self.entries[page as usize] {
            NONE => Where::Nowhere,
            entry if entry & IN_BUFFER != 0 => Where::Buffer(entry & !IN_BUFFER),
            entry => Where::Flash(entry),
        }
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
            Where::Flash(place) => place,
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
        self.entries.len() * size_of::<u32>()
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }
}
