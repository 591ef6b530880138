//! The node cache: nodes that were read and verified, and dirty nodes.
//!
//! Invariants: a dirty node stays in the cache until it is handed to the strategy, and any
//! node stays while it is referenced; a commit references its nodes until they are durable.
//! A node that is changed in place keeps a copy of its old bytes until it is handed over.

use crate::format::node::{self, Bytes, Expected};
use crate::format::{NODE, Uuid, id};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// State of a cached node relative to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirt {
    /// The medium holds the same bytes, or the node was handed to the strategy.
    Clean,
    /// New at its address: nothing on the medium leads to it yet.
    Fresh,
    /// Changed in place; the cache keeps its old bytes.
    Changed,
}

/// A node in the cache: its bytes and how they differ from the medium.
pub(crate) struct Node {
    pub(crate) bytenr: u64,
    bytes: RefCell<Box<Bytes>>,
    dirt: Cell<Dirt>,
    before: RefCell<Option<Box<Bytes>>>,
    used: Cell<bool>,
}

/// Differences at most this many equal bytes apart are reported as one range: a separate
/// range would cost more to describe.
const GAP: usize = 16;

impl Node {
    pub(crate) fn new(bytenr: u64, bytes: Box<Bytes>, dirt: Dirt) -> Self {
        Self {
            bytenr,
            bytes: RefCell::new(bytes),
            dirt: Cell::new(dirt),
            before: RefCell::default(),
            used: Cell::new(true),
        }
    }

    pub(crate) fn bytes(&self) -> Ref<'_, Bytes> {
        Ref::map(self.bytes.borrow(), |bytes| &**bytes)
    }

    /// Applies `change` to the bytes. The node must be dirty.
    pub(crate) fn edit<T>(&self, change: impl FnOnce(&mut Bytes) -> T) -> T {
        debug_assert!(!self.is_clean(), "a clean node is not changed");
        change(&mut self.bytes.borrow_mut())
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.dirt.get() == Dirt::Clean
    }

    pub(crate) fn dirt(&self) -> Dirt {
        self.dirt.get()
    }

    pub(crate) fn level(&self) -> u8 {
        node::level(&self.bytes())
    }

    pub(crate) fn items(&self) -> usize {
        node::items(&self.bytes())
    }

    pub(crate) fn generation(&self) -> u64 {
        node::generation(&self.bytes())
    }

    pub(crate) fn owner(&self) -> u64 {
        node::owner(&self.bytes())
    }

    pub(crate) fn key(&self, slot: usize) -> crate::format::Key {
        node::key(&self.bytes(), slot)
    }

    pub(crate) fn pointer(&self, slot: usize) -> node::Pointer {
        node::pointer(&self.bytes(), slot)
    }

    /// Stores the checksum in the node and marks it clean. Returns its bytes and, if it was
    /// changed in place, the ranges that differ from its old bytes; otherwise no ranges.
    pub(crate) fn seal(&self) -> (Box<Bytes>, Vec<Range<usize>>) {
        let mut bytes = self.bytes.borrow_mut();
        node::seal(&mut bytes);
        self.dirt.set(Dirt::Clean);
        let before = self.before.borrow_mut().take();
        let ranges = before.map(|before| differences(&before, &bytes));
        (bytes.clone(), ranges.unwrap_or_default())
    }

    /// Whether the header of this node matches `expected`.
    fn is(&self, expected: &Expected) -> bool {
        node::is(&self.bytes(), expected)
    }
}

/// Byte ranges in which two nodes differ, in words of 8 bytes; near ranges are merged ([`GAP`]).
fn differences(before: &Bytes, now: &Bytes) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for word in 0..NODE / 8 {
        let span = word * 8..word * 8 + 8;
        if before[span.clone()] == now[span.clone()] {
            continue;
        }
        match ranges.last_mut() {
            Some(last) if span.start <= last.end + GAP => last.end = span.end,
            _ => ranges.push(span),
        }
    }
    ranges
}

