//! Replay of the log at a mount after a power cut: forced files are applied to the last commit.
//!
//! Invariants: the nodes and extents of the log are not overwritten before a commit holds its
//! files, and one commit holds all of them. A damaged log fails the mount and leaves the medium
//! unchanged.
//= btrfs-format 6.1

use crate::forest::Tree;
use crate::format::extent::{Part, Piece, piece};
use crate::format::inode::{InodeItem, NameRef, name_refs};
use crate::format::superblock::Start;
use crate::format::tree::RootItem;
use crate::format::{Key, NODE_BYTES, SECTOR_BYTES, id, kind};
use crate::fs::Core;
use crate::inodes::inode_key;
use crate::names::Named;
use crate::persist::Persist;
use crate::pieces::piece_key;
use std::collections::BTreeSet;
use std::rc::Rc;
use vfs::{Errno, FileKind, Result};

/// Items that the operation of one replayed file reserves nodes for.
const ITEMS: u64 = 16;

impl<S: Persist> Core<S> {
    /// Applies the log whose root tree begins at `start`. Returns the number of files in it.
    pub(crate) async fn replay(&self, start: Start) -> Result<u64> {
        let root = Rc::new(Tree::at(id::LOG, start));
        let mut met = BTreeSet::new();
        self.hold_nodes(&root, &mut met).await?;
        let roots = self
            .items_of(&root, id::LOG, kind::ROOT_ITEM, kind::ROOT_ITEM)
            .await?;
        let mut logs = Vec::new();
        for (key, data) in roots {
            let log = Tree::of(id::LOG, key.offset, RootItem::get(&data));
            self.hold_nodes(&log, &mut met).await?;
            logs.push((key.offset, log));
        }
        for (_, log) in &logs {
            self.hold_extents(log).await?;
        }
        let mut files = 0;
        for (tree, log) in &logs {
            let tree = self.tree(*tree).filter(|tree| id::is_subvolume(tree.id));
            files += self.replay_tree(&tree.ok_or(Errno::EUCLEAN)?, log).await?;
        }
        self.forest.refs.borrow_mut().log_nodes.extend(met);
        self.note_change();
        Ok(files)
    }

    /// Marks the nodes of a log tree as used space, since the tree of extents does not list them,
    /// and adds their addresses to `met`.
    async fn hold_nodes(&self, tree: &Tree, met: &mut BTreeSet<u64>) -> Result<()> {
        let mut left = vec![self.with(|| self.forest.root(tree)).await?];
        while let Some(one) = left.pop() {
            let held = self
                .forest
                .space
                .borrow_mut()
                .occupy(one.bytenr, NODE_BYTES);
            // A node that is met twice, or in use by another tree, is damage.
            if !held || !met.insert(one.bytenr) {
                return Err(Errno::EUCLEAN);
            }
            if one.level() == 0 {
                continue;
            }
            for slot in 0..one.items() {
                left.push(self.with(|| self.forest.child(&one, slot)).await?);
            }
        }
        Ok(())
    }

    /// Marks the extents that only the log refers to as used space and as new.
    async fn hold_extents(&self, log: &Tree) -> Result<()> {
        let mut from = Key::default();
        loop {
            let next = self.with(|| {
                self.forest.first_from(log, from, |key, data| {
                    let own = key.kind == kind::EXTENT_DATA;
                    (key, own.then(|| part_of(data)).flatten())
                })
            });
            let Some((key, part)) = next.await? else {
                return Ok(());
            };
            from = key.next().ok_or(Errno::EUCLEAN)?;
            let Some(part) = part else { continue };
            let (at, len) = (part.bytenr, part.len);
            let known = self.with(|| self.forest.extent(at, None, len)).await?;
            let made = self
                .forest
                .refs
                .borrow()
                .of(at)
                .is_some_and(|c| c.len == len);
            if known.is_some() || made {
                continue;
            }
            if !self.forest.space.borrow_mut().occupy(at, len) {
                return Err(Errno::EUCLEAN);
            }
            self.forest.refs.borrow_mut().make(at, len, None);
        }
    }

