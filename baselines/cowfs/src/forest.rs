//! The trees: their nodes in memory, and how a node becomes changeable.
//!
//! Functions of this module never wait. A function that lacks a node in memory returns
//! [`Stop::Load`] before it has changed anything, and [`crate::fs::Core::with`] calls it again
//! once the node is loaded.
//!
//! Invariants: a node is changed only while it is not clean. A clean node is copied to
//! another place first, and the node above with it, up to the root: nothing that the last
//! commit points to is changed. If the strategy allows it, an unshared node is changed in place
//! instead, and nothing above it.
//= btrfs-format 2.2

use crate::format::extent::Ref;
use crate::format::node::{self, Expected, Head};
use crate::format::superblock::Start;
use crate::format::tree::RootItem;
use crate::format::{Key, NODE_BYTES, extent, id, kind};
use crate::nodes::{Dirt, Identity, Node, NodeCache, TreeKind};
use crate::refs::Refs;
use crate::space::{Space, Use};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use vfs::Errno;

/// Reasons why a function of the trees stopped early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A node must be read before the function is called again.
    Load(Expected),
    /// The call fails with this error.
    Errno(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// Result of a function that never waits: its value, or a node to load, or an error.
pub(crate) type Try<T> = Result<T, Stop>;

/// Turns a missing value, a sign of damaged structures, into `EUCLEAN`.
pub(crate) fn sound<T>(value: Option<T>) -> Try<T> {
    value.ok_or(Stop::Errno(Errno::EUCLEAN))
}

/// A tree of nodes in memory, with the place of its root.
pub(crate) struct Tree {
    /// Number of the tree, which is the owner in the header of each node made for it.
    pub(crate) id: u64,
    /// Offset in the key of the tree's root item.
    pub(crate) offset: u64,
    pub(crate) start: Cell<Start>,
    /// Generation up to which nodes may be shared with a snapshot.
    pub(crate) last_snapshot: Cell<u64>,
    pub(crate) bytes_used: Cell<u64>,
    /// The root item is out of date in more than the bytes used: the root or a snapshot is new.
    pub(crate) changed: Cell<bool>,
    pub(crate) item: RefCell<RootItem>,
}

impl Tree {
    /// The key of the tree's root item.
    pub(crate) fn root_key(&self) -> Key {
        Key::new(self.id, kind::ROOT_ITEM, self.offset)
    }

    /// The tree that the root item `item` describes.
    pub(crate) fn of(number: u64, offset: u64, item: RootItem) -> Self {
        let start = Start {
            bytenr: item.bytenr(),
            generation: item.generation(),
            level: item.level(),
        };
        Self {
            id: number,
            offset,
            start: Cell::new(start),
            last_snapshot: Cell::new(item.last_snapshot()),
            bytes_used: Cell::new(item.bytes_used()),
            changed: Cell::new(false),
            item: RefCell::new(item),
        }
    }

    /// A tree without a root item; its bytes count from 0.
    pub(crate) fn at(number: u64, start: Start) -> Self {
        let item = RootItem::new(start.bytenr, start.generation);
        let tree = Self::of(number, 0, item);
        tree.start.set(start);
        tree.bytes_used.set(0);
        tree
    }

    /// Whether this is a log tree; the tree of extents has no items for its nodes.
    pub(crate) const fn is_log(&self) -> bool {
        self.id == id::LOG
    }

    /// Whether a snapshot may share nodes of this tree.
    const fn is_shareable(&self) -> bool {
        id::is_subvolume(self.id)
    }

    const fn space(&self) -> Use {
        match self.id {
            id::CHUNK_TREE => Use::System,
            _ => Use::Nodes,
        }
    }

    fn expected(&self) -> Expected {
        let start = self.start.get();
        Expected {
            bytenr: start.bytenr,
            generation: start.generation,
            level: start.level,
            first: None,
        }
    }

    /// Whether the root item is out of date. Where nodes are changed in place, the bytes used may
    /// change while the root stays the same.
    pub(crate) fn is_unsaid(&self) -> bool {
        self.changed.get() || self.item.borrow().bytes_used() != self.bytes_used.get()
    }

    fn grow(&self, nodes: i64) {
        let bytes = self.bytes_used.get();
        let change = nodes * NODE_BYTES as i64;
        self.bytes_used.set(bytes.saturating_add_signed(change));
    }
}

/// Counts of node changes since the mount, each by [`TreeKind`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeStats {
    /// Nodes copied before a change.
    pub(crate) copied: [u64; TreeKind::ALL.len()],
    /// Nodes changed in place; counted once for each time they turn dirty.
    pub(crate) changed: [u64; TreeKind::ALL.len()],
    /// Nodes split because they lacked room.
    pub(crate) split: [u64; TreeKind::ALL.len()],
    /// Nodes written to new places.
    pub(crate) written: [u64; TreeKind::ALL.len()],
    /// Nodes handed to the strategy with byte ranges to change in place.
    pub(crate) handed: [u64; TreeKind::ALL.len()],
}

