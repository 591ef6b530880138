//! Set of small numbers with a fast search for the next member.
//!
//! Invariant: a bit of an upper level is set exactly if the word below it is
//! not zero, so each level costs one step of a search, whatever is in the set.

/// A subset of 0..n.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::files) struct IndexSet {
    /// Bits of the members, then bits of their nonzero words, and so on up to one word.
    levels: Vec<Vec<u64>>,
}

impl IndexSet {
    /// An empty subset of 0..`n`.
    pub(in crate::files) fn new(n: u32) -> Self {
        let mut levels = Vec::new();
        let mut words = (n as usize).div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[cfg(test)]
    pub(in crate::files) fn len(&self) -> u32 {
        self.levels[0].iter().map(|word| word.count_ones()).sum()
    }

    pub(in crate::files) fn contains(&self, index: u32) -> bool {
        let index = index as usize;
        self.levels[0][index / 64] >> (index % 64) & 1 == 1
    }

    pub(in crate::files) fn insert(&mut self, index: u32) {
        let mut at = index as usize;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    pub(in crate::files) fn remove(&mut self, index: u32) {
        let mut at = index as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// Smallest member from `start` on, or else the smallest of all.
    pub(in crate::files) fn next(&self, start: u32) -> Option<u32> {
        self.from(start).or_else(|| self.from(0))
    }

    fn from(&self, start: u32) -> Option<u32> {
        let mut at = start as usize;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(at / 64)? & (u64::MAX << (at % 64));
            if word != 0 {
                let found = at / 64 * 64 + word.trailing_zeros() as usize;
                return Some(self.descend(height, found));
            }
            at = at / 64 + 1;
        }
        None
    }

    /// Smallest member below bit `at` of the level `height`.
    fn descend(&self, height: usize, mut at: usize) -> u32 {
        for level in self.levels[..height].iter().rev() {
            at = at * 64 + level[at].trailing_zeros() as usize;
        }
        at as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn index_set_agrees_with_btree_set() {
        for n in [1, 63, 64, 65, 5_000, 300_000] {
            let (mut set, mut tree) = (IndexSet::new(n), BTreeSet::new());
            let mut rng = sim::Seed(u64::from(n)).stream("set");
            for _ in 0..3_000 {
                let index = rng.below(u64::from(n)) as u32;
                if rng.chance(1, 2) {
                    set.insert(index);
                    tree.insert(index);
                } else {
                    set.remove(index);
                    tree.remove(&index);
                }
                let start = rng.below(u64::from(n) + 2) as u32;
                let found = tree.range(start..).next().or_else(|| tree.first());
                assert_eq!(set.next(start), found.copied());
                assert_eq!(set.len() as usize, tree.len());
            }
            tree.iter().for_each(|&i| set.remove(i));
            assert!(set.len() == 0 && set.next(0).is_none());
        }
    }
}
