//! Snapshots of the first subvolume: creation, by a copy of the root of its tree, and removal.
//!
//! All nodes below the root are then shared, and the tree of extents counts the references to each.
//! A change copies a shared node and adds a reference to each of its children: by the node itself
//! if the node was made for the tree that changes it, else by that tree ([`crate::forest`]).
//!
//! Invariants: a snapshot holds the state of a commit and does not change, except by writes to
//! the snapshot itself. A dropped tree leaves no reference in its name: nodes that were made
//! for it and that other trees share refer to their children by themselves first.
//= btrfs-format 5

use crate::forest::Tree;
use crate::format::extent::{FULL_BACKREF, Ref};
use crate::format::inode::InodeItem;
use crate::format::tree::{root_ref, uuid_key};
use crate::format::{Key, NODE_BYTES, id, kind, node};
use crate::fs::{Core, CowFs, LAST_TREE, ino_of};
use crate::inodes::inode_key;
use crate::names::Named;
use crate::nodes::Node;
use crate::persist::{Btrfs, Persist};
use sim::{Boxed, Permit};
use std::collections::BTreeSet;
use std::rc::Rc;
use vfs::{AnyBody, Errno, FileKind, Ino, Result, Timestamp};

/// Items that creating or dropping a snapshot changes, besides shared nodes.
const ITEMS: u64 = 16;

impl<S: Persist> CowFs<S> {
    /// Creates a snapshot of the first subvolume as directory `name` of the root directory, and
    /// commits it; `read_only` forbids changes in it. Returns the inode number of its root
    /// directory. The caller ensures that no file is in use and no cache holds dirty pages.
    ///
    /// # Errors
    /// `EEXIST`; `EINVAL` if `name` is not a valid name; `EOVERFLOW` if too many names of the
    /// directory share its hash; `ENOSPC`; `EROFS` after a failed write; `EIO`; `EUCLEAN` if a tree
    /// is damaged.
    pub async fn snapshot(&self, name: &[u8], read_only: bool, now: Timestamp) -> Result<Ino> {
        self.core.snapshot(name, read_only, now).await
    }

    /// Drops snapshot `name` with all nodes and extents that it alone refers to, and commits. The
    /// caller ensures that no file in it is in use.
    ///
    /// # Errors
    /// `ENOENT`; `EINVAL` if `name` is not a snapshot; `ENOSPC` if the commit lacks room for nodes;
    /// `EROFS` after a failed write; `EIO`; `EUCLEAN` if a tree is damaged.
    pub async fn drop_snapshot(&self, name: &[u8], now: Timestamp) -> Result<()> {
        self.core.drop_snapshot(name, now).await
    }
}

/// Snapshots of a mounted file system, whatever its strategy.
pub trait Snapshots {
    /// Calls [`CowFs::snapshot`] behind a box.
    fn snapshot<'a>(
        &'a self,
        name: &'a [u8],
        read_only: bool,
        now: Timestamp,
    ) -> Boxed<'a, Result<Ino>>;

    /// Calls [`CowFs::drop_snapshot`] behind a box.
    fn drop_snapshot<'a>(&'a self, name: &'a [u8], now: Timestamp) -> Boxed<'a, Result<()>>;
}

impl<S: Persist> Snapshots for CowFs<S> {
    fn snapshot<'a>(
        &'a self,
        name: &'a [u8],
        read_only: bool,
        now: Timestamp,
    ) -> Boxed<'a, Result<Ino>> {
        Box::pin(Self::snapshot(self, name, read_only, now))
    }

    fn drop_snapshot<'a>(&'a self, name: &'a [u8], now: Timestamp) -> Boxed<'a, Result<()>> {
        Box::pin(Self::drop_snapshot(self, name, now))
    }
}

/// The snapshots of Btrfs; `None` if `body` is another file system.
#[must_use]
pub fn snapshots(body: &AnyBody) -> Option<&dyn Snapshots> {
    let body: &CowFs<Btrfs> = body.own()?;
    Some(body)
}

