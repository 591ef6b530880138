//! Bitmap of the free units of the data area, with a summary for each chunk to find the longest
//! run.
//!
//! Invariants: one bit for each unit; a summary whose chunk changed is recomputed before use. So a
//! change costs a few instructions, and a search for the longest run costs one step for each chunk.

use std::cell::RefCell;
use std::ops::Range;

/// Units that one summary covers.
const CHUNK: u32 = 1024;
/// Words of the bitmap in a chunk.
const WORDS: usize = CHUNK as usize / 64;

/// Lengths of the free runs at the start (`first`) and the end (`last`) of a chunk, and its longest
/// run. `stale` marks a summary to recompute.
#[derive(Clone, Copy, Default)]
struct Summary {
    first: u32,
    last: u32,
    longest: Range32,
    stale: bool,
}

/// A half-open range of units that is `Copy`, unlike `Range`.
#[derive(Clone, Copy, Default)]
struct Range32 {
    start: u32,
    end: u32,
}

impl Range32 {
    const fn len(self) -> u32 {
        self.end - self.start
    }
}

/// Set of free units of the data area.
pub(crate) struct Free {
    words: Vec<u64>,
    chunks: RefCell<Vec<Summary>>,
    units: u32,
    count: u32,
}

impl Free {
    /// A set over `units` units, all taken.
    pub(crate) fn new(units: u32) -> Self {
        let chunks = units.div_ceil(CHUNK) as usize;
        let stale = Summary {
            stale: true,
            ..Summary::default()
        };
        Self {
            words: vec![0; chunks * WORDS],
            chunks: RefCell::new(vec![stale; chunks]),
            units,
            count: 0,
        }
    }

    pub(crate) const fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn has(&self, unit: u32) -> bool {
        self.words[unit as usize / 64] >> (unit % 64) & 1 == 1
    }

    /// Marks `unit` free or taken; the unit must be in the other state before.
    pub(crate) fn set(&mut self, unit: u32, free: bool) {
        debug_assert_ne!(self.has(unit), free, "unit {unit} changes");
        self.words[unit as usize / 64] ^= 1 << (unit % 64);
        self.chunks.get_mut()[(unit / CHUNK) as usize].stale = true;
        if free {
            self.count += 1;
        } else {
            self.count -= 1;
        }
    }

    /// First free unit in `from..to`.
    pub(crate) fn first_in(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = from;
        while at < to {
            let word = self.words[at as usize / 64] >> (at % 64);
            if word != 0 {
                let found = at + word.trailing_zeros();
                return (found < to).then_some(found);
            }
            at = (at / 64 + 1) * 64;
        }
        None
    }

    /// Longest run of free units; the first one if several are as long.
    pub(crate) fn longest(&self) -> Range<u32> {
        let mut chunks = self.chunks.borrow_mut();
        let (mut best, mut open) = (Range32::default(), Range32::default());
        let longer = |a: Range32, b: Range32| if b.len() > a.len() { b } else { a };
        for (number, chunk) in (0..).zip(chunks.iter_mut()) {
            if chunk.stale {
                *chunk = self.summary(number);
            }
            let (start, end) = (number * CHUNK, (number + 1) * CHUNK);
            best = longer(best, chunk.longest);
            open.end = start + chunk.first;
            best = longer(best, open);
            if chunk.first < CHUNK {
                let start = end - chunk.last;
                open = Range32 { start, end };
                best = longer(best, open);
            }
        }
        best.start..best.end
    }

    fn summary(&self, chunk: u32) -> Summary {
        let (start, end) = (chunk * CHUNK, (chunk + 1) * CHUNK);
        let mut summary = Summary::default();
        let mut at = start;
        while let Some(first) = self.first_in(at, end) {
            let behind = self.first_taken(first, end);
            let run = Range32 {
                start: first,
                end: behind,
            };
            if run.len() > summary.longest.len() {
                summary.longest = run;
            }
            if first == start {
                summary.first = run.len();
            }
            if behind == end {
                summary.last = run.len();
            }
            at = behind;
        }
        summary
    }

    /// First unit in `from..to` that is taken, or `to` if all are free.
    pub(crate) fn first_taken(&self, from: u32, to: u32) -> u32 {
        let mut at = from;
        while at < to {
            let word = !self.words[at as usize / 64] >> (at % 64);
            if word != 0 {
                return (at + word.trailing_zeros()).min(to);
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }

    /// Number of units, free and taken.
    pub(crate) const fn units(&self) -> u32 {
        self.units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;

    /// Longest run by a scan of each unit: the reference for [`Free::longest`].
    fn plainly(free: &Free) -> Range<u32> {
        let (mut best, mut start) = (0..0, None);
        for unit in 0..=free.units() {
            let is_free = unit < free.units() && free.has(unit);
            match (is_free, start) {
                (true, None) => start = Some(unit),
                (false, Some(first)) => {
                    if unit - first > best.end - best.start {
                        best = first..unit;
                    }
                    start = None;
                }
                _ => {}
            }
        }
        best
    }

    #[test]
    fn longest_run_equals_that_of_a_plain_scan() {
        let mut rng = Seed(1).stream("free");
        for units in [70, 1024, 3000, 8192] {
            let mut free = Free::new(units);
            for round in 0..200 {
                let start = rng.below(u64::from(units)) as u32;
                let len = rng.below(u64::from(units) / 2) as u32;
                let to = round % 2 == 0;
                for unit in start..(start + len).min(units) {
                    if free.has(unit) != to {
                        free.set(unit, to);
                    }
                }
                let (found, expected) = (free.longest(), plainly(&free));
                assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
                assert!(found.clone().all(|unit| free.has(unit)));
                let count = (0..units).filter(|&unit| free.has(unit)).count();
                assert_eq!(count as u32, free.count());
            }
        }
    }
}
