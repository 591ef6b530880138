//! The allocator: free pages by core, and free inodes.
//!
//! Invariants: a free page is in the list of the core whose share of the medium holds the page, in
//! a run as long as possible; no part of the allocator is on the medium, and a mount rebuilds it.
//= nova 4.2

use crate::format::{Geometry, table};
use crate::pieces::Run;
use std::collections::{BTreeMap, BTreeSet};

/// Pages kept for calls that free more than they take: a choice of ours.
const KEPT: u64 = 32;
/// Runs inspected in search of one that is long enough: a choice of ours.
const LOOKS: usize = 64;

/// Purpose of an allocation, which decides whether it may use the kept pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Adds to the file system; may not use the kept pages.
    Growth,
    /// Changes or removes, and must succeed on a full file system.
    Upkeep,
}

/// The inode table of a core, in memory.
#[derive(Debug, Default)]
struct Table {
    pages: Vec<u64>,
    free: BTreeSet<u64>,
}

/// Free pages and inodes of all cores.
#[derive(Debug)]
pub(crate) struct Alloc {
    geometry: Geometry,
    lists: Vec<BTreeMap<u64, u64>>,
    tables: Vec<Table>,
    free: u64,
    /// Inodes in use, of all cores.
    pub(crate) inodes: u64,
}

