//! Allocation of slots of the ring, and of numbers, to transactions.
//!
//! # Invariants
//!
//! - Slots are allocated in order, and no slot of a transaction that is not done is
//!   allocated again. So the slots of all such transactions follow those of the oldest.
//! - Numbers grow by one; the oldest transaction not done is at most 65,535 numbers behind
//!   the newest.

use std::collections::BTreeMap;

/// Number and slots of a transaction in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    /// Number of the transaction within the epoch, from 1 on.
    pub(super) tx: u32,
    /// Distance from `tx` to the oldest transaction that is not done; 0 if `tx` is the oldest.
    pub(super) back: u16,
    /// First slot; the others follow, with wrap-around.
    pub(super) slot: u64,
}

/// Reason why the ring has no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Another transaction has to be done first: slots or numbers are short.
    Wait,
    /// All numbers are used up and no transaction is under way: a new epoch has to begin.
    UsedUp,
}

/// The ring of slots, and the transactions that occupy them.
pub(super) struct Ring {
    slots: u64,
    /// The next number. `last` and greater numbers are never allocated.
    next: u32,
    last: u32,
    /// Slots allocated so far, all laps together.
    head: u64,
    /// Transactions that are not done, each with the value of `head` at its first slot.
    live: BTreeMap<u32, u64>,
}

impl Ring {
    /// An empty ring of `slots` slots, with the numbers below `last`.
    pub(super) const fn new(slots: u64, last: u32) -> Self {
        Self {
            slots,
            next: 1,
            last,
            head: 0,
            live: BTreeMap::new(),
        }
    }

    /// Allocates a number and `count` slots.
    ///
    /// # Panics
    ///
    /// If `count` exceeds the slots of the ring.
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

    /// Marks the transaction of `ticket` as done and frees its slots.
    pub(super) fn give(&mut self, ticket: Ticket) {
        self.live.remove(&ticket.tx);
    }

    /// Whether no transaction is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.live.is_empty()
    }

    /// Starts again with number 1, in a new epoch.
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
    fn slot_of_a_transaction_not_done_is_not_allocated_again() {
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
    fn numbers_used_up_start_again_once_the_ring_is_idle() {
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
    fn transaction_too_far_behind_makes_the_next_wait() {
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
