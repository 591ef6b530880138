//! Memory that the clients of a server share.
//!
//! Invariants: what requests and answers hold is at most [`TOTAL`], and [`FLOOR`] for each
//! client; a client holds no more than half of what is left beside it, so that those that do
//! not read their answers leave room for the others, and each has its [`FLOOR`] whatever
//! they do.

use engine::Caller;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{KIB, MIB};

/// Bytes that the requests of all clients and their answers may hold. A choice of ours:
/// eight requests of the largest size,
/// of which one fits beside two clients that hold all that they can get.
pub const TOTAL: u64 = 256 * MIB;
/// Bytes that each client may hold whatever the others do.
pub const FLOOR: u64 = 64 * KIB;

/// Bytes held by all clients.
#[derive(Default)]
pub(crate) struct Pool {
    used: Cell<u64>,
    /// Clients that wait for room.
    waiting: RefCell<Vec<Rc<Caller>>>,
}

impl Pool {
    /// Whether a client that holds `own` bytes may hold so many more.
    pub(crate) fn admits(&self, own: u64, more: u64) -> bool {
        let left = TOTAL.saturating_sub(self.used.get());
        own + more <= FLOOR.max(left / 2)
    }

    /// Has a client called when there is more room.
    pub(crate) fn wait(&self, caller: &Rc<Caller>) {
        self.waiting.borrow_mut().push(Rc::clone(caller));
    }

    /// Notes that a client which held `before` bytes holds `now`.
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
    fn who_holds_much_leaves_room_for_the_others() {
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
