//! A table maps the original addresses of one partition to transformed ones.
//!
//! Invariants: both variants give the same answers; a lookup of an unmapped address finds nothing;
//! nothing here awaits or does I/O.

mod compact;
mod flat;
mod rows;
mod tree;

use crate::config::Variant;
use crate::format::{NONE, PER_PAGE};
use compact::Compact;
use tree::Tree;

/// A table of either variant. Addresses count from the start of the partition.
pub struct Table(Kept);

enum Kept {
    Tree(Tree),
    Compact(Compact),
}

impl Table {
    /// An empty table of a partition of `addresses` units.
    #[must_use]
    pub fn new(variant: Variant, addresses: u32) -> Self {
        Self(match variant {
            Variant::Tree => Kept::Tree(Tree::new(addresses)),
            Variant::Compact => Kept::Compact(Compact::new(addresses)),
        })
    }

    /// Builds a table from `entries`, which ascend by original address.
    pub(crate) fn of(variant: Variant, addresses: u32, entries: &[(u32, u32)]) -> Self {
        Self(match variant {
            Variant::Tree => Kept::Tree(Tree::of(addresses, entries)),
            Variant::Compact => Kept::Compact(Compact::of(addresses, entries)),
        })
    }

    /// Transformed address of `orig`; `None` if unmapped.
    #[inline]
    #[must_use]
    pub fn get(&self, orig: u32) -> Option<u32> {
        match &self.0 {
            Kept::Tree(tree) => tree.get(orig),
            Kept::Compact(compact) => compact.get(orig),
        }
    }

    /// Prefetches the entry of `orig` into the processor's cache. Only a compact table knows the
    /// place of the entry; for a tree this does nothing.
    #[inline]
    pub fn prefetch(&self, orig: u32) {
        match &self.0 {
            Kept::Tree(_) => {}
            Kept::Compact(compact) => compact.prefetch(orig),
        }
    }

    /// Maps `orig` to `trans`; returns the previous transformed address.
    //= remap 3.2
    #[inline]
    pub fn insert(&mut self, orig: u32, trans: u32) -> Option<u32> {
        debug_assert_ne!(trans, NONE, "an address is no absence of one");
        match &mut self.0 {
            Kept::Tree(tree) => tree.insert(orig, trans),
            Kept::Compact(compact) => compact.insert(orig, trans),
        }
    }

    /// Unmaps `orig`; returns the previous transformed address.
    pub fn remove(&mut self, orig: u32) -> Option<u32> {
        match &mut self.0 {
            Kept::Tree(tree) => tree.invalidate(orig),
            Kept::Compact(compact) => compact.remove(orig),
        }
    }

    /// Number of mapped addresses.
    #[must_use]
    pub fn len(&self) -> u32 {
        match &self.0 {
            Kept::Tree(tree) => tree.len(),
            Kept::Compact(compact) => compact.len(),
        }
    }

    /// Whether no address is mapped.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory of the entries, unused capacity included.
    #[must_use]
    pub fn memory(&self) -> u64 {
        match &self.0 {
            Kept::Tree(tree) => tree.memory(),
            Kept::Compact(compact) => compact.memory(),
        }
    }

