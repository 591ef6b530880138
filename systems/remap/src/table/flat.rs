//! Entries indexed by original address: a lookup touches one place in memory.
//!
//! Invariant: the entry at index `i` is of address `i`, or absent.

use super::compact::Entry;
use std::ops::Range;

/// One entry for each address of the partition.
pub(super) struct Flat {
    entries: Vec<Entry>,
    len: u32,
}

impl Flat {
    pub(super) fn of(addresses: u32, entries: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut flat = Self {
            entries: Vec::with_capacity(addresses as usize),
            len: 0,
        };
        for (orig, trans) in entries {
            flat.entries.resize(orig as usize, Entry::ABSENT);
            flat.entries.push(Entry::new(orig, trans));
            flat.len += 1;
        }
        flat.entries.resize(addresses as usize, Entry::ABSENT);
        flat
    }

    #[inline]
    pub(super) fn prefetch(&self, orig: u32) {
        sim::prefetch(&self.entries, orig as usize);
    }

    #[inline]
    pub(super) fn get(&self, orig: u32) -> Option<u32> {
        self.entries.get(orig as usize)?.mapped()
    }

    #[inline]
    pub(super) fn insert(&mut self, orig: u32, trans: u32) -> Option<u32> {
        let old = self.put(orig, Entry::new(orig, trans));
        self.len += u32::from(old.is_none());
        old
    }

    pub(super) fn remove(&mut self, orig: u32) -> Option<u32> {
        let old = self.put(orig, Entry::ABSENT);
        self.len -= u32::from(old.is_some());
        old
    }

    #[inline]
    fn put(&mut self, orig: u32, entry: Entry) -> Option<u32> {
        std::mem::replace(&mut self.entries[orig as usize], entry).mapped()
    }

    pub(super) const fn len(&self) -> u32 {
        self.len
    }

    pub(super) const fn memory(&self) -> u64 {
        (self.entries.capacity() * size_of::<Entry>()) as u64
    }

    pub(super) fn each(&self, range: Range<u32>, take: &mut impl FnMut(u32, u32)) {
        let end = self.entries.len().min(range.end as usize);
        let start = end.min(range.start as usize);
        for (orig, entry) in (range.start..).zip(&self.entries[start..end]) {
            if let Some(trans) = entry.mapped() {
                take(orig, trans);
            }
        }
    }

    /// Asserts that each entry is at the index of its address, and that `len` counts the mapped
    /// ones.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mapped = (0..)
            .zip(&self.entries)
            .filter(|(_, e)| e.mapped().is_some());
        assert!(mapped.clone().all(|(at, entry)| entry.orig() == at));
        assert_eq!(mapped.count() as u32, self.len);
    }
}
