//! Translations that a core remembers: two levels of sets in order of use.
//!
//! A page has its place in them from the first access on, so that those that follow join
//! its walk; they wait until that ends.

use crate::config::TlbConfig;
use crate::tick::Tick;

const EMPTY: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Table {
    ways: usize,
    mask: u64,
    pages: Vec<u64>,
}

impl Table {
    fn new(entries: u64, ways: u64) -> Self {
        Self {
            ways: ways as usize,
            mask: entries / ways - 1,
            pages: vec![EMPTY; entries as usize],
        }
    }

    fn set(&mut self, page: u64) -> &mut [u64] {
        let base = (page & self.mask) as usize * self.ways;
        &mut self.pages[base..base + self.ways]
    }

    #[inline]
    fn hit(&mut self, page: u64) -> bool {
        let set = self.set(page);
        if set[0] == page {
            return true;
        }
        let Some(way) = set.iter().position(|&held| held == page) else {
            return false;
        };
        set.copy_within(..way, 1);
        set[0] = page;
        true
    }

    fn insert(&mut self, page: u64) {
        let set = self.set(page);
        set.copy_within(..set.len() - 1, 1);
        set[0] = page;
    }

    fn remove(&mut self, page: u64) {
        let set = self.set(page);
        if let Some(way) = set.iter().position(|&held| held == page) {
            set[way] = EMPTY;
            set[way..].rotate_left(1);
        }
    }
}

/// Where a translation was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Translated {
    First,
    Second,
    Nowhere,
}

/// The translations of one core.
#[derive(Clone, Debug)]
pub(crate) struct Tlb {
    first: Table,
    second: Table,
    /// Pages whose walks have not ended, and when they do.
    walking: Vec<(u64, Tick)>,
}

impl Tlb {
    pub(crate) fn new(config: &TlbConfig) -> Self {
        Self {
            first: Table::new(config.first, config.first_ways),
            second: Table::new(config.second, config.second_ways),
            walking: Vec::new(),
        }
    }

    /// Looks a page up; it is in both tables afterwards.
    #[inline]
    pub(crate) fn look(&mut self, page: u64) -> Translated {
        if self.first.hit(page) {
            return Translated::First;
        }
        self.first.insert(page);
        if self.second.hit(page) {
            return Translated::Second;
        }
        self.second.insert(page);
        Translated::Nowhere
    }

    /// Notes that a walk for `page` ends at `ready`.
    pub(crate) fn walks(&mut self, page: u64, now: Tick, ready: Tick) {
        self.walking.retain(|walk| walk.1 > now && walk.0 != page);
        self.walking.push((page, ready));
    }

    /// When the translation of a page is there that was found at `looked`.
    #[inline]
    pub(crate) fn ready(&self, page: u64, looked: Tick) -> Tick {
        let walk = self.walking.iter().find(|walk| walk.0 == page);
        walk.map_or(looked, |walk| walk.1.max(looked))
    }

    /// Forgets a page.
    pub(crate) fn forget(&mut self, page: u64) {
        self.first.remove(page);
        self.second.remove(page);
        self.walking.retain(|walk| walk.0 != page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_until_it_is_forgotten_or_crowded_out() {
        let mut tlb = Tlb::new(&TlbConfig::default());
        assert_eq!(tlb.look(7), Translated::Nowhere);
        assert_eq!(tlb.look(7), Translated::First);
        for page in 1..=4 {
            tlb.look(7 + 16 * page);
        }
        assert_eq!(tlb.look(7), Translated::Second);
        tlb.forget(7);
        assert_eq!(tlb.look(7), Translated::Nowhere);
    }

    #[test]
    fn who_finds_a_walk_under_way_waits_for_its_end() {
        let mut tlb = Tlb::new(&TlbConfig::default());
        tlb.walks(7, Tick(0), Tick(50));
        tlb.walks(8, Tick(10), Tick(60));
        assert_eq!(tlb.ready(7, Tick(20)), Tick(50));
        assert_eq!(tlb.ready(8, Tick(70)), Tick(70));
        assert_eq!(tlb.ready(9, Tick(20)), Tick(20));
        tlb.forget(7);
        assert_eq!(tlb.ready(7, Tick(20)), Tick(20));
    }
}
