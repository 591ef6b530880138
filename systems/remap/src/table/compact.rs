//! A table of 12-byte entries: six bytes for the original address, six for the transformed one,
//! both in sectors of 512 bytes.
//!
//! Invariants: a partly mapped table keeps its entries in rows; a nearly full one is flat, with
//! each entry at the index of its address. Either form takes at most a fifteenth more than 12 bytes
//! an entry when it is built, row headers apart. The two thresholds of the conversions lie many
//! addresses apart, so a table does not flip back and forth.

use super::flat::Flat;
use super::rows::Rows;
use std::ops::Range;

/// Sectors in a unit; entries store addresses in sectors.
const SECTORS: u64 = crate::layout::SECTORS;
/// Mapped share, in sixteenths of the addresses, at which a table becomes flat, and the share below
/// which it returns to rows.
const FLAT: (u32, u32) = (15, 14);
/// Fewest addresses of a flat table: a smaller table fits in the processor's cache in either form.
const FLAT_LEAST: u32 = 1 << 12;

/// An entry: the pair of addresses, packed without alignment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
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

impl Entry {
    /// Entry of an unmapped address; no unit has an address this large.
    pub(super) const ABSENT: Self = Self {
        orig: [u8::MAX; 6],
        trans: [u8::MAX; 6],
    };

    #[inline]
    pub(super) fn new(orig: u32, trans: u32) -> Self {
        Self {
            orig: pack(orig),
            trans: pack(trans),
        }
    }

    #[inline]
    pub(super) fn orig(self) -> u32 {
        unpack(self.orig)
    }

    #[inline]
    pub(super) fn trans(self) -> u32 {
        unpack(self.trans)
    }

    /// Transformed address of the entry, or `None` for [`Self::ABSENT`].
    #[inline]
    pub(super) fn mapped(self) -> Option<u32> {
        (self != Self::ABSENT).then(|| self.trans())
    }
}

/// A table of 12-byte entries that switches between rows and flat by its load.
pub(super) struct Compact {
    addresses: u32,
    kept: Kept,
}

enum Kept {
    Rows(Rows),
    Flat(Flat),
}

impl Compact {
    pub(super) fn new(addresses: u32) -> Self {
        let kept = Kept::Rows(Rows::new(addresses));
        Self { addresses, kept }
    }

    /// Builds a table from `entries`, which ascend by original address.
    pub(super) fn of(addresses: u32, entries: &[(u32, u32)]) -> Self {
        let is_flat = entries.len() as u64 >= share(addresses, FLAT.0) && addresses >= FLAT_LEAST;
        let kept = match is_flat {
            true => Kept::Flat(Flat::of(addresses, entries.iter().copied())),
            false => Kept::Rows(Rows::of(addresses, entries)),
        };
        Self { addresses, kept }
    }

    #[inline]
    pub(super) fn prefetch(&self, orig: u32) {
        match &self.kept {
            Kept::Rows(rows) => rows.prefetch(orig),
            Kept::Flat(flat) => flat.prefetch(orig),
        }
    }

    #[inline]
    pub(super) fn get(&self, orig: u32) -> Option<u32> {
        match &self.kept {
            Kept::Rows(rows) => rows.get(orig),
            Kept::Flat(flat) => flat.get(orig),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, orig: u32, trans: u32) -> Option<u32> {
        match &mut self.kept {
            Kept::Flat(flat) => flat.insert(orig, trans),
            Kept::Rows(rows) => {
                let old = rows.insert(orig, trans);
                if old.is_none() {
                    self.flatten();
                }
                old
            }
        }
    }

    /// Converts rows to flat once nearly all addresses are mapped.
    fn flatten(&mut self) {
        let is_flat = u64::from(self.len()) >= share(self.addresses, FLAT.0);
        if is_flat && self.addresses >= FLAT_LEAST {
            let mut entries = Vec::with_capacity(self.len() as usize);
            self.each(0..self.addresses, &mut |orig, trans| {
                entries.push((orig, trans));
            });
            self.kept = Kept::Flat(Flat::of(self.addresses, entries.into_iter()));
        }
    }

    pub(super) fn remove(&mut self, orig: u32) -> Option<u32> {
        let flat = match &mut self.kept {
            Kept::Rows(rows) => return rows.remove(orig),
            Kept::Flat(flat) => flat,
        };
        let old = flat.remove(orig);
        if u64::from(flat.len()) < share(self.addresses, FLAT.1) {
            let mut entries = Vec::with_capacity(flat.len() as usize);
            flat.each(0..self.addresses, &mut |orig, trans| {
                entries.push((orig, trans));
            });
            self.kept = Kept::Rows(Rows::of(self.addresses, &entries));
        }
        old
    }

    pub(super) fn len(&self) -> u32 {
        match &self.kept {
            Kept::Rows(rows) => rows.len(),
            Kept::Flat(flat) => flat.len(),
        }
    }

    pub(super) fn memory(&self) -> u64 {
        match &self.kept {
            Kept::Rows(rows) => rows.memory(),
            Kept::Flat(flat) => flat.memory(),
        }
    }

    pub(super) fn each(&self, range: Range<u32>, take: &mut impl FnMut(u32, u32)) {
        match &self.kept {
            Kept::Rows(rows) => rows.each(range, take),
            Kept::Flat(flat) => flat.each(range, take),
        }
    }

    /// Asserts the invariants of the form in use.
    #[cfg(test)]
    pub(super) fn check(&self) {
        match &self.kept {
            Kept::Rows(rows) => rows.check(),
            Kept::Flat(flat) => flat.check(),
        }
    }

    #[cfg(test)]
    pub(super) const fn is_flat(&self) -> bool {
        matches!(self.kept, Kept::Flat(_))
    }
}

/// `sixteenths` of `addresses`, rounded up.
const fn share(addresses: u32, sixteenths: u32) -> u64 {
    (addresses as u64 * sixteenths as u64).div_ceil(16)
}
