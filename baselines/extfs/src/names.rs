//! Create, link, rename and unlink: each is one handle.
//!
//! Invariant: a failed operation changes nothing; it allocates space before it changes
//! names, and frees the space in the same handle.

use crate::dir::{ADD_CREDITS, CHANGE_CREDITS, Found};
use crate::format::superblock::RO_DIR_NLINK;
use crate::format::{extent, inode as raw};
use crate::fs::{ExtFs, Node, Private};
use crate::inode::number;
use crate::orphan;
use crate::persist::{Persist, Run};
use crate::tree::SECTORS;
use crate::truncate::has_tree;
use crate::{BLOCK, alloc::Want};
use host::Purpose;
use vfs::{Access, Attr, Errno, FileKind, NewInode, Rename, Result, Timestamp};

/// Blocks of metadata that a new inode changes: its bitmap, descriptor and slot, and a
/// first block with a bitmap and a descriptor.
const NEW_CREDITS: usize = 3 + 3;

/// Longest target in bytes of a symbolic link that lies in the inode.
const FAST_TARGET: usize = raw::MAP_SIZE - 1;

/// Counts a new link. A directory with more than `max` links counts 1 from then on.
fn add_link(attr: &mut Attr, max: u32) {
    if attr.kind != FileKind::Directory || attr.nlink != 1 {
        attr.nlink += 1;
    }
    if attr.kind == FileKind::Directory && attr.nlink > max {
        attr.nlink = 1;
    }
}

/// Counts a removed subdirectory; 1 and 2 links stay.
fn drop_subdir(attr: &mut Attr) {
    if attr.nlink > 2 {
        attr.nlink -= 1;
    }
}

fn touch(dir: &Node, now: Timestamp) {
    dir.update(|attr| (attr.mtime, attr.ctime) = (now, now));
}

impl<P: Persist> ExtFs<P> {
    fn check_links(&self, dir: &Node) -> Result<()> {
        let full = dir.attr.get().nlink >= self.links_max();
        if full && !self.geometry.has_ro(RO_DIR_NLINK) {
            Err(Errno::EMLINK)
        } else {
            Ok(())
        }
    }

    /// Creates an inode with a name in `dir`.
    pub(crate) async fn make(&self, dir: &Node, name: &[u8], new: NewInode<'_>) -> Result<Node> {
        if new.kind == FileKind::Directory {
            self.check_links(dir)?;
        }
        let tx = self.persist.begin(NEW_CREDITS + ADD_CREDITS + 1).await?;
        let made = self.make_in(&tx, dir, name, &new).await;
        self.finish(tx, made).await
    }

