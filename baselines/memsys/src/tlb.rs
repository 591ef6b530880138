//! Translations that a core remembers: two levels of sets in order of use.

use crate::config::TlbConfig;

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
        match set.iter().position(|&held| held == page) {
            Some(way) => {
                set[..=way].rotate_right(1);
                true
            }
            None => false,
        }
    }

    fn insert(&mut self, page: u64) {
        let set = self.set(page);
        set.rotate_right(1);
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
}

impl Tlb {
    pub(crate) fn new(config: &TlbConfig) -> Self {
        Self {
            first: Table::new(config.first, config.first_ways),
            second: Table::new(config.second, config.second_ways),
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

    /// Forgets a page.
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
        assert_eq!(tlb.look(7), Translated::First);
        for page in 1..=4 {
            tlb.look(7 + 16 * page);
        }
        assert_eq!(tlb.look(7), Translated::Second);
        tlb.forget(7);
        assert_eq!(tlb.look(7), Translated::Nowhere);
    }
}