    async fn replay_tree(&self, tree: &Rc<Tree>, log: &Tree) -> Result<u64> {
        let (mut from, mut files) = (Key::default(), 0);
        loop {
            let next = self.with(|| {
                self.forest.first_from(log, from, |key, data| {
                    let is_inode = key.kind == kind::INODE_ITEM;
                    (key, is_inode.then(|| InodeItem::get(data)))
                })
            });
            let Some((key, item)) = next.await? else {
                return Ok(files);
            };
            if key.object >= id::LAST_FREE {
                return Ok(files);
            }
            if let Some(item) = item {
                self.replay_file(tree, log, key.object, item).await?;
                files += 1;
            }
            from = Key::new(key.object, u8::MAX, u64::MAX);
        }
    }

    async fn replay_file(
        &self,
        tree: &Rc<Tree>,
        log: &Tree,
        number: u64,
        item: InodeItem,
    ) -> Result<()> {
        let known =
            number >= id::FIRST_FREE && item.attr().is_some_and(|a| a.kind == FileKind::Regular);
        if !known {
            return Err(Errno::EUCLEAN);
        }
        let _operation = self.operate_uncommitted(ITEMS).await?;
        let old = self.inode_item(tree, number).await?;
        let mut nbytes = old.map_or(0, |old| old.nbytes);
        let end = item.size.checked_next_multiple_of(SECTOR_BYTES);
        let end = end.ok_or(Errno::EUCLEAN)?;
        nbytes = nbytes.saturating_sub(self.cut(tree, number, end..u64::MAX).await?);
        self.replay_attributes(tree, log, number).await?;
        let pieces = self
            .items_of(log, number, kind::EXTENT_DATA, kind::EXTENT_DATA)
            .await?;
        for (key, data) in pieces {
            nbytes = self.replay_piece(tree, log, key, &data, nbytes).await?;
        }
        let size = match old.filter(|_| vfs::mutant::is("btrfs-replay-keeps-old-size")) {
            Some(old) => old.size,
            None => item.size,
        };
        let item = InodeItem {
            nbytes,
            size,
            ..item
        };
        let item = item.bytes();
        self.with(|| self.forest.put(tree, inode_key(number), &item))
            .await?;
        let refs = self
            .items_of(log, number, kind::INODE_REF, kind::INODE_EXTREF)
            .await?;
        for (key, data) in refs {
            for (_, name) in name_refs(key, &data) {
                self.replay_name(tree, number, name).await?;
            }
        }
        Ok(())
    }

    async fn replay_attributes(&self, tree: &Tree, log: &Tree, number: u64) -> Result<()> {
        let only = kind::XATTR_ITEM;
        let wanted = self.items_of(log, number, only, only).await?;
        for (key, _) in self.items_of(tree, number, only, only).await? {
            if !wanted.iter().any(|(other, _)| *other == key) {
                self.with(|| self.forest.remove(tree, key)).await?;
            }
        }
        for (key, data) in wanted {
            self.with(|| self.forest.put(tree, key, &data)).await?;
        }
        Ok(())
    }

