//! Exclusive locks on ranges of bytes.
//!
//! Invariants: two held ranges do not overlap; a waiter proceeds once all earlier ranges that
//! overlap its own are released, and is woken once.

use sim::{Signal, Sim};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// A queue of range locks.
#[derive(Default)]
pub(crate) struct Ranges {
    /// Held and wanted ranges in the order of arrival, sorted by ticket.
    queue: RefCell<VecDeque<Wanted>>,
}

/// A held or wanted range.
struct Wanted {
    ticket: u64,
    range: Range<u64>,
    /// Number of earlier ranges in the queue that overlap this one; 0 means held.
    ahead: usize,
    /// Notified when `ahead` falls to 0; none if it was 0 from the start.
    turn: Option<Rc<Signal>>,
}

/// Holds or waits for a range; releases it when dropped.
pub(crate) struct Held {
    sim: Sim,
    ranges: Rc<Ranges>,
    ticket: u64,
}

impl Ranges {
    /// Waits until all earlier ranges that overlap `range` are released, then holds it.
    pub(crate) async fn hold(self: &Rc<Self>, sim: &Sim, range: Range<u64>) -> Held {
        let (ticket, turn) = self.want(range);
        let held = Held {
            sim: sim.clone(),
            ranges: Rc::clone(self),
            ticket,
        };
        if let Some(turn) = turn {
            turn.wait(sim).await;
        }
        held
    }

    /// Appends `range` to the queue; returns its ticket, and the signal to wait for unless the
    /// range is held at once.
    fn want(&self, range: Range<u64>) -> (u64, Option<Rc<Signal>>) {
        let mut queue = self.queue.borrow_mut();
        let ticket = queue.back().map_or(0, |last| last.ticket + 1);
        let ahead = queue.iter().filter(|other| other.overlaps(&range)).count();
        let turn = (ahead > 0).then(Rc::<Signal>::default);
        queue.push_back(Wanted {
            ticket,
            range,
            ahead,
            turn: turn.clone(),
        });
        (ticket, turn)
    }
}

impl Wanted {
    fn overlaps(&self, other: &Range<u64>) -> bool {
        self.range.start < other.end && other.start < self.range.end
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut queue = self.ranges.queue.borrow_mut();
        let at = queue.binary_search_by_key(&self.ticket, |wanted| wanted.ticket);
        let left = at
            .ok()
            .and_then(|at| queue.remove(at).map(|left| (at, left.range)));
        let (at, range) = left.expect("who holds a ticket is in the queue");
        for behind in queue.range_mut(at..).filter(|other| other.overlaps(&range)) {
            behind.ahead -= 1;
            if let (0, Some(turn)) = (behind.ahead, &behind.turn) {
                turn.notify(&self.sim);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Kernel, Seed, timeout};
    use std::cell::Cell;
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

    /// All requests arrive at time 0: each begins when the last earlier overlapping one ends.
    #[test]
    fn range_is_granted_when_the_last_earlier_overlap_ends() {
        let mut chance = Seed(1).stream("ranges");
        for _ in 0..100 {
            let kernel = Kernel::new();
            let sim = kernel.sim();
            let (ranges, log) = (Rc::<Ranges>::default(), Rc::new(RefCell::new(Vec::new())));
            let mut ends: Vec<(Range<u64>, u64)> = Vec::new();
            let mut expected = Vec::new();
            for name in 0..40 {
                let (start, span) = (chance.below(50), 1 + chance.below(20));
                let range = start..start + 1 + chance.below(8);
                let before = ends
                    .iter()
                    .filter(|(other, _)| other.start < range.end && range.start < other.end);
                let begin = before.map(|(_, end)| *end).max().unwrap_or(0);
                expected.push((name, begin));
                ends.push((range.clone(), begin + span));
                let (clock, ranges, log) = (sim.clone(), Rc::clone(&ranges), Rc::clone(&log));
                sim.spawn_detached(async move {
                    let _held = ranges.hold(&clock, range).await;
                    log.borrow_mut().push((name, clock.now().0));
                    clock.sleep(Ns(span)).await;
                });
            }
            kernel.run();
            log.borrow_mut().sort_unstable();
            assert_eq!(*log.borrow(), expected);
        }
    }

    #[test]
    fn cancelled_wait_releases_later_waiters() {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let (ranges, begun) = (Rc::<Ranges>::default(), Rc::new(Cell::new(Ns::ZERO)));
        let (clock, own) = (sim.clone(), Rc::clone(&ranges));
        sim.spawn_detached(async move {
            let _held = own.hold(&clock, 0..4).await;
            clock.sleep(Ns(100)).await;
        });
        let (clock, own) = (sim.clone(), Rc::clone(&ranges));
        sim.spawn_detached(async move {
            let held = timeout(&clock, Ns(10), own.hold(&clock, 0..8)).await;
            assert!(held.is_err());
        });
        let (clock, own, at) = (sim.clone(), Rc::clone(&ranges), Rc::clone(&begun));
        sim.spawn_detached(async move {
            let _held = own.hold(&clock, 4..8).await;
            at.set(clock.now());
        });
        kernel.run();
        assert_eq!(begun.get(), Ns(10));
        assert!(ranges.queue.borrow().is_empty());
    }

    /// Three events for each request: its start, its wake-up and the end of its sleep.
    #[test]
    fn waiters_on_one_range_cost_three_events_each() {
        let kernel = Kernel::new();
        let sim = kernel.sim();
        let ranges = Rc::<Ranges>::default();
        for _ in 0..1000 {
            let (clock, ranges) = (sim.clone(), Rc::clone(&ranges));
            sim.spawn_detached(async move {
                let _held = ranges.hold(&clock, 0..8).await;
                clock.sleep(Ns(10)).await;
            });
        }
        let events = std::iter::from_fn(|| kernel.step().then_some(())).count();
        assert!(events <= 3000, "{events}");
        assert_eq!(sim.now(), Ns(10_000));
    }
}
