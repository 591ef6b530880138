//! Queue of operations that will be issued at a known time.
//!
//! Invariant: entries are in the order of (time, number). Few distinct latencies occur, so most
//! new entries are the latest; an insertion searches from the end.

use crate::tick::Tick;
use std::collections::VecDeque;

/// The operations of a window that wait for a time.
#[derive(Debug)]
pub(crate) struct Issues {
    queue: VecDeque<(Tick, u64)>,
}

impl Issues {
    pub(crate) fn with_capacity(operations: usize) -> Self {
        Self {
            queue: VecDeque::with_capacity(operations),
        }
    }

    /// Schedules operation `number` to be issued at `time`.
    #[inline]
    pub(crate) fn push(&mut self, time: Tick, number: u64) {
        let mut at = self.queue.len();
        while at > 0 && self.queue[at - 1] > (time, number) {
            at -= 1;
        }
        if at == self.queue.len() {
            self.queue.push_back((time, number));
        } else {
            self.queue.insert(at, (time, number));
        }
    }

    /// Time at which the first operation is due; [`Tick::NEVER`] if the queue is empty.
    #[inline]
    pub(crate) fn next(&self) -> Tick {
        self.queue.front().map_or(Tick::NEVER, |first| first.0)
    }

    /// Removes the first operation and returns its number.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u64> {
        self.queue.pop_front().map(|first| first.1)
    }

    /// Removes operation `number` and all younger ones.
    pub(crate) fn squash(&mut self, number: u64) {
        self.queue.retain(|&(_, op)| op < number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn they_come_by_time_and_then_by_number() {
        let mut rng = sim::Seed(11).stream("issues");
        let mut issues = Issues::with_capacity(4);
        let mut wanted = BTreeSet::new();
        for number in 0..20_000 {
            match rng.below(4) {
                0 | 1 => {
                    let time = Tick(number / 3 + rng.below(40));
                    issues.push(time, number);
                    wanted.insert((time, number));
                }
                2 if rng.chance(1, 50) => {
                    let from = number.saturating_sub(20);
                    issues.squash(from);
                    wanted.retain(|&(_, op)| op < from);
                }
                _ => {
                    let first = wanted.pop_first();
                    assert_eq!(issues.next(), first.map_or(Tick::NEVER, |first| first.0));
                    assert_eq!(issues.pop(), first.map(|first| first.1));
                }
            }
        }
    }
}
