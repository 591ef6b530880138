//! The index of a directory: search for a leaf, and splits that make room.
//!
//! Invariants: a path has one node per level, and levels are bounded, so a cycle on a
//! damaged medium ends; each step that makes room leaves a sound directory, so a lack of
//! space between steps needs no rollback.

use crate::buffer::{BLOCK, Buffer};
use crate::dir::{OwnEntry, Role};
use crate::format::hash::Hasher;
use crate::format::{dirent, htree, inode};
use crate::fs::{ExtFs, Node, damaged};
use crate::inode::number;
use crate::persist::Persist;
use std::rc::Rc;
use vfs::{Errno, FileKind, Result};

/// A node of the index on the path to a leaf.
struct Turn {
    buffer: Rc<Buffer>,
    /// Offset of the index entries in the block.
    entries: usize,
    /// Index of the entry that the path takes.
    index: usize,
}

/// The path from the root to a leaf.
pub(crate) struct Way {
    turns: Vec<Turn>,
    leaf: u32,
}

impl Way {
    /// Logical block of the leaf at the end of the path.
    pub(crate) fn leaf(&self) -> u64 {
        u64::from(self.leaf)
    }
}

impl<P: Persist> ExtFs<P> {
    /// The hash function of an indexed directory, as its root names it.
    pub(crate) async fn dir_hasher(&self, dir: &Node) -> Result<Hasher> {
        let root = self.dir_block(dir, 0, Role::Root).await?;
        let info = damaged(htree::info(&root.bytes()))?;
        damaged(self.geometry.hasher(info.hash_version))
    }

    fn turn(&self, buffer: Rc<Buffer>, entries: usize, hash: u32) -> Result<(Turn, u32)> {
        let tail = self.geometry.checksums;
        let (index, child) = {
            let bytes = buffer.bytes();
            let index = damaged(htree::child(&bytes, entries, hash, tail))?;
            (index, htree::entry(&bytes, entries, index).0.block)
        };
        let turn = Turn {
            buffer,
            entries,
            index,
        };
        Ok((turn, child))
    }

    /// The path to the first leaf that may hold names of `hash`.
    pub(crate) async fn probe(&self, dir: &Node, hash: u32) -> Result<Way> {
        let root = self.dir_block(dir, 0, Role::Root).await?;
        let info = damaged(htree::info(&root.bytes()))?;
        let (turn, mut next) = self.turn(root, htree::ROOT_ENTRIES, hash)?;
        let mut turns = vec![turn];
        for _ in 0..info.levels {
            let node = self.dir_block(dir, u64::from(next), Role::Inner).await?;
            let (turn, child) = self.turn(node, htree::NODE_ENTRIES, hash)?;
            turns.push(turn);
            next = child;
        }
        Ok(Way { turns, leaf: next })
    }

    /// Moves the path to the next leaf and returns the leaf's hash in the index, with its
    /// continuation bit; `None` after the last leaf.
    pub(crate) async fn advance(&self, dir: &Node, way: &mut Way) -> Result<Option<u32>> {
        let mut level = way.turns.len();
        let (mut next, hash) = loop {
            let Some(up) = level.checked_sub(1) else {
                return Ok(None);
            };
            level = up;
            let turn = &mut way.turns[level];
            let bytes = turn.buffer.bytes();
            let (_, count) = htree::entry(&bytes, turn.entries, 0);
            if turn.index + 1 < count.min(htree::limit(turn.entries, false)) {
                let (entry, _) = htree::entry(&bytes, turn.entries, turn.index + 1);
                drop(bytes);
                turn.index += 1;
                break (entry.block, entry.hash);
            }
        };
        for level in level + 1..way.turns.len() {
            let node = self.dir_block(dir, u64::from(next), Role::Inner).await?;
            let (turn, child) = self.turn(node, htree::NODE_ENTRIES, 0)?;
            way.turns[level] = turn;
            next = child;
        }
        way.leaf = next;
        Ok(Some(hash))
    }

    /// Updates the checksum of a block of the index with entries from `at` on.
    pub(crate) fn seal_index(&self, tx: &P::Tx, dir: &Node, buffer: &Rc<Buffer>, at: usize) {
        if self.geometry.checksums {
            let mut bytes = *buffer.bytes();
            htree::seal(dir.private.seed, &mut bytes, at);
            self.write_changed(tx, buffer, 0, &bytes);
        }
    }