/// All trees of the file system, with their nodes, space and references.
pub(crate) struct Forest {
    pub(crate) identity: Cell<Identity>,
    /// Generation of the transaction under way.
    pub(crate) transid: Cell<u64>,
    /// Unshared nodes are changed in place.
    pub(crate) in_place: bool,
    /// Most nodes changed in place in one transaction; beyond it nodes are copied.
    pub(crate) most_changed: usize,
    pub(crate) nodes: RefCell<NodeCache>,
    pub(crate) space: RefCell<Space>,
    pub(crate) refs: RefCell<Refs>,
    pub(crate) roots: Rc<Tree>,
    pub(crate) chunks: Rc<Tree>,
    pub(crate) extents: Rc<Tree>,
    pub(crate) devices: Rc<Tree>,
    pub(crate) csums: Rc<Tree>,
    pub(crate) stats: Cell<NodeStats>,
}

/// Position of the pointer to a node: a node and a slot in it, or `None` for a root, which the
/// tree itself points to.
pub(crate) type Above<'a> = Option<(&'a Rc<Node>, usize)>;

impl Forest {
    /// The node that matches `expected`, from memory.
    pub(crate) fn node(&self, expected: Expected) -> Try<Rc<Node>> {
        match self.nodes.borrow().find(&expected) {
            Some(Ok(node)) => Ok(node),
            Some(Err(())) => Err(Errno::EUCLEAN.into()),
            None => Err(Stop::Load(expected)),
        }
    }

    /// The root of `tree`, from memory.
    pub(crate) fn root(&self, tree: &Tree) -> Try<Rc<Node>> {
        self.node(tree.expected())
    }

    /// The node that `slot` of `above` points to, from memory.
    pub(crate) fn child(&self, above: &Node, slot: usize) -> Try<Rc<Node>> {
        let bytes = above.bytes();
        let pointer = node::pointer(&bytes, slot);
        self.node(Expected {
            bytenr: pointer.bytenr,
            generation: pointer.generation,
            level: sound(node::level(&bytes).checked_sub(1))?,
            first: Some(pointer.key),
        })
    }

    pub(crate) fn count(&self, tree: &Tree, of: impl Fn(&mut NodeStats) -> &mut [u64; 8]) {
        let mut stats = self.stats.get();
        of(&mut stats)[TreeKind::of(tree.id) as usize] += 1;
        self.stats.set(stats);
    }

    /// Makes an empty node of `tree` in space of its kind.
    pub(crate) fn new_node(&self, tree: &Tree, level: u8) -> Try<Rc<Node>> {
        let taken = self.space.borrow_mut().take_node(tree.space());
        let bytenr = taken.ok_or(Errno::ENOSPC)?;
        let bytes = node::fresh(&Head {
            fsid: self.identity.get().fsid,
            chunk_tree: self.identity.get().chunk_tree,
            bytenr,
            generation: self.transid.get(),
            owner: tree.id,
            level,
        });
        let made = Rc::new(Node::new(bytenr, bytes, Dirt::Fresh));
        self.nodes.borrow_mut().insert(Rc::clone(&made));
        tree.grow(1);
        if tree.is_log() {
            self.refs.borrow_mut().log_nodes.insert(bytenr);
        } else {
            let mut refs = self.refs.borrow_mut();
            refs.make(bytenr, NODE_BYTES, Some(level));
            refs.add(bytenr, NODE_BYTES, Some(level), Ref::Tree(tree.id), 1);
        }
        Ok(made)
    }

