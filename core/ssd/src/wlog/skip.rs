//! The index of `bytefs` 4.3: partitions, a skip list of pages in each, a list of
//! chunks for each page.
//!
//! Invariants: the list of level 0 has every page of a partition in ascending
//! order, each level above a part of the one below. The height of a page is a
//! function of its number, so the shape does not depend on what came first, and
//! no chance is needed. Nodes of a partition lie together: its keys and towers are
//! some 20 KiB when every page is there.

use super::chunks::{Chunk, List, Lists};
use super::index::Index;

/// Pages of a partition.
//= bytefs 4.3
pub const PARTITION_PAGES: u32 = 16 * 1024 * 1024 / 4096;
const LEVELS: usize = 7;
const NIL: u16 = u16::MAX;

/// The pages of a partition that are in the log.
#[derive(Clone, Debug)]
struct Partition {
    head: [u16; LEVELS],
    nodes: Vec<Node>,
    /// Links above level 0, of those that have them.
    towers: Vec<[u16; LEVELS - 1]>,
    free_nodes: Vec<u16>,
    free_towers: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    key: u16,
    next: u16,
    tower: u16,
    list: List,
}

/// The three-layer skip list.
#[derive(Clone, Debug, Default)]
pub struct SkipIndex {
    partitions: Vec<Option<Box<Partition>>>,
    lists: Lists,
    pages: u64,
    chunks: u64,
}

/// Levels of `key`'s node: one more with a chance of 1 in 4, by its number.
fn height(key: u16) -> usize {
    let mixed = (u32::from(key) + 1).wrapping_mul(0x9E37_79B1);
    let mixed = mixed ^ (mixed >> 15);
    (mixed.trailing_zeros() as usize / 2 + 1).min(LEVELS)
}

impl Partition {
    fn new() -> Self {
        Self {
            head: [NIL; LEVELS],
            nodes: Vec::new(),
            towers: Vec::new(),
            free_nodes: Vec::new(),
            free_towers: Vec::new(),
        }
    }

    #[inline]
    fn next(&self, node: u16, level: usize) -> u16 {
        if node == NIL {
            return self.head[level];
        }
        let node = &self.nodes[usize::from(node)];
        match level {
            0 => node.next,
            _ => self.towers[usize::from(node.tower)][level - 1],
        }
    }

    fn set_next(&mut self, node: u16, level: usize, to: u16) {
        if node == NIL {
            self.head[level] = to;
            return;
        }
        let node = &mut self.nodes[usize::from(node)];
        match level {
            0 => node.next = to,
            _ => self.towers[usize::from(node.tower)][level - 1] = to,
        }
    }

    /// On each level the last node before `key`, `NIL` for the head.
    #[inline]
    fn before(&self, key: u16) -> [u16; LEVELS] {
        let mut path = [NIL; LEVELS];
        let mut at = NIL;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(at, level);
                if next == NIL || self.nodes[usize::from(next)].key >= key {
                    break;
                }
                at = next;
            }
            path[level] = at;
        }
        path
    }

    /// The node of `key`, which lies behind `path` if it is there.
    fn at(&self, path: &[u16; LEVELS], key: u16) -> Option<u16> {
        let next = self.next(path[0], 0);
        (next != NIL && self.nodes[usize::from(next)].key == key).then_some(next)
    }

    #[inline]
    fn find(&self, key: u16) -> Option<u16> {
        let mut at = NIL;
        for level in (0..LEVELS).rev() {
            loop {
                let next = self.next(at, level);
                if next == NIL {
                    break;
                }
                match self.nodes[usize::from(next)].key.cmp(&key) {
                    std::cmp::Ordering::Less => at = next,
                    std::cmp::Ordering::Equal => return Some(next),
                    std::cmp::Ordering::Greater => break,
                }
            }
        }
        None
    }

    fn insert(&mut self, path: &[u16; LEVELS], key: u16, list: List) {
        let height = height(key);
        let tower = if height > 1 { self.new_tower() } else { NIL };
        let node = Node {
            key,
            next: NIL,
            tower,
            list,
        };
        let at = match self.free_nodes.pop() {
            Some(at) => {
                self.nodes[usize::from(at)] = node;
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u16
            }
        };
        for (level, &before) in path.iter().enumerate().take(height) {
            let next = self.next(before, level);
            self.set_next(at, level, next);
            self.set_next(before, level, at);
        }
    }

    fn new_tower(&mut self) -> u16 {
        let nothing = [NIL; LEVELS - 1];
        if let Some(at) = self.free_towers.pop() {
            self.towers[usize::from(at)] = nothing;
            return at;
        }
        self.towers.push(nothing);
        (self.towers.len() - 1) as u16
    }

    fn remove(&mut self, key: u16) -> Option<List> {
        let path = self.before(key);
        let at = self.at(&path, key)?;
        for (level, &before) in path.iter().enumerate().take(height(key)) {
            let next = self.next(at, level);
            self.set_next(before, level, next);
        }
        let node = self.nodes[usize::from(at)];
        self.free_nodes.push(at);
        if node.tower != NIL {
            self.free_towers.push(node.tower);
        }
        Some(node.list)
    }
}

