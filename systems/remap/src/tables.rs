//! The tables of all partitions: the ones in memory, their pages that are dirty, and the place of
//! each page on the medium.
//!
//! Invariants: tables hold committed pairs only. A page that the last checkpoint leads to is not
//! overwritten before the next checkpoint: a newer version goes to the other of its two places. A
//! table that is not in memory is on the medium in its current version.

use crate::config::Variant;
use crate::format::{NONE, PER_PAGE, Place, Sums, Super, encode_page, payload};
use crate::table::Table;
use nand::Payload;

/// State of one partition.
#[derive(Default)]
struct Part {
    /// The table, if loaded.
    table: Option<Table>,
    /// One bit for each page of the table: set if the page differs from the medium.
    dirty: Vec<u64>,
    /// Value of [`Tables::uses`] at the last use, for least-recently-used eviction.
    used: u64,
    /// Changes of the table so far; a snapshot compares them.
    changes: u64,
}

/// Result of a lookup of an original address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Mapped to this unit of the data area, or unmapped.
    At(Option<u32>),
    /// The table of this partition has to be loaded first.
    Missing(u32),
    /// Damaged metadata: the address cannot be resolved.
    Lost,
}

/// The tables of a layer and the places of their pages.
pub(crate) struct Tables {
    parts: Vec<Part>,
    variant: Variant,
    partition: u32,
    pages_each: u32,
    /// By page: place of its newest version on the medium.
    current: Vec<Place>,
    /// By page: place that the last checkpoint leads to.
    stable: Vec<Place>,
    uses: u64,
    entries: u64,
    memory: u64,
}

/// Dirty pages of a table, encoded for writing.
pub(crate) struct Snapshot {
    /// Page number, target place and contents.
    pub(crate) pages: Vec<(u32, Place, Payload)>,
    /// The change counter of the table when the snapshot was taken.
    changes: u64,
}

impl Tables {
    /// Tables of `layout` whose pages are at `places`; none is in memory.
    pub(crate) fn new(layout: &Super, variant: Variant, places: Vec<Place>) -> Self {
        let pages_each = layout.pages_each();
        let part = || Part {
            dirty: vec![0; (pages_each as usize).div_ceil(64)],
            ..Part::default()
        };
        Self {
            parts: (0..layout.partitions()).map(|_| part()).collect(),
            variant,
            partition: layout.partition,
            pages_each,
            stable: places.clone(),
            current: places,
            uses: 0,
            entries: 0,
            memory: 0,
        }
    }

    /// The partition of an original address.
    pub(crate) const fn partition_of(&self, orig: u32) -> u32 {
        orig / self.partition
    }

    /// Prefetches the entry of `orig` into the processor's cache, if its table is loaded.
    #[inline]
    pub(crate) fn prefetch(&self, orig: u32) {
        if let Some(table) = &self.parts[(orig / self.partition) as usize].table {
            table.prefetch(orig % self.partition);
        }
    }

    /// Looks up `orig` among committed pairs, and marks the table as used.
    #[inline]
    pub(crate) fn look(&mut self, orig: u32) -> Look {
        let number = orig / self.partition;
        let part = &mut self.parts[number as usize];
        let Some(table) = &part.table else {
            return Look::Missing(number);
        };
        self.uses += 1;
        part.used = self.uses;
        Look::At(table.get(orig % self.partition))
    }

    /// Maps `orig` to `trans`, or unmaps it if that is [`NONE`]; returns the previous transformed
    /// address. The table must be loaded.
    pub(crate) fn set(&mut self, orig: u32, trans: u32) -> Option<u32> {
        let part = &mut self.parts[(orig / self.partition) as usize];
        let table = part.table.as_mut().expect("the table is in memory");
        let (key, before) = (orig % self.partition, table.memory());
        let old = match trans {
            NONE => table.remove(key),
            trans => table.insert(key, trans),
        };
        self.memory += table.memory() - before;
        self.entries += u64::from(trans != NONE);
        self.entries -= u64::from(old.is_some());
        let page = key as usize / PER_PAGE;
        part.dirty[page / 64] |= 1 << (page % 64);
        part.changes += 1;
        self.uses += 1;
        part.used = self.uses;
        old
    }

    pub(crate) fn is_in_memory(&self, part: u32) -> bool {
        self.parts[part as usize].table.is_some()
    }

    /// Pages of a partition that are on the medium, with their places.
    pub(crate) fn places(&self, part: u32) -> Vec<(u32, Place)> {
        let pages = part * self.pages_each..(part + 1) * self.pages_each;
        let placed = pages.map(|page| (page, self.current[page as usize]));
        placed
            .filter(|(_, place)| *place != Place::Absent)
            .collect()
    }

    /// Loads a table from the entries of its pages.
    pub(crate) fn fill(&mut self, part: u32, pages: &[(u32, [u32; PER_PAGE])]) {
        let mut all = Vec::with_capacity(pages.len() * PER_PAGE);
        for (page, entries) in pages {
            let first = (page - part * self.pages_each) * PER_PAGE as u32;
            // The last page has entries beyond the partition.
            let keys = (first..self.partition).zip(entries.iter().copied());
            all.extend(keys.filter(|(_, trans)| *trans != NONE));
        }
        let table = Table::of(self.variant, self.partition, &all);
        self.memory += table.memory();
        self.uses += 1;
        let part = &mut self.parts[part as usize];
        part.used = self.uses;
        part.table = Some(table);
    }

