//! Ranges of bytes that one request at a time may change.
//!
//! Invariants: two ranges that are held do not overlap; who waits for a range
//! goes on only after those that came before and overlap it.

use sim::{Signal, Sim};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// Locks on ranges.
#[derive(Default)]
pub(crate) struct Ranges {
    /// Held and waited for, in the order in which they were asked for.
    queue: RefCell<Vec<(u64, Range<u64>)>>,
    left: Signal,
}

/// Holds a range until it is dropped.
pub(crate) struct Held {
    sim: Sim,
    ranges: Rc<Ranges>,
    ticket: u64,
}

impl Ranges {
    /// Waits until nobody who came before holds or wants any of `range`.
    pub(crate) async fn hold(self: &Rc<Self>, sim: &Sim, range: Range<u64>) -> Held {
        let ticket = {
            let mut queue = self.queue.borrow_mut();
            let ticket = queue.last().map_or(0, |(last, _)| last + 1);
            queue.push((ticket, range));
            ticket
        };
        let held = Held {
            sim: sim.clone(),
            ranges: Rc::clone(self),
            ticket,
        };
        while self.is_behind(ticket) {
            self.left.wait(sim).await;
        }
        held
    }

    /// Whether an earlier range overlaps that of `ticket`.
    fn is_behind(&self, ticket: u64) -> bool {
        let queue = self.queue.borrow();
        let own = queue.iter().position(|(other, _)| *other == ticket);
        let own = own.expect("who holds a ticket is in the queue");
        let range = &queue[own].1;
        let overlaps = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        queue[..own].iter().any(|(_, other)| overlaps(other))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut queue = self.ranges.queue.borrow_mut();
        queue.retain(|(ticket, _)| *ticket != self.ticket);
        drop(queue);
        self.ranges.left.notify(&self.sim);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Kernel;
    use units::Ns;

    #[test]
    fn overlapping_ranges_go_in_order_and_others_pass() {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let (ranges, log) = (Rc::<Ranges>::default(), Rc::new(RefCell::new(Vec::new())));
        for (name, range) in [("a", 0..8), ("b", 4..12), ("c", 20..30), ("d", 0..4)] {
            let (clock, ranges, log) = (sim.clone(), Rc::clone(&ranges), Rc::clone(&log));
            sim.spawn_detached(async move {
                let _held = ranges.hold(&clock, range).await;
                log.borrow_mut().push((clock.now().0, name));
                clock.sleep(Ns(10)).await;
            });
        }
        kernel.run();
        let expected = [(0, "a"), (0, "c"), (10, "b"), (10, "d")];
        assert_eq!(*log.borrow(), expected);
        assert!(ranges.queue.borrow().is_empty());
    }
}
