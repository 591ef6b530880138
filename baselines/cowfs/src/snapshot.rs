//! Snapshots of the first subvolume: made by copying the root of its tree, and dropped
//! again.
//!
//! All below the root is shared then: each node counts who leads to it. Who changes a
//! shared node copies it; what it leads to is referred to once more, by the copy's tree,
//! or, where the node was made for the tree that leaves it, by the node itself
//! ([`crate::forest`]).
//!
//! Invariants: a snapshot is of a commit; whatever is changed afterwards, it stays what it
//! was. A tree that is dropped leaves behind no reference by itself: nodes made for it that
//! others share refer to what they lead to by themselves first.
//= btrfs-format 5

use crate::forest::Tree;
use crate::format::extent::{FULL_BACKREF, Ref};
use crate::format::inode::InodeItem;
use crate::format::node;
use crate::format::tree::{root_ref, uuid_key};
use crate::format::{Key, NODE_BYTES, id, kind};
use crate::fs::{Core, CowFs, LAST_TREE};
use crate::inodes::inode_key;
use crate::names::Named;
use crate::nodes::Node;
use crate::persist::Persist;
use sim::Permit;
use std::collections::BTreeSet;
use std::rc::Rc;
use vfs::{Errno, FileKind, Ino, Result, Timestamp};

/// Items that making or dropping a snapshot changes, besides nodes that are shared.
const ITEMS: u64 = 16;

impl<S: Persist> CowFs<S> {
    /// Makes a snapshot of all files as they are now, as a directory `name` in the root
    /// directory, that nothing can be changed in if it is `read_only`. Gives the inode of
    /// its top. No file is in use, and nothing dirty is in a cache.
    ///
    /// # Errors
    /// `EEXIST`, `EINVAL` if that is no name, `ENOSPC`, `EIO`, `EUCLEAN`.
    pub async fn snapshot(&self, name: &[u8], read_only: bool, now: Timestamp) -> Result<Ino> {
        self.core.snapshot(name, read_only, now).await
    }

    /// Drops a snapshot, with all that it alone has. No file in it is in use.
    ///
    /// # Errors
    /// `ENOENT`, `EINVAL` if it is none, `ENOSPC`, `EIO`, `EUCLEAN`.
    pub async fn drop_snapshot(&self, name: &[u8], now: Timestamp) -> Result<()> {
        self.core.drop_snapshot(name, now).await
    }
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
        Ok(Self::ino_of(number, id::FIRST_FREE))
    }

    /// Waits until nobody is at work, nothing has changed since the last commit, and there is
    /// room for what making or dropping a snapshot changes.
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

    /// The number of the next subvolume.
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

    /// An identity for a subvolume: that of the file system, changed by its number and age.
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

    /// Has a name of the first subvolume lead to another one.
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

    /// The names in the root directory have become more, or fewer, by so many bytes.
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
            // Nothing is gone yet if the commit would have no room for all that it settles.
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

    /// References of nodes that a tree alone leads to.
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

    /// Takes a tree out, with all that it alone leads to.
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
        let key = Self::root_key(tree);
        self.with(|| forest.remove(&forest.roots, key)).await
    }

    /// Takes away the references of nodes that a tree alone leads to: of one of them and
    /// those below.
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

    /// Has nodes that others share, and that were made for a tree that is dropped, refer to
    /// what they lead to by themselves.
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

/// Refuses a node that is met again, though one alone is said to lead to it.
fn ensure_new(met: &mut BTreeSet<u64>, node: &Node) -> Result<()> {
    let new = met.insert(node.bytenr);
    new.then_some(()).ok_or(Errno::EUCLEAN)
}

/// The keys of the name of a subvolume, in either direction.
const fn ref_keys(above: u64, below: u64) -> [Key; 2] {
    [
        Key::new(above, kind::ROOT_REF, below),
        Key::new(below, kind::ROOT_BACKREF, above),
    ]
}
