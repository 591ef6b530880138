//! The index of `bytefs` 4.3: partitions, in each a skip list of pages, and for each page a list of
//! chunks.
//!
//! The skip list is unrolled: a node holds the indexed pages of a group of 64, in ascending order,
//! with a bit for each. A partition has few groups, so every group has a fixed place, whether in
//! the list or not. A look-up takes a step to the node, one to the page, and one more if the page
//! has several chunks; only changes of the list and searches for the next page walk it.
//!
//! Invariants: the list of level 0 has every group of a partition that has pages, in ascending
//! order, and each level above has a part of the one below. The height of a node is a function of
//! its group, so the shape depends neither on the order of insertion nor on chance. A node is in
//! the list only if it has pages, and a page has chunks.

use super::chunks::{Chunk, Lists, Pages};
use super::index::Index;

/// Pages of a partition.
//= bytefs 4.3
pub const PARTITION_PAGES: u32 = 16 * 1024 * 1024 / 4096;
/// Pages of a group.
const GROUP: u32 = u64::BITS;
/// Groups of a partition.
const GROUPS: usize = (PARTITION_PAGES / GROUP) as usize;
const LEVELS: usize = 3;
const NIL: u8 = u8::MAX;

/// The indexed pages of a group.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Indexed pages, one bit each.
    there: u64,
    /// Start of their lists in `Pages`, one list for each bit.
    pages: u32,
}

/// The groups of a partition, linked as a skip list.
#[derive(Clone, Debug)]
struct Partition {
    head: [u8; LEVELS],
    /// For each group with pages: its successor on each level, or `NIL`.
    next: [[u8; LEVELS]; GROUPS],
    nodes: [Node; GROUPS],
}

/// The three-layer skip list of `bytefs` 4.3.
#[derive(Clone, Debug, Default)]
pub struct SkipIndex {
    partitions: Vec<Option<Box<Partition>>>,
    pages: Pages,
    lists: Lists,
}

/// Levels of a group's node: each further level for about one group in four.
fn height(group: u8) -> usize {
    let mixed = (u32::from(group) + 1).wrapping_mul(0x9E37_79B1);
    let mixed = mixed ^ (mixed >> 15);
    (mixed.trailing_zeros() as usize / 2 + 1).min(LEVELS)
}

/// Partition, group and bit of a page.
#[inline]
fn split(page: u32) -> (usize, u8, u32) {
    let (partition, key) = (page / PARTITION_PAGES, page % PARTITION_PAGES);
    (partition as usize, (key / GROUP) as u8, key % GROUP)
}

impl Node {
    fn has(self, bit: u32) -> bool {
        self.there >> bit & 1 == 1
    }

    fn count(self) -> usize {
        self.there.count_ones() as usize
    }

    /// Number of indexed pages before `bit`.
    fn rank(self, bit: u32) -> usize {
        (self.there & !(u64::MAX << bit)).count_ones() as usize
    }

    /// The first indexed page from `bit` on.
    fn first_from(self, bit: u32) -> Option<u32> {
        let rest = self.there & u64::MAX << bit;
        (rest != 0).then(|| rest.trailing_zeros())
    }
}

impl Partition {
    fn new() -> Self {
        Self {
            head: [NIL; LEVELS],
            next: [[NIL; LEVELS]; GROUPS],
            nodes: [Node::default(); GROUPS],
        }
    }

    /// The successor of `group` on a level; the first group if `group` is `NIL`.
    fn next(&self, group: u8, level: usize) -> u8 {
        match group {
            NIL => self.head[level],
            _ => self.next[usize::from(group)][level],
        }
    }

    fn set_next(&mut self, group: u8, level: usize, to: u8) {
        match group {
            NIL => self.head[level] = to,
            _ => self.next[usize::from(group)][level] = to,
        }
    }

