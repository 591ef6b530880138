//! Prefetchers: the policies that pick pages to fetch before an access needs them.
//!
//! The best-offset prefetcher is that of `michaud2016`: an offset scores when the requested
//! page lies at that offset from a recent request, so a prefetch issued by that request would
//! have been timely. Its constants (score 31, 100 rounds, at least 2 points, 256 recent
//! requests, offsets whose factors are 2, 3 and 5) are those of the publication. The
//! publication prefetches one line; this prefetcher fetches pages at multiples of the offset.
//!
//! In a small memory a page is among the recent requests by chance: with random requests to
//! 1,500 pages an offset scores 17 of 100, and would be used. So the prefetcher also counts
//! chance points: requests whose page lies the tried offset *before* a recent request. An
//! ascending walk gives the offset points and chance none; random requests give both the
//! same. An offset is used only if its points exceed twice the chance points per offset (the
//! factor is a choice of ours). The publication's larger address space has almost no chance
//! points.

use crate::config::Prefetch;

/// Score at which an offset wins at once.
const SCORE_MAX: u32 = 31;
/// Rounds over all offsets after which the best score wins.
const ROUNDS: u32 = 100;
/// A best score up to this, plus the allowance for chance, turns prefetching off.
const BAD_SCORE: u32 = 1;
/// Factor by which an offset's points must exceed the mean chance points.
const CHANCE: u32 = 2;
/// Places of the table of recent requests.
const RECENT: usize = 256;

/// The prefetcher of a cache, with the state of its policy.
pub(crate) enum Prefetcher {
    Off,
    Next(u32),
    Best(Box<BestOffset>),
}

pub(crate) struct BestOffset {
    pages: u32,
    /// Offsets in ascending order, with their points in this phase.
    scores: Vec<(u32, u32)>,
    /// Chance points of this phase, summed over all offsets.
    by_chance: u32,
    /// Index of the offset tried next, and number of the round.
    turn: usize,
    round: u32,
    /// The offset in force; 0 while nothing is prefetched.
    offset: u32,
    /// Recent requests whose fetch has completed, a direct-mapped table by hash of the page.
    recent: Vec<u32>,
}

impl Prefetcher {
    pub(crate) fn new(config: Prefetch) -> Self {
        match config {
            Prefetch::None => Self::Off,
            Prefetch::Next { pages } => Self::Next(pages),
            Prefetch::BestOffset { pages, largest } => {
                Self::Best(Box::new(BestOffset::new(pages, largest)))
            }
        }
    }

    /// Trains on an access that missed, or that hit a prefetched page for the first time.
    /// Returns the pages to prefetch: the first page, the step to the next, and their number.
    pub(crate) fn asked(&mut self, page: u32) -> (u32, u32, u32) {
        match self {
            Self::Off => (page, 0, 0),
            Self::Next(pages) => (page.saturating_add(1), 1, *pages),
            Self::Best(best) => {
                best.learn(page);
                let pages = if best.offset == 0 { 0 } else { best.pages };
                (page.saturating_add(best.offset), best.offset, pages)
            }
        }
    }

    /// Records that the fetch of `page` has completed; `ahead` if it was a prefetch.
    pub(crate) fn came(&mut self, page: u32, ahead: bool) {
        if let Self::Best(best) = self {
            best.came(page, ahead);
        }
    }
}

impl BestOffset {
    fn new(pages: u32, largest: u32) -> Self {
        let smooth = |&offset: &u32| {
            let mut rest = offset;
            for factor in [2, 3, 5] {
                while rest.is_multiple_of(factor) {
                    rest /= factor;
                }
            }
            rest == 1
        };
        Self {
            pages,
            scores: (1..=largest).filter(smooth).map(|o| (o, 0)).collect(),
            by_chance: 0,
            turn: 0,
            round: 0,
            offset: 1,
            recent: vec![u32::MAX; RECENT],
        }
    }

    fn place(page: u32) -> usize {
        (page ^ page >> 8) as usize % RECENT
    }

    fn is_recent(&self, page: Option<u32>) -> bool {
        page.is_some_and(|page| self.recent[Self::place(page)] == page)
    }

