//! The steady state of uniform random overwrites.
//!
//! In that state a line loses valid pages in proportion to those it has left, so the share of valid
//! pages falls geometrically with the age of the line; the ratio is the one at which all lines
//! together hold exactly the host's pages. The closed form for cleaning the oldest line assumes this
//! state, and greedy cleaning approaches it with large lines.
//! //= desnoyers2014 4
//!
//! The valid versions of all pages, in the order of their lines, have consecutive *indices*. One
//! permutation takes an index to its page, and one for each line takes the positions of the line to
//! numbers, of which the lowest stand for its valid pages.

use super::shuffle::{Shuffle, mixed};
use crate::layout::Layout;
use sim::Seed;

/// An aged drive's data.
#[derive(Clone, Debug)]
pub(super) struct Aged {
    /// By turn: the index of the first valid page, and the count of all pages at the end.
    first: Vec<u32>,
    /// From indices to pages.
    pages: Shuffle,
    /// From positions in a line to numbers in it; each line varies it.
    numbers: Shuffle,
    /// Key of the stale pages.
    key: u64,
}

impl Aged {
    /// Data of the host's pages over `turns` lines.
    pub(super) fn new(layout: &Layout, turns: u32, seed: Seed) -> Self {
        let mut first = vec![0];
        let mut next = 0;
        for share in valid_shares(turns, layout.line_data, layout.host_pages) {
            next += share;
            first.push(next);
        }
        let mut rng = seed.stream("precondition");
        Self {
            first,
            pages: Shuffle::new(layout.host_pages, &mut seed.stream("precondition pages")),
            numbers: Shuffle::new(layout.line_data, &mut rng),
            key: rng.next_u64(),
        }
    }

    pub(super) fn turns(&self) -> u32 {
        self.first.len() as u32 - 1
    }

    /// Valid pages of a line.
    #[inline]
    pub(super) fn valid_pages(&self, turn: u32) -> u32 {
        self.first[turn as usize + 1] - self.first[turn as usize]
    }

    /// Turn and position of the newest version of a page of the host.
    pub(super) fn find(&self, page: u32) -> (u32, u32) {
        let index = self.pages.inverse(page);
        let turn = self.first.partition_point(|&first| first <= index) - 1;
        let number = index - self.first[turn];
        let turn = turn as u32;
        (turn, self.position(turn, number))
    }

    /// Position of a number in a line; those of the valid pages are the lowest.
    #[inline]
    pub(super) fn position(&self, turn: u32, number: u32) -> u32 {
        self.numbers.varied(turn).inverse(number)
    }

    #[inline]
    pub(super) fn is_valid(&self, turn: u32, position: u32) -> bool {
        self.numbers.varied(turn).at(position) < self.valid_pages(turn)
    }

    /// The page that the spare area names at a position. A stale version is of a page whose newest
    /// version lies in a later line; `None` if there is no later line with one.
    pub(super) fn page_at(&self, turn: u32, position: u32) -> Option<u32> {
        let number = self.numbers.varied(turn).at(position);
        let (first, end) = (self.first[turn as usize], self.first[turn as usize + 1]);
        if number < end - first {
            return Some(self.pages.at(first + number));
        }
        let later = u64::from(self.first[self.turns() as usize] - end);
        let drawn = mixed(self.key, u64::from(turn) << 32 | u64::from(position)) >> 32;
        (later > 0).then(|| self.pages.at(end + ((drawn * later) >> 32) as u32))
    }
}

/// Valid pages of `lines` lines of `size` pages each, oldest first. They add up to `total` pages
/// and fall geometrically with age.
fn valid_shares(lines: u32, size: u32, total: u32) -> Vec<u32> {
    let sum = |ratio: f64| {
        let mut share = f64::from(size);
        (0..lines).fold(0.0, |sum, _| {
            share *= ratio;
            sum + share
        })
    };
    // Bisection by additions and multiplications only: every machine computes the same result.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if sum(middle) < f64::from(total) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let mut share = f64::from(size);
    let mut shares: Vec<u32> = (0..lines)
        .map(|_| {
            share *= high;
            share as u32
        })
        .collect();
    shares.reverse();
    spread_rest(&mut shares, size, total);
    shares
}

/// Distributes the pages that rounding lost, newest lines first.
fn spread_rest(shares: &mut [u32], size: u32, total: u32) {
    let mut rest = i64::from(total) - shares.iter().map(|&s| i64::from(s)).sum::<i64>();
    while rest > 0 {
        let before = rest;
        for share in shares.iter_mut().rev() {
            if rest > 0 && *share < size {
                *share += 1;
                rest -= 1;
            }
        }
        assert!(rest < before, "the lines hold all pages");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_fall_with_age() {
        let shares = valid_shares(100, 1000, 80_000);
        assert_eq!(shares.iter().sum::<u32>(), 80_000);
        assert!(shares.is_sorted());
        // ratio^100 solves (1 - x)/ln(1/x) = 0.8: x is about 0.63.
        assert!((620..650).contains(&shares[0]), "{}", shares[0]);
    }
}