    /// On each level, the last group before `group`; `NIL` for the head.
    fn before(&self, group: u8) -> [u8; LEVELS] {
        let mut path = [NIL; LEVELS];
        let mut at = NIL;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(at, level);
                if next == NIL || next >= group {
                    break;
                }
                at = next;
            }
            path[level] = at;
        }
        path
    }

    /// Inserts a group into the list.
    fn link(&mut self, group: u8) {
        let path = self.before(group);
        for (level, &before) in path.iter().enumerate().take(height(group)) {
            self.set_next(group, level, self.next(before, level));
            self.set_next(before, level, group);
        }
    }

    /// Removes a group from the list.
    fn unlink(&mut self, group: u8) {
        let path = self.before(group);
        for (level, &before) in path.iter().enumerate().take(height(group)) {
            self.set_next(before, level, self.next(group, level));
        }
    }

    /// Group and bit of the first indexed page from `bit` of `group` on.
    fn first_from(&self, group: u8, bit: u32) -> Option<(u8, u32)> {
        let at = self.next(self.before(group)[0], 0);
        let mut rest = std::iter::successors(Some(at), |&at| Some(self.next(at, 0)));
        rest.by_ref().take_while(|&at| at != NIL).find_map(|at| {
            let from = if at == group { bit } else { 0 };
            let found = self.nodes[usize::from(at)].first_from(from)?;
            Some((at, found))
        })
    }
}

impl SkipIndex {
    /// The node of `page`; `None` if the page is not indexed.
    fn node(&self, page: u32) -> Option<Node> {
        let (at, group, bit) = split(page);
        let partition = self.partitions.get(at)?.as_deref()?;
        let node = partition.nodes[usize::from(group)];
        node.has(bit).then_some(node)
    }
}

impl Index for SkipIndex {
    fn lay(&mut self, page: u32, chunk: Chunk) {
        let (at, group, bit) = split(page);
        if at >= self.partitions.len() {
            self.partitions.resize_with(at + 1, || None);
        }
        let partition = self.partitions[at].get_or_insert_with(|| Box::new(Partition::new()));
        let node = &mut partition.nodes[usize::from(group)];
        let rank = node.rank(bit);
        if node.has(bit) {
            self.lists.lay(self.pages.get_mut(node.pages, rank), chunk);
            return;
        }
        let first = node.there == 0;
        node.pages = self.pages.insert(node.pages, node.count(), rank, chunk);
        node.there |= 1 << bit;
        if first {
            partition.link(group);
        }
    }

    #[inline]
    fn chunks(&self, page: u32) -> &[Chunk] {
        let (_, _, bit) = split(page);
        self.node(page).map_or(&[], |node| {
            self.lists.get(self.pages.get(node.pages, node.rank(bit)))
        })
    }

    fn cut(&mut self, page: u32, mask: u64) -> bool {
        let (_, _, bit) = split(page);
        let Some(node) = self.node(page) else {
            return false;
        };
        let entry = self.pages.get_mut(node.pages, node.rank(bit));
        if !self.lists.cut(entry, mask) {
            self.remove(page);
        }
        true
    }

    fn remove(&mut self, page: u32) -> bool {
        let (at, group, bit) = split(page);
        if self.node(page).is_none() {
            return false;
        }
        let Some(partition) = self.partitions[at].as_deref_mut() else {
            return false;
        };
        let node = &mut partition.nodes[usize::from(group)];
        let rank = node.rank(bit);
        self.lists.release(*self.pages.get(node.pages, rank));
        node.pages = self.pages.remove(node.pages, node.count(), rank);
        node.there &= !(1 << bit);
        if node.there == 0 {
            partition.unlink(group);
        }
        true
    }

    fn next_page(&self, from: u32) -> Option<u32> {
        let (first, group, bit) = split(from);
        let partitions = self.partitions.iter().enumerate().skip(first);
        for (at, partition) in partitions {
            let Some(partition) = partition else { continue };
            let (group, bit) = if at == first { (group, bit) } else { (0, 0) };
            if let Some((group, bit)) = partition.first_from(group, bit) {
                let in_partition = u32::from(group) * GROUP + bit;
                return Some(at as u32 * PARTITION_PAGES + in_partition);
            }
        }
        None
    }

    fn pages(&self) -> u64 {
        self.pages.len()
    }

    /// Counts an entry of the partition table as a pointer; a partition as it is here, with a bit
    /// for each page and a pointer for each group; a page as its one chunk, or as a pointer to
    /// several and their number; a chunk by the fields that `bytefs` 4.3 lists. Blocks count in
    /// full, with their unused room.
    fn memory(&self) -> u64 {
        const POINTER: u64 = 4;
        const PARTITION: u64 = GROUPS as u64 * (8 + POINTER + LEVELS as u64) + LEVELS as u64;
        const CHUNK: u64 = 1 + 4 + 4;
        let partitions = self.partitions.iter().flatten().count() as u64;
        let chunks = self.pages.room() + self.lists.room();
        self.partitions.len() as u64 * POINTER + partitions * PARTITION + chunks * CHUNK
    }
}
