//! The map: where the newest version of each page is.

use crate::layout::NONE;
use std::cell::RefCell;
use std::rc::Rc;

/// Marks an entry of the map that names a slot of the buffer.
const IN_BUFFER: u32 = 1 << 31;

/// Where a mapped page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    Nowhere,
    Buffer(u32),
    Flash(u32),
}

/// The map.
pub(crate) struct Map {
    entries: Vec<u32>,
    /// Each is told the pages whose newest version was written or moved.
    watches: Vec<Touched>,
}

/// Pages of which something has changed, in that order.
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

    /// Asks the processor for an entry that will be looked up soon.
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

    /// Tells whoever watches that there is a new version of a page.
    #[inline]
    pub(crate) fn touch(&self, page: u32) {
        for watch in &self.watches {
            watch.borrow_mut().push(page);
        }
    }

    /// Tells of what changes from here on.
    pub(crate) fn watch(&mut self) -> Touched {
        let watch = Touched::default();
        self.watches.push(Rc::clone(&watch));
        watch
    }

    /// Tells no more.
    pub(crate) fn unwatch(&mut self, watch: &Touched) {
        self.watches.retain(|other| !Rc::ptr_eq(other, watch));
    }

    /// Bytes of host memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.entries.len() * size_of::<u32>()
    }

    pub(crate) fn len(&self) -> u32 {
        self.entries.len() as u32
    }
}
