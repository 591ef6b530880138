//! Nodes in memory: those that were read and verified, and those that were changed.
//!
//! Invariants: a node that is not clean stays in memory until it was handed to the
//! strategy, and as long as anybody holds it: who publishes holds what is on its way. Of one
//! that is changed in its place its bytes before are kept, until it was handed over.

use crate::format::node::{self, Bytes, Expected};
use crate::format::{NODE, Uuid, id};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::rc::Rc;

/// How a node in memory differs from the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dirt {
    /// Not at all.
    Clean,
    /// Nothing was written where it belongs, that anything leads to.
    Fresh,
    /// It was changed in its place.
    Changed,
}

/// A node in memory.
pub(crate) struct Node {
    pub(crate) bytenr: u64,
    bytes: RefCell<Box<Bytes>>,
    dirt: Cell<Dirt>,
    before: RefCell<Option<Box<Bytes>>>,
    used: Cell<bool>,
}

/// Bytes that are the same between two that are not, and that are told with them: fewer
/// than it takes to tell where the next begin.
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

    /// Changes it; it is not clean.
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

    /// Puts its sum into it and takes it as written: its bytes, and those of them that
    /// differ from before if it was changed in its place.
    pub(crate) fn seal(&self) -> (Box<Bytes>, Vec<Range<usize>>) {
        let mut bytes = self.bytes.borrow_mut();
        node::seal(&mut bytes);
        self.dirt.set(Dirt::Clean);
        let before = self.before.borrow_mut().take();
        let ranges = before.map(|before| differences(&before, &bytes));
        (bytes.clone(), ranges.unwrap_or_default())
    }

    /// Whether it can be the node that is expected.
    fn is(&self, expected: &Expected) -> bool {
        node::is(&self.bytes(), expected)
    }
}

/// Where two nodes differ.
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

/// What the purposes of nodes are: by the trees that they are in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeKind {
    /// The tree of roots.
    #[default]
    Root,
    /// Extents and block groups.
    Extent,
    /// Chunks.
    Chunk,
    /// Ranges of the device.
    Device,
    /// Files and directories.
    Files,
    /// Sums of contents.
    Csum,
    /// What was forced since the last commit.
    Log,
    /// Any other.
    Other,
}

impl TreeKind {
    /// All of them.
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

    /// The kind of the tree of this number.
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

    /// Name in reports.
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

/// Nodes in memory.
pub(crate) struct NodeCache {
    nodes: BTreeMap<u64, Rc<Node>>,
    /// Clean nodes in the order in which they may go.
    line: VecDeque<u64>,
    dirty: BTreeSet<u64>,
    /// How many of these are changed in their place.
    changed: usize,
    most: usize,
}

impl NodeCache {
    /// Room for `most` nodes, besides those that are not clean.
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

    /// The node that is expected, if it is here: another one that is there, and not on the
    /// medium, is an error of who leads to it.
    pub(crate) fn find(&self, expected: &Expected) -> Option<Result<Rc<Node>, ()>> {
        let node = self.nodes.get(&expected.bytenr)?;
        node.used.set(true);
        match (node.is(expected), node.is_clean()) {
            (true, _) => Some(Ok(Rc::clone(node))),
            // What is here may be of who had the place before.
            (false, true) => None,
            (false, false) => Some(Err(())),
        }
    }

    /// Takes in a node.
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

    /// Puts a node that is here at the end of the line. Those that are in it again, or no
    /// more, leave it once they are about half of it.
    fn line_up(&mut self, bytenr: u64) {
        self.line.push_back(bytenr);
        if self.line.len() > 2 * self.nodes.len() + 256 {
            let (nodes, mut met) = (&self.nodes, BTreeSet::new());
            self.line
                .retain(|at| nodes.contains_key(at) && met.insert(*at));
        }
    }

    /// A node that was clean is changed in its place from now on.
    pub(crate) fn change(&mut self, node: &Rc<Node>) {
        let before = node.bytes.borrow().clone();
        *node.before.borrow_mut() = Some(before);
        node.dirt.set(Dirt::Changed);
        self.dirty.insert(node.bytenr);
        self.changed += 1;
    }

    /// A node is no more.
    pub(crate) fn remove(&mut self, bytenr: u64) {
        if let Some(node) = self.nodes.remove(&bytenr) {
            self.changed -= usize::from(node.dirt() == Dirt::Changed);
            node.dirt.set(Dirt::Clean);
            self.dirty.remove(&bytenr);
        }
    }

    /// Nodes that are not clean.
    pub(crate) fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// Those of them that are changed in their place.
    pub(crate) const fn changed(&self) -> usize {
        self.changed
    }

    /// Whether nodes are there that nothing on the medium leads to.
    pub(crate) fn has_fresh(&self) -> bool {
        let mut dirty = self.dirty.iter().filter_map(|at| self.nodes.get(at));
        dirty.any(|node| node.dirt() == Dirt::Fresh)
    }

    /// Takes those out of the line of nodes that are not clean that `wanted` wants, by
    /// address.
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

    /// Lets clean nodes go that were not used for long.
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

/// Who the file system is: what its nodes say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    pub(crate) fsid: Uuid,
    pub(crate) chunk_tree: Uuid,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_near_each_other_are_one() {
        let before = node::blank();
        let mut now = before.clone();
        now[100] = 1;
        now[120] = 1;
        now[4_000] = 1;
        assert_eq!(differences(&before, &now), [96..128, 4_000..4_008]);
    }

    #[test]
    fn what_is_not_clean_stays() {
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
    fn the_line_is_no_longer_than_what_is_here() {
        let mut cache = NodeCache::new(0);
        let node = |at: u64| Node::new(at, node::blank(), Dirt::Clean);
        for at in 0..20 {
            cache.insert(Rc::new(node(at)));
        }
        for turn in 0..10_000 {
            // One that stays, and one that goes and comes again elsewhere.
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