    async fn make_in(
        &self,
        tx: &P::Tx,
        dir: &Node,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Node> {
        let node = self.make_inode(tx, dir, new).await?;
        let target = (number(&node), new.kind);
        if let Err(error) = self.add_name(tx, dir, name, target).await {
            self.unmake(tx, &node).await?;
            return Err(error);
        }
        let is_dir = new.kind == FileKind::Directory;
        node.update(|attr| attr.nlink = if is_dir { 2 } else { 1 });
        self.store_data(tx, &node);
        if is_dir {
            dir.update(|attr| add_link(attr, self.links_max()));
        }
        touch(dir, new.now);
        self.store_inode(tx, dir);
        Ok(node)
    }

    /// Creates an inode without a name; a directory and a long symbolic link get their first block.
    async fn make_inode(&self, tx: &P::Tx, dir: &Node, new: &NewInode<'_>) -> Result<Node> {
        let is_dir = new.kind == FileKind::Directory;
        self.ensure_room_for(new)?;
        let slot = self.allocate_inode(tx, number(dir), is_dir).await?;
        let node = self.init_inode(tx, slot, new, dir.private.flags.get());
        let filled = match new.kind {
            FileKind::Directory => self.init_dir(tx, &node, number(dir)).await,
            FileKind::Symlink => self.init_symlink(tx, &node, new.target).await,
            _ => Ok(()),
        };
        if let Err(error) = filled {
            self.free_inode(tx, &node).await?;
            return Err(error);
        }
        Ok(node)
    }

    /// Refuses a new directory or long symbolic link if only blocks reserved for root are free.
    /// Root may also use the blocks kept for metadata.
    fn ensure_room_for(&self, new: &NewInode<'_>) -> Result<()> {
        let takes = match new.kind {
            FileKind::Directory => true,
            FileKind::Symlink => new.target.len() > FAST_TARGET,
            _ => false,
        };
        let who = Access {
            uid: new.uid,
            gid: new.gid,
            groups: Vec::new(),
        };
        let kept = self.kept_from(&who);
        let full = self.alloc.borrow().available() <= kept;
        if takes && kept > self.slack() && full {
            return Err(self.refuse_promise(1, kept));
        }
        Ok(())
    }

    async fn unmake(&self, tx: &P::Tx, node: &Node) -> Result<()> {
        if has_tree(node) {
            self.drop_dir_block(tx, node).await?;
        }
        self.free_inode(tx, node).await
    }

    async fn init_symlink(&self, tx: &P::Tx, node: &Node, target: &[u8]) -> Result<()> {
        let size = target.len() as u64;
        if target.len() >= BLOCK {
            return Err(Errno::ENAMETOOLONG);
        }
        if target.len() <= FAST_TARGET {
            let flags = node.private.flags.get() & !raw::FLAG_EXTENTS;
            node.private.flags.set(flags);
            let mut map = [0; raw::MAP_SIZE];
            map[..target.len()].copy_from_slice(target);
            self.set_size(node, size);
            self.edit_inode(tx, node, |slot| raw::MAP.put(slot, map));
            return Ok(());
        }
        let goal = self.goal_of(node, 0).await?;
        let want = Want {
            ino: number(node),
            goal,
            len: 1,
            keep: 0,
        };
        let Run { start, .. } = self.allocate(tx, want).await?;
        let buffer = self.persist.create(tx, start, Purpose::Data);
        self.persist.write(tx, &buffer, 0, target);
        let entry = extent::Entry {
            logical: 0,
            len: 1,
            unwritten: false,
            start,
        };
        self.set_size(node, size);
        self.count_sectors(tx, node, |sectors| sectors + SECTORS);
        self.insert_extent(tx, node, entry).await
    }

    fn set_size(&self, node: &Node, size: u64) {
        node.update(|attr| attr.size = size);
        node.private.disk_size.set(size);
    }

    /// Creates an inode without a name (`O_TMPFILE`), an orphan.
    pub(crate) async fn make_unnamed(&self, root: &Node, new: NewInode<'_>) -> Result<Node> {
        let tx = self.persist.begin(NEW_CREDITS + orphan::CREDITS).await?;
        let made = self.make_inode(&tx, root, &new).await;
        if let Ok(node) = &made {
            self.store_data(&tx, node);
            self.add_orphan(&tx, node);
        }
        self.finish(tx, made).await
    }

    /// Adds a name to an inode, which may be an orphan.
    pub(crate) async fn add_link_to(
        &self,
        dir: &Node,
        name: &[u8],
        node: &Node,
        now: Timestamp,
    ) -> Result<()> {
        if node.attr.get().nlink >= self.links_max() {
            return Err(Errno::EMLINK);
        }
        let tx = self
            .persist
            .begin(ADD_CREDITS + 2 + orphan::CREDITS)
            .await?;
        let linked = self.link_in(&tx, dir, name, node, now).await;
        self.finish(tx, linked).await
    }

    async fn link_in(
        &self,
        tx: &P::Tx,
        dir: &Node,
        name: &[u8],
        node: &Node,
        now: Timestamp,
    ) -> Result<()> {
        let target = (number(node), node.attr.get().kind);
        self.add_name(tx, dir, name, target).await?;
        node.update(|attr| {
            attr.nlink += 1;
            attr.ctime = now;
        });
        let before = node.private.changed.get();
        self.store_data(tx, node);
        if vfs::mutant::is("ext4-link-not-forced") {
            node.private.changed.set(before);
            node.private.data_changed.set(before);
        }
        touch(dir, now);
        self.store_inode(tx, dir);
        self.remove_orphan(tx, node).await
    }

    async fn get_link(&self, dir: &Node, name: &[u8], node: &Node) -> Result<Found> {
        let found = self.get_name(dir, name).await?;
        if found.ino == number(node) {
            Ok(found)
        } else {
            Err(Errno::EUCLEAN)
        }
    }

    /// Removes a name of an inode other than a directory.
    pub(crate) async fn drop_link(
        &self,
        dir: &Node,
        name: &[u8],
        node: &Node,
        now: Timestamp,
    ) -> Result<()> {
        let tx = self
            .persist
            .begin(CHANGE_CREDITS + 2 + orphan::CREDITS)
            .await?;
        let found = self.get_link(dir, name, node).await;
        if let Ok(found) = &found {
            self.remove_entry(&tx, dir, found);
            touch(dir, now);
            self.store_inode(&tx, dir);
            self.forget_link(&tx, node, now);
        }
        self.finish(tx, found).await.map(|_| ())
    }

    /// Counts a removed name; an inode without names becomes an orphan.
    fn forget_link(&self, tx: &P::Tx, node: &Node, now: Timestamp) {
        node.update(|attr| {
            let last = attr.kind == FileKind::Directory;
            attr.nlink = if last {
                0
            } else {
                attr.nlink.saturating_sub(1)
            };
            attr.ctime = now;
        });
        if node.attr.get().nlink == 0 && !vfs::mutant::is("ext4-orphan-not-listed") {
            self.add_orphan(tx, node);
        } else {
            self.store_inode(tx, node);
        }
    }

    /// Removes the name of an empty directory; `ENOTEMPTY` if it has entries.
    pub(crate) async fn drop_dir(
        &self,
        dir: &Node,
        name: &[u8],
        node: &Node,
        now: Timestamp,
    ) -> Result<()> {
        if !self.is_empty(node).await? {
            return Err(Errno::ENOTEMPTY);
        }
        let tx = self
            .persist
            .begin(CHANGE_CREDITS + 2 + orphan::CREDITS)
            .await?;
        let found = self.get_link(dir, name, node).await;
        if let Ok(found) = &found {
            self.remove_entry(&tx, dir, found);
            dir.update(drop_subdir);
            touch(dir, now);
            self.store_inode(&tx, dir);
            self.forget_link(&tx, node, now);
        }
        self.finish(tx, found).await.map(|_| ())
    }

    /// Moves a name, with replacement or exchange if the target name exists.
    pub(crate) async fn move_name(&self, rename: Rename<'_, Private>) -> Result<()> {
        let is_dir = |node: &Node| node.attr.get().kind == FileKind::Directory;
        if let Some(replaced) = rename.replaced
            && !rename.exchange
            && is_dir(replaced)
            && !self.is_empty(replaced).await?
        {
            return Err(Errno::ENOTEMPTY);
        }
        if rename.replaced.is_none() && is_dir(rename.moved) && rename.from.ino != rename.to.ino {
            self.check_links(rename.to)?;
        }
        let tx = self
            .persist
            .begin(ADD_CREDITS + 2 * CHANGE_CREDITS + 6 + orphan::CREDITS)
            .await?;
        let tx = match vfs::mutant::is("ext4-rename-in-two-steps") {
            true => self.add_new_name_first(tx, &rename).await?,
            false => tx,
        };
        let done = match rename.replaced {
            Some(other) if rename.exchange => self.exchange(&tx, &rename, other).await,
            _ => self.rename_in(&tx, &rename).await,
        };
        self.finish(tx, done).await
    }

    /// The defect of a rename that commits the new name before the old one goes.
    async fn add_new_name_first(&self, tx: P::Tx, rename: &Rename<'_, Private>) -> Result<P::Tx> {
        if rename.replaced.is_some() {
            return Ok(tx);
        }
        let target = (number(rename.moved), rename.moved.attr.get().kind);
        self.add_name(&tx, rename.to, rename.to_name, target)
            .await?;
        self.persist.end(tx).await?;
        self.persist.force_all().await?;
        self.persist.begin(2 * CHANGE_CREDITS + 6).await
    }

    async fn rename_in(&self, tx: &P::Tx, rename: &Rename<'_, Private>) -> Result<()> {
        let (from, to, moved) = (rename.from, rename.to, rename.moved);
        let target = (number(moved), moved.attr.get().kind);
        self.get_link(from, rename.from_name, moved).await?;
        match rename.replaced {
            Some(replaced) => {
                let found = self.get_link(to, rename.to_name, replaced).await?;
                self.retarget(tx, to, &found, target);
            }
            None if vfs::mutant::is("ext4-rename-in-two-steps") => {}
            None => self.add_name(tx, to, rename.to_name, target).await?,
        }
        // Adding a name may have moved the old one.
        let old = self.get_link(from, rename.from_name, moved).await?;
        self.remove_entry(tx, from, &old);
        if target.1 == FileKind::Directory {
            if from.ino != to.ino {
                self.set_parent(tx, moved, number(to)).await?;
            }
            from.update(drop_subdir);
            if rename.replaced.is_none() {
                to.update(|attr| add_link(attr, self.links_max()));
            }
        }
        if let Some(replaced) = rename.replaced {
            self.forget_link(tx, replaced, rename.now);
        }
        self.store_renamed(tx, rename, None);
        Ok(())
    }

    fn store_renamed(&self, tx: &P::Tx, rename: &Rename<'_, Private>, other: Option<&Node>) {
        for node in [Some(rename.moved), other].into_iter().flatten() {
            node.update(|attr| attr.ctime = rename.now);
            self.store_data(tx, node);
        }
        for dir in [rename.from, rename.to] {
            touch(dir, rename.now);
            self.store_inode(tx, dir);
        }
    }

    async fn exchange(&self, tx: &P::Tx, rename: &Rename<'_, Private>, other: &Node) -> Result<()> {
        let (from, to, moved) = (rename.from, rename.to, rename.moved);
        let kinds = (moved.attr.get().kind, other.attr.get().kind);
        let first = self.get_link(from, rename.from_name, moved).await?;
        let second = self.get_link(to, rename.to_name, other).await?;
        self.retarget(tx, from, &first, (number(other), kinds.1));
        self.retarget(tx, to, &second, (number(moved), kinds.0));
        let is_dir = [kinds.0, kinds.1].map(|kind| kind == FileKind::Directory);
        if from.ino != to.ino {
            for (is_dir, node, parent) in [(is_dir[0], moved, to), (is_dir[1], other, from)] {
                if is_dir {
                    self.set_parent(tx, node, number(parent)).await?;
                }
            }
            // No wait from here on, so no other task stores an intermediate state.
            for (is_dir, left, entered) in [(is_dir[0], from, to), (is_dir[1], to, from)] {
                if is_dir {
                    left.update(drop_subdir);
                    entered.update(|attr| add_link(attr, self.links_max()));
                }
            }
        }
        self.store_renamed(tx, rename, Some(other));
        Ok(())
    }

    /// Target of a symbolic link, from its inode or its block.
    pub(crate) async fn target_of(&self, node: &Node) -> Result<Vec<u8>> {
        let size = node.attr.get().size as usize;
        if !has_tree(node) {
            let (slot, _) = self.slot(node);
            let map = raw::MAP.get(&slot);
            let target = map.get(..size).ok_or(Errno::EUCLEAN)?;
            return Ok(target.to_vec());
        }
        let piece = self.lookup_block(node, 0).await?;
        let crate::extents::State::Written(block) = piece.state else {
            return Err(Errno::EUCLEAN);
        };
        let buffer = self.persist.read(block, Purpose::Data).await?;
        let bytes = buffer.bytes();
        Ok(bytes.get(..size).ok_or(Errno::EUCLEAN)?.to_vec())
    }
}
