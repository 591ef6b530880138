//! Which slots of the ring are whose.
//!
//! # Invariants
//!
//! - Slots are given out in order, and those of a transaction that is not done to
//!   nobody else; so all of transactions that are not done lie behind the oldest one's.
//! - Numbers go up by one, and the oldest that is not done is at most 65,535 behind.

use std::collections::BTreeMap;

/// What a transaction has of the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Its number.
    pub(super) tx: u32,
    /// How many numbers back the oldest one is that is not done.
    pub(super) back: u16,
    /// Its first slot; the others follow, going around.
    pub(super) slot: u64,
}

/// Why there is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Something has to be done first.
    Wait,
    /// All numbers are used up, and nothing is under way: a new epoch has to begin.
    UsedUp,
}

/// The ring.
pub(super) struct Ring {
    slots: u64,
    /// The next number; none is given out from `last` on.
    next: u32,
    last: u32,
    /// Slots that were given out, all laps together.
    head: u64,
    /// Transactions that are not done, with the first of their slots.
    live: BTreeMap<u32, u64>,
}

impl Ring {
    /// An empty ring, with numbers up to `last`.
    pub(super) const fn new(slots: u64, last: u32) -> Self {
        Self {
            slots,
            next: 1,
            last,
            head: 0,
            live: BTreeMap::new(),
        }
    }

    /// Gives out `count` slots, which the ring has.
    pub(super) fn take(&mut self, count: u64) -> Result<Ticket, Refusal> {
        assert!(count <= self.slots, "a transaction fits the ring");
        if self.next >= self.last {
            return Err(match self.is_idle() {
                true => Refusal::UsedUp,
                false => Refusal::Wait,
            });
        }
        let oldest = self.live.first_key_value();
        let (&oldest, &tail) = oldest.unwrap_or((&self.next, &self.head));
        let back = u16::try_from(self.next - oldest).map_err(|_| Refusal::Wait)?;
        if self.head - tail + count > self.slots {
            return Err(Refusal::Wait);
        }
        let ticket = Ticket {
            tx: self.next,
            back,
            slot: self.head % self.slots,
        };
        self.live.insert(self.next, self.head);
        self.head += count;
        self.next += 1;
        Ok(ticket)
    }

    /// Notes that a transaction is done.
    pub(super) fn give(&mut self, ticket: Ticket) {
        self.live.remove(&ticket.tx);
    }

    /// Whether no transaction is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.live.is_empty()
    }

    /// Begins again with the first number.
    pub(super) fn renew(&mut self) {
        debug_assert!(self.live.is_empty());
        self.next = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn nobody_is_given_a_slot_of_one_that_is_not_done() {
        let mut rng = sim::Seed(8).stream("ring");
        let mut ring = Ring::new(40, u32::MAX);
        let mut owner = [0_u32; 40];
        let mut live: VecDeque<(Ticket, u64)> = VecDeque::new();
        let (mut waits, mut taken) = (0, 0);
        for _ in 0..5_000 {
            let count = 1 + rng.below(15);
            match ring.take(count) {
                Ok(ticket) => {
                    let oldest = live.iter().map(|(t, _)| t.tx).min().unwrap_or(ticket.tx);
                    assert_eq!(u32::from(ticket.back), ticket.tx - oldest);
                    for slot in ticket.slot..ticket.slot + count {
                        let slot = &mut owner[slot as usize % 40];
                        assert!(*slot < oldest, "{slot} is not done");
                        *slot = ticket.tx;
                    }
                    live.push_back((ticket, count));
                    taken += 1;
                }
                Err(Refusal::Wait) => waits += 1,
                Err(Refusal::UsedUp) => panic!("there are numbers"),
            }
            if !live.is_empty() && rng.chance(1, 2) {
                let at = rng.below(live.len() as u64) as usize;
                let (done, _) = live.remove(at).unwrap();
                ring.give(done);
            }
        }
        assert!(waits > 100 && taken > 100, "{waits} {taken}");
    }

    #[test]
    fn numbers_begin_again_once_nothing_is_under_way() {
        let mut ring = Ring::new(40, 3);
        let (one, two) = (ring.take(1).unwrap(), ring.take(1).unwrap());
        assert_eq!((one.tx, two.tx), (1, 2));
        assert_eq!(ring.take(1), Err(Refusal::Wait));
        ring.give(one);
        ring.give(two);
        assert_eq!(ring.take(1), Err(Refusal::UsedUp));
        ring.renew();
        assert_eq!(ring.take(1).unwrap().tx, 1);
    }

    #[test]
    fn the_oldest_one_is_never_out_of_reach() {
        let mut ring = Ring::new(1 << 20, u32::MAX);
        let oldest = ring.take(1).unwrap();
        for _ in 0..65_535 {
            let ticket = ring.take(1).unwrap();
            ring.give(ticket);
        }
        assert_eq!(ring.take(1), Err(Refusal::Wait));
        ring.give(oldest);
        assert_eq!(ring.take(1).unwrap().back, 0);
    }
}
