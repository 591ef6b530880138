//! The trees: their nodes in memory, and how a node becomes one that may be changed.
//!
//! Everything here is done at once. What needs a node that is not in memory ends with
//! [`Stop::Load`] before it has changed anything, and is done again once the node is there
//! ([`crate::fs::Core::with`]).
//!
//! Invariants: a node is changed only while it is not clean. A clean one is copied to
//! another place first, and the node above with it, up to the root: so nothing that the
//! last commit leads to is changed. Where the strategy says so, a node that nobody shares
//! is changed in its place instead, and nothing above it.
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

/// Why something was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A node has to be read first.
    Load(Expected),
    /// It cannot be done.
    Errno(Errno),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

/// What is done at once.
pub(crate) type Try<T> = Result<T, Stop>;

/// What damaged structures mean to an operation.
pub(crate) fn sound<T>(value: Option<T>) -> Try<T> {
    value.ok_or(Stop::Errno(Errno::EUCLEAN))
}

/// A tree.
pub(crate) struct Tree {
    /// Its number, which its nodes say they were made for.
    pub(crate) id: u64,
    /// The offset of the key of its root's item.
    pub(crate) offset: u64,
    pub(crate) start: Cell<Start>,
    /// The generation until which nodes may be shared with a snapshot.
    pub(crate) last_snapshot: Cell<u64>,
    pub(crate) bytes_used: Cell<u64>,
    /// Whether the item of its root says something else, besides how many nodes there are.
    pub(crate) changed: Cell<bool>,
    pub(crate) item: RefCell<RootItem>,
}

impl Tree {
    /// The tree that an item of a root is of.
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

    /// A tree without an item of its root.
    pub(crate) fn at(number: u64, start: Start) -> Self {
        let item = RootItem::new(start.bytenr, start.generation);
        let tree = Self::of(number, 0, item);
        tree.start.set(start);
        tree.bytes_used.set(0);
        tree
    }

    /// Whether it is one of what was forced, whose nodes the tree of extents does not have.
    pub(crate) const fn is_log(&self) -> bool {
        self.id == id::LOG
    }

    /// Whether a snapshot may share its nodes.
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

    /// Whether the item of its root is not up to date: where nodes are changed in their
    /// place, a tree may grow below a root that stays what it is.
    pub(crate) fn is_unsaid(&self) -> bool {
        self.changed.get() || self.item.borrow().bytes_used() != self.bytes_used.get()
    }

    fn grow(&self, nodes: i64) {
        let bytes = self.bytes_used.get();
        let change = nodes * NODE_BYTES as i64;
        self.bytes_used.set(bytes.saturating_add_signed(change));
    }
}

/// What happened to nodes since the mount.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeStats {
    /// Nodes that were copied because they had to change, by [`TreeKind`].
    pub(crate) copied: [u64; TreeKind::ALL.len()],
    /// Nodes that were changed in their place.
    pub(crate) changed: [u64; TreeKind::ALL.len()],
    /// Nodes that were split.
    pub(crate) split: [u64; TreeKind::ALL.len()],
    /// Nodes that were written to new places.
    pub(crate) written: [u64; TreeKind::ALL.len()],
    /// Nodes of which a publication had what is changed in their place.
    pub(crate) handed: [u64; TreeKind::ALL.len()],
}

/// The trees.
pub(crate) struct Forest {
    pub(crate) identity: Cell<Identity>,
    /// The transaction under way.
    pub(crate) transid: Cell<u64>,
    /// Whether nodes that nobody shares are changed in their place.
    pub(crate) in_place: bool,
    /// So many of them at most in one transaction.
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

/// Who leads to a node: a tree, or a node and the slot in it.
pub(crate) type Above<'a> = Option<(&'a Rc<Node>, usize)>;

impl Forest {
    /// A node that is in memory.
    pub(crate) fn node(&self, expected: Expected) -> Try<Rc<Node>> {
        match self.nodes.borrow().find(&expected) {
            Some(Ok(node)) => Ok(node),
            Some(Err(())) => Err(Errno::EUCLEAN.into()),
            None => Err(Stop::Load(expected)),
        }
    }

    /// The root of a tree.
    pub(crate) fn root(&self, tree: &Tree) -> Try<Rc<Node>> {
        self.node(tree.expected())
    }

    /// The node that `slot` of another leads to.
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

    /// A new, empty node of a tree.
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

    /// A tree leads to a node no more.
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

    /// Somebody refers to an extent `times` less. One that nothing was written to, and
    /// nobody refers to, is free at once.
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

    /// Whoever `of` leads to is referred to `times` more, by the node itself if `full`,
    /// else by `tree`.
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

    /// How often a node is referred to, and the flags of its extent; none if it cannot be
    /// shared.
    pub(crate) fn sharing(&self, tree: &Tree, of: &Node) -> Try<Option<(u64, u64)>> {
        let young = of.generation() > tree.last_snapshot.get();
        if !tree.is_shareable() || young || !of.is_clean() {
            return Ok(None);
        }
        self.extent_refs(of.bytenr, of.level()).map(Some)
    }

    /// Whether nodes may have to be copied that would be changed in their place, if so many
    /// more are.
    pub(crate) fn may_copy(&self, more: usize) -> bool {
        self.in_place && self.nodes.borrow().changed() + more > self.most_changed
    }

    /// Makes a node one that may be changed: itself, or a copy that takes its place.
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

    /// Copies the root of a tree, which belongs to nobody else.
    pub(crate) fn copy_root(&self, tree: &Tree) -> Try<()> {
        let of = self.root(tree)?;
        let copy = self.new_node(tree, of.level())?;
        copy.edit(|to| node::append(to, &of.bytes(), 0..of.items()));
        self.lead_to(tree, None, &copy);
        self.leave(tree, &of);
        Ok(())
    }

    /// Has whatever a node leads to know of its copy: what a node leads to that is shared
    /// from now on is referred to by the node, and what its copy leads to, by the tree.
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

    /// Has what led to a node lead to another one.
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

    /// The extent of the node or contents at `at` of so many bytes or this level, as the
    /// tree of extents has it.
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

    /// How often the node at `at` is referred to, and its flags, with what has changed
    /// since the tree of extents was.
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
