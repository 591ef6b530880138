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

/// Slots of a leaf of a table.
const FAN: usize = 1024;

/// How many slots are in use, and the slots.
type Leaf<T> = (usize, Box<[Option<T>; FAN]>);

/// Something by block number: a table of two levels, so that a hit costs two
/// loads. A leaf goes with the last of what it holds.
pub(crate) struct Table<T> {
    leaves: Vec<Option<Leaf<T>>>,
    count: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table<T> {
    /// An empty one.
    pub(crate) const fn new() -> Self {
        Self {
            leaves: Vec::new(),
            count: 0,
        }
    }

    /// What is at `block`.
    #[inline]
    pub(crate) fn get(&self, block: u64) -> Option<&T> {
        let (leaf, slot) = (block as usize / FAN, block as usize % FAN);
        self.leaves.get(leaf)?.as_ref()?.1[slot].as_ref()
    }

    /// What is at the blocks from `start` up to `end`, with their numbers.
    pub(crate) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &T)> {
        let end = end.min((self.leaves.len() * FAN) as u64);
        (start..end).filter_map(|block| Some((block, self.get(block)?)))
    }

    /// Puts `value` at `block`; gives what was there.
    pub(crate) fn insert(&mut self, block: u64, value: T) -> Option<T> {
        let (leaf, slot) = (block as usize / FAN, block as usize % FAN);
        if leaf >= self.leaves.len() {
            self.leaves.resize_with(leaf + 1, || None);
        }
        let leaf = &mut self.leaves[leaf];
        let (used, slots) = leaf.get_or_insert_with(|| (0, Box::new([const { None }; FAN])));
        let before = slots[slot].replace(value);
        *used += usize::from(before.is_none());
        self.count += usize::from(before.is_none());
        before
    }

    /// Takes out what is at `block`.
    pub(crate) fn remove(&mut self, block: u64) -> Option<T> {
        let (leaf, slot) = (block as usize / FAN, block as usize % FAN);
        let leaf = self.leaves.get_mut(leaf)?;
        let (used, slots) = leaf.as_mut()?;
        let removed = slots[slot].take()?;
        *used -= 1;
        if *used == 0 {
            *leaf = None;
        }
        self.count -= 1;
        Some(removed)
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }
}

/// Buffers by block number, for strategies over blocks.
///
/// A strategy puts in what it reads or creates, asks [`Cache::shrink`] to let go
/// of what is clean, and [`Cache::remove`]s what stops being metadata. What is
/// dirty is known to the strategy alone.
#[derive(Default)]
pub struct Cache {
    buffers: Table<Rc<Buffer>>,
    /// Where the next search for buffers to let go begins.
    hand: usize,
}

impl Cache {
    /// The buffer of `block`, if it is here.
    #[inline]
    #[must_use]
    pub fn get(&self, block: u64) -> Option<&Rc<Buffer>> {
        self.buffers.get(block)
    }

    /// Puts in a buffer; whatever was there for its block is gone.
    pub fn insert(&mut self, buffer: Rc<Buffer>) {
        self.buffers.insert(buffer.block, buffer);
    }

    /// Takes out the buffer of `block`.
    pub fn remove(&mut self, block: u64) -> Option<Rc<Buffer>> {
        self.buffers.remove(block)
    }

    /// Number of buffers.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets go of buffers that nobody else holds and `is_clean` allows, until at
    /// most `most` are left or all were looked at. It goes round, so that a
    /// buffer that was just passed is the last to be looked at again.
    pub fn shrink(&mut self, most: usize, is_clean: impl Fn(&Buffer) -> bool) {
        let Table { leaves, count } = &mut self.buffers;
        for _ in 0..leaves.len() {
            if *count <= most {
                return;
            }
            self.hand = (self.hand + 1) % leaves.len();
            let Some((used, slots)) = &mut leaves[self.hand] else {
                continue;
            };
            for slot in slots.iter_mut() {
                let idle = |b: &Rc<Buffer>| Rc::strong_count(b) == 1 && is_clean(b);
                if slot.as_ref().is_some_and(idle) {
                    *slot = None;
                    *used -= 1;
                    *count -= 1;
                }
            }
            if *used == 0 {
                leaves[self.hand] = None;
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
