//! Directories: lookup, addition and removal of names in blocks.
//!
//! A directory is a file of blocks of entries. With an index, which is made once the first block is
//! full, a name is in the leaf that its hash leads to; without an index it may be in any block.
//!
//! Invariant: no function borrows the bytes of a buffer while it writes to a buffer:
//! on a damaged medium two blocks of a directory may be the same buffer.

use crate::alloc::Want;
use crate::buffer::{BLOCK, Buffer};
use crate::extents::State;
use crate::format::extent::Entry as Extent;
use crate::format::{Value, dirent, htree, inode};
use crate::fs::{ExtFs, Node, damaged};
use crate::inode::number;
use crate::persist::{Persist, Run};
use crate::tree::SECTORS;
use host::Purpose;
use std::rc::Rc;
use vfs::{Errno, FileKind, Result};

/// Blocks of metadata that adding a name changes at most: a leaf and the new one, two levels of
/// index with a new node, the tree of extents, and a bitmap and a descriptor for each new block.
pub(crate) const ADD_CREDITS: usize = 6 + 6 + 2 * 8;

/// Blocks of metadata that removing or changing a name changes.
pub(crate) const CHANGE_CREDITS: usize = 1;

/// Role of a block in a directory, which determines the place of its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A block of directory entries.
    Leaf,
    /// The root of the index, block 0 of an indexed directory.
    Root,
    /// A node of the index below the root.
    Inner,
}

/// Result of a lookup: the place of an entry in its block, and its inode.
pub(crate) struct Found {
    pub(crate) buffer: Rc<Buffer>,
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// Offset of the predecessor in the same block; `None` for the first entry.
    before: Option<usize>,
    pub(crate) ino: u32,
}

/// Whether the checksum of a block in `role` is right.
fn is_whole(seed: u32, bytes: &[u8; BLOCK], role: Role) -> bool {
    match role {
        Role::Leaf => {
            let sum = dirent::CHECKSUM.get(&bytes[..]);
            dirent::has_tail(bytes) && sum == dirent::checksum(seed, bytes)
        }
        Role::Root => htree::is_whole(seed, bytes, htree::ROOT_ENTRIES),
        Role::Inner => htree::is_whole(seed, bytes, htree::NODE_ENTRIES),
    }
}

/// Size of a directory in blocks.
pub(crate) fn dir_blocks(dir: &Node) -> u64 {
    dir.attr.get().size / BLOCK as u64
}

impl<P: Persist> ExtFs<P> {
    /// Whether a directory has an index.
    pub(crate) fn is_indexed(&self, dir: &Node) -> bool {
        dir.private.flags.get() & inode::FLAG_INDEX != 0
            && self
                .geometry
                .has_compat(crate::format::superblock::COMPAT_DIR_INDEX)
    }

    /// Reads block `index` of a directory and checks its checksum once; `EUCLEAN` if it is a hole
    /// or damaged.
    pub(crate) async fn dir_block(&self, dir: &Node, index: u64, role: Role) -> Result<Rc<Buffer>> {
        let piece = self.lookup_block(dir, index).await?;
        let State::Written(block) = piece.state else {
            return Err(Errno::EUCLEAN);
        };
        self.open_block(dir, block, role).await
    }

    async fn open_block(&self, dir: &Node, block: u64, role: Role) -> Result<Rc<Buffer>> {
        let buffer = self.persist.read(block, Purpose::Directory).await?;
        if !buffer.checked.get() {
            let whole =
                !self.geometry.checksums || is_whole(dir.private.seed, &buffer.bytes(), role);
            damaged(whole.then_some(()))?;
            buffer.checked.set(true);
        }
        Ok(buffer)
    }

    /// The first block of entries at or after `index` in a directory without an index.
    pub(crate) async fn next_block(
        &self,
        dir: &Node,
        index: u64,
    ) -> Result<Option<(u64, Rc<Buffer>)>> {
        let (mut index, end) = (index, dir_blocks(dir));
        while index < end {
            let piece = self.lookup_block(dir, index).await?;
            if let State::Written(block) = piece.state {
                let buffer = self.open_block(dir, block, Role::Leaf).await?;
                return Ok(Some((index, buffer)));
            }
            index += piece.len;
        }
        Ok(None)
    }

