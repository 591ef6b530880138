//! Contents of a file as ranges of patterns.
//!
//! Invariant: ranges do not overlap and are not empty; what lies between them is
//! zeros. A pattern is eight bytes, little endian, that repeat from offset 0 of
//! the file on; pattern 0 is zeros and is not kept.

use std::collections::BTreeMap;
use std::ops::Range;

/// Patterns of a file by the start of their range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spans(BTreeMap<u64, (u64, u64)>);

impl Spans {
    /// Writes `pattern` over `range` and returns the ranges and patterns that were there,
    /// zeros included.
    pub(crate) fn write(&mut self, range: Range<u64>, pattern: u64) -> Vec<(Range<u64>, u64)> {
        let old = self.read(range.clone());
        self.clear(range.clone());
        if pattern != 0 && !range.is_empty() {
            self.0.insert(range.start, (range.end, pattern));
        }
        old
    }

    /// Ranges and patterns of `range` without gaps, zeros included.
    pub(crate) fn read(&self, range: Range<u64>) -> Vec<(Range<u64>, u64)> {
        let mut parts = Vec::new();
        let mut at = range.start;
        for (span, pattern) in self.overlapping(range.clone()) {
            if at < span.start {
                parts.push((at..span.start, 0));
            }
            at = span.end;
            parts.push((span, pattern));
        }
        if at < range.end {
            parts.push((at..range.end, 0));
        }
        parts
    }

    /// Number of ranges that are kept.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Ranges that overlap `range`, cut to its ends.
    fn overlapping(&self, range: Range<u64>) -> Vec<(Range<u64>, u64)> {
        let before = self.0.range(..range.start).next_back();
        let within = self.0.range(range.start..range.end.max(range.start));
        let all = before.into_iter().chain(within);
        all.filter(|(_, (end, _))| *end > range.start)
            .map(|(&start, &(end, pattern))| (start.max(range.start)..end.min(range.end), pattern))
            .collect()
    }

    fn clear(&mut self, range: Range<u64>) {
        let before = self.0.range(..range.start).next_back();
        let before = before.map(|(&start, &span)| (start, span));
        if let Some((start, (end, pattern))) = before.filter(|b| b.1.0 > range.start) {
            self.0.insert(start, (range.start, pattern));
            if end > range.end {
                self.0.insert(range.end, (end, pattern));
            }
        }
        let within: Vec<u64> = self
            .0
            .range(range.clone())
            .map(|(&start, _)| start)
            .collect();
        for start in within {
            let span = self.0.remove(&start);
            if let Some((end, pattern)) = span.filter(|span| span.0 > range.end) {
                self.0.insert(range.end, (end, pattern));
            }
        }
    }
}

/// The byte of `pattern` at `offset` of a file.
pub(crate) const fn byte(pattern: u64, offset: u64) -> u8 {
    pattern.to_le_bytes()[(offset % 8) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    #[test]
    fn spans_agree_with_an_array() {
        let mut rng = Seed(1).stream("spans");
        let mut spans = Spans::default();
        let mut array = [0_u64; 64];
        for _ in 0..4_000 {
            let start = rng.below(60);
            let range = start..start + 1 + rng.below(63 - start);
            let pattern = rng.below(4);
            let old = spans.write(range.clone(), pattern);
            let flat = old.into_iter().flat_map(|(r, p)| r.map(move |_| p));
            let before = &mut array[range.start as usize..range.end as usize];
            assert_eq!(flat.collect::<Vec<_>>(), before.to_vec());
            before.fill(pattern);
            let all = spans.read(0..64).into_iter();
            let all = all.flat_map(|(r, p)| r.map(move |_| p));
            assert_eq!(all.collect::<Vec<_>>(), array.to_vec());
        }
    }
}