    /// Releases the reference of `tree` to node `left`; a node of a log is pinned at once.
    pub(crate) fn leave(&self, tree: &Tree, left: &Node) {
        tree.grow(-1);
        if tree.is_log() {
            self.refs.borrow_mut().log_nodes.remove(&left.bytenr);
            self.space.borrow_mut().pin(left.bytenr, NODE_BYTES);
            self.nodes.borrow_mut().remove(left.bytenr);
            return;
        }
        let by = Ref::Tree(tree.id);
        self.drop_ref(left.bytenr, NODE_BYTES, Some(left.level()), by, 1);
    }

    /// Drops `times` references by `by` to an extent. A node that was never written and has no
    /// reference left is freed at once.
    pub(crate) fn drop_ref(&self, at: u64, len: u64, level: Option<u8>, by: Ref, times: i64) {
        let mut refs = self.refs.borrow_mut();
        refs.add(at, len, level, by, -times);
        if level.is_some() && refs.is_gone(at) && self.is_fresh(at) {
            refs.forget(at);
            self.nodes.borrow_mut().remove(at);
            self.space.borrow_mut().give_back(at, len);
        }
    }

    fn is_fresh(&self, at: u64) -> bool {
        let nodes = self.nodes.borrow();
        nodes.get(at).is_some_and(|node| node.dirt() == Dirt::Fresh)
    }

    /// Adds `times` references (drops them if negative) to all that node `of` points to: held by
    /// the node itself if `full`, else by `tree`.
    pub(crate) fn refer(&self, tree: &Tree, of: &Node, full: bool, times: i64) {
        let bytes = of.bytes();
        let level = node::level(&bytes);
        for slot in 0..node::items(&bytes) {
            if level > 0 {
                let by = if full {
                    Ref::Node(of.bytenr)
                } else {
                    Ref::Tree(tree.id)
                };
                let to = node::pointer(&bytes, slot).bytenr;
                self.refer_to(to, NODE_BYTES, Some(level - 1), by, times);
                continue;
            }
            let key = node::key(&bytes, slot);
            if key.kind != kind::EXTENT_DATA {
                continue;
            }
            let Some(part) = extent::referred(node::data(&bytes, slot)) else {
                continue;
            };
            let by = if full {
                Ref::Leaf(of.bytenr)
            } else {
                part.owner(tree.id, key.object, key.offset)
            };
            self.refer_to(part.bytenr, part.len, None, by, times);
        }
    }

    fn refer_to(&self, at: u64, len: u64, level: Option<u8>, by: Ref, times: i64) {
        if times < 0 {
            self.drop_ref(at, len, level, by, -times);
        } else {
            self.refs.borrow_mut().add(at, len, level, by, times);
        }
    }

    /// References to node `of` and the flags of its extent; none if the node cannot be shared.
    pub(crate) fn sharing(&self, tree: &Tree, of: &Node) -> Try<Option<(u64, u64)>> {
        let young = of.generation() > tree.last_snapshot.get();
        if !tree.is_shareable() || young || !of.is_clean() {
            return Ok(None);
        }
        self.extent_refs(of.bytenr, of.level()).map(Some)
    }

    /// Whether `more` changed nodes would exceed the limit of nodes changed in place.
    pub(crate) fn may_copy(&self, more: usize) -> bool {
        self.in_place && self.nodes.borrow().changed() + more > self.most_changed
    }