    /// Searches a block of entries for `name`.
    fn find_in_block(&self, buffer: &Rc<Buffer>, name: &[u8]) -> Result<Option<Found>> {
        let bytes = buffer.bytes();
        let found = dirent::find(&bytes[..], self.geometry.dir_end(), name);
        let found = damaged(found.ok())?;
        Ok(found.map(|(entry, before)| Found {
            buffer: Rc::clone(buffer),
            at: entry.at,
            len: entry.len,
            before: before.map(|b| b.at),
            ino: entry.ino,
        }))
    }

    /// Looks up `name` in a directory, by its hash if the directory has an index.
    pub(crate) async fn find_name(&self, dir: &Node, name: &[u8]) -> Result<Option<Found>> {
        if self.is_indexed(dir) {
            return self.find_by_hash(dir, name).await;
        }
        let mut index = 0;
        while let Some((at, buffer)) = self.next_block(dir, index).await? {
            let found = self.find_in_block(&buffer, name)?;
            if found.is_some() {
                return Ok(found);
            }
            index = at + 1;
        }
        Ok(None)
    }

    async fn find_by_hash(&self, dir: &Node, name: &[u8]) -> Result<Option<Found>> {
        let hasher = self.dir_hasher(dir).await?;
        let (hash, _) = hasher.hash(name);
        let mut way = self.probe(dir, hash).await?;
        loop {
            let leaf = self.dir_block(dir, way.leaf(), Role::Leaf).await?;
            let found = self.find_in_block(&leaf, name)?;
            if found.is_some() {
                return Ok(found);
            }
            // Names with equal hashes may continue in the next leaf.
            match self.advance(dir, &mut way).await? {
                Some(next) if next == hash | 1 => {}
                _ => return Ok(None),
            }
        }
    }

    /// Looks up `name`; `ENOENT` if the directory lacks it.
    pub(crate) async fn get_name(&self, dir: &Node, name: &[u8]) -> Result<Found> {
        self.find_name(dir, name).await?.ok_or(Errno::ENOENT)
    }

    /// Updates the checksum of a block of entries.
    pub(crate) fn seal_leaf(&self, tx: &P::Tx, dir: &Node, buffer: &Rc<Buffer>) {
        if self.geometry.checksums {
            let sum = dirent::checksum(dir.private.seed, &buffer.bytes());
            let at = dirent::CHECKSUM.at;
            self.persist.write(tx, buffer, at, &sum.to_le_bytes());
        }
    }

    /// Adds a name to a block of entries; false if the block has no room.
    pub(crate) fn put_in_block(
        &self,
        tx: &P::Tx,
        dir: &Node,
        buffer: &Rc<Buffer>,
        name: &[u8],
        target: (u32, FileKind),
    ) -> Result<bool> {
        let gap = {
            let bytes = buffer.bytes();
            let needed = dirent::needed(name.len());
            let gap = dirent::gap(&bytes[..], self.geometry.dir_end(), needed);
            damaged(gap.ok())?.map(|entry| (entry.at, entry.used(), entry.len))
        };
        let Some((at, used, len)) = gap else {
            return Ok(false);
        };
        let mut bytes = [0; 264];
        let kind = target.1.entry_number();
        let written = dirent::encode(&mut bytes, target.0, len - used, kind, name);
        self.persist.write(tx, buffer, at + used, &bytes[..written]);
        if used > 0 {
            self.persist
                .write(tx, buffer, at + 4, &(used as u16).to_le_bytes());
        }
        self.seal_leaf(tx, dir, buffer);
        Ok(true)
    }

