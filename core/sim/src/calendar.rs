//! The calendar of timed events: a wheel of near events, and a heap of all others.
//!
//! Most events are a few microseconds ahead and find an empty bucket of the wheel, so neither their
//! entry nor their removal compares keys.
//!
//! Invariants: a key is in the wheel or in the heap; the wheel covers [`BUCKETS`] buckets of time
//! from the greatest removed key on, each a list in ascending order. Keys below the greatest removed
//! one, which may have belonged to an ended task, go to the heap.

use crate::queue::{Heap, Key};

/// Time that a bucket covers: 2⁹ ns.
const SPAN_BITS: u32 = 9;
/// Buckets of the wheel, which covers 2 ms: a program of flash, but not an erase.
const BUCKETS: usize = 4096;
/// Keys that an entry into a bucket may pass; beyond, the key goes to the heap.
const MOST_PASSED: u32 = 8;

#[derive(Clone, Copy)]
struct Node {
    key: Key,
    next: u32,
}

pub(crate) struct Calendar {
    heap: Heap,
    nodes: Vec<Node>,
    /// First unused node, which leads to the others; past the end without one.
    free: u32,
    /// Last node of each bucket with keys; its successor is the first one.
    last: Box<[u32; BUCKETS]>,
    /// One bit for each bucket with keys, and one for each of these words.
    words: [u64; BUCKETS / 64],
    summary: u64,
    /// Bucket, counted from the start of time, of the greatest removed key.
    base: u64,
}

impl Default for Calendar {
    fn default() -> Self {
        Self {
            heap: Heap::default(),
            nodes: Vec::new(),
            free: 0,
            last: Box::new([0; BUCKETS]),
            words: [0; BUCKETS / 64],
            summary: 0,
            base: 0,
        }
    }
}

const fn bucket_of(key: Key) -> u64 {
    key.time().0 >> SPAN_BITS
}

impl Calendar {
    #[inline]
    pub(crate) fn push(&mut self, key: Key) {
        let bucket = bucket_of(key);
        if bucket.wrapping_sub(self.base) >= BUCKETS as u64 {
            self.heap.push(key);
            return;
        }
        let bucket = bucket as usize % BUCKETS;
        let (word, bit) = (bucket / 64, 1 << (bucket % 64));
        if self.words[word] & bit == 0 {
            self.words[word] |= bit;
            self.summary |= 1 << word;
            let node = self.add(key, None);
            self.last[bucket] = node;
            return;
        }
        self.push_beside(bucket, key);
    }

    /// Adds a key to a bucket that has others.
    #[inline(never)]
    fn push_beside(&mut self, bucket: usize, key: Key) {
        let last = self.last[bucket];
        if self.nodes[last as usize].key < key {
            self.last[bucket] = self.add(key, Some(last));
            return;
        }
        let mut before = last;
        for _ in 0..MOST_PASSED {
            let next = self.nodes[before as usize].next;
            if key < self.nodes[next as usize].key {
                self.add(key, Some(before));
                return;
            }
            before = next;
        }
        self.heap.push(key);
    }

    /// Adds a node after `before`, or one that is its own successor.
    #[inline]
    fn add(&mut self, key: Key, before: Option<u32>) -> u32 {
        let node = self.free;
        let next = match before {
            Some(before) => std::mem::replace(&mut self.nodes[before as usize].next, node),
            None => node,
        };
        match self.nodes.get_mut(node as usize) {
            Some(unused) => {
                self.free = unused.next;
                *unused = Node { key, next };
            }
            None => self.grow(Node { key, next }),
        }
        node
    }

    #[cold]
    fn grow(&mut self, node: Node) {
        self.nodes.push(node);
        self.free = self.nodes.len() as u32;
    }

    /// The first bucket with keys.
    #[inline]
    fn first_bucket(&self) -> Option<usize> {
        let start = self.base as usize % BUCKETS;
        let word = start / 64;
        let here = self.words[word] >> (start % 64);
        if here != 0 {
            return Some(start + here.trailing_zeros() as usize);
        }
        let later = self.summary & (u64::MAX << word << 1);
        let words = if later == 0 { self.summary } else { later };
        let word = words.trailing_zeros() as usize;
        (words != 0).then(|| word * 64 + self.words[word].trailing_zeros() as usize)
    }

    /// The first key of a bucket, and its node.
    #[inline]
    fn first_of(&self, bucket: usize) -> (Key, u32) {
        let first = self.nodes[self.last[bucket] as usize].next;
        (self.nodes[first as usize].key, first)
    }

    /// The first key, which stays in the calendar.
    pub(crate) fn peek(&self) -> Option<Key> {
        let near = self.first_bucket().map(|bucket| self.first_of(bucket).0);
        match (near, self.heap.peek()) {
            (Some(near), Some(far)) => Some(near.min(far)),
            (near, far) => near.or(far),
        }
    }

    /// Removes the first key, if it is below `limit`.
    #[inline]
    pub(crate) fn pop_below(&mut self, limit: Key) -> Option<Key> {
        let far = self.heap.peek();
        let Some(bucket) = self.first_bucket() else {
            let far = far?;
            return self.pop_far(far, limit);
        };
        let (near, node) = self.first_of(bucket);
        if let Some(far) = far
            && far < near
        {
            return self.pop_far(far, limit);
        }
        if limit <= near {
            return None;
        }
        let last = self.last[bucket];
        let next = std::mem::replace(&mut self.nodes[node as usize].next, self.free);
        self.free = node;
        if node == last {
            let word = bucket / 64;
            self.words[word] &= !(1 << (bucket % 64));
            self.summary &= !(u64::from(self.words[word] == 0) << word);
        } else {
            self.nodes[last as usize].next = next;
        }
        self.base = bucket_of(near);
        Some(near)
    }

    #[inline(never)]
    fn pop_far(&mut self, far: Key, limit: Key) -> Option<Key> {
        if limit <= far {
            return None;
        }
        self.base = self.base.max(bucket_of(far));
        self.heap.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Seed, TaskId};
    use units::Ns;

    /// Keys enter and leave in random order of time: all within one bucket, within the wheel, about
    /// its end, or far beyond it.
    #[test]
    fn keys_come_out_sorted() {
        for (name, spans) in [
            ("bucket", [3, 40, 500]),
            ("wheel", [600, 90_000, 2_000_000]),
            ("ends", [600, 1_500_000, 6_000_000]),
            ("all", [0, 30_000, 900_000_000]),
        ] {
            let mut rng = Seed(5).stream(name);
            let mut calendar = Calendar::default();
            let mut model = std::collections::BTreeSet::new();
            let mut now = Ns::ZERO;
            for sequence in 0..40_000 {
                if rng.chance(1, 2) {
                    let span = spans[rng.below(3) as usize];
                    let time = now + Ns(rng.below(span + 1));
                    let key = Key::new(time, sequence, TaskId(0));
                    calendar.push(key);
                    model.insert(key);
                } else {
                    assert_eq!(calendar.peek(), model.first().copied());
                    let limit = match rng.chance(1, 4) {
                        true => Key::new(now + Ns(rng.below(100)), sequence, TaskId(0)),
                        false => Key::after(crate::queue::END),
                    };
                    let expected = model.first().copied().filter(|key| *key < limit);
                    assert_eq!(calendar.pop_below(limit), expected);
                    if let Some(key) = expected {
                        model.remove(&key);
                        // One in ten belongs to an ended task: the clock stays.
                        if !rng.chance(1, 10) {
                            now = key.time();
                        }
                    }
                }
            }
        }
    }
}