impl<S: Persist> Core<S> {
    async fn snapshot(&self, name: &[u8], read_only: bool, now: Timestamp) -> Result<Ino> {
        let plain = (1..=255).contains(&name.len()) && !name.contains(&b'/');
        if !plain || name == b"." || name == b".." {
            return Err(Errno::EINVAL);
        }
        let tree = self.tree(id::FS_TREE).ok_or(Errno::EUCLEAN)?;
        let number = {
            let _alone = self.alone_with_room(false).await?;
            if self.find(&tree, id::FIRST_FREE, name).await?.is_some() {
                return Err(Errno::EEXIST);
            }
            self.ensure_room(&tree, id::FIRST_FREE, name).await?;
            let number = self.next_tree().await?;
            let made = self.copy_tree(&tree, number, name, read_only, now);
            self.noted(made.await)?;
            number
        };
        self.note_change();
        self.commit().await?;
        Ok(ino_of(number, id::FIRST_FREE))
    }

    /// Commits until nothing has changed since the last commit and [`ITEMS`] items have room. The
    /// permit returned excludes all operations.
    async fn alone_with_room(&self, frees: bool) -> Result<Permit> {
        loop {
            let made = match frees {
                true => self.operate_to_free(ITEMS).await?,
                false => self.operate(ITEMS).await?,
            };
            drop(made);
            self.commit().await?;
            let alone = self.alone().await;
            self.ensure_sound()?;
            if self.settled.get() >= self.changes.get() && self.has_room(ITEMS, frees) {
                return Ok(alone);
            }
        }
    }

    /// Number for a new subvolume: one more than the highest in the tree of roots.
    async fn next_tree(&self) -> Result<u64> {
        let last = Key::new(id::LAST_FREE, u8::MAX, u64::MAX);
        let roots = &self.forest.roots;
        let last = self.with(|| self.forest.last_until(roots, last, |key, _| key.object));
        let next = last.await?.unwrap_or(0).max(id::FIRST_FREE - 1) + 1;
        if next > LAST_TREE {
            return Err(self.refuse_tree());
        }
        Ok(next)
    }

    async fn copy_tree(
        &self,
        tree: &Rc<Tree>,
        number: u64,
        name: &[u8],
        read_only: bool,
        now: Timestamp,
    ) -> Result<()> {
        let (forest, transid) = (&self.forest, self.forest.transid.get());
        let index = self.index_behind(tree, id::FIRST_FREE).await?;
        tree.last_snapshot.set(transid);
        tree.changed.set(true);
        let mut item = tree.item.borrow().clone();
        item.set_last_snapshot(transid);
        item.set_parent(item.uuid());
        item.set_identity(self.identity_of(number), now, transid);
        item.set_read_only(read_only);
        let copy = Rc::new(Tree::of(number, transid, item));
        let root = self.with(|| forest.root(tree)).await?;
        let top = self.with(|| forest.new_node(&copy, root.level())).await?;
        top.edit(|to| node::append(to, &root.bytes(), 0..root.items()));
        forest.refer(&copy, &top, false, 1);
        forest.lead_to(&copy, None, &top);
        copy.bytes_used.set(tree.bytes_used.get());
        self.trees.borrow_mut().insert(number, Rc::clone(&copy));
        self.store_root(&copy).await?;
        let uuid = copy.item.borrow().uuid();
        if let Some(uuids) = self.tree(id::UUID_TREE) {
            let bytes = number.to_le_bytes();
            self.with(|| forest.put(&uuids, uuid_key(uuid), &bytes))
                .await?;
        }
        self.name_tree(
            tree,
            number,
            Named {
                dir: id::FIRST_FREE,
                name,
            },
            index,
        )
        .await?;
        self.change_top(tree, 2 * name.len() as i64, now).await
    }

