//! Changes to items of a tree.
//!
//! Invariants: an item is inserted, changed or removed in one step. Only a root may be a leaf
//! without items. A node that has become small is merged with a neighbour if the items of both
//! fit into one node.

use crate::forest::{Forest, Stop, Tree, Try};
use crate::format::Key;
use crate::format::node::{self, ITEM, LEAF, POINTERS};
use crate::format::superblock::Start;
use crate::nodes::Node;
use crate::walk::{Want, Way};
use std::rc::Rc;
use vfs::Errno;

/// Whether the neighbours of a small node are read to see whether they can be merged with it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Neighbours {
    /// Neighbours are read before anything is changed.
    Read,
    /// Only neighbours in memory count, since something was changed already.
    Known,
}

/// Whether `node` is less than a third full and should be merged with a neighbour.
fn is_small(node: &Node) -> bool {
    let bytes = node.bytes();
    match node::level(&bytes) {
        0 => node::used(&bytes) < LEAF / 3,
        _ => node::items(&bytes) < POINTERS / 3,
    }
}

/// Whether the items of two nodes of one level fit into one node.
fn fit_together(one: &Node, other: &Node) -> bool {
    let (one, other) = (one.bytes(), other.bytes());
    match node::level(&one) {
        0 => node::used(&one) + node::used(&other) <= LEAF,
        _ => node::items(&one) + node::items(&other) <= POINTERS,
    }
}

impl Forest {
    /// Inserts an item.
    ///
    /// # Errors
    /// `EEXIST`.
    pub(crate) fn insert(&self, tree: &Tree, key: Key, data: &[u8]) -> Try<()> {
        let room = data.len() + ITEM;
        if room > LEAF {
            return Err(Errno::EOVERFLOW.into());
        }
        let (way, _) = self.walk_to_change(tree, key, Want::Nothing, room)?;
        let slot = way.slots[0];
        way.leaf().edit(|bytes| {
            node::insert_item(bytes, slot, key, data.len());
            node::data_mut(bytes, slot).copy_from_slice(data);
        });
        if slot == 0 {
            self.fix_keys(&way, 0);
        }
        Ok(())
    }

