//! Lookup of items: paths ([`Way`]) from the root of a tree to one of its leaves.
//!
//! Invariant: all nodes of a path for a change are dirty, and its leaf has the requested room.

use crate::forest::{Above, Forest, Stop, Tree, Try, sound};
use crate::format::Key;
use crate::format::node::{self, LEVELS, POINTERS};
use crate::nodes::Node;
use std::rc::Rc;
use vfs::Errno;

/// A path from the root to a leaf: nodes by level, and the slot in each.
#[derive(Clone)]
pub(crate) struct Way {
    nodes: [Option<Rc<Node>>; LEVELS],
    pub(crate) slots: [usize; LEVELS],
    /// Level of the root; leaves have level 0.
    pub(crate) top: usize,
}

impl Way {
    fn at(root: Rc<Node>) -> Self {
        let top = usize::from(root.level());
        let mut way = Self {
            nodes: std::array::from_fn(|_| None),
            slots: [0; LEVELS],
            top,
        };
        way.nodes[top] = Some(root);
        way
    }

    /// The node of this path at `level`, which is at most [`Self::top`].
    pub(crate) fn node(&self, level: usize) -> &Rc<Node> {
        self.nodes[level].as_ref().expect("the way has this level")
    }

    pub(crate) fn set(&mut self, level: usize, node: Rc<Node>) {
        self.nodes[level] = Some(node);
    }

    pub(crate) fn leaf(&self) -> &Rc<Node> {
        self.node(0)
    }

    /// The node and slot that point to the node at `level`; `None` for the root.
    pub(crate) fn above(&self, level: usize) -> Above<'_> {
        (level < self.top).then(|| (self.node(level + 1), self.slots[level + 1]))
    }

    /// Adds `root` above the present root.
    pub(crate) fn raise(&mut self, root: Rc<Node>) {
        self.top += 1;
        self.slots[self.top] = 0;
        self.nodes[self.top] = Some(root);
    }
}

/// Expectation of a change about the item of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// The item may exist or not.
    Any,
    /// The item exists; otherwise `ENOENT`.
    Item,
    /// The item does not exist; otherwise `EEXIST`.
    Nothing,
}

/// The slot of an inner node whose subtree covers `key`.
fn turn(node: &Node, key: Key) -> usize {
    let (slot, found) = node::search(&node.bytes(), key);
    if found { slot } else { slot.saturating_sub(1) }
}

impl Forest {
    /// Finds the path to the slot of `key`, or to the slot where it would be inserted. Returns
    /// whether it exists.
    pub(crate) fn walk(&self, tree: &Tree, key: Key) -> Try<(Way, bool)> {
        let mut way = Way::at(self.root(tree)?);
        for level in (1..=way.top).rev() {
            let above = way.node(level);
            let slot = turn(above, key);
            let below = self.child(above, slot)?;
            way.slots[level] = slot;
            way.set(level - 1, below);
        }
        let (slot, found) = node::search(&way.leaf().bytes(), key);
        way.slots[0] = slot;
        Ok((way, found))
    }

    /// Moves `way` to the start of the next leaf. Returns false if its leaf is the last one.
    fn step(&self, way: &mut Way) -> Try<bool> {
        let mut level = 1;
        loop {
            if level > way.top {
                return Ok(false);
            }
            if way.slots[level] + 1 < way.node(level).items() {
                break;
            }
            level += 1;
        }
        way.slots[level] += 1;
        for level in (1..=level).rev() {
            let below = self.child(way.node(level), way.slots[level])?;
            way.set(level - 1, below);
            way.slots[level - 1] = 0;
        }
        Ok(true)
    }

