//! A radix tree from numbers to small values, each with a tag bit.
//!
//! Invariants: a branch has the bit of a slot set in `used` exactly if the slot is taken, and in
//! `tagged` exactly if a value below the slot is tagged; no branch is empty. A lookup touches one
//! branch for each six bits of the largest key, and allocates nothing.

const BITS: u32 = 6;
const FAN: usize = 1 << BITS;

pub(crate) struct Radix<T> {
    root: Option<Box<Branch<T>>>,
    /// Levels of branches above the leaves.
    height: u32,
}

struct Branch<T> {
    used: u64,
    tagged: u64,
    slots: Slots<T>,
}

#[allow(
    clippy::large_enum_variant,
    reason = "branches are boxed, and values are as large as a pointer or smaller"
)]
enum Slots<T> {
    Inner([Option<Box<Branch<T>>>; FAN]),
    Leaf([Option<T>; FAN]),
}

impl<T> Default for Radix<T> {
    fn default() -> Self {
        Self {
            root: None,
            height: 0,
        }
    }
}

fn slot(key: u64, level: u32) -> usize {
    (key >> (level * BITS)) as usize % FAN
}

/// Largest number that a tree of this height holds.
fn reach(height: u32) -> u64 {
    let bits = (height + 1) * BITS;
    if bits >= u64::BITS {
        return u64::MAX;
    }
    (1 << bits) - 1
}

impl<T> Branch<T> {
    fn new(level: u32) -> Box<Self> {
        let slots = match level {
            0 => Slots::Leaf([const { None }; FAN]),
            _ => Slots::Inner([const { None }; FAN]),
        };
        Box::new(Self {
            used: 0,
            tagged: 0,
            slots,
        })
    }

    fn get(&self, key: u64, level: u32) -> Option<&T> {
        match &self.slots {
            Slots::Leaf(values) => values[slot(key, 0)].as_ref(),
            Slots::Inner(below) => below[slot(key, level)].as_ref()?.get(key, level - 1),
        }
    }

    fn insert(&mut self, key: u64, level: u32, value: T) -> Option<T> {
        let at = slot(key, level);
        self.used |= 1 << at;
        match &mut self.slots {
            Slots::Leaf(values) => values[at].replace(value),
            Slots::Inner(below) => {
                let branch = below[at].get_or_insert_with(|| Self::new(level - 1));
                branch.insert(key, level - 1, value)
            }
        }
    }

    fn remove(&mut self, key: u64, level: u32) -> Option<T> {
        let at = slot(key, level);
        let (removed, left, tagged) = match &mut self.slots {
            Slots::Leaf(values) => (values[at].take()?, false, false),
            Slots::Inner(below) => {
                let branch = below[at].as_mut()?;
                let removed = branch.remove(key, level - 1)?;
                let (left, tagged) = (branch.used != 0, branch.tagged != 0);
                if !left {
                    below[at] = None;
                }
                (removed, left, tagged)
            }
        };
        if !left {
            self.used &= !(1 << at);
        }
        if !tagged {
            self.tagged &= !(1 << at);
        }
        Some(removed)
    }

    fn tag(&mut self, key: u64, level: u32, on: bool) {
        let at = slot(key, level);
        let some = match &mut self.slots {
            Slots::Leaf(_) => on,
            Slots::Inner(below) => {
                let Some(branch) = below[at].as_mut() else {
                    return;
                };
                branch.tag(key, level - 1, on);
                branch.tagged != 0
            }
        };
        let bit = 1 << at;
        self.tagged = if some {
            self.tagged | bit
        } else {
            self.tagged & !bit
        };
    }

    /// The value with the smallest key at or above `key`; with `tagged`, among tagged values.
    fn next(&self, key: u64, level: u32, tagged: bool) -> Option<(u64, &T)> {
        let set = if tagged { self.tagged } else { self.used };
        let start = slot(key, level);
        let mut left = set & (u64::MAX << start);
        while left != 0 {
            let at = left.trailing_zeros() as usize;
            let base = key & !reach(level);
            let first = base | (at as u64) << (level * BITS);
            let from = if at == start { key } else { first };
            match &self.slots {
                Slots::Leaf(values) => return values[at].as_ref().map(|v| (first, v)),
                Slots::Inner(below) => {
                    let found = below[at].as_ref()?.next(from, level - 1, tagged);
                    if found.is_some() {
                        return found;
                    }
                }
            }
            left &= left - 1;
        }
        None
    }
}

