//! What a drive owes that lies: it says that what was forced is durable and leaves it in its
//! buffer, as drives that answer flushes for speed do; a judge of power cuts must find that
//! out.
//!
//! Invariants: by bytes it answers verifications without waiting for what was posted, and
//! commits when the next store comes. What is to be published it publishes with the next
//! state, and copies of the superblock of that, which would tell of it, it does not write.

use host::{PageChange, Purpose, Who};
use std::cell::{Cell, RefCell};

/// What is published: what was staged, and changes.
type State = (Vec<u64>, Vec<PageChange>);

/// What was answered and not done.
#[derive(Default)]
pub(crate) struct Lies {
    /// The transaction whose commit was answered; 0 for none.
    owed: Cell<u32>,
    /// The state that was to be published.
    unpublished: RefCell<Option<State>>,
}

impl Lies {
    /// Whether a write of `who` would tell of what was not published.
    pub(crate) fn would_tell(&self, who: Who) -> bool {
        who.purpose == Purpose::Superblock && self.unpublished.borrow().is_some()
    }

    /// Answers the commit of `tx` without doing it.
    pub(crate) fn owe(&self, tx: u32) {
        self.owed.set(tx);
    }

    /// The transaction that is to be committed now, if one is owed.
    pub(crate) fn pay(&self) -> Option<u32> {
        Some(self.owed.take()).filter(|tx| *tx != 0)
    }

    /// What to publish instead of this: what was to be published before.
    pub(crate) fn late(&self, staged: &[u64], changes: &[PageChange]) -> State {
        let now = (staged.to_vec(), changes.to_vec());
        let before = self.unpublished.borrow_mut().replace(now);
        before.unwrap_or_default()
    }
}