    /// UUID for a subvolume: that of the file system plus its number and the generation.
    fn identity_of(&self, number: u64) -> [u8; 16] {
        let mut uuid = self.forest.identity.get().fsid;
        let transid = self.forest.transid.get();
        for (byte, more) in uuid[8..].iter_mut().zip(number.to_le_bytes()) {
            *byte = byte.wrapping_add(more);
        }
        for (byte, more) in uuid.iter_mut().zip(transid.to_le_bytes()) {
            *byte = byte.wrapping_add(more);
        }
        uuid
    }

    /// Enters name `at` of `tree`, which leads to subvolume `number`, with its references in the
    /// tree of roots.
    async fn name_tree(&self, tree: &Tree, number: u64, at: Named<'_>, index: u64) -> Result<()> {
        let location = Key::new(number, kind::ROOT_ITEM, u64::MAX);
        let directory = FileKind::Directory.entry_number();
        self.put_entry(tree, at, index, location, directory).await?;
        let bytes = root_ref::bytes(at.dir, index, at.name);
        let forest = &self.forest;
        for key in ref_keys(tree.id, number) {
            self.with(|| forest.insert(&forest.roots, key, &bytes))
                .await?;
        }
        Ok(())
    }

    /// Changes the size of the root directory by `bytes`, and its times to `now`.
    async fn change_top(&self, tree: &Tree, bytes: i64, now: Timestamp) -> Result<()> {
        let item = self.inode_item(tree, id::FIRST_FREE).await?;
        let item = item.ok_or(Errno::EUCLEAN)?;
        let item = InodeItem {
            size: item.size.saturating_add_signed(bytes),
            transid: self.forest.transid.get(),
            mtime: now,
            ctime: now,
            ..item
        };
        let bytes = item.bytes();
        self.with(|| self.forest.set(tree, inode_key(id::FIRST_FREE), &bytes))
            .await
    }

    async fn drop_snapshot(&self, name: &[u8], now: Timestamp) -> Result<()> {
        let tree = self.tree(id::FS_TREE).ok_or(Errno::EUCLEAN)?;
        let found = self.find(&tree, id::FIRST_FREE, name).await?;
        let (key, _) = found.ok_or(Errno::ENOENT)?;
        if key.kind != kind::ROOT_ITEM {
            return Err(Errno::EINVAL);
        }
        let dropped = self.tree(key.object).ok_or(Errno::EUCLEAN)?;
        {
            let _alone = self.alone_with_room(true).await?;
            // Refuse before any change if the commit would lack room to settle all references.
            let more = self.own_references(&dropped).await?;
            if !self.has_room_to_settle(more) {
                return Err(self.refuse_nodes(more * NODE_BYTES));
            }
            let gone = async {
                self.unname_tree(&tree, &dropped, name).await?;
                self.change_top(&tree, -2 * name.len() as i64, now).await?;
                self.drop_tree(&dropped).await
            };
            self.noted(gone.await)?;
        }
        self.note_change();
        self.commit().await
    }

    /// Number of items in the nodes that `tree` alone refers to: a bound on their references.
    async fn own_references(&self, tree: &Tree) -> Result<u64> {
        let forest = &self.forest;
        let (mut left, mut count) = (vec![self.with(|| forest.root(tree)).await?], 0);
        let mut met = BTreeSet::new();
        while let Some(one) = left.pop() {
            count += one.items() as u64;
            let level = one.level();
            for slot in 0..if level > 0 { one.items() } else { 0 } {
                let below = self.with(|| forest.child(&one, slot)).await?;
                let refs = self.with(|| forest.extent_refs(below.bytenr, level - 1));
                if refs.await?.0 == 1 {
                    ensure_new(&mut met, &below)?;
                    left.push(below);
                }
            }
        }
        Ok(count)
    }

