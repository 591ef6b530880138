//! Programs under way.
//!
//! Invariant: the sequence number of a failed program stays under way until the data of that
//! program, or newer versions of them, are on flash: the number is *kept* until certain later
//! programs have completed. A number is kept for greater numbers only, so two never wait for each
//! other.

use std::collections::VecDeque;

/// Programs under way, by sequence number.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    /// Every program before this sequence number has completed.
    pub(crate) settled: u64,
    done: VecDeque<bool>,
    /// Entries of `done` that are false.
    open: usize,
    /// Kept numbers, as (sequence, until): done once all numbers between the two are.
    kept: Vec<(u64, u64)>,
}

impl InFlight {
    pub(crate) fn starting_at(sequence: u64) -> Self {
        Self {
            settled: sequence,
            ..Self::default()
        }
    }

    /// Sequence number of the next program.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.settled + self.done.len() as u64
    }

    /// Whether no program is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// Programs under way, kept numbers excluded.
    pub(crate) fn unfinished(&self) -> usize {
        self.open - self.kept.len()
    }

    #[inline]
    pub(crate) fn begin(&mut self) -> u64 {
        let sequence = self.next();
        self.done.push_back(false);
        self.open += 1;
        sequence
    }

    fn are_done(&self, from: u64, until: u64) -> bool {
        let from = from.max(self.settled);
        (from..until.max(from)).all(|sequence| self.done[(sequence - self.settled) as usize])
    }

    #[inline]
    pub(crate) fn end(&mut self, sequence: u64) {
        self.mark(sequence);
        if !self.kept.is_empty() {
            self.end_kept();
        }
        while self.done.front() == Some(&true) {
            self.done.pop_front();
            self.settled += 1;
        }
    }

    /// Ends `sequence` once all numbers after it and before `until` have ended.
    pub(crate) fn end_after(&mut self, sequence: u64, until: u64) {
        if self.are_done(sequence + 1, until) {
            self.end(sequence);
        } else {
            self.kept.push((sequence, until));
        }
    }

    #[inline]
    fn mark(&mut self, sequence: u64) {
        self.done[(sequence - self.settled) as usize] = true;
        self.open -= 1;
    }

    /// Ends kept numbers whose condition holds, the greatest first: smaller ones may have been kept
    /// for it.
    fn end_kept(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.sort_unstable_by(|a, b| b.cmp(a));
        kept.retain(|&(sequence, until)| {
            let done = self.are_done(sequence + 1, until);
            if done {
                self.mark(sequence);
            }
            !done
        });
        self.kept = kept;
    }
}

#[cfg(test)]
mod tests {
    use super::InFlight;

    fn of(programs: u64) -> InFlight {
        let mut all = InFlight::starting_at(10);
        (0..programs).for_each(|n| assert_eq!(all.begin(), 10 + n));
        all
    }

    #[test]
    fn settled_stops_at_the_first_program_under_way() {
        let mut all = of(3);
        all.end(11);
        assert_eq!((all.settled, all.unfinished()), (10, 2));
        all.end(10);
        assert_eq!((all.settled, all.unfinished()), (12, 1));
        all.end(12);
        assert!(all.is_empty());
        assert_eq!(all.next(), 13);
    }

    #[test]
    fn kept_number_waits_for_later_kept_numbers() {
        let mut all = of(5);
        all.end_after(10, 14);
        all.end_after(11, 14);
        assert_eq!((all.settled, all.unfinished()), (10, 3));
        all.end(12);
        assert_eq!((all.settled, all.unfinished()), (10, 2));
        all.end(13);
        assert_eq!((all.settled, all.unfinished()), (14, 1));
        all.end_after(14, 15);
        assert!(all.is_empty());
    }
}
