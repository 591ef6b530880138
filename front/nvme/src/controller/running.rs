//! Commands that are under way, and resets that wait for their end.
//!
//! Invariant: a reset is answered when nothing that came before it is under way, so that no write
//! of before takes place after it.

use crate::token::{Answer, Token};
use std::cell::{Cell, RefCell};

/// How many there are, and who waits for there being none.
#[derive(Default)]
pub(super) struct Running {
    count: Cell<usize>,
    resets: RefCell<Vec<Token>>,
}

/// One of them.
pub(super) struct Turn<'a>(&'a Running);

impl Running {
    /// Counts one more, until what is given is dropped.
    pub(super) fn begin(&self) -> Turn<'_> {
        self.count.set(self.count.get() + 1);
        Turn(self)
    }

    /// Answers a reset once there are none.
    //= nvme-2.1 3.7.2
    pub(super) fn when_none(&self, reset: Token) {
        self.resets.borrow_mut().push(reset);
        self.answer();
    }

    /// Whether a reset waits.
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