    /// Writes `bytes` to a block of the index and seals it; entries begin at `at`.
    fn write_index(
        &self,
        tx: &P::Tx,
        dir: &Node,
        buffer: &Rc<Buffer>,
        at: usize,
        mut bytes: Box<[u8; BLOCK]>,
    ) {
        if self.geometry.checksums {
            htree::seal(dir.private.seed, &mut bytes, at);
        }
        self.write_changed(tx, buffer, 0, &bytes[..]);
    }

    /// Makes an index: the only block of the directory becomes the root, and its names move to a
    /// new leaf.
    pub(crate) async fn make_index(&self, tx: &P::Tx, dir: &Node) -> Result<()> {
        let root = self.dir_block(dir, 0, Role::Leaf).await?;
        let names = self.own_entries(&root)?;
        let parent = self.parent_of(dir).await?;
        let (index, leaf) = self.append_block(tx, dir).await?;
        let block = self.leaf_of(&names);
        self.write_changed(tx, &leaf, 0, &block[..]);
        self.seal_leaf(tx, dir, &leaf);
        let mut bytes = Box::new([0; BLOCK]);
        dirent::put(&mut bytes[..], 0, number(dir), 12, 2, b".");
        dirent::put(&mut bytes[..], 12, parent, BLOCK - 12, 2, b"..");
        let info = htree::Info {
            hash_version: self.geometry.hash_version,
            levels: 0,
        };
        htree::put_info(&mut bytes, info);
        let first = htree::Entry {
            hash: 0,
            block: index as u32,
        };
        let tail = self.geometry.checksums;
        htree::put_entries(&mut bytes, htree::ROOT_ENTRIES, &[first], tail);
        self.write_index(tx, dir, &root, htree::ROOT_ENTRIES, bytes);
        let flags = dir.private.flags.get() | inode::FLAG_INDEX;
        dir.private.flags.set(flags);
        self.store_data(tx, dir);
        Ok(())
    }

    /// Adds a name to the leaf of its hash in an indexed directory.
    pub(crate) async fn add_by_hash(
        &self,
        tx: &P::Tx,
        dir: &Node,
        name: &[u8],
        target: (u32, FileKind),
    ) -> Result<()> {
        let hasher = self.dir_hasher(dir).await?;
        let (hash, _) = hasher.hash(name);
        // Room may take a new level, a split of a node and of a leaf, and a second split for
        // names of unequal length.
        for _ in 0..6 {
            let way = self.probe(dir, hash).await?;
            let leaf = self.dir_block(dir, way.leaf(), Role::Leaf).await?;
            if self.put_in_block(tx, dir, &leaf, name, target)? {
                return Ok(());
            }
            self.make_room(tx, dir, &way, &leaf, hasher).await?;
        }
        Err(Errno::EUCLEAN)
    }

    /// Takes one step towards room in a leaf: adds a level, splits a node, or splits the leaf.
    async fn make_room(
        &self,
        tx: &P::Tx,
        dir: &Node,
        way: &Way,
        leaf: &Rc<Buffer>,
        hasher: Hasher,
    ) -> Result<()> {
        let tail = self.geometry.checksums;
        let is_full = |turn: &Turn| {
            let (_, count) = htree::entry(&turn.buffer.bytes(), turn.entries, 0);
            count >= htree::limit(turn.entries, tail)
        };
        let last = damaged(way.turns.last())?;
        if !is_full(last) {
            return self.split_leaf(tx, dir, last, leaf, hasher).await;
        }
        if way.turns.len() == 1 {
            return self.deepen(tx, dir, &way.turns[0]).await;
        }
        if is_full(&way.turns[0]) {
            return Err(self.refuse_index(htree::limit(way.turns[0].entries, tail)));
        }
        self.split_node(tx, dir, &way.turns[0], last).await
    }

    fn entries_of(&self, turn: &Turn) -> Result<Vec<htree::Entry>> {
        let tail = self.geometry.checksums;
        damaged(htree::entries(&turn.buffer.bytes(), turn.entries, tail))
    }

    /// Inserts an entry into a node with room, behind the entry that the path takes.
    fn insert_entry(&self, tx: &P::Tx, dir: &Node, turn: &Turn, entry: htree::Entry) -> Result<()> {
        let mut entries = self.entries_of(turn)?;
        entries.insert(turn.index + 1, entry);
        self.put_entries(tx, dir, turn, &entries);
        Ok(())
    }

