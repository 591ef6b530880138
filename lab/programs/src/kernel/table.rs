//! A table of rows of one size behind a hash index with chains, and a search tree for keys that are
//! appended.
//!
//! Invariant: every key from 0 to one below the number of rows is found, in the row with that
//! number. The first 16 bytes of a row hold the pointer to the next row of its chain and the key.

use crate::mem::{Array, Mem, Space, Tag};
use sim::mix;

/// Bytes of a row's header, which precedes its columns.
pub(crate) const HEADER: u64 = 16;
const NONE: u32 = u32::MAX;

/// Rows found by key through a hash index.
pub(crate) struct Table {
    buckets: Array,
    rows: Array,
    heads: Vec<u32>,
    next: Vec<u32>,
}

impl Table {
    /// Total bytes taken by a row whose columns take `columns` bytes: with its header, rounded up
    /// to a multiple of 8, and with its bucket.
    pub(crate) const fn bytes(columns: u64) -> u64 {
        (columns + HEADER).next_multiple_of(8) + 8
    }

    /// A table of `rows` rows, fewer than 2³², with as many buckets as rows.
    pub(crate) fn new(space: &mut Space, rows: u64, columns: u64) -> Self {
        let mut table = Self {
            buckets: Array::new(space, rows, 8),
            rows: Array::new(space, rows, Self::bytes(columns) - 8),
            heads: vec![NONE; rows as usize],
            next: vec![NONE; rows as usize],
        };
        for row in 0..rows {
            let bucket = table.bucket(row) as usize;
            table.next[row as usize] = table.heads[bucket];
            table.heads[bucket] = row as u32;
        }
        table
    }

    fn bucket(&self, key: u64) -> u64 {
        let hash = mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15));
        ((u128::from(hash) * self.heads.len() as u128) >> 64) as u64
    }

    /// Follows the chain of `key`. Returns the address of the row's columns and the load that gave
    /// the pointer to the row. 8 instructions for the hash, 2 for each row visited.
    #[inline]
    pub(crate) fn find(&self, mem: &mut Mem, key: u64) -> (u64, Tag) {
        let bucket = self.bucket(key);
        mem.compute(8);
        let mut pointer = mem.load(self.buckets.at(bucket), 8);
        let mut row = self.heads[bucket as usize];
        loop {
            assert!(row != NONE, "every key is in the chain of its bucket");
            let at = self.rows.at(row.into());
            let header = mem.load_after(at, 16, pointer);
            mem.compute(2);
            if u64::from(row) == key {
                return (at + HEADER, pointer);
            }
            pointer = header;
            row = self.next[row as usize];
        }
    }
}

/// Entries in a node. An entry takes 16 bytes, so a node takes 1 KiB.
const FAN_OUT: u64 = 64;

/// A search tree over the keys 0, 1, 2 …, which grows at its right edge only.
///
/// Node n of a level begins with the key n·64^(level+1). The position of a key thus follows from
/// the key, but the accesses of a search are still performed.
pub(crate) struct Tree {
    /// Nodes of each level, the leaves first.
    levels: Vec<Array>,
    keys: u64,
}

impl Tree {
    /// An empty tree for up to `capacity` keys.
    pub(crate) fn new(space: &mut Space, capacity: u64) -> Self {
        let mut levels = Vec::new();
        let mut nodes = capacity.max(1);
        while nodes > 1 || levels.is_empty() {
            nodes = nodes.div_ceil(FAN_OUT);
            levels.push(Array::new(space, nodes, FAN_OUT * 16));
        }
        Self { levels, keys: 0 }
    }

    /// Bytes taken by a key: its entry and its share of the levels above.
    pub(crate) const BYTES: u64 = 17;

    pub(crate) const fn keys(&self) -> u64 {
        self.keys
    }

    /// Sets the number of keys that exist before the program starts.
    pub(crate) const fn preload(&mut self, keys: u64) {
        self.keys = keys;
    }