/// Kind of the tree that a node belongs to; statistics are kept per kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeKind {
    /// The tree of roots.
    #[default]
    Root,
    /// Extents and block groups.
    Extent,
    /// The tree that maps addresses to the device.
    Chunk,
    /// Ranges of the device.
    Device,
    /// Files and directories of a subvolume.
    Files,
    /// Sums of file contents, by address.
    Csum,
    /// Files that were forced since the last commit.
    Log,
    /// Trees that no other kind describes.
    Other,
}

impl TreeKind {
    /// Every kind, in the order of the variants, which indexes the counters.
    pub const ALL: [Self; 8] = [
        Self::Root,
        Self::Extent,
        Self::Chunk,
        Self::Device,
        Self::Files,
        Self::Csum,
        Self::Log,
        Self::Other,
    ];

    /// The kind of the tree whose number (object id) is `owner`.
    #[must_use]
    pub const fn of(owner: u64) -> Self {
        match owner {
            id::ROOT_TREE => Self::Root,
            id::EXTENT_TREE => Self::Extent,
            id::CHUNK_TREE => Self::Chunk,
            id::DEV_TREE => Self::Device,
            id::CSUM_TREE => Self::Csum,
            id::LOG => Self::Log,
            _ if id::is_subvolume(owner) => Self::Files,
            _ => Self::Other,
        }
    }

    /// Name of this kind in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root tree",
            Self::Extent => "extent tree",
            Self::Chunk => "chunk tree",
            Self::Device => "device tree",
            Self::Files => "file tree",
            Self::Csum => "checksum tree",
            Self::Log => "log tree",
            Self::Other => "other trees",
        }
    }
}

/// Cached nodes by address; clean ones are evicted by second chance.
pub(crate) struct NodeCache {
    nodes: BTreeMap<u64, Rc<Node>>,
    /// Addresses in the order of eviction; may hold stale and repeated ones.
    line: VecDeque<u64>,
    dirty: BTreeSet<u64>,
    /// Number of the dirty nodes that are changed in place.
    changed: usize,
    most: usize,
}

impl NodeCache {
    /// A cache of up to `most` clean nodes (at least 256), besides the dirty ones.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            nodes: BTreeMap::new(),
            line: VecDeque::new(),
            dirty: BTreeSet::new(),
            changed: 0,
            most: most.max(256),
        }
    }

    pub(crate) fn get(&self, bytenr: u64) -> Option<&Rc<Node>> {
        self.nodes.get(&bytenr)
    }

    /// Looks up `expected`. `None` if it has to be read from the medium; `Err` if a different,
    /// dirty node has its address: the pointer to it is wrong.
    pub(crate) fn find(&self, expected: &Expected) -> Option<Result<Rc<Node>, ()>> {
        let node = self.nodes.get(&expected.bytenr)?;
        node.used.set(true);
        match (node.is(expected), node.is_clean()) {
            (true, _) => Some(Ok(Rc::clone(node))),
            // The cached node may be the previous node at this address.
            (false, true) => None,
            (false, false) => Some(Err(())),
        }
    }

    /// Adds a node under its address; a clean one may evict others.
    pub(crate) fn insert(&mut self, node: Rc<Node>) {
        match node.dirt() {
            Dirt::Clean => {
                self.shrink();
                self.nodes.insert(node.bytenr, Rc::clone(&node));
                self.line_up(node.bytenr);
            }
            _ => {
                self.dirty.insert(node.bytenr);
                self.nodes.insert(node.bytenr, node);
            }
        }
    }

    /// Appends a cached node to the eviction order. Stale and repeated entries are dropped once
    /// they are about half of it.
    fn line_up(&mut self, bytenr: u64) {
        self.line.push_back(bytenr);
        if self.line.len() > 2 * self.nodes.len() + 256 {
            let (nodes, mut met) = (&self.nodes, BTreeSet::new());
            self.line
                .retain(|at| nodes.contains_key(at) && met.insert(*at));
        }
    }

    /// Marks a clean node as changed in place, and keeps a copy of its old bytes.
    pub(crate) fn change(&mut self, node: &Rc<Node>) {
        let before = node.bytes.borrow().clone();
        *node.before.borrow_mut() = Some(before);
        node.dirt.set(Dirt::Changed);
        self.dirty.insert(node.bytenr);
        self.changed += 1;
    }

    /// Drops a node that no tree contains any more; its changes are discarded.
    pub(crate) fn remove(&mut self, bytenr: u64) {
        if let Some(node) = self.nodes.remove(&bytenr) {
            self.changed -= usize::from(node.dirt() == Dirt::Changed);
            node.dirt.set(Dirt::Clean);
            self.dirty.remove(&bytenr);
        }
    }

    /// Number of dirty nodes, fresh and changed in place.
    pub(crate) fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Number of dirty nodes that are changed in place.
    pub(crate) const fn changed(&self) -> usize {
        self.changed
    }

    /// Whether any dirty node is [`Dirt::Fresh`].
    pub(crate) fn has_fresh(&self) -> bool {
        let mut dirty = self.dirty.iter().filter_map(|at| self.nodes.get(at));
        dirty.any(|node| node.dirt() == Dirt::Fresh)
    }

    /// Takes the dirty nodes that `wanted` selects off the dirty set, in the order of addresses.
    /// They become evictable once the caller has sealed and released them.
    pub(crate) fn take_dirty(&mut self, wanted: impl Fn(&Node) -> bool) -> Vec<Rc<Node>> {
        let nodes = self.dirty.iter().filter_map(|at| self.nodes.get(at));
        let taken: Vec<Rc<Node>> = nodes.filter(|node| wanted(node)).cloned().collect();
        for node in &taken {
            self.dirty.remove(&node.bytenr);
            self.changed -= usize::from(node.dirt() == Dirt::Changed);
            self.line_up(node.bytenr);
        }
        taken
    }

    /// Evicts clean nodes that were not used lately, until the cache holds at most its limit of
    /// them. Referenced nodes stay.
    pub(crate) fn shrink(&mut self) {
        let mut turns = 2 * self.line.len();
        while self.nodes.len() - self.dirty.len() > self.most && turns > 0 {
            turns -= 1;
            let Some(bytenr) = self.line.pop_front() else {
                break;
            };
            let Some(node) = self.nodes.get(&bytenr) else {
                continue;
            };
            if !node.is_clean() {
                continue;
            }
            if node.used.replace(false) || Rc::strong_count(node) > 1 {
                self.line.push_back(bytenr);
            } else {
                self.nodes.remove(&bytenr);
            }
        }
    }
}

