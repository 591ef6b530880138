//! The registers that hold misses (MSHRs): how many, and when each is free again.
//!
//! Those that have ended are forgotten when somebody finds no register free, and not before:
//! a translation asks for a time that is a little ahead of what is asked next.

use crate::tick::Tick;

/// The registers of one cache.
#[derive(Clone, Debug)]
pub(crate) struct Misses {
    limit: usize,
    until: Vec<Tick>,
    /// Until then there is none free; zero where that is not known.
    full_until: Tick,
    /// Those of which nobody knows yet when they end.
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

    /// From when on there is room; [`Tick::NEVER`] if nobody knows.
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

    /// Forgets those that have ended at `now`; when the first of the others does.
    fn forget(&mut self, now: Tick) -> Tick {
        let (mut at, mut first) = (0, Tick::NEVER);
        while let Some(&until) = self.until.get(at) {
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
    pub(crate) fn take(&mut self, until: Tick) {
        self.until.push(until);
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

    /// Frees what has a known end, as when its instructions are squashed.
    pub(crate) fn squash(&mut self) {
        self.until.clear();
        self.full_until = Tick::ZERO;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_wait_for_the_first_that_ends() {
        let mut misses = Misses::new(2);
        misses.take(Tick(30));
        misses.take(Tick(20));
        assert_eq!(misses.room(Tick(19)), Tick(20));
        assert_eq!(misses.room(Tick(20)), Tick(20));
        misses.hold();
        assert_eq!(misses.room(Tick(29)), Tick(30));
        misses.squash();
        misses.hold();
        assert_eq!(misses.room(Tick(40)), Tick::NEVER);
    }
}
