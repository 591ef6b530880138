//! The map of a file from its pages to the medium, as pieces.
//!
//! Invariants: pieces are not empty and do not overlap; a piece that is a hole stands for an entry
//! that says so; between pieces no entry maps anything.

use crate::entry::Target;
use std::collections::BTreeMap;
use std::ops::Range;

/// A range of consecutive pages that one entry maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First page after the piece.
    pub(crate) end: u64,
    pub(crate) to: Target,
    /// Address of the entry in the log.
    pub(crate) entry: u64,
}

/// Consecutive pages of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u64,
    pub(crate) len: u64,
}

/// A piece over which another was laid.
pub(crate) struct Covered {
    /// The piece before the change.
    pub(crate) piece: Piece,
    /// Number of its remaining parts: 0 to 2.
    pub(crate) left: u32,
}

/// The map of one file.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    by_first: BTreeMap<u64, Piece>,
    /// Number of pages of the medium in the map.
    pub(crate) mapped: u64,
}

impl Pieces {
    /// Lays a piece over the map; returns the pages that it frees, and the pieces that it covers
    /// wholly or in part.
    pub(crate) fn lay(&mut self, first: u64, piece: Piece) -> (Vec<Run>, Vec<Covered>) {
        let range = first..piece.end;
        let mut freed = Vec::new();
        let mut covered = Vec::new();
        while let Some((start, old)) = self.next_in(&range) {
            self.by_first.remove(&start);
            let (from, to) = (start.max(range.start), old.end.min(range.end));
            if let Some(page) = old.to.skip(from - start).start() {
                let len = to - from;
                self.mapped -= len;
                freed.push(Run { start: page, len });
            }
            let mut left = 0;
            if start < from {
                self.by_first.insert(start, Piece { end: from, ..old });
                left += 1;
            }
            if to < old.end {
                let to_rest = old.to.skip(to - start);
                self.by_first.insert(to, Piece { to: to_rest, ..old });
                left += 1;
            }
            covered.push(Covered { piece: old, left });
        }
        if piece.to != Target::Hole {
            self.mapped += piece.end - first;
        }
        self.by_first.insert(first, piece);
        (freed, covered)
    }

    /// The first piece that overlaps `range`.
    fn next_in(&self, range: &Range<u64>) -> Option<(u64, Piece)> {
        let (&first, &piece) = self.by_first.range(..range.end).next_back()?;
        if piece.end <= range.start {
            return None;
        }
        Some((first, piece))
    }

    /// Place of page `index`, and the number of pages from it on that continue it.
    pub(crate) fn find(&self, index: u64) -> (Target, u64) {
        let before = self.by_first.range(..=index).next_back();
        if let Some((&first, piece)) = before.filter(|(_, piece)| index < piece.end) {
            return (piece.to.skip(index - first), piece.end - index);
        }
        let next = self.by_first.range(index..).next();
        let end = next.map_or(u64::MAX, |(&first, _)| first);
        (Target::Hole, end - index)
    }

    /// Splits `range` into pieces and holes, in order.
    pub(crate) fn parts(&self, range: Range<u64>) -> Vec<(Range<u64>, Target)> {
        let (mut at, mut parts) = (range.start, Vec::new());
        while at < range.end {
            let (to, len) = self.find(at);
            let end = range.end.min(at.saturating_add(len));
            parts.push((at..end, to));
            at = end;
        }
        parts
    }

    /// Pieces other than holes, with their first pages.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &Piece)> {
        let pieces = self.by_first.iter();
        let mapped = pieces.filter(|(_, piece)| piece.to != Target::Hole);
        mapped.map(|(&first, piece)| (first, piece))
    }

    /// Runs of the medium that the map refers to.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.iter().filter_map(|(first, piece)| {
            let len = piece.end - first;
            Some(Run {
                start: piece.to.start()?,
                len,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn pieces_agree_with_a_table_of_pages() {
        for seed in 0..50 {
            let mut rng = Seed(seed).stream("pieces");
            let mut pieces = Pieces::default();
            let mut table = [Target::Hole; 64];
            for step in 0..60 {
                let first = rng.below(60);
                let end = first + 1 + rng.below(64 - first);
                let start = 1_000 + step * 64;
                let to = match rng.below(3) {
                    0 => Target::Hole,
                    1 => Target::Data(start),
                    _ => Target::Unwritten(start),
                };
                let entry = step;
                let (freed, covered) = pieces.lay(first, Piece { end, to, entry });
                let range = first as usize..end as usize;
                let mut gone: Vec<_> = table[range.clone()]
                    .iter()
                    .filter_map(|t| t.start())
                    .collect();
                let pages = |run: &Run| run.start..run.start + run.len;
                let mut freed: Vec<u64> = freed.iter().flat_map(pages).collect();
                gone.sort_unstable();
                freed.sort_unstable();
                assert_eq!(freed, gone);
                assert!(covered.iter().all(|c| c.left < 3));
                for (index, page) in range.clone().zip(&mut table[range]) {
                    *page = to.skip(index as u64 - first);
                }
            }
            for (index, &page) in (0..).zip(&table) {
                assert_eq!(pieces.find(index).0, page);
            }
            let mapped = table.iter().filter(|t| **t != Target::Hole).count();
            assert_eq!(pieces.mapped, mapped as u64);
            let parts = pieces.parts(0..64);
            assert!(
                parts
                    .iter()
                    .all(|(range, to)| table[range.start as usize] == *to)
            );
            assert_eq!(parts.iter().map(|(r, _)| r.end - r.start).sum::<u64>(), 64);
        }
    }
}