    /// Adds entries that recovery found to the count of mapped units.
    pub(crate) fn count(&mut self, entries: u64) {
        self.entries += entries;
    }

    /// Least recently used loaded partition, other than `keep`.
    //= remap 3.3
    pub(crate) fn victim(&self, keep: u32) -> Option<u32> {
        let parts = (0..).zip(&self.parts);
        let others = parts.filter(|(number, part)| *number != keep && part.table.is_some());
        others
            .min_by_key(|(_, part)| part.used)
            .map(|(number, _)| number)
    }

    /// Partitions that have dirty pages.
    pub(crate) fn dirty(&self) -> Vec<u32> {
        let parts = (0..).zip(&self.parts);
        let dirty = parts.filter(|(_, part)| part.dirty.iter().any(|&word| word != 0));
        dirty.map(|(number, _)| number).collect()
    }

    /// Encodes the dirty pages of a table and marks them clean. Each page goes to the place that
    /// the last checkpoint does not use.
    pub(crate) fn snapshot(&mut self, number: u32, sums: Sums) -> Snapshot {
        let part = &mut self.parts[number as usize];
        let mut pages = Vec::new();
        let mut entries = [NONE; PER_PAGE];
        for at in 0..self.pages_each {
            let word = &mut part.dirty[at as usize / 64];
            let bit = 1 << (at % 64);
            if *word & bit == 0 {
                continue;
            }
            *word &= !bit;
            let page = number * self.pages_each + at;
            let table = part.table.as_ref().expect("what is dirty is in memory");
            table.page(at, &mut entries);
            let place = match self.stable[page as usize] {
                Place::First => Place::Second,
                Place::Absent | Place::Second => Place::First,
            };
            pages.push((page, place, payload(encode_page(&entries, page, sums))));
        }
        Snapshot {
            pages,
            changes: part.changes,
        }
    }

    /// Records the places of the pages of `snapshot`, once written.
    pub(crate) fn written(&mut self, snapshot: &Snapshot) {
        for (page, place, _) in &snapshot.pages {
            self.current[*page as usize] = *place;
        }
    }

    /// Drops a table from memory unless it changed since `snapshot`; returns whether it was
    /// dropped.
    pub(crate) fn drop_unchanged(&mut self, number: u32, snapshot: &Snapshot) -> bool {
        let part = &mut self.parts[number as usize];
        let unchanged = part.changes == snapshot.changes;
        if let Some(table) = part.table.take_if(|_| unchanged) {
            self.memory -= table.memory();
        }
        unchanged
    }

    /// Places of all pages, for the directory of a checkpoint.
    pub(crate) fn directory(&self) -> &[Place] {
        &self.current
    }

    /// Records that a checkpoint leads to the current place of every page.
    pub(crate) fn stabilise(&mut self) {
        self.stable.copy_from_slice(&self.current);
    }

    /// Number of mapped units.
    pub(crate) const fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of memory of the loaded tables.
    pub(crate) const fn memory(&self) -> u64 {
        self.memory
    }

    /// Bytes that the loaded tables would take if rebuilt as `variant`.
    pub(crate) fn memory_as(&self, variant: Variant) -> u64 {
        let in_memory = (0..self.parts.len() as u32).filter(|&part| self.is_in_memory(part));
        let anew = in_memory.map(|part| {
            let (mut entries, first) = (Vec::new(), part * self.partition);
            self.each(part, &mut |orig, trans| entries.push((orig - first, trans)));
            Table::of(variant, self.partition, &entries).memory()
        });
        anew.sum()
    }

    /// Whether a partition maps nothing, as far as known without loading its table.
    pub(crate) fn is_blank(&self, part: u32) -> bool {
        match &self.parts[part as usize].table {
            Some(table) => table.is_empty(),
            None => self.places(part).is_empty(),
        }
    }

    /// First address behind the partition of `orig`.
    pub(crate) const fn end_of(&self, orig: u32) -> u64 {
        (orig / self.partition + 1) as u64 * self.partition as u64
    }

    /// Calls `take` with each pair of a partition, original address first; nothing if its table is
    /// not loaded.
    pub(crate) fn each(&self, number: u32, take: &mut impl FnMut(u32, u32)) {
        let Some(table) = &self.parts[number as usize].table else {
            return;
        };
        let mut entries = [NONE; PER_PAGE];
        for page in 0..self.pages_each {
            table.page(page, &mut entries);
            let first = number * self.partition + page * PER_PAGE as u32;
            for (orig, &trans) in (first..).zip(&entries) {
                if trans != NONE {
                    take(orig, trans);
                }
            }
        }
    }

    /// Pairs of the loaded tables, transformed addresses first, and whether those are all pairs.
    pub(crate) fn all(&self) -> (Vec<(u32, u32)>, bool) {
        let (mut all, mut whole) = (Vec::new(), true);
        for number in 0..self.parts.len() as u32 {
            whole &= self.is_in_memory(number) || self.places(number).is_empty();
            self.each(number, &mut |orig, trans| all.push((trans, orig)));
        }
        (all, whole)
    }
}
