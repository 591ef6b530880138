//! Memory budget that the queues of a machine share.
//!
//! Invariants: accepted requests and their answers hold at most [`HELD_MAX`] bytes, except that
//! a single request may hold more. A queue that found no room is called when some is released.

use crate::wire::HELD_MAX;
use engine::Caller;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes held by the accepted requests of one machine.
#[derive(Default)]
pub(crate) struct Budget {
    held: Cell<u64>,
    /// Callers of queues that stopped for lack of room.
    waiting: RefCell<Vec<Rc<Caller>>>,
    /// Whether the drive has lost its power.
    lost: Cell<bool>,
}

/// Reservation of a request; dropping it returns its bytes and calls the waiting queues.
pub(crate) struct Share {
    budget: Rc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Reserves `bytes`. Returns `None` if there is no room; `caller` is then called once bytes
    /// are released.
    pub(crate) fn take(self: &Rc<Self>, bytes: u64, caller: &Rc<Caller>) -> Option<Share> {
        let held = self.held.get();
        if held > 0 && held + bytes > HELD_MAX {
            self.waiting.borrow_mut().push(Rc::clone(caller));
            return None;
        }
        self.held.set(held + bytes);
        Some(Share {
            budget: Rc::clone(self),
            bytes,
        })
    }

    /// Records that the drive has lost its power; the session then drops the machine.
    pub(crate) fn lose(&self) {
        self.lost.set(true);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.get()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Budget { held, waiting, .. } = &*self.budget;
        held.set(held.get() - self.bytes);
        let waiting = std::mem::take(&mut *waiting.borrow_mut());
        waiting.iter().for_each(|caller| caller.call());
    }
}
