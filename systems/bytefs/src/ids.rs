//! TxIDs: the numbers of transactions towards the drive.
//!
//! Invariants: TxIDs are never 0 and go up by one; after the greatest they wrap to 1.
//! A TxID is used only once a record on the medium reserves it, so no mount reuses a
//! TxID of an earlier one. A TxID must be unique in the log of the drive, which holds
//! far fewer transactions than there are TxIDs; the drive rejects a TxID that it still
//! knows as committed, and the next one is taken.

use crate::format::Record;

/// The range of reserved TxIDs not used yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    next: u32,
    rounds: u32,
    /// The first TxID that is not reserved.
    end: u32,
}

/// The TxID `count` after `id`, leaving out 0, and whether it wrapped.
fn after(id: u32, count: u32) -> (u32, bool) {
    let all = u64::from(u32::MAX);
    let sum = u64::from(id) - 1 + u64::from(count);
    ((sum % all) as u32 + 1, sum >= all)
}

impl Ids {
    /// An empty range that starts after the TxIDs covered by `record`.
    pub(crate) const fn new(record: Record) -> Self {
        Self {
            next: record.next,
            rounds: record.rounds,
            end: record.next,
        }
    }

    /// Takes the next TxID; `None` if more have to be reserved.
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

    /// The record that reserves `count` more TxIDs, at least one.
    pub(crate) fn reservation(&self, count: u32) -> Record {
        let (next, anew) = after(self.end, count.max(1));
        Record {
            next,
            rounds: self.rounds.wrapping_add(u32::from(anew)),
            clean: false,
        }
    }

    /// Extends the range up to `record`, which is on the medium now.
    pub(crate) const fn reserved(&mut self, record: Record) {
        self.end = record.next;
    }

    /// The record of a clean unmount: returns the unused TxIDs.
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
    fn take_at_the_greatest_id_wraps_to_one() {
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
    fn reserved_ids_are_not_reused_by_the_next_mount() {
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
