//! Finding items: the way from the root of a tree to one of its leaves.
//!
//! Invariant: a way that is made for a change consists of nodes that may be changed, and
//! its leaf has the room that was asked for.

use crate::forest::{Above, Forest, Stop, Tree, Try, sound};
use crate::format::Key;
use crate::format::node::{self, LEVELS, POINTERS};
use crate::nodes::Node;
use std::rc::Rc;
use vfs::Errno;

/// A way to a leaf: the nodes by their levels, and the slot in each.
#[derive(Clone)]
pub(crate) struct Way {
    nodes: [Option<Rc<Node>>; LEVELS],
    pub(crate) slots: [usize; LEVELS],
    /// The level of the root.
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

    /// The node of a level that the way has.
    pub(crate) fn node(&self, level: usize) -> &Rc<Node> {
        self.nodes[level].as_ref().expect("the way has this level")
    }

    pub(crate) fn set(&mut self, level: usize, node: Rc<Node>) {
        self.nodes[level] = Some(node);
    }

    pub(crate) fn leaf(&self) -> &Rc<Node> {
        self.node(0)
    }

    /// What leads to the node of a level.
    pub(crate) fn above(&self, level: usize) -> Above<'_> {
        (level < self.top).then(|| (self.node(level + 1), self.slots[level + 1]))
    }

    /// Takes in a new root.
    pub(crate) fn raise(&mut self, root: Rc<Node>) {
        self.top += 1;
        self.slots[self.top] = 0;
        self.nodes[self.top] = Some(root);
    }
}

/// What is to be there, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Either.
    Any,
    /// The item.
    Item,
    /// No item of this key.
    Nothing,
}

/// The slot of an inner node that leads to `key`.
fn turn(node: &Node, key: Key) -> usize {
    let (slot, found) = node::search(&node.bytes(), key);
    if found { slot } else { slot.saturating_sub(1) }
}

impl Forest {
    /// The way to where `key` is, or would be, and whether it is there.
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

    /// The leaf to the right of the one that a way ends in.
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

    /// What `read` makes of the data of an item, if there is one of this key.
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

    /// What `read` makes of the first item whose key is not below `key`, if there is one.
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

    /// The leaf and the slot of the first item whose key is not below `key`.
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

    /// What `read` makes of the last item whose key is not above `key`, if there is one.
    pub(crate) fn last_until<T>(
        &self,
        tree: &Tree,
        key: Key,
        read: impl FnOnce(Key, &[u8]) -> T,
    ) -> Try<Option<T>> {
        let (way, found) = self.walk(tree, key)?;
        // A leaf begins with the key that leads to it, so what is below `key` is in it.
        let Some(slot) = (way.slots[0] + usize::from(found)).checked_sub(1) else {
            return Ok(None);
        };
        let bytes = way.leaf().bytes();
        Ok(Some(read(
            node::key(&bytes, slot),
            node::data(&bytes, slot),
        )))
    }

    /// The way to where `key` is, or is to be, made for a change that `room` more bytes
    /// are needed for in the leaf.
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

    /// Makes the nodes on the way to `key` ones that may be changed.
    pub(crate) fn fetch_for_update(&self, tree: &Tree, key: Key) -> Try<()> {
        self.walk_to_change(tree, key, Want::Any, 0).map(drop)
    }

    /// Splits the leaf of a way so that the part that the way ends in has `room`.
    fn make_room(&self, tree: &Tree, way: &mut Way, room: usize, found: bool) -> Try<()> {
        // A leaf may become three.
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

    /// Makes room for two more pointers in the node of a level, and in those above.
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
            // Who appends goes on in a node of their own.
            true => count - 1,
            false => count / 2,
        };
        self.split(tree, way, level, at, true)
    }

    /// Puts a root above the root of a way.
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

    /// Splits the node of a level of a way before its slot `at`; the way goes on in the
    /// part where its slot is, which `found` says is that of an item.
    fn split(&self, tree: &Tree, way: &mut Way, level: usize, at: usize, found: bool) -> Try<()> {
        let left = Rc::clone(way.node(level));
        let right = self.new_node(tree, level as u8)?;
        let (count, slot) = (left.items(), way.slots[level]);
        right.edit(|to| node::append(to, &left.bytes(), at..count));
        left.edit(|bytes| node::cut(bytes, at));
        self.count(tree, |stats| &mut stats.split);
        let (above, above_slot) = sound(way.above(level))?;
        let above = Rc::clone(above);
        // An empty part has no key of its own yet: it gets that of its first item.
        let key = if count > at { Some(right.key(0)) } else { None };
        let pointer = node::Pointer {
            key: key.unwrap_or(Key::MAX),
            bytenr: right.bytenr,
            generation: right.generation(),
        };
        above.edit(|bytes| node::insert_pointer(bytes, above_slot + 1, pointer));
        // What goes between two parts goes to the end of the first, if that is no worse.
        let roomier = || node::room(&left.bytes()) < node::room(&right.bytes());
        let goes_right = slot > at || slot == at && (found || at == count || roomier());
        if goes_right {
            way.slots[level] = slot - at;
            way.slots[level + 1] = above_slot + 1;
            way.set(level, right);
        }
        Ok(())
    }

    /// Has the nodes above the one of `level` know its first key.
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

/// Whether the leaf of a way is the last one of its tree.
fn is_last(way: &Way) -> bool {
    is_last_from(way, 0)
}

/// Where to split a leaf that `room` more bytes are needed in at `slot`, for a new item, or
/// if it `grows` for the one that is there: where the larger part is smallest.
fn split_at(bytes: &node::Bytes, slot: usize, room: usize, grows: bool) -> usize {
    let (count, all) = (node::items(bytes), node::used(bytes));
    let (mut best, mut left) = ((usize::MAX, slot), 0);
    for at in 0..=count {
        if at > 0 {
            left += node::data(bytes, at - 1).len() + node::ITEM;
        }
        let right = all - left;
        // At a boundary, a new item goes where there is more room.
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
    // It fits nowhere beside others on both sides.
    match slot {
        0 if grows => 1,
        _ => slot,
    }
}

impl From<Stop> for Errno {
    /// A node that could not be loaded is none that is sound.
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Errno(errno) => errno,
            Stop::Load(_) => Self::EUCLEAN,
        }
    }
}