    async fn unname_tree(&self, tree: &Tree, dropped: &Tree, name: &[u8]) -> Result<()> {
        let forest = &self.forest;
        let keys = ref_keys(tree.id, dropped.id);
        let index =
            self.with(|| forest.read(&forest.roots, keys[0], |data| root_ref::INDEX.get(data)));
        let index = index.await?.ok_or(Errno::EUCLEAN)?;
        for key in keys {
            self.with(|| forest.remove(&forest.roots, key)).await?;
        }
        let at = Named {
            dir: id::FIRST_FREE,
            name,
        };
        self.take_entry(tree, at, index).await
    }

    /// Removes a tree with its root item, and drops its references.
    async fn drop_tree(&self, tree: &Rc<Tree>) -> Result<()> {
        let forest = &self.forest;
        let root = self.with(|| forest.root(tree)).await?;
        self.drop_below(tree, &root).await?;
        forest.drop_ref(
            root.bytenr,
            NODE_BYTES,
            Some(root.level()),
            Ref::Tree(tree.id),
            1,
        );
        self.trees.borrow_mut().remove(&tree.id);
        self.orphans.borrow_mut().retain(|(of, _)| *of != tree.id);
        let uuid = tree.item.borrow().uuid();
        if let Some(uuids) = self.tree(id::UUID_TREE) {
            match self.with(|| forest.remove(&uuids, uuid_key(uuid))).await {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        let key = tree.root_key();
        self.with(|| forest.remove(&forest.roots, key)).await
    }

    /// Drops the references that `top`, and the nodes below it that `tree` alone refers to, hold
    /// on their children. Shared nodes below are handed over ([`Self::hand_over`]).
    async fn drop_below(&self, tree: &Tree, top: &Rc<Node>) -> Result<()> {
        let forest = &self.forest;
        let level = top.level();
        let (_, flags) = self.with(|| forest.extent_refs(top.bytenr, level)).await?;
        let (mut left, mut met) = (vec![(Rc::clone(top), flags)], BTreeSet::new());
        while let Some((one, flags)) = left.pop() {
            let level = one.level();
            for slot in 0..if level > 0 { one.items() } else { 0 } {
                let below = self.with(|| forest.child(&one, slot)).await?;
                let refs = self.with(|| forest.extent_refs(below.bytenr, level - 1));
                match refs.await? {
                    (1, flags) => {
                        ensure_new(&mut met, &below)?;
                        left.push((below, flags));
                    }
                    _ => self.hand_over(tree, below).await?,
                }
            }
            forest.refer(tree, &one, flags & FULL_BACKREF != 0, -1);
        }
        Ok(())
    }

    /// Converts `top`, a shared node, and the nodes below it to full back references as far as they
    /// were made for `tree`: the nodes then refer to their children, instead of the dropped tree.
    //= btrfs-format 3.3
    async fn hand_over(&self, tree: &Tree, top: Rc<Node>) -> Result<()> {
        let forest = &self.forest;
        let mut left = vec![top];
        while let Some(one) = left.pop() {
            let level = one.level();
            let flags = self.with(|| forest.extent_refs(one.bytenr, level)).await?.1;
            if one.owner() != tree.id || flags & FULL_BACKREF != 0 {
                continue;
            }
            forest.refer(tree, &one, true, 1);
            forest.refer(tree, &one, false, -1);
            forest.refs.borrow_mut().make_full(one.bytenr, level);
            for slot in 0..if level > 0 { one.items() } else { 0 } {
                left.push(self.with(|| forest.child(&one, slot)).await?);
            }
        }
        Ok(())
    }
}

/// Records `node` in `met`; `EUCLEAN` if it is there already: only one reference to it is counted.
fn ensure_new(met: &mut BTreeSet<u64>, node: &Node) -> Result<()> {
    let new = met.insert(node.bytenr);
    new.then_some(()).ok_or(Errno::EUCLEAN)
}

/// Keys of the two references in the tree of roots, between subvolume `above`, which holds the
/// name, and subvolume `below`.
const fn ref_keys(above: u64, below: u64) -> [Key; 2] {
    [
        Key::new(above, kind::ROOT_REF, below),
        Key::new(below, kind::ROOT_BACKREF, above),
    ]
}
