//! Rows of entries, sorted by original address.
//!
//! Invariants: a row covers the addresses of [`SPAN`] units, each at most once, in order; a row
//! grows by [`STEP`] entries, so that little of its capacity is unused.
//!
//! In a full row each entry is at the index of its address; in a partly filled one it is near that
//! index scaled by the fill. A search starts at this guess and steps entry by entry.

use super::compact::Entry;
use std::ops::Range;

/// Original addresses that one row covers.
const SPAN: u32 = 256;
/// Capacity, in entries, that a full row adds.
const STEP: usize = 16;
/// A table as rows of sorted entries, one for each [`SPAN`] addresses.
pub(super) struct Rows {
    rows: Vec<Vec<Entry>>,
    len: u32,
    /// Capacity of all rows, in entries.
    room: usize,
}

impl Rows {
    pub(super) fn new(addresses: u32) -> Self {
        Self {
            rows: vec![Vec::new(); addresses.div_ceil(SPAN) as usize],
            len: 0,
            room: 0,
        }
    }

    /// Builds rows from `entries`, which ascend by original address.
    pub(super) fn of(addresses: u32, entries: &[(u32, u32)]) -> Self {
        let mut rows = Self::new(addresses);
        for part in entries.chunk_by(|a, b| a.0 / SPAN == b.0 / SPAN) {
            let row = &mut rows.rows[(part[0].0 / SPAN) as usize];
            row.reserve_exact(part.len().next_multiple_of(STEP));
            row.extend(part.iter().map(|&(orig, trans)| Entry::new(orig, trans)));
            rows.room += row.capacity();
        }
        rows.len = entries.len() as u32;
        rows
    }

    /// Estimated index of `orig` in its row.
    #[inline]
    fn guess(row: &[Entry], orig: u32) -> usize {
        row.len() * (orig % SPAN) as usize / SPAN as usize
    }

    #[inline]
    pub(super) fn prefetch(&self, orig: u32) {
        if let Some(row) = self.rows.get((orig / SPAN) as usize) {
            sim::prefetch(row, Self::guess(row, orig));
        }
    }

    /// Index of `orig` in its row, or the index at which to insert it.
    #[inline]
    fn find(row: &[Entry], orig: u32) -> Result<usize, usize> {
        let mut at = Self::guess(row, orig);
        while at < row.len() && row[at].orig() < orig {
            at += 1;
        }
        while at > 0 && row[at - 1].orig() >= orig {
            at -= 1;
        }
        match row.get(at) {
            Some(entry) if entry.orig() == orig => Ok(at),
            _ => Err(at),
        }
    }

    #[inline]
    pub(super) fn get(&self, orig: u32) -> Option<u32> {
        let row = self.rows.get((orig / SPAN) as usize)?;
        let at = Self::find(row, orig).ok()?;
        Some(row[at].trans())
    }

    #[inline]
    pub(super) fn insert(&mut self, orig: u32, trans: u32) -> Option<u32> {
        let row = &mut self.rows[(orig / SPAN) as usize];
        let entry = Entry::new(orig, trans);
        match Self::find(row, orig) {
            Ok(at) => Some(std::mem::replace(&mut row[at], entry).trans()),
            Err(at) => {
                if row.len() == row.capacity() {
                    row.reserve_exact(STEP);
                    self.room += row.capacity() - row.len();
                }
                row.insert(at, entry);
                self.len += 1;
                None
            }
        }
    }

    pub(super) fn remove(&mut self, orig: u32) -> Option<u32> {
        let row = &mut self.rows[(orig / SPAN) as usize];
        let at = Self::find(row, orig).ok()?;
        self.len -= 1;
        Some(row.remove(at).trans())
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn memory(&self) -> u64 {
        (self.room * size_of::<Entry>() + self.rows.len() * size_of::<Vec<Entry>>()) as u64
    }

    pub(super) fn each(&self, range: Range<u32>, take: &mut impl FnMut(u32, u32)) {
        let rows = range.start / SPAN..range.end.div_ceil(SPAN);
        for row in rows.filter_map(|row| self.rows.get(row as usize)) {
            for entry in row {
                let orig = entry.orig();
                if range.contains(&orig) {
                    take(orig, entry.trans());
                }
            }
        }
    }

    /// Asserts the order and the span of each row, and the counters.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut len = 0;
        for (number, row) in (0..).zip(&self.rows) {
            len += row.len() as u32;
            assert!(row.capacity() <= SPAN as usize);
            let origs: Vec<u32> = row.iter().map(|entry| entry.orig()).collect();
            assert!(origs.is_sorted_by(|a, b| a < b), "a row is sorted");
            assert!(origs.iter().all(|orig| orig / SPAN == number));
        }
        assert_eq!(len, self.len);
        let room: usize = self.rows.iter().map(Vec::capacity).sum();
        assert_eq!(room, self.room);
    }
}
