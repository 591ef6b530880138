//! B-trees: the page of each row.
//!
//! Three kinds, by their growth: none, at the right edge of each group, or anywhere. A group that
//! grows at its edge begins on a page of its own.
//!
//! Invariant: a page belongs to one tree until it is given back.

use super::schema::{FAN_OUT, PageId, Space};
use std::collections::{BTreeMap, VecDeque};

/// Page number of the first tree's root, behind the pages that describe the file.
const ROOT: u32 = 3;

/// Allocator of consecutive pages while a file is laid out.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    space: u8,
    next: u32,
}

impl Layout {
    pub(super) const fn new(space: u8) -> Self {
        Self { space, next: ROOT }
    }

    /// Takes `pages` consecutive pages; returns the first.
    fn take(&mut self, pages: u32) -> u32 {
        let first = self.next;
        self.next += pages;
        first
    }

    pub(super) const fn used(&self) -> u32 {
        self.next
    }
}

/// Inner pages above the leaves. All leaves of a group have the same parent.
#[derive(Clone, Debug)]
pub(super) struct Parents {
    space: u8,
    root: u32,
    /// First inner page, if the root is not the only parent.
    inner: Option<u32>,
    groups_per_inner: u32,
}

impl Parents {
    fn new(layout: &mut Layout, groups: u32, leaves_per_group: u32) -> Self {
        let root = layout.take(1);
        let groups_per_inner = (FAN_OUT / leaves_per_group.max(1)).max(1);
        let inner = groups.div_ceil(groups_per_inner);
        Self {
            space: layout.space,
            root,
            inner: (inner > 1).then(|| layout.take(inner)),
            groups_per_inner,
        }
    }

    const fn page(&self, no: u32) -> PageId {
        PageId {
            space: self.space,
            no,
        }
    }

    /// Parent of the leaves of `group`.
    pub(super) fn above(&self, group: u32) -> PageId {
        let inner = self
            .inner
            .map(|first| first + group / self.groups_per_inner);
        self.page(inner.unwrap_or(self.root))
    }

    /// Pages from the root to the leaf `leaf` of `group`.
    pub(super) fn way(&self, group: u32, leaf: u32) -> Vec<PageId> {
        let mut way = vec![self.page(self.root)];
        for page in [self.above(group), self.page(leaf)] {
            if way.last() != Some(&page) {
                way.push(page);
            }
        }
        way
    }
}

/// Rows by rank; their number is fixed.
#[derive(Clone, Debug)]
pub(super) struct Ranked {
    parents: Parents,
    first: u32,
    per_leaf: u32,
}

impl Ranked {
    pub(super) fn new(layout: &mut Layout, rows: u32, per_leaf: u32) -> Self {
        let leaves = rows.div_ceil(per_leaf);
        let parents = Parents::new(layout, leaves, 1);
        // Rows that fit into one page lie in the root.
        let first = if leaves == 1 {
            parents.root
        } else {
            layout.take(leaves)
        };
        Self {
            parents,
            first,
            per_leaf,
        }
    }

    pub(super) fn way(&self, rank: u32) -> Vec<PageId> {
        let leaf = rank / self.per_leaf;
        self.parents.way(leaf, self.first + leaf)
    }

    /// Way to the row `rank`, then the further leaves of `count` rows.
    pub(super) fn range(&self, rank: u32, count: u32) -> Vec<PageId> {
        let mut way = self.way(rank);
        let (first, last) = (rank / self.per_leaf, (rank + count - 1) / self.per_leaf);
        way.extend((first + 1..=last).map(|leaf| self.parents.page(self.first + leaf)));
        way
    }
}

/// Rows that are added at the end of their group and removed from its start.
#[derive(Clone, Debug)]
pub(super) struct Edges {
    pub(super) parents: Parents,
    per_leaf: u32,
    groups: Vec<Edge>,
}

#[derive(Clone, Debug)]
struct Edge {
    pages: VecDeque<u32>,
    /// First row of the first page, and one past the last row.
    first: u32,
    end: u32,
}

impl Edges {
    /// A tree of groups, each given by the number of its first row and one past its last.
    pub(super) fn new(layout: &mut Layout, groups: &[(u32, u32)], per_leaf: u32) -> Self {
        let leaves = |(first, end): &(u32, u32)| (end - first).div_ceil(per_leaf);
        let most = groups.iter().map(leaves).max().unwrap_or(1);
        let parents = Parents::new(layout, groups.len() as u32, most);
        let edge = |&(first, end): &(u32, u32)| {
            let count = leaves(&(first, end));
            let page = layout.take(count);
            Edge {
                pages: (page..page + count).collect(),
                first,
                end,
            }
        };
        let groups = groups.iter().map(edge).collect();
        Self {
            parents,
            per_leaf,
            groups,
        }
    }

    /// One past the last row of `group`.
    pub(super) fn end(&self, group: u32) -> u32 {
        self.groups[group as usize].end
    }

    /// Leaf of `row` in `group`.
    pub(super) fn leaf(&self, group: u32, row: u32) -> PageId {
        let edge = &self.groups[group as usize];
        let index = (row - edge.first) / self.per_leaf;
        self.parents.page(edge.pages[index as usize])
    }

