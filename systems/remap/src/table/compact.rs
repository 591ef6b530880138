//! Rows of entries of 12 bytes: six for the original address, six for the transformed one,
//! in sectors of 512 bytes, sorted by the first.
//!
//! Invariants: a row has the addresses of [`SPAN`] units, each at most once, in order; rows
//! grow by [`STEP`] entries, so that little of them is unused.
//!
//! A row of all its addresses has each at its own number, and one of a part has it near the
//! number times that part, so a search begins there and goes on entry by entry.

use std::ops::Range;

/// Original addresses of a row.
const SPAN: u32 = 256;
/// Entries that a row grows by.
const STEP: usize = 16;
/// Sectors of a unit, as addresses are kept in sectors.
const SECTORS: u64 = crate::layout::SECTORS;

/// One entry.
#[derive(Clone, Copy)]
struct Entry {
    orig: [u8; 6],
    trans: [u8; 6],
}

const _: () = assert!(size_of::<Entry>() == 12);

fn pack(unit: u32) -> [u8; 6] {
    let bytes = (u64::from(unit) * SECTORS).to_le_bytes();
    let [a, b, c, d, e, f, _, _] = bytes;
    [a, b, c, d, e, f]
}

fn unpack([a, b, c, d, e, f]: [u8; 6]) -> u32 {
    (u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) / SECTORS) as u32
}

/// A table of rows.
pub(super) struct Rows {
    rows: Vec<Vec<Entry>>,
    len: u32,
    /// Entries that there is room for.
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

    /// Rows of entries in ascending order.
    pub(super) fn of(addresses: u32, entries: &[(u32, u32)]) -> Self {
        let mut rows = Self::new(addresses);
        for part in entries.chunk_by(|a, b| a.0 / SPAN == b.0 / SPAN) {
            let row = &mut rows.rows[(part[0].0 / SPAN) as usize];
            row.reserve_exact(part.len().next_multiple_of(STEP));
            row.extend(part.iter().map(|&(orig, trans)| Entry {
                orig: pack(orig),
                trans: pack(trans),
            }));
            rows.room += row.capacity();
        }
        rows.len = entries.len() as u32;
        rows
    }

    /// Where `orig` is in its row, or where it would be.
    #[inline]
    fn find(row: &[Entry], orig: u32) -> Result<usize, usize> {
        let guess = row.len() * (orig % SPAN) as usize / SPAN as usize;
        let mut at = guess.min(row.len());
        while at < row.len() && unpack(row[at].orig) < orig {
            at += 1;
        }
        while at > 0 && unpack(row[at - 1].orig) >= orig {
            at -= 1;
        }
        match row.get(at) {
            Some(entry) if unpack(entry.orig) == orig => Ok(at),
            _ => Err(at),
        }
    }

    #[inline]
    pub(super) fn get(&self, orig: u32) -> Option<u32> {
        let row = self.rows.get((orig / SPAN) as usize)?;
        let at = Self::find(row, orig).ok()?;
        Some(unpack(row[at].trans))
    }

    #[inline]
    pub(super) fn insert(&mut self, orig: u32, trans: u32) -> Option<u32> {
        let row = &mut self.rows[(orig / SPAN) as usize];
        let trans = pack(trans);
        match Self::find(row, orig) {
            Ok(at) => Some(unpack(std::mem::replace(&mut row[at].trans, trans))),
            Err(at) => {
                if row.len() == row.capacity() {
                    row.reserve_exact(STEP);
                    self.room += row.capacity() - row.len();
                }
                let orig = pack(orig);
                row.insert(at, Entry { orig, trans });
                self.len += 1;
                None
            }
        }
    }

    pub(super) fn remove(&mut self, orig: u32) -> Option<u32> {
        let row = &mut self.rows[(orig / SPAN) as usize];
        let at = Self::find(row, orig).ok()?;
        self.len -= 1;
        Some(unpack(row.remove(at).trans))
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
                let orig = unpack(entry.orig);
                if range.contains(&orig) {
                    take(orig, unpack(entry.trans));
                }
            }
        }
    }

    /// Asserts what holds.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut len = 0;
        for (number, row) in (0..).zip(&self.rows) {
            len += row.len() as u32;
            assert!(row.capacity() <= SPAN as usize);
            let origs: Vec<u32> = row.iter().map(|entry| unpack(entry.orig)).collect();
            assert!(origs.is_sorted_by(|a, b| a < b), "a row is sorted");
            assert!(origs.iter().all(|orig| orig / SPAN == number));
        }
        assert_eq!(len, self.len);
        let room: usize = self.rows.iter().map(Vec::capacity).sum();
        assert_eq!(room, self.room);
    }
}
