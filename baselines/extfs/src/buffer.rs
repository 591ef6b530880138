//! Blocks of metadata in memory.
//!
//! Invariant: a block is in memory at most once. So a [`Cache`] never lets go of
//! a buffer that somebody holds; it forgets one only where the block stops being
//! metadata.

use host::Purpose;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;

/// Bytes of a block of the file system: 4096, the only size that is built.
pub const BLOCK: usize = 4096;

/// A block of metadata in memory, shared by all who use it. Only a strategy
/// changes it.
pub struct Buffer {
    /// Its number on the medium.
    pub block: u64,
    /// What it is for.
    pub purpose: Cell<Purpose>,
    /// Whether the body has found its checksum and structure right since it came
    /// from the medium. The body sets it; a strategy leaves it alone.
    pub checked: Cell<bool>,
    bytes: RefCell<Box<[u8; BLOCK]>>,
}

impl Buffer {
    /// A buffer that holds `bytes`.
    #[must_use]
    pub const fn new(block: u64, purpose: Purpose, bytes: Box<[u8; BLOCK]>) -> Self {
        Self {
            block,
            purpose: Cell::new(purpose),
            checked: Cell::new(false),
            bytes: RefCell::new(bytes),
        }
    }

    /// Its bytes. Not to be held across a wait.
    #[must_use]
    pub fn bytes(&self) -> Ref<'_, [u8; BLOCK]> {
        Ref::map(self.bytes.borrow(), |bytes| &**bytes)
    }

    /// Its bytes, to be changed by a strategy.
    #[must_use]
    pub fn bytes_mut(&self) -> RefMut<'_, [u8; BLOCK]> {
        RefMut::map(self.bytes.borrow_mut(), |bytes| &mut **bytes)
    }
}

/// Slots of a leaf of the cache's table.
const FAN: usize = 1024;

type Leaf = Box<[Option<Rc<Buffer>>; FAN]>;

/// Buffers by block number, for strategies over blocks: a table of two levels, so
/// that a hit costs two loads.
///
/// A strategy puts in what it reads or creates, asks [`Cache::shrink`] to let go
/// of what is clean, and [`Cache::remove`]s what stops being metadata. What is
/// dirty is known to the strategy alone.
#[derive(Default)]
pub struct Cache {
    leaves: Vec<Option<Leaf>>,
    count: usize,
    /// Where the next search for buffers to let go begins.
    hand: usize,
}

impl Cache {
    /// The buffer of `block`, if it is here.
    #[inline]
    #[must_use]
    pub fn get(&self, block: u64) -> Option<&Rc<Buffer>> {
        let (leaf, slot) = (block as usize / FAN, block as usize % FAN);
        self.leaves.get(leaf)?.as_ref()?[slot].as_ref()
    }

    /// Puts in a buffer; whatever was there for its block is gone.
    pub fn insert(&mut self, buffer: Rc<Buffer>) {
        let (leaf, slot) = (buffer.block as usize / FAN, buffer.block as usize % FAN);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = self.leaves[leaf].get_or_insert_with(|| Box::new([const { None }; FAN]));
        if leaf[slot].replace(buffer).is_none() {
            self.count += 1;
        }
    }

    /// Takes out the buffer of `block`.
    pub fn remove(&mut self, block: u64) -> Option<Rc<Buffer>> {
        let (leaf, slot) = (block as usize / FAN, block as usize % FAN);
        let removed = self.leaves.get_mut(leaf)?.as_mut()?[slot].take();
        self.count -= usize::from(removed.is_some());
        removed
    }

    /// Number of buffers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Lets go of buffers that nobody else holds and `is_clean` allows, until at
    /// most `most` are left or all were looked at. It goes round, so that a
    /// buffer that was just passed is the last to be looked at again.
    pub fn shrink(&mut self, most: usize, is_clean: impl Fn(&Buffer) -> bool) {
        let leaves = self.leaves.len();
        for _ in 0..leaves {
            if self.count <= most {
                return;
            }
            self.hand = (self.hand + 1) % leaves;
            let Some(leaf) = &mut self.leaves[self.hand] else {
                continue;
            };
            for slot in leaf.iter_mut() {
                let idle = |b: &Rc<Buffer>| Rc::strong_count(b) == 1 && is_clean(b);
                if slot.as_ref().is_some_and(idle) {
                    *slot = None;
                    self.count -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(block: u64) -> Rc<Buffer> {
        Rc::new(Buffer::new(block, Purpose::Inode, Box::new([0; BLOCK])))
    }

    #[test]
    fn what_is_held_or_dirty_stays() {
        let mut cache = Cache::default();
        for block in [1, 2, 5000, 9_000_000] {
            cache.insert(buffer(block));
        }
        let held = Rc::clone(cache.get(2).unwrap());
        cache.shrink(0, |b| b.block != 5000);
        assert_eq!(cache.len(), 2);
        assert!(Rc::ptr_eq(&held, cache.get(2).unwrap()));
        assert!(cache.remove(5000).is_some());
        assert!(cache.get(1).is_none() && cache.remove(1).is_none());
    }
}
