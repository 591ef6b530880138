//! Blocks of metadata in memory.
//!
//! Invariant: a block is in memory at most once. So a [`Cache`] never evicts a
//! pinned buffer; it drops one only when the block stops being metadata.

use host::Purpose;
use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::Rc;

/// Bytes of a block of the file system: 4096, the only size that is built.
pub const BLOCK: usize = 4096;

/// A block of metadata in memory, shared by all its users. Only a strategy changes its bytes.
pub struct Buffer {
    /// Block number in the file system.
    pub block: u64,
    /// Purpose to which requests for the block are attributed.
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

    /// The bytes of the block. Do not hold the borrow across a wait.
    #[must_use]
    pub fn bytes(&self) -> Ref<'_, [u8; BLOCK]> {
        Ref::map(self.bytes.borrow(), |bytes| &**bytes)
    }

    /// The bytes of the block, for changes by a strategy.
    #[must_use]
    pub fn bytes_mut(&self) -> RefMut<'_, [u8; BLOCK]> {
        RefMut::map(self.bytes.borrow_mut(), |bytes| &mut **bytes)
    }
}

/// Slots of a leaf of a table.
const FAN: usize = 1024;

/// Count of slots in use, and the slots.
type Leaf<T> = (usize, Box<[Option<T>; FAN]>);

/// A map by block number: a table of two levels, so that a hit costs two loads. A
/// leaf is freed with its last value.
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
    /// Creates a table without entries or leaves.
    pub(crate) const fn new() -> Self {
        Self {
            leaves: Vec::new(),
            count: 0,
        }
    }

    /// The value of `block`, if present.
    #[inline]
    pub(crate) fn get(&self, block: u64) -> Option<&T> {
        let (leaf, slot) = (block as usize / FAN, block as usize % FAN);
        self.leaves.get(leaf)?.as_ref()?.1[slot].as_ref()
    }

    /// Values of the blocks in `start..end`, with block numbers.
    pub(crate) fn range(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &T)> {
        let end = end.min((self.leaves.len() * FAN) as u64);
        (start..end).filter_map(|block| Some((block, self.get(block)?)))
    }

    /// Sets the value of `block`; returns the old value.
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

    /// Removes and returns the value of `block`.
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

    /// Count of values in the table.
    pub(crate) const fn len(&self) -> usize {
        self.count
    }
}

/// Buffers by block number, for strategies over blocks.
///
/// A strategy inserts blocks that it reads or creates, evicts clean ones with
/// [`Cache::shrink`], and [`Cache::remove`]s blocks that stop being metadata. Only
/// the strategy knows the dirty blocks.
#[derive(Default)]
pub struct Cache {
    buffers: Table<Rc<Buffer>>,
    /// Block at which the next search for buffers to evict begins.
    hand: usize,
}

impl Cache {
    /// The buffer of `block`, if it is in memory.
    #[inline]
    #[must_use]
    pub fn get(&self, block: u64) -> Option<&Rc<Buffer>> {
        self.buffers.get(block)
    }

    /// Inserts a buffer; replaces an older buffer of its block.
    pub fn insert(&mut self, buffer: Rc<Buffer>) {
        self.buffers.insert(buffer.block, buffer);
    }

    /// Removes the buffer of `block`.
    pub fn remove(&mut self, block: u64) -> Option<Rc<Buffer>> {
        self.buffers.remove(block)
    }

    /// Count of buffers in memory.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether no buffer is in memory.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Evicts buffers without other references that `is_clean` accepts, until at most
    /// `most` are left or all were examined. The search goes around, so a buffer just
    /// passed is the last to be examined again.
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
