//! A red-black tree sorted by original address, with its nodes in one vector.
//!
//! A node is the paper's `remap_node`: original address, transformed address, and an invalid mark,
//! here a transformed address that no unit has. An invalidated node stays in place until its
//! address is written again.
//= remap 3.2
//= remap 3.3
//!
//! Invariants: a red node has no red child; every path from the root to a leaf has the same number
//! of black nodes; children are in order.

use crate::format::NONE;
use std::ops::Range;

/// Index that stands for no node.
const NIL: u32 = u32::MAX;
/// Bit of a node's parent link that marks the node red.
const RED: u32 = 1 << 31;
/// Parent link of the root, apart from [`RED`].
const NO_PARENT: u32 = RED - 1;

/// A node of 20 bytes; links are indexes of the vector.
struct Node {
    orig: u32,
    /// Transformed address; [`NONE`] if the node is invalid.
    trans: u32,
    /// Left and right child; [`NIL`] if absent.
    child: [u32; 2],
    /// Index of the parent, with [`RED`] as the color of this node.
    up: u32,
}

const _: () = assert!(size_of::<Node>() == 20);

/// The tree of one partition.
pub(super) struct Tree {
    nodes: Vec<Node>,
    root: u32,
    /// Number of valid nodes, which are the mapped addresses.
    len: u32,
    /// Most nodes: the addresses of the partition.
    most: usize,
}

impl Tree {
    pub(super) fn new(addresses: u32) -> Self {
        Self {
            nodes: Vec::new(),
            root: NIL,
            len: 0,
            most: addresses as usize,
        }
    }

    /// Builds a tree of least height from `entries`, which ascend; the lowest level is red.
    pub(super) fn of(addresses: u32, entries: &[(u32, u32)]) -> Self {
        let mut tree = Self::new(addresses);
        tree.nodes.reserve_exact(entries.len());
        tree.nodes.extend(entries.iter().map(|&(orig, trans)| Node {
            orig,
            trans,
            child: [NIL; 2],
            up: NO_PARENT,
        }));
        tree.len = entries.len() as u32;
        if let Some(height) = entries.len().checked_ilog2() {
            tree.root = tree.link(0..tree.len, NO_PARENT, height);
            tree.paint(tree.root, false);
        }
        tree
    }

    /// Links the nodes of `range` below their middle node, which is returned (`NIL` if empty).
    /// `above` is the distance of that node from the lowest level, which is red.
    fn link(&mut self, range: Range<u32>, parent: u32, above: u32) -> u32 {
        if range.is_empty() {
            return NIL;
        }
        let middle = range.start + (range.end - range.start) / 2;
        let left = self.link(range.start..middle, middle, above.wrapping_sub(1));
        let right = self.link(middle + 1..range.end, middle, above.wrapping_sub(1));
        let node = &mut self.nodes[middle as usize];
        node.child = [left, right];
        node.up = parent | if above == 0 { RED } else { 0 };
        middle
    }