impl SkipIndex {
    fn partition(&self, page: u32) -> Option<&Partition> {
        let at = (page / PARTITION_PAGES) as usize;
        self.partitions.get(at)?.as_deref()
    }
}

impl Index for SkipIndex {
    fn lay(&mut self, page: u32, chunk: Chunk) {
        let (at, key) = (
            (page / PARTITION_PAGES) as usize,
            (page % PARTITION_PAGES) as u16,
        );
        if at >= self.partitions.len() {
            self.partitions.resize_with(at + 1, || None);
        }
        let partition = self.partitions[at].get_or_insert_with(|| Box::new(Partition::new()));
        let path = partition.before(key);
        match partition.at(&path, key) {
            Some(node) => {
                let list = &mut partition.nodes[usize::from(node)].list;
                self.chunks -= self.lists.get(*list).len() as u64;
                self.lists.lay(list, chunk);
                self.chunks += self.lists.get(*list).len() as u64;
            }
            None => {
                let list = self.lists.with(chunk);
                partition.insert(&path, key, list);
                self.pages += 1;
                self.chunks += 1;
            }
        }
    }

    #[inline]
    fn chunks(&self, page: u32) -> &[Chunk] {
        let key = (page % PARTITION_PAGES) as u16;
        let found = self.partition(page).and_then(|p| Some((p, p.find(key)?)));
        found.map_or(&[], |(partition, node)| {
            self.lists.get(partition.nodes[usize::from(node)].list)
        })
    }

    fn remove(&mut self, page: u32) -> bool {
        let key = (page % PARTITION_PAGES) as u16;
        let at = (page / PARTITION_PAGES) as usize;
        let partition = self.partitions.get_mut(at).and_then(Option::as_mut);
        let Some(list) = partition.and_then(|partition| partition.remove(key)) else {
            return false;
        };
        self.pages -= 1;
        self.chunks -= self.lists.get(list).len() as u64;
        self.lists.release(list);
        true
    }

    fn next_page(&self, from: u32) -> Option<u32> {
        let first = (from / PARTITION_PAGES) as usize;
        let partitions = self.partitions.iter().enumerate().skip(first);
        for (at, partition) in partitions {
            let Some(partition) = partition else { continue };
            let key = if at == first {
                (from % PARTITION_PAGES) as u16
            } else {
                0
            };
            let next = partition.next(partition.before(key)[0], 0);
            if next != NIL {
                let key = partition.nodes[usize::from(next)].key;
                return Some(at as u32 * PARTITION_PAGES + u32::from(key));
            }
        }
        None
    }

    fn pages(&self) -> u64 {
        self.pages
    }

    /// An entry of the table is a pointer, a node its page, a pointer to its
    /// chunks and 4/3 links, a chunk what `bytefs` 4.3 lists.
    fn memory(&self) -> u64 {
        const POINTER: u64 = 4;
        const CHUNK: u64 = 1 + 4 + 4;
        let node = 4 + POINTER + POINTER * 4 / 3;
        self.partitions.len() as u64 * POINTER + self.pages * node + self.chunks * CHUNK
    }
}