    /// Replaces the data of an existing item; the length may change.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(crate) fn set(&self, tree: &Tree, key: Key, data: &[u8]) -> Try<()> {
        if data.len() + ITEM > LEAF {
            return Err(Errno::EOVERFLOW.into());
        }
        let Some(old) = self.read(tree, key, <[u8]>::len)? else {
            return Err(Errno::ENOENT.into());
        };
        let room = data.len().saturating_sub(old);
        let (way, _) = self.walk_to_change(tree, key, Want::Item, room)?;
        let slot = way.slots[0];
        way.leaf().edit(|bytes| {
            node::resize_item(bytes, slot, data.len());
            node::data_mut(bytes, slot).copy_from_slice(data);
        });
        Ok(())
    }

    /// Inserts an item, or replaces the data of an existing one.
    pub(crate) fn put(&self, tree: &Tree, key: Key, data: &[u8]) -> Try<()> {
        match self.set(tree, key, data) {
            Err(Stop::Errno(Errno::ENOENT)) => self.insert(tree, key, data),
            done => done,
        }
    }

    /// Changes the key of an item and replaces its data. The new key lies between the same
    /// neighbours and the data have the same length.
    pub(crate) fn move_item(&self, tree: &Tree, key: Key, to: Key, data: &[u8]) -> Try<()> {
        let (way, _) = self.walk_to_change(tree, key, Want::Item, 0)?;
        let slot = way.slots[0];
        way.leaf().edit(|bytes| {
            node::set_key(bytes, slot, to);
            node::resize_item(bytes, slot, data.len());
            node::data_mut(bytes, slot).copy_from_slice(data);
        });
        if slot == 0 {
            self.fix_keys(&way, 0);
        }
        Ok(())
    }

    /// Removes an item.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(crate) fn remove(&self, tree: &Tree, key: Key) -> Try<()> {
        self.take_out(tree, key, Neighbours::Read)
    }

    /// Removes an item after another change of the same call, which must not run twice: only
    /// neighbours in memory are merged.
    pub(crate) fn remove_too(&self, tree: &Tree, key: Key) -> Try<()> {
        self.take_out(tree, key, Neighbours::Known)
    }

    fn take_out(&self, tree: &Tree, key: Key, neighbours: Neighbours) -> Try<()> {
        if neighbours == Neighbours::Read {
            self.read_neighbours(tree, key)?;
        }
        let (mut way, _) = self.walk_to_change(tree, key, Want::Item, 0)?;
        let slot = way.slots[0];
        way.leaf().edit(|bytes| node::remove_items(bytes, slot, 1));
        if way.leaf().items() == 0 {
            return self.remove_node(tree, &mut way, 0);
        }
        if slot == 0 {
            self.fix_keys(&way, 0);
        }
        self.tidy(tree, &mut way, 0)
    }

    /// Loads the neighbours of small nodes on the way to `key`.
    fn read_neighbours(&self, tree: &Tree, key: Key) -> Try<()> {
        let (way, _) = self.walk(tree, key)?;
        for level in 0..way.top {
            if !is_small(way.node(level)) {
                break;
            }
            let (above, slot) = (way.node(level + 1), way.slots[level + 1]);
            for beside in [slot.checked_sub(1), Some(slot + 1)].into_iter().flatten() {
                if beside < above.items() {
                    let node = self.child(above, beside)?;
                    self.sharing(tree, &node)?;
                }
            }
        }
        Ok(())
    }

    /// Merges the node at `level` with a neighbour if it has become small, and continues above.
    fn tidy(&self, tree: &Tree, way: &mut Way, level: usize) -> Try<()> {
        if level == way.top {
            return self.lower(tree, way);
        }
        let node = Rc::clone(way.node(level));
        if !is_small(&node) {
            return Ok(());
        }
        let (above, slot) = (Rc::clone(way.node(level + 1)), way.slots[level + 1]);
        let beside = |at: Option<usize>| {
            let at = at.filter(|at| *at < above.items())?;
            let other = self.child(&above, at).ok()?;
            // A damaged node may point to one node twice.
            let joins = !Rc::ptr_eq(&node, &other) && fit_together(&node, &other);
            joins.then_some((at, other))
        };
        let (left_slot, right_slot) = if let Some((at, left)) = beside(slot.checked_sub(1)) {
            let Ok(left) = self.own(tree, left, Some((&above, at))) else {
                return Ok(());
            };
            left.edit(|to| node::append(to, &node.bytes(), 0..node.items()));
            self.leave(tree, &node);
            (at, slot)
        } else if let Some((at, right)) = beside(Some(slot + 1)) {
            // The sharing of the right node must be known before its items go to the left.
            let Ok(sharing) = self.sharing(tree, &right) else {
                return Ok(());
            };
            node.edit(|to| node::append(to, &right.bytes(), 0..right.items()));
            self.leave_copied(tree, &right, sharing);
            (slot, at)
        } else {
            return Ok(());
        };
        above.edit(|bytes| node::remove_pointer(bytes, right_slot));
        way.slots[level + 1] = left_slot;
        self.tidy(tree, way, level + 1)
    }

    /// Releases node `left`, whose items were appended to another node of `tree`. Extents below a
    /// shared node gain a reference by `tree`, or by the node if it belongs to `tree`.
    fn leave_copied(&self, tree: &Tree, left: &Rc<Node>, sharing: Option<(u64, u64)>) {
        if let Some((refs, flags)) = sharing {
            let full = flags & crate::format::extent::FULL_BACKREF != 0;
            let mine = left.owner() == tree.id && !full;
            if refs > 1 && mine {
                self.refer(tree, left, true, 1);
                self.refs.borrow_mut().make_full(left.bytenr, left.level());
            } else if refs > 1 || full {
                self.refer(tree, left, false, 1);
                if refs == 1 {
                    self.refer(tree, left, true, -1);
                }
            }
        }
        self.leave(tree, left);
    }

    /// Removes the node at `level`, which has become empty, from the tree.
    fn remove_node(&self, tree: &Tree, way: &mut Way, level: usize) -> Try<()> {
        if level == way.top {
            if level > 0 {
                // The last leaf is gone: the root becomes an empty leaf.
                let root = self.new_node(tree, 0)?;
                self.leave(tree, way.node(level));
                self.lead_to(tree, None, &root);
            }
            return Ok(());
        }
        let node = Rc::clone(way.node(level));
        let (above, slot) = (Rc::clone(way.node(level + 1)), way.slots[level + 1]);
        above.edit(|bytes| node::remove_pointer(bytes, slot));
        self.leave(tree, &node);
        if above.items() == 0 {
            return self.remove_node(tree, way, level + 1);
        }
        if slot == 0 {
            self.fix_keys(way, level + 1);
        }
        way.slots[level + 1] = slot.min(above.items() - 1);
        self.tidy(tree, way, level + 1)
    }

    /// Replaces the root by its only child, as often as it has just one.
    fn lower(&self, tree: &Tree, way: &mut Way) -> Try<()> {
        while way.top > 0 && way.node(way.top).items() == 1 {
            let root = Rc::clone(way.node(way.top));
            if root.is_clean() {
                break;
            }
            let pointer = root.pointer(0);
            tree.start.set(Start {
                bytenr: pointer.bytenr,
                generation: pointer.generation,
                level: way.top as u8 - 1,
            });
            tree.changed.set(true);
            self.leave(tree, &root);
            let Ok(below) = self.root(tree) else {
                return Ok(());
            };
            way.top -= 1;
            way.set(way.top, below);
        }
        Ok(())
    }
}