    fn put_entries(&self, tx: &P::Tx, dir: &Node, turn: &Turn, entries: &[htree::Entry]) {
        let mut bytes = Box::new(*turn.buffer.bytes());
        htree::put_entries(&mut bytes, turn.entries, entries, self.geometry.checksums);
        self.write_index(tx, dir, &turn.buffer, turn.entries, bytes);
    }

    fn write_new_node(
        &self,
        tx: &P::Tx,
        dir: &Node,
        buffer: &Rc<Buffer>,
        entries: &[htree::Entry],
    ) {
        let mut bytes = Box::new([0; BLOCK]);
        htree::put_node_head(&mut bytes);
        htree::put_entries(
            &mut bytes,
            htree::NODE_ENTRIES,
            entries,
            self.geometry.checksums,
        );
        self.write_index(tx, dir, buffer, htree::NODE_ENTRIES, bytes);
    }

    /// Adds a level: moves the entries of the root to a new node.
    async fn deepen(&self, tx: &P::Tx, dir: &Node, root: &Turn) -> Result<()> {
        let entries = self.entries_of(root)?;
        let info = damaged(htree::info(&root.buffer.bytes()))?;
        let (index, buffer) = self.append_block(tx, dir).await?;
        self.write_new_node(tx, dir, &buffer, &entries);
        let mut bytes = Box::new(*root.buffer.bytes());
        htree::put_info(&mut bytes, htree::Info { levels: 1, ..info });
        let only = htree::Entry {
            hash: 0,
            block: index as u32,
        };
        htree::put_entries(&mut bytes, root.entries, &[only], self.geometry.checksums);
        self.write_index(tx, dir, &root.buffer, root.entries, bytes);
        Ok(())
    }

    /// Splits a full node in half and adds the upper half to the root.
    async fn split_node(&self, tx: &P::Tx, dir: &Node, root: &Turn, node: &Turn) -> Result<()> {
        let mut entries = self.entries_of(node)?;
        let upper = entries.split_off(entries.len() / 2);
        let hash = upper[0].hash;
        let (index, buffer) = self.append_block(tx, dir).await?;
        self.write_new_node(tx, dir, &buffer, &upper);
        self.put_entries(tx, dir, node, &entries);
        let entry = htree::Entry {
            hash,
            block: index as u32,
        };
        self.insert_entry(tx, dir, root, entry)
    }

    /// Splits a leaf: the names with the greater hashes go to a new leaf.
    async fn split_leaf(
        &self,
        tx: &P::Tx,
        dir: &Node,
        turn: &Turn,
        leaf: &Rc<Buffer>,
        hasher: Hasher,
    ) -> Result<()> {
        let mut names: Vec<(u32, OwnEntry)> = self
            .own_entries(leaf)?
            .into_iter()
            .map(|entry| (hasher.hash(&entry.name).0, entry))
            .collect();
        damaged((names.len() >= 2).then_some(()))?;
        names.sort_by_key(|(hash, _)| *hash);
        let (index, buffer) = self.append_block(tx, dir).await?;
        let upper = names.split_off(middle(&names));
        let goes_on = names.last().is_some_and(|(hash, _)| *hash == upper[0].0);
        let entry = htree::Entry {
            hash: upper[0].0 | u32::from(goes_on),
            block: index as u32,
        };
        for (buffer, names) in [(&buffer, upper), (leaf, names)] {
            let names: Vec<_> = names.into_iter().map(|(_, entry)| entry).collect();
            let block = self.leaf_of(&names);
            let keep = dirent::CHECKSUM.at;
            let end = if self.geometry.checksums { keep } else { BLOCK };
            self.write_changed(tx, buffer, 0, &block[..end]);
            self.seal_leaf(tx, dir, buffer);
        }
        self.insert_entry(tx, dir, turn, entry)
    }
}

/// Index that splits `names` into halves of about equal bytes; neither half is empty.
fn middle(names: &[(u32, OwnEntry)]) -> usize {
    let size = |entry: &OwnEntry| dirent::needed(entry.name.len());
    let total: usize = names.iter().map(|(_, entry)| size(entry)).sum();
    let mut before = 0;
    let half = names.iter().position(|(_, entry)| {
        before += size(entry);
        before * 2 > total
    });
    half.unwrap_or(0).clamp(1, names.len() - 1)
}
