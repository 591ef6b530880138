//! Commands in flight, and resets that wait for them.
//!
//! Invariant: a reset completes only when no earlier command is in flight, so that no earlier write
//! takes effect after it.

use crate::token::{Answer, Token};
use std::cell::{Cell, RefCell};

/// Count of commands in flight, and waiting resets.
#[derive(Default)]
pub(super) struct Running {
    count: Cell<usize>,
    resets: RefCell<Vec<Token>>,
}

/// A command in flight; counted until it is dropped.
pub(super) struct Turn<'a>(&'a Running);

impl Running {
    /// Counts a command until the returned guard is dropped.
    pub(super) fn begin(&self) -> Turn<'_> {
        self.count.set(self.count.get() + 1);
        Turn(self)
    }

    /// Completes `reset` once no command is in flight.
    //= nvme-2.1 3.7.2
    pub(super) fn when_none(&self, reset: Token) {
        self.resets.borrow_mut().push(reset);
        self.answer();
    }

    /// Whether a reset is waiting.
    pub(super) fn is_awaited(&self) -> bool {
        !self.resets.borrow().is_empty()
    }

    fn answer(&self) {
        if self.count.get() == 0 {
            for reset in self.resets.take() {
                reset.complete(Ok(Answer::default()));
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.count.set(self.0.count.get() - 1);
        self.0.answer();
    }
}