    /// Way to `row` in `group`.
    pub(super) fn way(&self, group: u32, row: u32) -> Vec<PageId> {
        self.parents.way(group, self.leaf(group, row).no)
    }

    /// Way to `row`, then the further leaves of `count` rows. Rows past the end, which a
    /// transaction is still adding, are left out.
    pub(super) fn range(&self, group: u32, row: u32, count: u32) -> Vec<PageId> {
        let last = self.end(group).saturating_sub(1);
        let mut way = self.way(group, row.min(last));
        for row in row..(row + count).min(last + 1) {
            let page = self.leaf(group, row);
            if way.last() != Some(&page) {
                way.push(page);
            }
        }
        way
    }

    /// Adds a row; returns the page that was taken for it, if one was.
    pub(super) fn push(&mut self, group: u32, space: &mut Space) -> Option<PageId> {
        let edge = &mut self.groups[group as usize];
        let index = ((edge.end - edge.first) / self.per_leaf) as usize;
        edge.end += 1;
        (index == edge.pages.len()).then(|| {
            let no = space.take();
            edge.pages.push_back(no);
            self.parents.page(no)
        })
    }

    /// Removes the last row. Its page is kept for the next one.
    pub(super) fn pop(&mut self, group: u32) {
        self.groups[group as usize].end -= 1;
    }

    /// Removes the first row left, which is `row`. Returns whether its page had no other row and
    /// was given back.
    pub(super) fn remove_first(&mut self, group: u32, row: u32, space: &mut Space) -> bool {
        let edge = &mut self.groups[group as usize];
        let last = row + 1 - edge.first == self.per_leaf;
        if last && let Some(page) = edge.pages.pop_front() {
            edge.first += self.per_leaf;
            space.put(page);
        }
        last
    }
}

#[cfg(test)]
impl Edges {
    /// Leaves of the tree, after asserting that each has a row or is the last one.
    pub(super) fn check(&self) -> Vec<PageId> {
        for edge in &self.groups {
            let pages = edge.pages.len() as u32;
            assert!(edge.first + pages * self.per_leaf >= edge.end);
            assert!(pages == 0 || edge.first + (pages - 1) * self.per_leaf <= edge.end);
        }
        let pages = self.groups.iter().flat_map(|edge| &edge.pages);
        pages.map(|&no| self.parents.page(no)).collect()
    }
}

/// Key of an order by its customer: district, customer, order.
pub(super) type OrderKey = (u32, u32, u32);

/// Entries that are added anywhere, with their keys. A full leaf is split in the middle.
#[derive(Clone, Debug)]
pub(super) struct Scattered {
    pub(super) parents: Parents,
    full: usize,
    /// Leaves by the least key that belongs to each.
    leaves: BTreeMap<OrderKey, Leaf>,
}

#[derive(Clone, Debug)]
struct Leaf {
    no: u32,
    keys: Vec<OrderKey>,
}

impl Scattered {
    /// A tree of `keys`, which are sorted and belong to `groups` groups.
    pub(super) fn new(
        layout: &mut Layout,
        keys: &[OrderKey],
        groups: u32,
        per_leaf: u32,
        full: usize,
    ) -> Self {
        let leaves = (keys.len() as u32).div_ceil(per_leaf);
        let parents = Parents::new(layout, groups, leaves.div_ceil(groups.max(1)));
        let mut tree = BTreeMap::new();
        for chunk in keys.chunks(per_leaf as usize) {
            let least = if tree.is_empty() { (0, 0, 0) } else { chunk[0] };
            let no = layout.take(1);
            let keys = chunk.to_vec();
            tree.insert(least, Leaf { no, keys });
        }
        Self {
            parents,
            full,
            leaves: tree,
        }
    }

    fn least(&self, key: OrderKey) -> OrderKey {
        let below = self.leaves.range(..=key).next_back();
        *below.expect("the first leaf takes the least key").0
    }

    fn leaf(&mut self, key: OrderKey) -> &mut Leaf {
        let least = self.least(key);
        self.leaves.get_mut(&least).expect("it was just found")
    }

    /// Way to the leaf where `key` is or would be.
    pub(super) fn way(&self, key: OrderKey) -> Vec<PageId> {
        self.parents.way(key.0, self.leaves[&self.least(key)].no)
    }

    /// Adds `key`; returns the page that a split took, if there was one.
    pub(super) fn insert(&mut self, key: OrderKey, space: &mut Space) -> Option<PageId> {
        let full = self.full;
        let leaf = self.leaf(key);
        let at = leaf.keys.partition_point(|other| *other < key);
        leaf.keys.insert(at, key);
        if leaf.keys.len() <= full {
            return None;
        }
        let keys = leaf.keys.split_off(leaf.keys.len() / 2);
        let no = space.take();
        self.leaves.insert(keys[0], Leaf { no, keys });
        Some(self.parents.page(no))
    }

