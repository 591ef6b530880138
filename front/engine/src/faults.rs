//! Faults that are injected into a drive while clients use it.
//!
//! Invariants: a fault lies over the true contents, which do not change, so that the drive
//! is as it was when the fault is taken away; what happens to a request is a function of the
//! faults and of the requests before it, and of no chance.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use units::SECTOR;

/// Ranges that may be injected at a time.
const RANGES_MAX: usize = 1024;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injected {
    /// A range of bytes cannot be read.
    Unreadable(Range<u64>),
    /// A range of bytes cannot be written.
    Unwritable(Range<u64>),
    /// Each read of which the number is a multiple of this fails.
    ReadsFail(u64),
    /// Each such read has one bit of its first byte turned: what a client must notice that
    /// checks what it reads.
    ReadsFlip(u64),
}

/// What becomes of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    True,
    /// It fails at this sector.
    Fails(u64),
    Flipped,
}

/// The faults of a drive.
#[derive(Default)]
pub(crate) struct Faults {
    ranges: RefCell<Vec<Injected>>,
    fail: Cell<u64>,
    flip: Cell<u64>,
    reads: Cell<u64>,
}

impl Faults {
    /// Adds a fault; false if there are too many.
    pub(crate) fn inject(&self, fault: Injected) -> bool {
        match fault {
            Injected::ReadsFail(every) => self.fail.set(every),
            Injected::ReadsFlip(every) => self.flip.set(every),
            range => {
                let mut ranges = self.ranges.borrow_mut();
                if ranges.len() >= RANGES_MAX {
                    return false;
                }
                ranges.push(range);
            }
        }
        true
    }

    /// Takes all faults away.
    pub(crate) fn heal(&self) {
        self.ranges.borrow_mut().clear();
        self.fail.set(0);
        self.flip.set(0);
        self.reads.set(0);
    }

    /// What becomes of the next read, which is of `range`.
    pub(crate) fn read(&self, range: &Range<u64>) -> Read {
        let number = self.reads.get() + 1;
        self.reads.set(number);
        let is_turn = |every: u64| every > 0 && number.is_multiple_of(every);
        if is_turn(self.fail.get()) {
            return Read::Fails(range.start / SECTOR);
        }
        let hit = self.first(range, |fault| match fault {
            Injected::Unreadable(range) => Some(range),
            _ => None,
        });
        match hit {
            Some(at) => Read::Fails(at / SECTOR),
            None if is_turn(self.flip.get()) => Read::Flipped,
            None => Read::True,
        }
    }

    /// The first byte of `range` that cannot be written.
    pub(crate) fn write(&self, range: &Range<u64>) -> Option<u64> {
        self.first(range, |fault| match fault {
            Injected::Unwritable(range) => Some(range),
            _ => None,
        })
    }

    fn first(
        &self,
        range: &Range<u64>,
        kind: impl Fn(&Injected) -> Option<&Range<u64>>,
    ) -> Option<u64> {
        let ranges = self.ranges.borrow();
        let hits = ranges.iter().filter_map(kind);
        let hits = hits.filter(|hit| hit.start < range.end && range.start < hit.end);
        hits.map(|hit| hit.start.max(range.start)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_hit_what_they_name_until_they_are_taken_away() {
        let faults = Faults::default();
        assert!(faults.inject(Injected::Unreadable(4096..8192)));
        assert!(faults.inject(Injected::Unwritable(0..512)));
        assert_eq!(faults.read(&(0..4096)), Read::True);
        assert_eq!(faults.read(&(0..4097)), Read::Fails(8));
        assert_eq!(faults.write(&(511..600)), Some(511));
        assert_eq!(faults.write(&(512..9000)), None);
        assert!(faults.inject(Injected::ReadsFlip(3)));
        assert!(faults.inject(Injected::ReadsFail(4)));
        let next = || faults.read(&(0..512));
        assert_eq!([next(), next()], [Read::Flipped, Read::Fails(0)]);
        faults.heal();
        assert!((0..9).all(|_| faults.read(&(0..8192)) == Read::True));
        while faults.inject(Injected::Unreadable(0..1)) {}
        assert_eq!(faults.ranges.borrow().len(), RANGES_MAX);
    }
}
