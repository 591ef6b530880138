//! Faults that are injected into a drive while clients use it.
//!
//! Invariants: a fault overlays the true contents, which do not change, so that healing restores
//! the drive; the fate of a request depends on the faults and on the number of reads before it,
//! never on chance.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use units::SECTOR;

/// Maximum number of injected ranges.
const RANGES_MAX: usize = 1024;

/// A fault to inject with [`Device::inject`](crate::Device::inject).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injected {
    /// Reads that touch this range of bytes fail.
    Unreadable(Range<u64>),
    /// Writes that touch this range of bytes fail.
    Unwritable(Range<u64>),
    /// Every n-th read fails; 0 turns this off.
    ReadsFail(u64),
    /// Every n-th read has one bit of its first byte flipped, which a client with checksums must
    /// detect; 0 turns this off.
    ReadsFlip(u64),
}

/// Fate of a read under the injected faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    True,
    /// The read fails at this sector.
    Fails(u64),
    Flipped,
}

/// Faults injected into a drive.
#[derive(Default)]
pub(crate) struct Faults {
    ranges: RefCell<Vec<Injected>>,
    fail: Cell<u64>,
    flip: Cell<u64>,
    reads: Cell<u64>,
}

impl Faults {
    /// Adds a fault; returns false if [`RANGES_MAX`] ranges are injected already.
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

    /// Removes all faults and restarts the count of reads.
    pub(crate) fn heal(&self) {
        self.ranges.borrow_mut().clear();
        self.fail.set(0);
        self.flip.set(0);
        self.reads.set(0);
    }

    /// Counts a read of `range` and returns its fate.
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

    /// First byte of `range` that an injected fault makes unwritable.
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
    fn faults_hit_their_ranges_until_they_are_healed() {
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
