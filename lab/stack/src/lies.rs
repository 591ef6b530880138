//! A drive that acknowledges flushes and commits without performing them, as drives do that trade
//! durability for speed. The judges of power cuts must detect it.
//!
//! Invariants: over the byte interface the drive acknowledges a verification without waiting for
//! posted stores, and performs a commit only when the next store arrives. It performs a publication
//! only when the next one arrives, and skips writes of superblock copies, which would refer to the
//! missing state.

use host::{PageChange, Purpose, Who};
use std::cell::{Cell, RefCell};

/// The contents of a publication: staged sectors, and page changes.
type State = (Vec<u64>, Vec<PageChange>);

/// Work acknowledged and not performed.
#[derive(Default)]
pub(crate) struct Lies {
    /// Transaction whose commit was acknowledged and not performed; 0 for none.
    owed: Cell<u32>,
    /// The latest acknowledged publication, not yet performed.
    unpublished: RefCell<Option<State>>,
}

impl Lies {
    /// Whether a write for `who` would refer to a state that was not published.
    pub(crate) fn refers_to_unpublished(&self, who: Who) -> bool {
        who.purpose == Purpose::Superblock && self.unpublished.borrow().is_some()
    }

    /// Records that the commit of `tx` was acknowledged and not performed.
    pub(crate) fn owe(&self, tx: u32) {
        self.owed.set(tx);
    }

    /// Takes the transaction whose commit must be performed now; `None` if there is none.
    pub(crate) fn pay(&self) -> Option<u32> {
        Some(self.owed.take()).filter(|tx| *tx != 0)
    }

    /// Replaces a publication by the previous one, and holds this one back.
    pub(crate) fn late(&self, staged: &[u64], changes: &[PageChange]) -> State {
        let now = (staged.to_vec(), changes.to_vec());
        let before = self.unpublished.borrow_mut().replace(now);
        before.unwrap_or_default()
    }
}
