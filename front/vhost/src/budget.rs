//! Memory that the queues of a machine share.
//!
//! Invariant: what requests hold that were taken, with the answers to them, is at most
//! [`HELD_MAX`], or one request alone; a queue that has no room is called when there is some.

use crate::wire::HELD_MAX;
use engine::Caller;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Bytes held by the requests of a machine.
#[derive(Default)]
pub(crate) struct Budget {
    held: Cell<u64>,
    /// Queues that wait for room.
    waiting: RefCell<Vec<Rc<Caller>>>,
    /// Whether the drive has lost its power.
    lost: Cell<bool>,
}

/// Bytes that a request holds until this is dropped.
pub(crate) struct Share {
    budget: Rc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Takes room for so many bytes; if there is none, `caller` is called when there may be.
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

    /// The drive has lost its power: the machine is hung up on.
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