    /// Finds the node of `orig` (true), or the last node on the search path (false).
    #[inline]
    fn seek(&self, orig: u32) -> (u32, bool) {
        let (mut at, mut last) = (self.root, NIL);
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.orig == orig {
                return (at, true);
            }
            last = at;
            at = node.child[usize::from(node.orig < orig)];
        }
        (last, false)
    }

    #[inline]
    pub(super) fn get(&self, orig: u32) -> Option<u32> {
        let (at, found) = self.seek(orig);
        let trans = found.then(|| self.nodes[at as usize].trans)?;
        (trans != NONE).then_some(trans)
    }

    /// Marks the node of `orig` invalid; returns its transformed address.
    pub(super) fn invalidate(&mut self, orig: u32) -> Option<u32> {
        let (at, found) = self.seek(orig);
        if !found {
            return None;
        }
        let old = std::mem::replace(&mut self.nodes[at as usize].trans, NONE);
        self.len -= u32::from(old != NONE);
        (old != NONE).then_some(old)
    }

    pub(super) fn insert(&mut self, orig: u32, trans: u32) -> Option<u32> {
        let (at, found) = self.seek(orig);
        if found {
            let old = std::mem::replace(&mut self.nodes[at as usize].trans, trans);
            self.len += u32::from(old == NONE);
            return (old != NONE).then_some(old);
        }
        self.len += 1;
        let new = self.nodes.len() as u32;
        self.grow();
        let up = if at == NIL { NO_PARENT } else { at | RED };
        self.nodes.push(Node {
            orig,
            trans,
            child: [NIL; 2],
            up,
        });
        if at == NIL {
            self.root = new;
            return None;
        }
        let side = usize::from(self.nodes[at as usize].orig < orig);
        self.nodes[at as usize].child[side] = new;
        self.balance(new);
        None
    }

    /// Reserves capacity for a node, a sixteenth more at a time but at least 64 nodes.
    fn grow(&mut self) {
        if self.nodes.len() == self.nodes.capacity() {
            let more = (self.nodes.len() / 16).max(64);
            let most = self.most.saturating_sub(self.nodes.len()).max(1);
            self.nodes.reserve_exact(more.min(most));
        }
    }

    fn parent(&self, node: u32) -> u32 {
        match self.nodes[node as usize].up & !RED {
            NO_PARENT => NIL,
            parent => parent,
        }
    }

    fn is_red(&self, node: u32) -> bool {
        node != NIL && self.nodes[node as usize].up & RED != 0
    }

    fn paint(&mut self, node: u32, red: bool) {
        let up = &mut self.nodes[node as usize].up;
        *up = *up & !RED | if red { RED } else { 0 };
    }

    fn set_parent(&mut self, node: u32, parent: u32) {
        let parent = if parent == NIL { NO_PARENT } else { parent };
        let up = &mut self.nodes[node as usize].up;
        *up = *up & RED | parent;
    }

    /// Side of `node` below `parent`: 0 is left, 1 is right.
    fn side(&self, parent: u32, node: u32) -> usize {
        usize::from(self.nodes[parent as usize].child[1] == node)
    }

    /// Rotates the edge from `top` to its child on `side`, so that the child becomes the parent.
    fn rotate(&mut self, top: u32, side: usize) {
        let child = self.nodes[top as usize].child[side];
        let inner = self.nodes[child as usize].child[1 - side];
        let above = self.parent(top);
        self.nodes[top as usize].child[side] = inner;
        if inner != NIL {
            self.set_parent(inner, top);
        }
        self.nodes[child as usize].child[1 - side] = top;
        if above == NIL {
            self.root = child;
        } else {
            let at = self.side(above, top);
            self.nodes[above as usize].child[at] = child;
        }
        self.set_parent(child, above);
        self.set_parent(top, child);
    }

    /// Restores the color invariants after the red `node` was inserted.
    fn balance(&mut self, mut node: u32) {
        loop {
            let mut parent = self.parent(node);
            if !self.is_red(parent) {
                break;
            }
            // A red node has a parent, since the root is black.
            let above = self.parent(parent);
            let side = self.side(above, parent);
            let uncle = self.nodes[above as usize].child[1 - side];
            if self.is_red(uncle) {
                self.paint(parent, false);
                self.paint(uncle, false);
                self.paint(above, true);
                node = above;
                continue;
            }
            if self.side(parent, node) != side {
                self.rotate(parent, 1 - side);
                parent = node;
            }
            self.paint(parent, false);
            self.paint(above, true);
            self.rotate(above, side);
            break;
        }
        self.paint(self.root, false);
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    pub(super) fn memory(&self) -> u64 {
        (self.nodes.capacity() * size_of::<Node>()) as u64
    }

    /// First node whose address is `orig` or later.
    fn first_from(&self, orig: u32) -> u32 {
        let (mut at, mut first) = (self.root, NIL);
        while at != NIL {
            let node = &self.nodes[at as usize];
            if node.orig < orig {
                at = node.child[1];
            } else {
                first = at;
                at = node.child[0];
            }
        }
        first
    }

    /// In-order successor of `node`, or `NIL`.
    fn after(&self, mut node: u32) -> u32 {
        let mut next = self.nodes[node as usize].child[1];
        if next != NIL {
            while self.nodes[next as usize].child[0] != NIL {
                next = self.nodes[next as usize].child[0];
            }
            return next;
        }
        loop {
            let parent = self.parent(node);
            if parent == NIL || self.side(parent, node) == 0 {
                return parent;
            }
            node = parent;
        }
    }

    pub(super) fn each(&self, range: Range<u32>, take: &mut impl FnMut(u32, u32)) {
        let mut at = self.first_from(range.start);
        while at != NIL && self.nodes[at as usize].orig < range.end {
            let node = &self.nodes[at as usize];
            if node.trans != NONE {
                take(node.orig, node.trans);
            }
            at = self.after(at);
        }
    }

    /// Asserts the invariants; returns the height.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        assert!(!self.is_red(self.root), "the root is black");
        let valid = self.nodes.iter().filter(|node| node.trans != NONE).count();
        assert_eq!(valid as u32, self.len);
        self.check_below(self.root, NIL, 0..u64::MAX).1
    }

    /// Asserts the invariants below `at`; returns its black height and its height.
    #[cfg(test)]
    fn check_below(&self, at: u32, above: u32, within: Range<u64>) -> (usize, usize) {
        if at == NIL {
            return (0, 0);
        }
        assert_eq!(self.parent(at), above);
        assert!(!(self.is_red(at) && self.is_red(above)), "red under red");
        let node = &self.nodes[at as usize];
        let orig = u64::from(node.orig);
        assert!(within.contains(&orig), "children are in order");
        let left = self.check_below(node.child[0], at, within.start..orig);
        let right = self.check_below(node.child[1], at, orig + 1..within.end);
        assert_eq!(left.0, right.0, "as many black nodes on each way");
        let black = usize::from(!self.is_red(at));
        (left.0 + black, left.1.max(right.1) + 1)
    }
}