impl Alloc {
    /// An allocator without free pages or inodes.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let cores = geometry.cores as usize;
        Self {
            geometry,
            lists: vec![BTreeMap::new(); cores],
            tables: (0..cores).map(|_| Table::default()).collect(),
            free: 0,
            inodes: 0,
        }
    }

    /// Pages kept for upkeep: [`KEPT`], less on a small medium.
    fn kept(&self) -> u64 {
        KEPT.min((self.geometry.pages - self.geometry.pool()) / 8)
    }

    /// Free pages, and how many of them growth may take.
    pub(crate) fn free(&self) -> (u64, u64) {
        (self.free, self.free.saturating_sub(self.kept()))
    }

    /// The core whose share of the medium holds a page, and the end of that share.
    fn owner(&self, page: u64) -> (usize, u64) {
        let pool = self.geometry.pool();
        let share = (self.geometry.pages - pool).div_ceil(self.geometry.cores);
        let core = (page - pool) / share;
        (core as usize, pool + (core + 1) * share)
    }

    /// Returns pages to the list of the core that owns them.
    pub(crate) fn give(&mut self, mut run: Run) {
        self.free += run.len;
        while run.len > 0 {
            let (core, end) = self.owner(run.start);
            let len = run.len.min(end - run.start);
            self.give_to(core, run.start, len);
            run = Run {
                start: run.start + len,
                len: run.len - len,
            };
        }
    }

    fn give_to(&mut self, core: usize, mut start: u64, mut len: u64) {
        let list = &mut self.lists[core];
        if let Some((&before, &size)) = list.range(..start).next_back() {
            debug_assert!(before + size <= start, "a page is freed once");
            if before + size == start {
                list.remove(&before);
                (start, len) = (before, size + len);
            }
        }
        if let Some(size) = list.remove(&(start + len)) {
            len += size;
        }
        list.insert(start, len);
    }

    /// Allocates `pages` pages, from the list of `core` first: all of them or none.
    pub(crate) fn take(&mut self, core: usize, pages: u64, class: Class) -> Option<Vec<Run>> {
        let (free, for_growth) = self.free();
        let most = match class {
            Class::Growth => for_growth,
            Class::Upkeep => free,
        };
        if pages > most {
            return None;
        }
        let (mut left, mut runs) = (pages, Vec::new());
        while left > 0 {
            let run = self.take_run(core, left);
            left -= run.len;
            runs.push(run);
        }
        Some(runs)
    }

    /// Allocates a run of up to `most` pages; at least one page is free.
    fn take_run(&mut self, core: usize, most: u64) -> Run {
        let cores = self.lists.len();
        let mut lists = (0..cores).map(|n| (core + n) % cores);
        let core = lists.find(|&core| !self.lists[core].is_empty());
        let list = &mut self.lists[core.expect("a page is free")];
        let fitting = list.iter().take(LOOKS).find(|run| *run.1 >= most);
        let (&start, &size) = fitting.or(list.iter().next()).expect("it has a run");
        list.remove(&start);
        let len = size.min(most);
        if len < size {
            list.insert(start + len, size - len);
        }
        self.free -= len;
        Run { start, len }
    }

    /// Allocates one page, from the list of `core` first.
    pub(crate) fn take_page(&mut self, core: usize, class: Class) -> Option<u64> {
        let runs = self.take(core, 1, class)?;
        runs.first().map(|run| run.start)
    }

    /// Appends a page to the table of `core`; its inodes are not free yet. Returns the index of the
    /// page in the table.
    pub(crate) fn add_table(&mut self, core: usize, page: u64) -> u64 {
        self.tables[core].pages.push(page);
        self.tables[core].pages.len() as u64 - 1
    }

    /// The pages of the inode table of `core`, in order.
    pub(crate) fn table(&self, core: usize) -> &[u64] {
        &self.tables[core].pages
    }

    /// Pages of all tables beyond the fixed first ones.
    pub(crate) fn table_pages(&self) -> u64 {
        let pages = self.tables.iter().flat_map(|table| &table.pages);
        pages.filter(|page| **page >= self.geometry.pool()).count() as u64
    }

    /// Address of an inode; `None` if its table is shorter.
    pub(crate) fn slot(&self, ino: u64) -> Option<u64> {
        let (core, page, slot) = self.geometry.place(ino);
        let page = self.tables[core as usize].pages.get(page as usize)?;
        Some(page * crate::format::PAGE_BYTES + (slot + 1) * table::SLOT as u64)
    }

    /// Allocates a free inode of the table of `core`.
    pub(crate) fn take_ino(&mut self, core: usize) -> Option<u64> {
        let ino = self.tables[core].free.pop_first()?;
        self.inodes += 1;
        Some(ino)
    }

    /// Frees an inode that was in use.
    pub(crate) fn give_ino(&mut self, ino: u64) {
        self.inodes -= 1;
        self.add_ino(ino);
    }

    /// Adds an inode that was never in use to the free ones.
    pub(crate) fn add_ino(&mut self, ino: u64) {
        let core = (ino % self.geometry.cores) as usize;
        self.tables[core].free.insert(ino);
    }

    /// Inodes that can still be created, with new table pages.
    pub(crate) fn free_inodes(&self) -> u64 {
        let free: usize = self.tables.iter().map(|table| table.free.len()).sum();
        free as u64 + self.free().1 * table::SLOTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn no_page_is_given_twice_and_none_is_lost() {
        let geometry = Geometry::new(500, 3).unwrap();
        let mut alloc = Alloc::new(geometry);
        let pool = geometry.pages - geometry.pool();
        alloc.give(Run {
            start: geometry.pool(),
            len: pool,
        });
        let mut rng = Seed(1).stream("alloc");
        let mut taken: Vec<Run> = Vec::new();
        for _ in 0..3_000 {
            let want = 1 + rng.below(40);
            match alloc.take(rng.below(3) as usize, want, Class::Upkeep) {
                Some(runs) => {
                    assert_eq!(runs.iter().map(|run| run.len).sum::<u64>(), want);
                    taken.extend(runs);
                }
                None => assert!(alloc.free().0 < want),
            }
            while rng.below(2) == 0 && !taken.is_empty() {
                let index = rng.below(taken.len() as u64) as usize;
                alloc.give(taken.swap_remove(index));
            }
            let pages = taken.iter().flat_map(|run| run.start..run.start + run.len);
            let distinct: BTreeSet<u64> = pages.clone().collect();
            assert_eq!(distinct.len(), pages.count());
            assert_eq!(alloc.free().0 + distinct.len() as u64, pool);
        }
        taken.into_iter().for_each(|run| alloc.give(run));
        let runs: usize = alloc.lists.iter().map(BTreeMap::len).sum();
        assert_eq!(runs, 3, "one run for each core");
    }

    #[test]
    fn upkeep_has_pages_that_growth_has_not() {
        let geometry = Geometry::new(500, 1).unwrap();
        let mut alloc = Alloc::new(geometry);
        let (start, len) = (geometry.pool(), KEPT);
        alloc.give(Run { start, len });
        assert_eq!(alloc.take(0, 1, Class::Growth), None);
        assert!(alloc.take(0, KEPT, Class::Upkeep).is_some());
    }
}
