//! Keys of events, and a four-ary heap of them.
//!
//! Invariants: keys are unique (the sequence number is in them), so the order is
//! total; the smallest key is at the root; a parent is smaller than its four
//! children, which share a cache line.

use crate::TaskId;
use units::Ns;

/// Time (56 bits), sequence (48 bits), task (24 bits), compared as one integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(u128);

const TASK_BITS: u32 = 24;
const SEQUENCE_BITS: u32 = 48;
const TIME_BITS: u32 = 128 - TASK_BITS - SEQUENCE_BITS;

/// Numbers of tasks, timers of actors, and the observer.
pub(crate) const MAX_TASKS: usize = 1 << TASK_BITS;

/// The end of virtual time, after 2.28 years.
pub(crate) const END: Ns = Ns((1 << TIME_BITS) - 1);

impl Key {
    /// A key for `task`; times past [`END`] are clamped to it.
    #[inline]
    pub(crate) fn new(time: Ns, sequence: u64, task: TaskId) -> Self {
        debug_assert!(sequence >> SEQUENCE_BITS == 0);
        let high = u128::from(time.0.min(END.0)) << (SEQUENCE_BITS + TASK_BITS);
        Self(high | u128::from(sequence) << TASK_BITS | u128::from(task.0))
    }

    /// The first key that is later than all keys of `time`.
    pub(crate) fn after(time: Ns) -> Self {
        match time < END {
            true => Self::new(Ns(time.0 + 1), 0, TaskId(0)),
            false => Self(u128::MAX),
        }
    }

    #[inline]
    pub(crate) const fn time(self) -> Ns {
        Ns((self.0 >> (SEQUENCE_BITS + TASK_BITS)) as u64)
    }

    #[inline]
    pub(crate) fn sequence(self) -> u64 {
        (self.0 >> TASK_BITS) as u64 & ((1 << SEQUENCE_BITS) - 1)
    }

    #[inline]
    pub(crate) fn task(self) -> TaskId {
        TaskId(self.0 as u32 & ((1 << TASK_BITS) - 1))
    }
}

const ARITY: usize = 4;

/// A four-ary min-heap of keys.
#[derive(Default)]
pub(crate) struct Heap {
    keys: Vec<Key>,
}

impl Heap {
    #[inline]
    pub(crate) fn peek(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    #[inline(never)]
    pub(crate) fn push(&mut self, key: Key) {
        let mut hole = self.keys.len();
        self.keys.push(key);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[hole] = self.keys[parent];
            hole = parent;
        }
        self.keys[hole] = key;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Key> {
        let root = self.peek()?;
        let last = self.keys.pop()?;
        if !self.keys.is_empty() {
            self.sink(last);
        }
        Some(root)
    }

    /// Puts `key` in place of the root and restores the order.
    #[inline]
    fn sink(&mut self, key: Key) {
        let keys = self.keys.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * ARITY + 1;
            let Some(smallest) = smallest_child(keys, first) else {
                break;
            };
            if key <= keys[smallest] {
                break;
            }
            keys[hole] = keys[smallest];
            hole = smallest;
        }
        keys[hole] = key;
    }
}

#[inline]
fn smallest_child(keys: &[Key], first: usize) -> Option<usize> {
    if let Some(&[a, b, c, d]) = keys.get(first..first + ARITY) {
        // The common case, without a loop.
        let (left, left_key) = if b < a { (1, b) } else { (0, a) };
        let (right, right_key) = if d < c { (3, d) } else { (2, c) };
        return Some(first + if right_key < left_key { right } else { left });
    }
    (first..keys.len()).min_by_key(|&i| keys[i])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    #[test]
    fn key_returns_its_parts_and_orders_by_time_then_sequence() {
        let key = Key::new(END, (1 << 48) - 1, TaskId((1 << 24) - 1));
        assert_eq!(key.time(), Ns((1 << 56) - 1));
        assert_eq!(key.task(), TaskId((1 << 24) - 1));
        assert_eq!(key.sequence(), (1 << 48) - 1);
        assert!(Key::new(Ns(1), 9, TaskId(9)) < Key::new(Ns(2), 0, TaskId(0)));
        assert!(Key::new(Ns(1), 1, TaskId(9)) < Key::new(Ns(1), 2, TaskId(0)));
    }

    #[test]
    fn key_past_the_end_of_time_is_clamped_to_it() {
        for time in [END, Ns(END.0 + 1), Ns(u64::MAX)] {
            assert_eq!(Key::new(time, 0, TaskId(0)).time(), END);
        }
    }

    #[test]
    fn keys_come_out_sorted() {
        let mut rng = Seed(3).stream("heap");
        let mut heap = Heap::default();
        let mut model = Vec::new();
        for sequence in 0..20_000 {
            if rng.chance(2, 3) {
                let key = Key::new(Ns(rng.below(500)), sequence, TaskId(0));
                heap.push(key);
                model.push(key);
            } else {
                model.sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(heap.pop(), model.pop());
            }
        }
    }
}