    /// Adds a name that the directory lacks; makes an index or appends a block if needed.
    pub(crate) async fn add_name(
        &self,
        tx: &P::Tx,
        dir: &Node,
        name: &[u8],
        target: (u32, FileKind),
    ) -> Result<()> {
        if self.is_indexed(dir) {
            return self.add_by_hash(tx, dir, name, target).await;
        }
        let mut index = u64::from(dir.private.room.get());
        while let Some((at, buffer)) = self.next_block(dir, index).await? {
            if self.put_in_block(tx, dir, &buffer, name, target)? {
                dir.private.room.set(at as u32);
                return Ok(());
            }
            index = at + 1;
        }
        let indexes = self
            .geometry
            .has_compat(crate::format::superblock::COMPAT_DIR_INDEX);
        if indexes && dir_blocks(dir) == 1 {
            self.make_index(tx, dir).await?;
            return self.add_by_hash(tx, dir, name, target).await;
        }
        let (_, buffer) = self.append_block(tx, dir).await?;
        let whole = self.leaf_of(&[]);
        self.write_changed(tx, &buffer, 0, &whole[..]);
        self.put_in_block(tx, dir, &buffer, name, target)?;
        Ok(())
    }

    /// Removes an entry: its predecessor takes over the space; a first entry becomes unused.
    pub(crate) fn remove_entry(&self, tx: &P::Tx, dir: &Node, found: &Found) {
        if let Some(before) = found.before {
            let len = (found.at - before + found.len) as u16;
            self.persist
                .write(tx, &found.buffer, before + 4, &len.to_le_bytes());
        } else {
            self.persist.write(tx, &found.buffer, found.at, &[0; 4]);
        }
        self.seal_leaf(tx, dir, &found.buffer);
        dir.private.room.set(0);
    }

    /// Changes the inode and kind of an entry.
    pub(crate) fn retarget(&self, tx: &P::Tx, dir: &Node, found: &Found, target: (u32, FileKind)) {
        let kind = target.1.entry_number();
        self.persist
            .write(tx, &found.buffer, found.at, &target.0.to_le_bytes());
        self.persist.write(tx, &found.buffer, found.at + 7, &[kind]);
        self.seal_leaf(tx, dir, &found.buffer);
    }

    /// Whether a directory has no names but `.` and `..`.
    pub(crate) async fn is_empty(&self, dir: &Node) -> Result<bool> {
        let end = self.geometry.dir_end();
        let empty = |buffer: &Buffer| {
            let bytes = buffer.bytes();
            let mut entries = dirent::Entries::new(&bytes[..], end);
            let free =
                |entry: dirent::Entry<'_>| entry.ino == 0 || matches!(entry.name, b"." | b"..");
            entries.try_fold(true, |so_far, entry| entry.map(|e| so_far && free(e)))
        };
        if self.is_indexed(dir) {
            let mut way = self.probe(dir, 0).await?;
            loop {
                let leaf = self.dir_block(dir, way.leaf(), Role::Leaf).await?;
                if !damaged(empty(&leaf).ok())? {
                    return Ok(false);
                }
                if self.advance(dir, &mut way).await?.is_none() {
                    return Ok(true);
                }
            }
        }
        let mut index = 0;
        while let Some((at, buffer)) = self.next_block(dir, index).await? {
            if !damaged(empty(&buffer).ok())? {
                return Ok(false);
            }
            index = at + 1;
        }
        Ok(true)
    }

    /// Appends a block of zeros to a directory; returns its index and buffer.
    pub(crate) async fn append_block(&self, tx: &P::Tx, dir: &Node) -> Result<(u64, Rc<Buffer>)> {
        let index = dir_blocks(dir);
        let goal = self.goal_of(dir, index).await?;
        let want = Want {
            ino: number(dir),
            goal,
            len: 1,
            keep: 0,
        };
        let run = self.allocate(tx, want).await?;
        let extent = Extent {
            logical: index as u32,
            len: 1,
            unwritten: false,
            start: run.start,
        };
        if let Err(error) = self.insert_extent(tx, dir, extent).await {
            self.release(tx, run, false).await?;
            return Err(error);
        }
        let buffer = self.persist.create(tx, run.start, Purpose::Directory);
        buffer.checked.set(true);
        dir.update(|attr| {
            attr.size += BLOCK as u64;
            attr.sectors += SECTORS;
        });
        dir.private.disk_size.set(dir.attr.get().size);
        self.store_data(tx, dir);
        Ok((index, buffer))
    }