impl<T> Radix<T> {
    /// The value stored at `key`.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<&T> {
        if key > reach(self.height) {
            return None;
        }
        self.root.as_ref()?.get(key, self.height)
    }

    /// Sets the value at `key`; returns the old value. A new value is untagged.
    pub(crate) fn insert(&mut self, key: u64, value: T) -> Option<T> {
        while key > reach(self.height) {
            self.height += 1;
            if let Some(root) = self.root.take() {
                let mut above = Branch::new(self.height);
                above.used = 1;
                above.tagged = u64::from(root.tagged != 0);
                if let Slots::Inner(below) = &mut above.slots {
                    below[0] = Some(root);
                }
                self.root = Some(above);
            }
        }
        let height = self.height;
        let root = self.root.get_or_insert_with(|| Branch::new(height));
        root.insert(key, height, value)
    }

    /// Removes the value at `key`, with its tag.
    pub(crate) fn remove(&mut self, key: u64) -> Option<T> {
        if key > reach(self.height) {
            return None;
        }
        let root = self.root.as_mut()?;
        let removed = root.remove(key, self.height);
        if root.used == 0 {
            self.root = None;
            self.height = 0;
        }
        removed
    }

    /// Sets or clears the tag of the value at `key`.
    pub(crate) fn tag(&mut self, key: u64, on: bool) {
        if let Some(root) = self.root.as_mut() {
            root.tag(key, self.height, on);
        }
    }

    /// The value with the smallest key at or above `key`.
    pub(crate) fn next(&self, key: u64) -> Option<(u64, &T)> {
        self.find(key, false)
    }

    /// The tagged value with the smallest key at or above `key`.
    pub(crate) fn next_tagged(&self, key: u64) -> Option<(u64, &T)> {
        self.find(key, true)
    }

    fn find(&self, key: u64, tagged: bool) -> Option<(u64, &T)> {
        if key > reach(self.height) {
            return None;
        }
        self.root.as_ref()?.next(key, self.height, tagged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key() -> impl Strategy<Value = u64> {
        prop_oneof![0..200_u64, 0..1_000_000_u64, any::<u64>()]
    }

    proptest! {
        #[test]
        fn radix_behaves_like_a_map(steps in prop::collection::vec((0..4_u8, key()), 1..400)) {
            let mut radix = Radix::default();
            let mut map = BTreeMap::new();
            for (step, (what, key)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        let old = map.get(&key).copied();
                        let tagged = old.is_some_and(|(_, tagged)| tagged);
                        map.insert(key, (step, tagged));
                        prop_assert_eq!(radix.insert(key, step), old.map(|(v, _)| v));
                    }
                    1 => {
                        let near = map.range(key..).next().map_or(key, |(&k, _)| k);
                        let old = map.remove(&near).map(|(v, _): (usize, bool)| v);
                        prop_assert_eq!(radix.remove(near), old);
                    }
                    _ => {
                        if let Some((&near, value)) = map.range_mut(key..).next() {
                            value.1 = what == 2;
                            radix.tag(near, what == 2);
                        }
                    }
                }
                let next = map.range(key..).next().map(|(&k, &(v, _))| (k, v));
                prop_assert_eq!(radix.next(key).map(|(k, &v)| (k, v)), next);
                let mut tagged = map.range(key..).filter(|(_, v)| v.1);
                let next = tagged.next().map(|(&k, &(v, _))| (k, v));
                prop_assert_eq!(radix.next_tagged(key).map(|(k, &v)| (k, v)), next);
                prop_assert_eq!(radix.get(key), map.get(&key).map(|(v, _)| v));
            }
        }
    }
}