    /// Removes `key`. Its page is kept.
    pub(super) fn remove(&mut self, key: OrderKey) {
        self.leaf(key).keys.retain(|other| *other != key);
    }

    /// Number of a customer's last order.
    pub(super) fn last(&self, district: u32, customer: u32) -> Option<u32> {
        let (first, most) = ((district, customer, 0), (district, customer, u32::MAX));
        let from = self.least(first);
        let leaves = self.leaves.range(from..=most).rev();
        let keys = leaves.flat_map(|(_, leaf)| leaf.keys.iter().rev());
        let found = keys.copied().find(|key| *key <= most);
        found.filter(|key| *key >= first).map(|key| key.2)
    }
}

#[cfg(test)]
impl Scattered {
    /// Leaves of the tree, after asserting that their keys are sorted and belong there.
    pub(super) fn check(&self) -> Vec<PageId> {
        let leaves: Vec<_> = self.leaves.iter().collect();
        for (at, (least, leaf)) in leaves.iter().enumerate() {
            assert!(leaf.keys.is_sorted() && leaf.keys.len() <= self.full);
            let end = leaves.get(at + 1).map(|next| *next.0);
            let fits = |key: &OrderKey| key >= *least && end.is_none_or(|end| *key < end);
            assert!(leaf.keys.iter().all(fits));
        }
        leaves
            .iter()
            .map(|(_, leaf)| self.parents.page(leaf.no))
            .collect()
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = OrderKey> {
        self.leaves.values().flat_map(|leaf| leaf.keys.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Seed;
    use std::collections::BTreeSet;

    #[test]
    fn ranked_tree_lays_out_leaves_behind_their_parents() {
        let mut layout = Layout::new(1);
        let small = Ranked::new(&mut layout, 5, 10);
        assert_eq!(small.way(4).iter().map(|p| p.no).collect::<Vec<_>>(), [3]);
        let large = Ranked::new(&mut layout, 10_000, 10);
        // A root, two inner pages for 1,000 leaves of which one page finds 808, leaves.
        let way = |rank: u32| large.way(rank).iter().map(|p| p.no).collect::<Vec<_>>();
        assert_eq!(FAN_OUT, 808);
        assert_eq!((way(0), way(9_999)), (vec![4, 5, 7], vec![4, 6, 1_006]));
        assert_eq!(layout.used(), 1_007);
        let range = large.range(18, 13);
        assert!(range.iter().map(|p| p.no).eq([4, 5, 8, 9, 10]));
    }

    #[test]
    fn edges_grow_at_the_end_and_shrink_at_the_start() {
        let mut layout = Layout::new(1);
        let mut edges = Edges::new(&mut layout, &[(7, 20), (0, 5)], 10);
        let mut space = Space::of_table(layout.used());
        let room = space.room();
        assert_eq!(edges.leaf(0, 7), edges.leaf(0, 16));
        assert_ne!(edges.leaf(0, 16), edges.leaf(0, 17));
        let taken: Vec<bool> = (0..8)
            .map(|_| edges.push(0, &mut space).is_some())
            .collect();
        assert_eq!(taken.iter().filter(|t| **t).count(), 1, "{taken:?}");
        assert!(taken[7], "rows 7 to 26 are on two leaves");
        // Rows that are still being added are left out.
        let some = edges.range(0, 25, 30);
        assert_eq!(some.last(), Some(&edges.leaf(0, 27)), "{some:?}");
        assert_eq!(edges.range(0, 40, 3).last(), some.last());
        edges.pop(0);
        assert_eq!(edges.push(0, &mut space), None, "its page was kept");
        let given: Vec<u32> = (7..28)
            .filter(|&row| edges.remove_first(0, row, &mut space))
            .collect();
        assert_eq!(given, [16, 26]);
        assert_eq!(space.room(), room - 1 + 2);
        assert_eq!(edges.check().len(), 2);
    }

    #[test]
    fn scattered_tree_agrees_with_a_set() {
        let mut rng = Seed(1).stream("tree");
        let mut model: BTreeSet<OrderKey> = (0..300).map(|n| (n / 100, n % 100, 0)).collect();
        let keys: Vec<OrderKey> = model.iter().copied().collect();
        let mut layout = Layout::new(1);
        let mut tree = Scattered::new(&mut layout, &keys, 3, 8, 9);
        let mut space = Space::of_table(layout.used());
        space.pages = 10_000;
        for order in 1..5_000 {
            let key = (
                rng.below(3) as u32,
                rng.below(100).pow(2) as u32 / 100,
                order,
            );
            if rng.chance(1, 50) {
                let first = *model.first().unwrap();
                tree.remove(first);
                model.remove(&first);
            }
            tree.insert(key, &mut space);
            model.insert(key);
            let (district, customer) = (rng.below(3) as u32, rng.below(101) as u32);
            let of = model.range((district, customer, 0)..(district, customer + 1, 0));
            assert_eq!(tree.last(district, customer), of.max().map(|key| key.2));
        }
        let pages = tree.check();
        assert!(tree.keys().eq(model.into_iter()));
        assert_eq!(pages.iter().collect::<BTreeSet<_>>().len(), pages.len());
    }
}
