//! Memory budget that the clients of a server share.
//!
//! Invariants: requests and answers hold at most [`TOTAL`] bytes, plus [`FLOOR`] for each
//! client. A request is admitted only if its client then holds at most half of the bytes that
//! were free, so clients that do not read their answers leave room for the others. Each client
//! may hold [`FLOOR`] bytes at any time.

use engine::Caller;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{KIB, MIB};

/// Bytes that the requests of all clients and their answers may hold. Our choice: eight requests
/// of the largest size, one of which still fits beside two clients that hold all they can get.
pub const TOTAL: u64 = 256 * MIB;
/// Bytes that each client may hold even when the pool is exhausted.
pub const FLOOR: u64 = 64 * KIB;

/// Bytes held by all clients.
#[derive(Default)]
pub(crate) struct Pool {
    used: Cell<u64>,
    /// Callers of clients that stopped reading for lack of room.
    waiting: RefCell<Vec<Rc<Caller>>>,
}

impl Pool {
    /// Whether a client that holds `own` bytes may hold `more` bytes in addition.
    pub(crate) fn admits(&self, own: u64, more: u64) -> bool {
        let left = TOTAL.saturating_sub(self.used.get());
        own + more <= FLOOR.max(left / 2)
    }

    /// Calls `caller` once, as soon as any client releases bytes.
    pub(crate) fn wait(&self, caller: &Rc<Caller>) {
        self.waiting.borrow_mut().push(Rc::clone(caller));
    }

    /// Replaces a client's share of `before` bytes by `now`; calls all waiting clients if it
    /// shrank.
    pub(crate) fn change(&self, before: u64, now: u64) {
        self.used.set(self.used.get() - before + now);
        if now < before {
            let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
            waiting.iter().for_each(|caller| caller.call());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DATA_MAX;

    #[test]
    fn greedy_client_leaves_room_for_other_clients() {
        let pool = Pool::default();
        let greedy = |mut own| {
            while pool.admits(own, MIB) {
                pool.change(own, own + MIB);
                own += MIB;
            }
            own
        };
        let first = greedy(0);
        assert_eq!(first, TOTAL / 3 / MIB * MIB, "half of what is beside it");
        let second = greedy(0);
        assert!(
            pool.admits(0, DATA_MAX.into()),
            "a third has the largest request"
        );
        let others: u64 = (0..20).map(|_| greedy(0)).sum();
        assert!(first + second + others <= TOTAL);
        assert!(!pool.admits(0, MIB) && pool.admits(0, FLOOR));
        pool.change(first, 0);
        assert!(pool.admits(0, 32 * MIB));
    }
}
