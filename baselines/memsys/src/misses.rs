//! Miss status holding registers (MSHRs) of a cache: their number, and when each is free.
//!
//! Completed misses are removed only when no register is free. Removing them earlier would be
//! wrong, as a translation asks for a time slightly ahead of the next request.

use crate::tick::Tick;

/// The MSHRs of one cache.
#[derive(Clone, Debug)]
pub(crate) struct Misses {
    limit: usize,
    /// End of each miss, and its owner: the number of an operation plus one, or zero if no
    /// squash frees it.
    until: Vec<(Tick, u64)>,
    /// No register is free before this time; zero if that is not known.
    full_until: Tick,
    /// Registers of misses with an unknown end.
    held: usize,
}

impl Misses {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            until: Vec::with_capacity(limit),
            full_until: Tick::ZERO,
            held: 0,
        }
    }

    /// Time from which a register is free; [`Tick::NEVER`] if that is not known.
    #[inline]
    pub(crate) fn room(&mut self, now: Tick) -> Tick {
        if now < self.full_until {
            return self.full_until;
        }
        if self.until.len() + self.held < self.limit {
            return now;
        }
        let first = self.forget(now);
        if self.until.len() + self.held < self.limit {
            return now;
        }
        self.full_until = first;
        first
    }

    /// Removes misses that have ended at `now`. Returns the earliest end of the others.
    fn forget(&mut self, now: Tick) -> Tick {
        let (mut at, mut first) = (0, Tick::NEVER);
        while let Some(&(until, _)) = self.until.get(at) {
            if until <= now {
                self.until.swap_remove(at);
            } else {
                first = first.min(until);
                at += 1;
            }
        }
        first
    }

    #[inline]
    pub(crate) fn take(&mut self, until: Tick, asker: u64) {
        self.until.push((until, asker));
        self.full_until = self.full_until.min(until);
    }

    pub(crate) fn hold(&mut self) {
        self.held += 1;
    }

    pub(crate) fn release(&mut self) {
        debug_assert!(self.held > 0, "what is released was held");
        self.held = self.held.saturating_sub(1);
        self.full_until = Tick::ZERO;
    }

    /// Frees registers with a known end that belong to squashed operations: `number` and younger.
    pub(crate) fn squash(&mut self, number: u64) {
        self.until.retain(|&(_, asker)| asker <= number);
        self.full_until = Tick::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_wait_for_the_first_that_ends() {
        let mut misses = Misses::new(2);
        misses.take(Tick(30), 1);
        misses.take(Tick(20), 1);
        assert_eq!(misses.room(Tick(19)), Tick(20));
        assert_eq!(misses.room(Tick(20)), Tick(20));
        misses.hold();
        assert_eq!(misses.room(Tick(29)), Tick(30));
        misses.squash(0);
        misses.hold();
        assert_eq!(misses.room(Tick(40)), Tick::NEVER);
    }

    #[test]
    fn operation_older_than_the_squashed_keeps_its_register() {
        //= skybyte 3.1
        let mut misses = Misses::new(3);
        // A store that drains, and operations 4 and 5.
        misses.take(Tick(30), 0);
        misses.take(Tick(40), 5);
        misses.take(Tick(50), 6);
        misses.squash(5);
        misses.hold();
        assert_eq!(misses.room(Tick(20)), Tick(30));
        misses.squash(4);
        assert_eq!(misses.room(Tick(20)), Tick(20));
    }
}