    /// Builds a leaf of `entries`, packed; the last entry takes the free space. The checksum stays
    /// 0.
    pub(crate) fn leaf_of(&self, entries: &[OwnEntry]) -> Box<[u8; BLOCK]> {
        let mut block = Box::new([0; BLOCK]);
        let end = self.geometry.dir_end();
        let mut at = 0;
        for (index, entry) in entries.iter().enumerate() {
            let last = index + 1 == entries.len();
            let len = if last {
                end - at
            } else {
                dirent::needed(entry.name.len())
            };
            dirent::put(&mut block[..], at, entry.ino, len, entry.kind, &entry.name);
            at += len;
        }
        if entries.is_empty() {
            (end as u16).save(&mut block[4..]);
        }
        if self.geometry.checksums {
            dirent::put_tail(&mut block);
        }
        block
    }

    /// The used entries of a block, without `.` and `..`.
    pub(crate) fn own_entries(&self, buffer: &Buffer) -> Result<Vec<OwnEntry>> {
        let bytes = buffer.bytes();
        let entries = dirent::Entries::new(&bytes[..], self.geometry.dir_end());
        let mut own = Vec::new();
        for entry in entries {
            let entry = damaged(entry.ok())?;
            if entry.ino != 0 && !matches!(entry.name, b"." | b"..") {
                own.push(OwnEntry {
                    ino: entry.ino,
                    kind: entry.kind,
                    name: entry.name.to_vec(),
                });
            }
        }
        Ok(own)
    }

    /// Appends the first block to a new directory, with `.` and `..`.
    pub(crate) async fn init_dir(&self, tx: &P::Tx, dir: &Node, parent: u32) -> Result<()> {
        let (_, buffer) = self.append_block(tx, dir).await?;
        let block = dirent::first_block(number(dir), parent, self.geometry.checksums);
        self.write_changed(tx, &buffer, 0, &block[..]);
        self.seal_leaf(tx, dir, &buffer);
        Ok(())
    }

    fn first_role(&self, dir: &Node) -> Role {
        if self.is_indexed(dir) {
            Role::Root
        } else {
            Role::Leaf
        }
    }

    /// The inode that `..` leads to.
    pub(crate) async fn parent_of(&self, dir: &Node) -> Result<u32> {
        let buffer = self.dir_block(dir, 0, self.first_role(dir)).await?;
        let bytes = buffer.bytes();
        let entries = dirent::Entries::new(&bytes[..], BLOCK).take(2);
        let parent = entries.flatten().find(|entry| entry.name == b"..");
        let parent = damaged(parent)?.ino;
        damaged(
            (1..=self.geometry.inodes)
                .contains(&parent)
                .then_some(parent),
        )
    }

    /// Sets the inode of `..` to `parent`.
    pub(crate) async fn set_parent(&self, tx: &P::Tx, dir: &Node, parent: u32) -> Result<()> {
        let role = self.first_role(dir);
        let buffer = self.dir_block(dir, 0, role).await?;
        let at = {
            let bytes = buffer.bytes();
            let entries = dirent::Entries::new(&bytes[..], BLOCK).take(2);
            let entry = entries.flatten().find(|entry| entry.name == b"..");
            damaged(entry)?.at
        };
        self.persist.write(tx, &buffer, at, &parent.to_le_bytes());
        match role {
            Role::Leaf => self.seal_leaf(tx, dir, &buffer),
            _ => self.seal_index(tx, dir, &buffer, htree::ROOT_ENTRIES),
        }
        Ok(())
    }

    /// Frees the first block of a new directory whose creation has failed.
    pub(crate) async fn drop_dir_block(&self, tx: &P::Tx, dir: &Node) -> Result<()> {
        let piece = self.lookup_block(dir, 0).await?;
        if let State::Written(start) = piece.state {
            self.release(tx, Run { start, len: 1 }, true).await?;
        }
        Ok(())
    }
}

/// A directory entry with an owned name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnEntry {
    pub(crate) ino: u32,
    pub(crate) kind: u8,
    pub(crate) name: Vec<u8>,
}
