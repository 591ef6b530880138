//! The pairs of one transaction, with the newest transformed address for each original one.
//!
//! Invariants: pairs are in the order in which their addresses first came, whatever the hash, so
//! the log depends on the requests alone; nothing is allocated after [`Batch::new`].

use crate::format::Pair;

/// A transaction, open or being committed: an insertion-ordered map of bounded size.
pub(crate) struct Batch {
    pairs: Vec<Pair>,
    /// Open-addressing table with at least two slots a pair: index of the pair plus one, or 0 if
    /// empty.
    slots: Vec<u32>,
    most: usize,
}

impl Batch {
    /// An empty transaction of at most `most` pairs.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            pairs: Vec::with_capacity(most),
            slots: vec![0; (2 * most).next_power_of_two()],
            most,
        }
    }

    /// Slot of `orig`, or the empty slot at which to insert it.
    fn slot(&self, orig: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = (orig.wrapping_mul(0x9e37_79b1) >> 7) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return slot,
                at if self.pairs[at as usize - 1].orig == orig => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    /// Transformed address of `orig` in this transaction; `None` if it has no pair for `orig`.
    pub(crate) fn get(&self, orig: u32) -> Option<u32> {
        match self.slots[self.slot(orig)] {
            0 => None,
            at => Some(self.pairs[at as usize - 1].trans),
        }
    }

    /// Sets the pair of `orig`; returns the transformed address that it replaces.
    ///
    /// # Panics
    /// If the transaction is full and has no pair for `orig`.
    pub(crate) fn put(&mut self, orig: u32, trans: u32) -> Option<u32> {
        let slot = self.slot(orig);
        match self.slots[slot] {
            0 => {
                assert!(self.pairs.len() < self.most, "the transaction has room");
                self.pairs.push(Pair { orig, trans });
                self.slots[slot] = self.pairs.len() as u32;
                None
            }
            at => {
                let pair = &mut self.pairs[at as usize - 1];
                Some(std::mem::replace(&mut pair.trans, trans))
            }
        }
    }

    pub(crate) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    pub(crate) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Pairs that the transaction takes at most.
    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pairs.len() == self.most
    }

    /// Moves the pairs from index `from` on to `other`, which has room for them.
    pub(crate) fn split(&mut self, from: usize, other: &mut Self) {
        for pair in self.pairs.drain(from..) {
            other.put(pair.orig, pair.trans);
        }
        self.slots.fill(0);
        for at in 0..self.pairs.len() {
            let slot = self.slot(self.pairs[at].orig);
            self.slots[slot] = at as u32 + 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.pairs.clear();
        self.slots.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;
    use std::collections::BTreeMap;

    #[test]
    fn batch_keeps_newest_values_in_order_of_first_insertion() {
        let mut rng = Seed(3).stream("batch");
        let mut batch = Batch::new(64);
        for _ in 0..50 {
            let (mut model, mut order) = (BTreeMap::new(), Vec::new());
            for value in 0..200 {
                let orig = rng.below(80) as u32 * 4096;
                if batch.is_full() && !model.contains_key(&orig) {
                    continue;
                }
                let before = model.insert(orig, value);
                if before.is_none() {
                    order.push(orig);
                }
                assert_eq!(batch.put(orig, value), before);
            }
            let origs: Vec<u32> = batch.pairs().iter().map(|pair| pair.orig).collect();
            assert_eq!(origs, order);
            assert!((0..80).all(|at| batch.get(at * 4096) == model.get(&(at * 4096)).copied()));
            let (mut other, from) = (Batch::new(64), order.len() / 2);
            batch.split(from, &mut other);
            for (at, orig) in order.iter().enumerate() {
                let value = model.get(orig).copied();
                let (first, second) = if at < from {
                    (value, None)
                } else {
                    (None, value)
                };
                assert_eq!((batch.get(*orig), other.get(*orig)), (first, second));
            }
            batch.clear();
            assert!(batch.is_empty() && batch.get(0).is_none());
        }
    }
}