    /// Applies one logged piece, or hole, with the sums of its contents. Returns the bytes of
    /// contents of the file, which were `nbytes` before.
    async fn replay_piece(
        &self,
        tree: &Tree,
        log: &Tree,
        key: Key,
        data: &[u8],
        nbytes: u64,
    ) -> Result<u64> {
        let at = key.offset;
        let part = match piece(data).ok_or(Errno::EOPNOTSUPP)? {
            Piece::Inline(bytes) => {
                let cut = self.cut(tree, key.object, 0..SECTOR_BYTES).await?;
                self.with(|| self.forest.put(tree, key, data)).await?;
                return Ok(nbytes
                    .saturating_add(bytes.len() as u64)
                    .saturating_sub(cut));
            }
            Piece::Extent(part) => part,
        };
        let span = at..at + part.bytes;
        if part.is_hole() {
            let cut = self.cut(tree, key.object, span).await?;
            return Ok(nbytes.saturating_sub(cut));
        }
        let by = part.owner(tree.id, key.object, at);
        let refs = &self.forest.refs;
        refs.borrow_mut().add(part.bytenr, part.len, None, by, 1);
        let cut = self.cut(tree, key.object, span).await?;
        let item = part.item();
        let place = piece_key(key.object, at);
        self.with(|| self.forest.insert(tree, place, &item)).await?;
        if part.written {
            let start = part.bytenr + part.offset;
            let sectors = (part.bytes / SECTOR_BYTES) as usize;
            let sums = self.sums(log, start, sectors).await?;
            if let Some(sums) = sums.into_iter().collect::<Option<Vec<u32>>>() {
                self.put_sums(&self.forest.csums, start, &sums).await?;
            }
        }
        Ok(nbytes.saturating_add(part.bytes).saturating_sub(cut))
    }

    /// Enters a logged name of file `number`. Another file that has the name in the last commit
    /// loses it.
    async fn replay_name(&self, tree: &Rc<Tree>, number: u64, name: NameRef<'_>) -> Result<()> {
        let at = Named {
            dir: name.parent,
            name: name.name,
        };
        match self.find(tree, at.dir, at.name).await? {
            Some((key, _)) if key == inode_key(number) => return Ok(()),
            Some((key, _)) if key.kind == kind::INODE_ITEM => {
                self.lose_replayed(tree, key.object, at).await?;
            }
            Some(_) => return Err(Errno::EUCLEAN),
            None if vfs::mutant::is("btrfs-replay-skips-directory-size") => {}
            None => self.change_dir(tree, at, 1).await?,
        }
        let taken = Key::new(at.dir, kind::DIR_INDEX, name.index);
        let taken = self.with(|| self.forest.read(tree, taken, |_| ())).await?;
        let index = match taken {
            Some(()) => self.index_behind(tree, at.dir).await?,
            None => name.index,
        };
        let kind = FileKind::Regular.entry_number();
        self.put_entry(tree, at, index, inode_key(number), kind)
            .await?;
        // The inode may list this name already.
        match self.take_ref(tree, number, at).await {
            Ok(_) | Err(Errno::EUCLEAN) => {}
            Err(errno) => return Err(errno),
        }
        self.put_ref(tree, number, at, index).await
    }

    /// Adds `more` names of this length to the size of a directory, which counts each twice.
    async fn change_dir(&self, tree: &Tree, at: Named<'_>, more: u64) -> Result<()> {
        let mut item = self.inode_item(tree, at.dir).await?.ok_or(Errno::EUCLEAN)?;
        if item
            .attr()
            .is_none_or(|attr| attr.kind != FileKind::Directory)
        {
            return Err(Errno::EUCLEAN);
        }
        item.size = item.size.saturating_add(more * 2 * at.name.len() as u64);
        let bytes = item.bytes();
        self.with(|| self.forest.set(tree, inode_key(at.dir), &bytes))
            .await
    }

    /// Removes name `at` from file `number`; a file without further names becomes an orphan.
    async fn lose_replayed(&self, tree: &Rc<Tree>, number: u64, at: Named<'_>) -> Result<()> {
        let index = self.take_ref(tree, number, at).await?;
        self.take_entry(tree, at, index).await?;
        let mut item = self.inode_item(tree, number).await?.ok_or(Errno::EUCLEAN)?;
        item.nlink = item.nlink.saturating_sub(1);
        let bytes = item.bytes();
        self.with(|| self.forest.set(tree, inode_key(number), &bytes))
            .await?;
        if item.nlink == 0 {
            self.add_orphan(tree, number).await?;
        }
        Ok(())
    }
}

/// Decodes the part of an extent from the data of a piece; `None` for other data and holes.
fn part_of(data: &[u8]) -> Option<Part> {
    match piece(data) {
        Some(Piece::Extent(part)) if !part.is_hole() => Some(part),
        _ => None,
    }
}
