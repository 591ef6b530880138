//! Ranges whose contents are being replaced in place, before the trees hold their new sums.
//!
//! Invariant: a reader that finds contents that do not match their sums waits until none of
//! its range is staged, and reads once more. One retry is enough: the file itself reads
//! nothing during a replacement, and a range that a snapshot shares is not replaced again,
//! so a reader meets at most one replacement.

use sim::{Signal, Sim};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Every range under replacement, by address.
pub(crate) struct Staged {
    sim: Sim,
    /// Length in bytes of each range, by its address.
    ranges: RefCell<BTreeMap<u64, u64>>,
    ended: Signal,
}

/// Marks one range as under replacement; dropping it wakes the readers that wait.
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

    /// Stages `bytes` bytes at `at`. No range at `at` may be staged already: one file owns it,
    /// and replaces it in its turn.
    pub(crate) fn begin(self: &Rc<Self>, at: u64, bytes: u64) -> Stage {
        let before = self.ranges.borrow_mut().insert(at, bytes);
        debug_assert!(before.is_none(), "{at} is replaced twice at once");
        Stage {
            all: Rc::clone(self),
            at,
        }
    }

    /// Waits until no staged range overlaps the `bytes` bytes at `at`.
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
