//! TLBs of a core: two levels of sets in LRU order.
//!
//! A page gets its entry at its first access, so later accesses join its walk and wait until
//! the walk ends.

use crate::config::TlbConfig;
use crate::tick::Tick;

const EMPTY: u64 = u64::MAX;

/// Entry of a page, with the instant from which its translation is available.
#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u64,
    ready: Tick,
}

const NOTHING: Entry = Entry {
    page: EMPTY,
    ready: Tick::ZERO,
};

#[derive(Clone, Debug)]
struct Table {
    ways: usize,
    mask: u64,
    entries: Vec<Entry>,
}

impl Table {
    fn new(entries: u64, ways: u64) -> Self {
        Self {
            ways: ways as usize,
            mask: entries / ways - 1,
            entries: vec![NOTHING; entries as usize],
        }
    }

    #[inline]
    fn set(&mut self, page: u64) -> &mut [Entry] {
        let base = (page & self.mask) as usize * self.ways;
        &mut self.entries[base..base + self.ways]
    }

    #[inline]
    fn hit(&mut self, page: u64) -> Option<Tick> {
        let set = self.set(page);
        if set[0].page == page {
            return Some(set[0].ready);
        }
        let way = set.iter().position(|held| held.page == page)?;
        let found = set[way];
        set.copy_within(..way, 1);
        set[0] = found;
        Some(found.ready)
    }

    fn insert(&mut self, new: Entry) {
        let set = self.set(new.page);
        set.copy_within(..set.len() - 1, 1);
        set[0] = new;
    }

    fn walks(&mut self, page: u64, ready: Tick) {
        if let Some(held) = self.set(page).iter_mut().find(|held| held.page == page) {
            held.ready = ready;
        }
    }

    fn remove(&mut self, page: u64) {
        let set = self.set(page);
        if let Some(way) = set.iter().position(|held| held.page == page) {
            set[way] = NOTHING;
            set[way..].rotate_left(1);
        }
    }
}

/// Level at which a translation was found, and when it is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Translated {
    First(Tick),
    Second(Tick),
    Nowhere,
}

/// Both TLB levels of one core.
#[derive(Clone, Debug)]
pub(crate) struct Tlb {
    first: Table,
    second: Table,
}

impl Tlb {
    pub(crate) fn new(config: &TlbConfig) -> Self {
        Self {
            first: Table::new(config.first, config.first_ways),
            second: Table::new(config.second, config.second_ways),
        }
    }

    /// Looks a page up, and inserts it into both levels if it is missing.
    #[inline]
    pub(crate) fn look(&mut self, page: u64) -> Translated {
        if let Some(ready) = self.first.hit(page) {
            return Translated::First(ready);
        }
        let second = self.second.hit(page);
        let ready = second.unwrap_or(Tick::ZERO);
        self.first.insert(Entry { page, ready });
        if let Some(ready) = second {
            return Translated::Second(ready);
        }
        self.second.insert(Entry { page, ready });
        Translated::Nowhere
    }

    /// Records that the page walk for `page` ends at `ready`.
    pub(crate) fn walks(&mut self, page: u64, ready: Tick) {
        self.first.walks(page, ready);
        self.second.walks(page, ready);
    }

    /// Invalidates the translation of a page in both levels.
    pub(crate) fn forget(&mut self, page: u64) {
        self.first.remove(page);
        self.second.remove(page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_until_it_is_forgotten_or_crowded_out() {
        let mut tlb = Tlb::new(&TlbConfig::default());
        assert_eq!(tlb.look(7), Translated::Nowhere);
        assert_eq!(tlb.look(7), Translated::First(Tick::ZERO));
        for page in 1..=4 {
            tlb.look(7 + 16 * page);
        }
        assert_eq!(tlb.look(7), Translated::Second(Tick::ZERO));
        tlb.forget(7);
        assert_eq!(tlb.look(7), Translated::Nowhere);
    }

    #[test]
    fn lookup_during_a_walk_returns_its_end() {
        let mut tlb = Tlb::new(&TlbConfig::default());
        tlb.look(7);
        tlb.walks(7, Tick(50));
        assert_eq!(tlb.look(7), Translated::First(Tick(50)));
        for page in 1..=4 {
            tlb.look(7 + 16 * page);
        }
        assert_eq!(tlb.look(7), Translated::Second(Tick(50)));
        assert_eq!(tlb.look(7), Translated::First(Tick(50)));
        tlb.forget(7);
        tlb.look(7);
        assert_eq!(tlb.look(7), Translated::First(Tick::ZERO));
    }
}