    /// Applies `read` to the data of the item of `key`; `None` if there is no such item.
    pub(crate) fn read<T>(
        &self,
        tree: &Tree,
        key: Key,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Try<Option<T>> {
        let (way, found) = self.walk(tree, key)?;
        if !found {
            return Ok(None);
        }
        let bytes = way.leaf().bytes();
        Ok(Some(read(node::data(&bytes, way.slots[0]))))
    }

    /// Applies `read` to the first item at or after `key`; `None` if there is none.
    pub(crate) fn first_from<T>(
        &self,
        tree: &Tree,
        key: Key,
        read: impl FnOnce(Key, &[u8]) -> T,
    ) -> Try<Option<T>> {
        let Some((leaf, slot)) = self.leaf_from(tree, key)? else {
            return Ok(None);
        };
        let bytes = leaf.bytes();
        Ok(Some(read(
            node::key(&bytes, slot),
            node::data(&bytes, slot),
        )))
    }

    /// Leaf and slot of the first item at or after `key`; `None` if there is none.
    pub(crate) fn leaf_from(&self, tree: &Tree, key: Key) -> Try<Option<(Rc<Node>, usize)>> {
        let (mut way, _) = self.walk(tree, key)?;
        if way.slots[0] >= way.leaf().items() {
            if !self.step(&mut way)? {
                return Ok(None);
            }
            if way.leaf().items() == 0 {
                return Err(Errno::EUCLEAN.into());
            }
        }
        Ok(Some((Rc::clone(way.leaf()), way.slots[0])))
    }

    /// Applies `read` to the last item at or before `key`; `None` if there is none.
    pub(crate) fn last_until<T>(
        &self,
        tree: &Tree,
        key: Key,
        read: impl FnOnce(Key, &[u8]) -> T,
    ) -> Try<Option<T>> {
        let (way, found) = self.walk(tree, key)?;
        // A leaf begins with the key of its pointer, so the item before `key` is in this leaf.
        let Some(slot) = (way.slots[0] + usize::from(found)).checked_sub(1) else {
            return Ok(None);
        };
        let bytes = way.leaf().bytes();
        Ok(Some(read(
            node::key(&bytes, slot),
            node::data(&bytes, slot),
        )))
    }

    /// Finds the path to `key` like [`Self::walk`], makes all its nodes changeable, and splits
    /// the leaf unless it has `room` free bytes.
    ///
    /// # Errors
    /// `ENOENT` or `EEXIST` if `want` is not met; `ENOSPC` if a new node finds no space.
    pub(crate) fn walk_to_change(
        &self,
        tree: &Tree,
        key: Key,
        want: Want,
        room: usize,
    ) -> Try<(Way, bool)> {
        let (mut way, found) = self.walk(tree, key)?;
        match (want, found) {
            (Want::Item, false) => return Err(Errno::ENOENT.into()),
            (Want::Nothing, true) => return Err(Errno::EEXIST.into()),
            _ => {}
        }
        for level in (0..=way.top).rev() {
            let own = self.own(tree, Rc::clone(way.node(level)), way.above(level))?;
            way.set(level, own);
        }
        if node::room(&way.leaf().bytes()) < room {
            self.make_room(tree, &mut way, room, found)?;
        }
        Ok((way, found))
    }

    /// Loads the nodes on the path to `key` and makes them changeable.
    pub(crate) fn fetch_for_update(&self, tree: &Tree, key: Key) -> Try<()> {
        self.walk_to_change(tree, key, Want::Any, 0).map(drop)
    }

    /// Splits the leaf of `way`, up to twice, until the part with its slot has `room` bytes.
    /// `found` tells that an item of this slot grows.
    fn make_room(&self, tree: &Tree, way: &mut Way, room: usize, found: bool) -> Try<()> {
        // A leaf may become three: the node above needs two more pointers.
        self.make_room_above(tree, way, 1)?;
        while node::room(&way.leaf().bytes()) < room {
            let slot = way.slots[0];
            let at = split_at(&way.leaf().bytes(), slot, room, found);
            let last = slot == way.leaf().items() && !found && is_last(way);
            let at = if last { slot } else { at };
            self.split(tree, way, 0, at, found)?;
        }
        Ok(())
    }

    /// Makes room for two more pointers in the node of `way` at `level`: splits it, and nodes
    /// above as needed.
    fn make_room_above(&self, tree: &Tree, way: &mut Way, level: usize) -> Try<()> {
        if level > way.top {
            return self.new_root(tree, way);
        }
        let count = way.node(level).items();
        if count + 2 <= POINTERS {
            return Ok(());
        }
        self.make_room_above(tree, way, level + 1)?;
        let at = match is_last_from(way, level) && way.slots[level] + 1 == count {
            // An append at the end of the tree continues in a new node; the old one stays full.
            true => count - 1,
            false => count / 2,
        };
        self.split(tree, way, level, at, true)
    }

    /// Adds a new root above the root of `way`; `EFBIG` if the tree has all its levels.
    fn new_root(&self, tree: &Tree, way: &mut Way) -> Try<()> {
        let top = way.top;
        if top + 1 >= LEVELS {
            return Err(Errno::EFBIG.into());
        }
        let root = self.new_node(tree, top as u8 + 1)?;
        let below = Rc::clone(way.node(top));
        let pointer = node::Pointer {
            key: below.key(0),
            bytenr: below.bytenr,
            generation: below.generation(),
        };
        root.edit(|bytes| node::insert_pointer(bytes, 0, pointer));
        self.lead_to(tree, None, &root);
        way.raise(root);
        Ok(())
    }

    /// Splits the node of `way` at `level` before slot `at`, and continues `way` in the part with
    /// its slot. `found` tells that this slot holds an item already.
    fn split(&self, tree: &Tree, way: &mut Way, level: usize, at: usize, found: bool) -> Try<()> {
        let left = Rc::clone(way.node(level));
        let right = self.new_node(tree, level as u8)?;
        let (count, slot) = (left.items(), way.slots[level]);
        right.edit(|to| node::append(to, &left.bytes(), at..count));
        left.edit(|bytes| node::cut(bytes, at));
        self.count(tree, |stats| &mut stats.split);
        let (above, above_slot) = sound(way.above(level))?;
        let above = Rc::clone(above);
        // An empty part has no key yet: the first item inserted into it sets the key.
        let key = if count > at { Some(right.key(0)) } else { None };
        let pointer = node::Pointer {
            key: key.unwrap_or(Key::MAX),
            bytenr: right.bytenr,
            generation: right.generation(),
        };
        above.edit(|bytes| node::insert_pointer(bytes, above_slot + 1, pointer));
        // An item at the boundary goes to the left part unless the right one has more room.
        let roomier = || node::room(&left.bytes()) < node::room(&right.bytes());
        let goes_right = slot > at || slot == at && (found || at == count || roomier());
        if goes_right {
            way.slots[level] = slot - at;
            way.slots[level + 1] = above_slot + 1;
            way.set(level, right);
        }
        Ok(())
    }

    /// Copies the first key of the node at `level` into the pointers above it.
    pub(crate) fn fix_keys(&self, way: &Way, level: usize) {
        let key = way.node(level).key(0);
        for level in level + 1..=way.top {
            let slot = way.slots[level];
            way.node(level)
                .edit(|bytes| node::set_key(bytes, slot, key));
            if slot > 0 {
                break;
            }
        }
    }
}

fn is_last_from(way: &Way, level: usize) -> bool {
    let last = |at: usize| way.slots[at] + 1 == way.node(at).items();
    (level + 1..=way.top).all(last)
}

/// Whether the leaf of `way` is the last one of its tree.
fn is_last(way: &Way) -> bool {
    is_last_from(way, 0)
}

/// Slot before which to split a leaf that needs `room` more bytes at `slot`, for a new item or,
/// if it `grows`, for the item there. The larger part becomes as small as possible.
fn split_at(bytes: &node::Bytes, slot: usize, room: usize, grows: bool) -> usize {
    let (count, all) = (node::items(bytes), node::used(bytes));
    let (mut best, mut left) = ((usize::MAX, slot), 0);
    for at in 0..=count {
        if at > 0 {
            left += node::data(bytes, at - 1).len() + node::ITEM;
        }
        let right = all - left;
        // A new item at the boundary goes to the part with more room.
        let (left, right) = match slot.cmp(&at) {
            std::cmp::Ordering::Less => (left + room, right),
            std::cmp::Ordering::Equal if !grows && left < right => (left + room, right),
            _ => (left, right + room),
        };
        let worst = left.max(right);
        if at > 0 && at < count && worst < best.0 {
            best = (worst, at);
        }
    }
    if best.0 <= node::LEAF {
        return best.1;
    }
    // No split in two has room: split at the slot, and once more in the next round.
    match slot {
        0 if grows => 1,
        _ => slot,
    }
}

impl From<Stop> for Errno {
    /// Converts a stop where no node can be loaded: a missing node counts as damage.
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Errno(errno) => errno,
            Stop::Load(_) => Self::EUCLEAN,
        }
    }
}