    /// Makes node `of` changeable: the node itself, or a copy that takes its place in `tree`.
    pub(crate) fn own(&self, tree: &Tree, of: Rc<Node>, above: Above<'_>) -> Try<Rc<Node>> {
        if !of.is_clean() {
            return Ok(of);
        }
        let sharing = self.sharing(tree, &of)?;
        let alone =
            sharing.is_none_or(|(refs, flags)| refs == 1 && flags & extent::FULL_BACKREF == 0);
        let few = self.nodes.borrow().changed() < self.most_changed;
        if self.in_place && few && alone && of.owner() == tree.id && !tree.is_log() {
            self.nodes.borrow_mut().change(&of);
            self.count(tree, |stats| &mut stats.changed);
            return Ok(of);
        }
        let copy = self.new_node(tree, of.level())?;
        copy.edit(|to| {
            node::append(to, &of.bytes(), 0..of.items());
        });
        self.count(tree, |stats| &mut stats.copied);
        self.pass_refs(tree, &of, &copy, sharing);
        self.lead_to(tree, above, &copy);
        self.leave(tree, &of);
        Ok(copy)
    }

    /// Copies the root of `tree`, which no other tree shares.
    pub(crate) fn copy_root(&self, tree: &Tree) -> Try<()> {
        let of = self.root(tree)?;
        let copy = self.new_node(tree, of.level())?;
        copy.edit(|to| node::append(to, &of.bytes(), 0..of.items()));
        self.lead_to(tree, None, &copy);
        self.leave(tree, &of);
        Ok(())
    }

    /// Moves references after node `of` was copied to `copy`. Extents below a node that stays
    /// shared are referenced by that node, those below the copy by `tree`.
    //= btrfs-format 3.3
    fn pass_refs(&self, tree: &Tree, of: &Node, copy: &Node, shared: Option<(u64, u64)>) {
        let Some((refs, flags)) = shared else {
            return;
        };
        let full = flags & extent::FULL_BACKREF != 0;
        if refs > 1 && of.owner() == tree.id && !full {
            self.refer(tree, of, true, 1);
            self.refs.borrow_mut().make_full(of.bytenr, of.level());
        } else if refs > 1 {
            self.refer(tree, copy, false, 1);
        } else if full {
            self.refer(tree, copy, false, 1);
            self.refer(tree, of, true, -1);
        }
    }

    /// Makes the pointer at `above`, or the tree if there is none, point to node `to`.
    pub(crate) fn lead_to(&self, tree: &Tree, above: Above<'_>, to: &Node) {
        let generation = to.generation();
        match above {
            Some((above, slot)) => above.edit(|bytes| {
                let key = node::key(bytes, slot);
                let pointer = node::Pointer {
                    key,
                    bytenr: to.bytenr,
                    generation,
                };
                node::set_pointer(bytes, slot, pointer);
            }),
            None => {
                tree.start.set(Start {
                    bytenr: to.bytenr,
                    generation,
                    level: to.level(),
                });
                tree.changed.set(true);
            }
        }
    }

    /// The item in the tree of extents for the node (with a `level`) or the contents (with `len`
    /// bytes) at address `at`.
    pub(crate) fn extent(
        &self,
        at: u64,
        level: Option<u8>,
        len: u64,
    ) -> Try<Option<(Key, extent::Extent)>> {
        let key = match level {
            Some(level) => Key::new(at, kind::METADATA_ITEM, level.into()),
            None => Key::new(at, kind::EXTENT_ITEM, len),
        };
        let found = self.read(&self.extents, key, extent::Extent::get)?;
        match found {
            Some(found) => Ok(Some((key, sound(found)?))),
            None => Ok(None),
        }
    }

    /// References to the node at `at` and its flags, with the changes that the tree of extents
    /// does not have yet.
    ///
    /// # Errors
    /// `EUCLEAN` if no reference is left.
    pub(crate) fn extent_refs(&self, at: u64, level: u8) -> Try<(u64, u64)> {
        let found = self.extent(at, Some(level), 0)?;
        let (refs, flags) = found.map_or((0, 0), |(_, e)| (e.refs, e.flags));
        let (more, full) = self.refs.borrow().pending(at);
        let refs = refs.saturating_add_signed(more);
        if refs == 0 {
            return Err(Errno::EUCLEAN.into());
        }
        Ok((refs, flags | if full { extent::FULL_BACKREF } else { 0 }))
    }
}
