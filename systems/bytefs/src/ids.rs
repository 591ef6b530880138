//! TxIDs: the numbers of transactions towards the drive.
//!
//! Invariants: they are never 0 and go up by one; after the greatest comes 1 again.
//! None is used before a record on the medium says that it may be, so that one that
//! a mount has used is not used by the next. The log of the drive, which is what a
//! number must be unique in, holds fewer transactions than there are numbers by far;
//! the drive refuses one that it still knows as committed, and the next is taken.

use crate::format::Record;

/// Numbers that may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    next: u32,
    rounds: u32,
    /// The first that is not reserved.
    end: u32,
}

/// `id` and `count` more, leaving out 0; and whether it began anew.
fn after(id: u32, count: u32) -> (u32, bool) {
    let all = u64::from(u32::MAX);
    let sum = u64::from(id) - 1 + u64::from(count);
    ((sum % all) as u32 + 1, sum >= all)
}

impl Ids {
    /// Those after what `record` says was used.
    pub(crate) const fn new(record: Record) -> Self {
        Self {
            next: record.next,
            rounds: record.rounds,
            end: record.next,
        }
    }

    /// The next one; none if more have to be reserved.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.next == self.end {
            return None;
        }
        let id = self.next;
        let (next, anew) = after(id, 1);
        self.next = next;
        self.rounds = self.rounds.wrapping_add(u32::from(anew));
        Some(id)
    }

    /// The record that reserves `count` more.
    pub(crate) fn reservation(&self, count: u32) -> Record {
        let (next, anew) = after(self.end, count.max(1));
        Record {
            next,
            rounds: self.rounds.wrapping_add(u32::from(anew)),
            clean: false,
        }
    }

    /// The record is on the medium.
    pub(crate) const fn reserved(&mut self, record: Record) {
        self.end = record.next;
    }

    /// The record of a clean unmount.
    pub(crate) const fn left(&self) -> Record {
        Record {
            next: self.next,
            rounds: self.rounds,
            clean: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_up_leave_out_zero_and_begin_anew() {
        let record = Record {
            next: u32::MAX - 2,
            ..Record::new()
        };
        let mut ids = Ids::new(record);
        let mut taken = Vec::new();
        while taken.len() < 7 {
            match ids.take() {
                Some(id) => taken.push(id),
                None => ids.reserved(ids.reservation(2)),
            }
        }
        let max = u32::MAX;
        assert_eq!(taken, [max - 2, max - 1, max, 1, 2, 3, 4]);
        let left = ids.left();
        assert_eq!((left.next, left.rounds, left.clean), (5, 1, true));
    }

    #[test]
    fn what_was_reserved_is_not_given_out_by_the_next_mount() {
        let mut ids = Ids::new(Record::new());
        assert_eq!(ids.take(), None);
        let record = ids.reservation(10);
        ids.reserved(record);
        let first: Vec<u32> = std::iter::from_fn(|| ids.take()).collect();
        let mut next = Ids::new(record);
        next.reserved(next.reservation(10));
        let second: Vec<u32> = std::iter::from_fn(|| next.take()).collect();
        assert_eq!((first[0], first[9], second[0]), (1, 10, 11));
    }
}