    fn learn(&mut self, page: u32) {
        let offset = self.scores[self.turn].0;
        let follows = self.is_recent(page.checked_sub(offset));
        let leads = self.is_recent(page.checked_add(offset));
        self.by_chance += u32::from(leads);
        let points = &mut self.scores[self.turn].1;
        *points += u32::from(follows);
        let wins = *points >= SCORE_MAX;
        self.turn = (self.turn + 1) % self.scores.len();
        self.round += u32::from(self.turn == 0);
        if wins || self.round >= ROUNDS {
            self.choose();
        }
    }

    /// Ends a learning phase: the smallest offset with the best score takes effect, or none if
    /// the score is too low.
    fn choose(&mut self) {
        let best = self.scores.iter().rev().max_by_key(|(_, points)| *points);
        let (offset, points) = best.copied().unwrap_or((0, 0));
        let chance = self.by_chance.div_ceil(self.scores.len() as u32);
        let good = points > BAD_SCORE + CHANCE * chance;
        self.offset = if good { offset } else { 0 };
        self.scores.iter_mut().for_each(|(_, points)| *points = 0);
        (self.turn, self.round, self.by_chance) = (0, 0, 0);
    }

    fn came(&mut self, page: u32, ahead: bool) {
        // The request behind a prefetched page is one offset before it. With prefetching off,
        // the fetched page is the request itself.
        let base = match (ahead, self.offset) {
            (true, offset) => page.checked_sub(offset),
            (false, 0) => Some(page),
            (false, _) => None,
        };
        if let Some(base) = base {
            self.recent[Self::place(base)] = base;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks in steps of `stride`; each page arrives `late` requests after its own. Returns the
    /// learned offset.
    fn walk(stride: u32, late: usize) -> u32 {
        let config = Prefetch::BestOffset {
            pages: 1,
            largest: 16,
        };
        let mut prefetcher = Prefetcher::new(config);
        let mut on_the_way = std::collections::VecDeque::new();
        for step in 0..20_000 {
            let page = 1_000 + step * stride;
            let (first, _, pages) = prefetcher.asked(page);
            on_the_way.push_back(if pages > 0 {
                (first, true)
            } else {
                (page, false)
            });
            if on_the_way.len() > late {
                let (page, ahead) = on_the_way.pop_front().unwrap();
                prefetcher.came(page, ahead);
            }
        }
        match prefetcher {
            Prefetcher::Best(best) => best.offset,
            _ => 0,
        }
    }

    #[test]
    fn best_offset_learns_a_stride_and_a_timely_distance() {
        assert_eq!(walk(3, 0) % 3, 0);
        // Pages come four requests late: an offset of less than five strides is too short.
        assert!(walk(1, 4) >= 5, "{}", walk(1, 4));
    }

    #[test]
    fn best_offset_turns_off_without_a_pattern() {
        let config = Prefetch::BestOffset {
            pages: 1,
            largest: 16,
        };
        let mut prefetcher = Prefetcher::new(config);
        let mut rng = sim::Seed(1).stream("pages");
        let mut fetched = 0;
        for _ in 0..20_000 {
            let page = rng.below(1 << 30) as u32;
            let (_, _, pages) = prefetcher.asked(page);
            fetched += pages;
            prefetcher.came(page, false);
        }
        // The first phase only, in which it begins with an offset of 1.
        assert!(fetched <= 100 * 16, "{fetched}");
    }

    #[test]
    fn best_offset_turns_off_where_only_chance_scores() {
        // A small memory: a sixth of its pages are among the recent requests.
        for pages in [1_500, 6_000, 100_000] {
            let config = Prefetch::BestOffset {
                pages: 4,
                largest: 16,
            };
            let mut prefetcher = Prefetcher::new(config);
            let mut rng = sim::Seed(pages).stream("pages");
            let mut fetched = 0;
            for _ in 0..200_000 {
                let page = rng.below(pages) as u32;
                let (first, step, count) = prefetcher.asked(page);
                fetched += count;
                (0..count).for_each(|at| prefetcher.came(first + at * step, true));
                prefetcher.came(page, false);
            }
            assert!(fetched <= 200_000 / 4, "{fetched} ahead of {pages} pages");
        }
    }

    #[test]
    fn the_offsets_are_products_of_small_primes() {
        let offsets: Vec<u32> = BestOffset::new(1, 256).scores.iter().map(|s| s.0).collect();
        assert_eq!(offsets.len(), 52);
        assert_eq!(offsets[..9], [1, 2, 3, 4, 5, 6, 8, 9, 10]);
    }
}
