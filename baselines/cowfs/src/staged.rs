//! Contents that are about to take the place of others, and whose sums are not in the trees.
//!
//! Invariant: whoever finds that contents do not fit their sums waits until none of them are
//! here, and looks again once. It is enough: the file itself reads nothing meanwhile, and
//! what a snapshot has come to share is not replaced any more, so there is one time like
//! that at most.

use sim::{Signal, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// All of them.
pub(crate) struct Staged {
    sim: Sim,
    /// By address: how many bytes.
    ranges: RefCell<BTreeMap<u64, u64>>,
    ended: Signal,
}

/// Some of them, until it is dropped.
pub(crate) struct Stage {
    all: Rc<Staged>,
    at: u64,
}

impl Staged {
    pub(crate) fn new(sim: &Sim) -> Rc<Self> {
        Rc::new(Self {
            sim: sim.clone(),
            ranges: RefCell::default(),
            ended: Signal::default(),
        })
    }

    /// So many bytes at `at` are about to be replaced. One file has them, in its turn.
    pub(crate) fn begin(self: &Rc<Self>, at: u64, bytes: u64) -> Stage {
        let before = self.ranges.borrow_mut().insert(at, bytes);
        debug_assert!(before.is_none(), "{at} is replaced twice at once");
        Stage {
            all: Rc::clone(self),
            at,
        }
    }

    /// Waits until none of these bytes are being replaced.
    pub(crate) async fn wait(&self, at: u64, bytes: u64) {
        while self.has(at, bytes) {
            self.ended.wait(&self.sim).await;
        }
    }

    fn has(&self, at: u64, bytes: u64) -> bool {
        let ranges = self.ranges.borrow();
        let before = ranges.range(..at + bytes).next_back();
        before.is_some_and(|(&from, &len)| from + len > at)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.all.ranges.borrow_mut().remove(&self.at);
        self.all.ended.notify(&self.all.sim);
    }
}