    /// Writes the entries of table page `page` to `entries`, [`NONE`] where unmapped.
    pub(crate) fn page(&self, page: u32, entries: &mut [u32; PER_PAGE]) {
        entries.fill(NONE);
        let first = page * PER_PAGE as u32;
        let mut take = |orig: u32, trans: u32| entries[(orig - first) as usize] = trans;
        let range = first..first + PER_PAGE as u32;
        match &self.0 {
            Kept::Tree(tree) => tree.each(range, &mut take),
            Kept::Compact(compact) => compact.each(range, &mut take),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;
    use std::collections::BTreeMap;

    #[test]
    fn both_variants_agree_with_an_ordered_map() {
        for (variant, spread) in [
            (Variant::Tree, 4096),
            (Variant::Compact, 4096),
            (Variant::Tree, 1 << 20),
            (Variant::Compact, 1 << 20),
        ] {
            let mut rng = Seed(spread).stream("table");
            let mut table = Table::new(variant, spread as u32);
            let mut model = BTreeMap::new();
            for value in 0..20_000 {
                let orig = rng.below(spread) as u32;
                if rng.below(4) == 0 {
                    assert_eq!(table.remove(orig), model.remove(&orig));
                } else {
                    assert_eq!(table.insert(orig, value), model.insert(orig, value));
                }
                assert_eq!(table.get(orig), model.get(&orig).copied());
                if value % 4_999 == 0 {
                    check(&table, &model, spread as u32);
                }
            }
            check(&table, &model, spread as u32);
            let entries: Vec<(u32, u32)> = model.iter().map(|(&a, &b)| (a, b)).collect();
            for len in [0, 1, 2, 3, 4, 7, 8, 100, entries.len()] {
                let mut model: BTreeMap<u32, u32> = entries[..len].iter().copied().collect();
                let mut table = Table::of(variant, spread as u32, &entries[..len]);
                check(&table, &model, spread as u32);
                for value in 0..200 {
                    let orig = rng.below(spread) as u32;
                    assert_eq!(table.insert(orig, value), model.insert(orig, value));
                }
                check(&table, &model, spread as u32);
            }
        }
    }

    fn check(table: &Table, model: &BTreeMap<u32, u32>, spread: u32) {
        match &table.0 {
            Kept::Tree(tree) => assert!(tree.check() <= 2 * 21, "it is balanced"),
            Kept::Compact(compact) => compact.check(),
        }
        assert_eq!(table.len() as usize, model.len());
        let mut entries = [0; PER_PAGE];
        for page in 0..spread.div_ceil(PER_PAGE as u32) {
            table.page(page, &mut entries);
            for (at, &trans) in (page * PER_PAGE as u32..).zip(&entries) {
                let expected = model.get(&at).copied().unwrap_or(NONE);
                assert_eq!(trans, expected, "address {at}");
            }
        }
    }

    #[test]
    fn tree_of_ascending_insertions_is_balanced() {
        let mut table = Table::new(Variant::Tree, 1 << 16);
        for orig in 0..1 << 16 {
            assert_eq!(table.insert(orig, orig), None);
        }
        let Kept::Tree(tree) = &table.0 else {
            unreachable!("a tree was asked for")
        };
        // At most twice the height of a full tree.
        assert!(tree.check() <= 2 * 17);
    }

    #[test]
    fn compact_table_keeps_its_entries_across_conversions() {
        let mut rng = Seed(8).stream("turns");
        let addresses = 6_000;
        let mut table = Table::new(Variant::Compact, addresses);
        let (mut model, mut turns, mut was) = (BTreeMap::new(), 0, false);
        for round in 0..6 {
            for orig in 0..addresses {
                let value = rng.below(1 << 30) as u32;
                match round % 2 {
                    0 => assert_eq!(table.insert(orig, value), model.insert(orig, value)),
                    _ if value.is_multiple_of(5) => {
                        assert_eq!(table.remove(orig), model.remove(&orig));
                    }
                    _ => assert_eq!(table.get(orig), model.get(&orig).copied()),
                }
                let Kept::Compact(compact) = &table.0 else {
                    unreachable!("a compact table was asked for")
                };
                turns += u32::from(compact.is_flat() != was);
                was = compact.is_flat();
            }
            check(&table, &model, addresses);
            let each = table.memory() as f64 / f64::from(table.len());
            // Row headers, the slack of growth, and capacity left by removals.
            assert!((12.0..14.0).contains(&each), "{each}");
        }
        assert_eq!(turns, 6, "once a round");
    }

    #[test]
    fn entry_size_is_that_of_the_variant() {
        let mut compact = Table::new(Variant::Compact, 1 << 20);
        let mut tree = Table::new(Variant::Tree, 1 << 20);
        for orig in 0..1 << 20 {
            let _ = (compact.insert(orig, 1), tree.insert(orig, 1));
        }
        let each = |table: &Table| table.memory() as f64 / f64::from(table.len());
        assert!((12.0..12.2).contains(&each(&compact)), "{}", each(&compact));
        assert!((20.0..20.1).contains(&each(&tree)), "{}", each(&tree));
    }
}
