//! The index of `bytefs` 4.3: partitions, a skip list of pages in each, a list of
//! chunks for each page.
//!
//! The skip list is unrolled: a node holds the pages of a group of 64 that are there,
//! in ascending order, with a bit for each. So a look-up takes a few steps in the 4
//! bytes a node that say how nodes follow each other, then one to the node, one to the
//! page, and one more if the page has several chunks.
//!
//! Invariants: the list of level 0 has every group of a partition that has pages, in
//! ascending order, each level above a part of the one below. The height of a node is
//! a function of its group, so the shape does not depend on what came first, and no
//! chance is needed. A node has pages, and a page has chunks.

use super::chunks::{Chunk, Lists, Pages};
use super::index::Index;

/// Pages of a partition.
//= bytefs 4.3
pub const PARTITION_PAGES: u32 = 16 * 1024 * 1024 / 4096;
/// Pages of a group.
const GROUP: u32 = u64::BITS;
const LEVELS: usize = 3;
const NIL: u8 = u8::MAX;

/// How a node follows others.
#[derive(Clone, Copy, Debug)]
struct Links {
    group: u8,
    next: [u8; LEVELS],
}

/// The pages of a group that are in the log.
#[derive(Clone, Copy, Debug)]
struct Node {
    /// A bit for each that is there.
    there: u64,
    /// Where they are, as many as there are bits.
    pages: u32,
}

/// The groups of a partition that have pages.
#[derive(Clone, Debug)]
struct Partition {
    head: [u8; LEVELS],
    links: Vec<Links>,
    nodes: Vec<Node>,
    free: Vec<u8>,
}

/// The three-layer skip list.
#[derive(Clone, Debug, Default)]
pub struct SkipIndex {
    partitions: Vec<Option<Box<Partition>>>,
    pages: Pages,
    lists: Lists,
    nodes: u64,
}

/// Levels of a group's node: one more with a chance of 1 in 4, by its number.
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

    /// How many pages come before `bit`.
    fn rank(self, bit: u32) -> usize {
        (self.there & !(u64::MAX << bit)).count_ones() as usize
    }

    /// The first page from `bit` on.
    fn first_from(self, bit: u32) -> Option<u32> {
        let rest = self.there & u64::MAX << bit;
        (rest != 0).then(|| rest.trailing_zeros())
    }
}

impl Partition {
    fn new() -> Self {
        Self {
            head: [NIL; LEVELS],
            links: Vec::new(),
            nodes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// The links behind a node; those of the head behind `NIL`.
    #[inline]
    fn next(&self, node: u8, level: usize) -> u8 {
        match node {
            NIL => self.head[level],
            _ => self.links[usize::from(node)].next[level],
        }
    }

    fn set_next(&mut self, node: u8, level: usize, to: u8) {
        match node {
            NIL => self.head[level] = to,
            _ => self.links[usize::from(node)].next[level] = to,
        }
    }

    /// On each level the last node before `group`, `NIL` for the head.
    #[inline]
    fn before(&self, group: u8) -> [u8; LEVELS] {
        let mut path = [NIL; LEVELS];
        let mut at = NIL;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(at, level);
                if next == NIL || self.links[usize::from(next)].group >= group {
                    break;
                }
                at = next;
            }
            path[level] = at;
        }
        path
    }

    #[inline]
    fn find(&self, group: u8) -> Option<u8> {
        let mut at = NIL;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(at, level);
                if next == NIL {
                    break;
                }
                match self.links[usize::from(next)].group.cmp(&group) {
                    std::cmp::Ordering::Less => at = next,
                    std::cmp::Ordering::Equal => return Some(next),
                    std::cmp::Ordering::Greater => break,
                }
            }
        }
        None
    }

    /// The node of a group, which is made if it is not there.
    fn find_or_insert(&mut self, group: u8) -> &mut Node {
        let node = match self.find(group) {
            Some(node) => node,
            None => self.insert(group),
        };
        &mut self.nodes[usize::from(node)]
    }

    fn insert(&mut self, group: u8) -> u8 {
        let path = self.before(group);
        let links = Links {
            group,
            next: [NIL; LEVELS],
        };
        let nothing = Node { there: 0, pages: 0 };
        let node = match self.free.pop() {
            Some(node) => {
                self.links[usize::from(node)] = links;
                self.nodes[usize::from(node)] = nothing;
                node
            }
            None => {
                self.links.push(links);
                self.nodes.push(nothing);
                (self.nodes.len() - 1) as u8
            }
        };
        for (level, &before) in path.iter().enumerate().take(height(group)) {
            let next = self.next(before, level);
            self.set_next(node, level, next);
            self.set_next(before, level, node);
        }
        node
    }

    fn remove(&mut self, group: u8) {
        let path = self.before(group);
        let node = self.next(path[0], 0);
        for (level, &before) in path.iter().enumerate().take(height(group)) {
            let next = self.next(node, level);
            self.set_next(before, level, next);
        }
        self.free.push(node);
    }

    /// The first page from `bit` of `group` on: its group and bit.
    fn first_from(&self, group: u8, bit: u32) -> Option<(u8, u32)> {
        let mut node = self.next(self.before(group)[0], 0);
        while node != NIL {
            let links = self.links[usize::from(node)];
            let from = if links.group == group { bit } else { 0 };
            if let Some(bit) = self.nodes[usize::from(node)].first_from(from) {
                return Some((links.group, bit));
            }
            node = links.next[0];
        }
        None
    }
}

impl SkipIndex {
    /// The node of a page that is there.
    fn node(&self, page: u32) -> Option<Node> {
        let (at, group, bit) = split(page);
        let partition = self.partitions.get(at)?.as_deref()?;
        let node = partition.nodes[usize::from(partition.find(group)?)];
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
        let node = partition.find_or_insert(group);
        let rank = node.rank(bit);
        if node.has(bit) {
            self.lists.lay(self.pages.get_mut(node.pages, rank), chunk);
            return;
        }
        self.nodes += u64::from(node.there == 0);
        node.pages = self.pages.insert(node.pages, node.count(), rank, chunk);
        node.there |= 1 << bit;
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
        let node = partition.find_or_insert(group);
        let rank = node.rank(bit);
        self.lists.release(*self.pages.get(node.pages, rank));
        node.pages = self.pages.remove(node.pages, node.count(), rank);
        node.there &= !(1 << bit);
        if node.there == 0 {
            partition.remove(group);
            self.nodes -= 1;
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

    /// An entry of the table is a pointer; a node its group, a bit for each of 64
    /// pages, a pointer and 4/3 links of a byte; a page its one chunk, or a pointer to
    /// several and their number; a chunk what `bytefs` 4.3 lists. Blocks count as they
    /// are, with room that is not used.
    fn memory(&self) -> u64 {
        const POINTER: u64 = 4;
        const CHUNK: u64 = 1 + 4 + 4;
        let nodes = self.nodes * (1 + 8 + POINTER) + self.nodes * 4 / 3;
        let chunks = self.pages.room() + self.lists.room();
        self.partitions.len() as u64 * POINTER + nodes + chunks * CHUNK
    }
}