/// Identifiers of the file system that every node header repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) fsid: Uuid,
    pub(crate) chunk_tree: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_near_each_other_merge_into_one_range() {
        let before = node::blank();
        let mut now = before.clone();
        now[100] = 1;
        now[120] = 1;
        now[4_000] = 1;
        assert_eq!(differences(&before, &now), [96..128, 4_000..4_008]);
    }

    #[test]
    fn dirty_node_is_not_evicted() {
        let mut cache = NodeCache::new(0);
        let mut bytes = node::blank();
        node::head::ITEMS.put(&mut bytes[..], 0);
        let dirty = Rc::new(Node::new(7, bytes.clone(), Dirt::Fresh));
        cache.insert(dirty);
        for at in 1..2_000 {
            let node = Node::new(at * 16_384, bytes.clone(), Dirt::Clean);
            cache.insert(Rc::new(node));
        }
        assert!(cache.nodes.len() < 300 && cache.get(7).is_some());
    }

    #[test]
    fn eviction_order_stays_bounded_by_the_cache() {
        let mut cache = NodeCache::new(0);
        let node = |at: u64| Node::new(at, node::blank(), Dirt::Clean);
        for at in 0..20 {
            cache.insert(Rc::new(node(at)));
        }
        for turn in 0..10_000 {
            // Node 7 stays; another node leaves and returns at the next address.
            let kept = Rc::clone(cache.get(7).expect("it is here"));
            cache.change(&kept);
            cache.take_dirty(|_| true);
            kept.seal();
            cache.remove(1_000 + turn);
            cache.insert(Rc::new(node(1_001 + turn)));
        }
        assert!(cache.line.len() < 1_000, "{}", cache.line.len());
        for at in 20_000..21_000 {
            cache.insert(Rc::new(node(at)));
        }
        assert!(cache.nodes.len() < 300, "{}", cache.nodes.len());
    }
}