    /// Searches for `key`, which must exist. Returns the load of its entry in the leaf.
    pub(crate) fn find(&self, mem: &mut Mem, key: u64) -> Tag {
        debug_assert!(key < self.keys, "a key that was appended");
        let mut from = None;
        for (level, nodes) in self.levels.iter().enumerate().rev() {
            let node = key / FAN_OUT.pow(level as u32 + 1);
            let entry = key / FAN_OUT.pow(level as u32) % FAN_OUT;
            from = Some(search(
                mem,
                nodes.at(node),
                entry,
                self.fill(level, node),
                from,
            ));
        }
        from.expect("a tree has a level")
    }

    /// Number of entries in a node.
    fn fill(&self, level: usize, node: u64) -> u64 {
        let below = self.keys.div_ceil(FAN_OUT.pow(level as u32));
        (below - node * FAN_OUT).min(FAN_OUT)
    }

    /// Appends the next key: a search along the right edge, then a new entry in the leaf and on
    /// each level above whose child node is new.
    pub(crate) fn append(&mut self, mem: &mut Mem) {
        let from = (self.keys > 0).then(|| self.find(mem, self.keys - 1));
        let key = self.keys;
        self.keys += 1;
        for (level, nodes) in self.levels.iter().enumerate() {
            let below = FAN_OUT.pow(level as u32);
            if !key.is_multiple_of(below) {
                break;
            }
            let at = nodes.at(key / (below * FAN_OUT)) + key / below % FAN_OUT * 16;
            match from {
                Some(from) => mem.store_after(at, 16, from),
                None => mem.store(at, 16),
            };
        }
    }
}

/// Binary search for entry `wanted` in a node of `fill` entries. Two instructions for each step.
fn search(mem: &mut Mem, node: u64, wanted: u64, fill: u64, from: Option<Tag>) -> Tag {
    let (mut low, mut high) = (0, fill);
    let probe = |mem: &mut Mem, entry: u64| match from {
        Some(from) => mem.load_after(node + entry * 16, 16, from),
        None => mem.load(node + entry * 16, 16),
    };
    while high - low > 1 {
        let middle = low.midpoint(high);
        probe(mem, middle);
        mem.compute(2);
        if wanted < middle {
            high = middle;
        } else {
            low = middle;
        }
    }
    assert!(low == wanted, "an entry lies where its key says");
    probe(mem, low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Outlet;
    use memsys::Op;
    use std::rc::Rc;

    fn noted(act: impl FnOnce(&mut Mem)) -> Vec<Op> {
        let outlet = Rc::<Outlet>::default();
        let mut mem = Mem::new(Rc::clone(&outlet));
        act(&mut mem);
        mem.end();
        outlet.ops.take()
    }

    #[test]
    fn every_key_is_found_in_its_row() {
        let mut space = Space::new();
        let table = Table::new(&mut space, 1000, 100);
        let mut passed = 0;
        for key in 0..1000 {
            let ops = noted(|mem| {
                let (at, _) = table.find(mem, key);
                assert_eq!(at, table.rows.at(key) + HEADER);
            });
            let loads: Vec<u64> = ops
                .iter()
                .filter_map(|op| match op {
                    Op::Load { at, .. } => Some(*at),
                    _ => None,
                })
                .collect();
            assert_eq!(*loads.last().unwrap(), table.rows.at(key));
            passed += loads.len() - 1;
        }
        // With n keys in n buckets, a search visits 1.5 rows on average.
        assert!((1400..1600).contains(&passed), "{passed}");
    }

    #[test]
    fn a_tree_finds_what_was_appended() {
        let mut tree = Tree::new(&mut Space::new(), 10_000);
        assert_eq!(tree.levels.len(), 3);
        let mut stored = 0;
        for _ in 0..5000 {
            let ops = noted(|mem| tree.append(mem));
            let stores = ops.iter().filter(|op| matches!(op, Op::Store { .. }));
            stored += stores.count();
        }
        // One entry for each key, for each leaf and for each node above the leaves.
        assert_eq!(
            stored,
            5000 + 5000_usize.div_ceil(64) + 5000_usize.div_ceil(4096)
        );
        for key in 0..5000 {
            let ops = noted(|mem| {
                tree.find(mem, key);
            });
            let Some(Op::Load { at, .. }) = ops.last() else {
                panic!("a search ends with a load");
            };
            assert_eq!(*at, tree.levels[0].at(key / 64) + key % 64 * 16);
        }
    }
}
