//! The tree of extents of a file.
//!
//! A path leads from the root, in the inode, to a leaf. A change reads the nodes of its path and
//! allocates blocks for new nodes first; then it changes nodes from the leaf up without waiting.
//!
//! Invariants: the pointer to a node has the node's first logical block; no node but
//! the root is empty; a task that changes a tree holds the `turn` of its file.

use crate::alloc::Want;
use crate::buffer::Buffer;
use crate::extents::{Piece, State};
use crate::format::extent::{self, BLOCK_MAX, Entry, Expect, Node as Raw, ROOT_MAX};
use crate::format::inode;
use crate::fs::{ExtFs, Node, damaged};
use crate::persist::{Persist, Run};
use host::Purpose;
use std::rc::Rc;
use vfs::{Errno, Result};

/// Sectors of 512 bytes per block.
pub(crate) const SECTORS: u64 = 8;

/// Most entries that one step of a removal takes, so that the step fits a handle.
const STEP_ENTRIES: usize = 16;

/// Most blocks of metadata that one step of a removal changes: a bitmap and a descriptor
/// for each entry; node, bitmap and descriptor for each of six levels; and a split.
pub(crate) const STEP_CREDITS: usize = 2 * STEP_ENTRIES + 6 * 3 + 8;

/// A node on the path to a leaf.
struct Step {
    /// Block of the node; `None` for the root.
    buffer: Option<Rc<Buffer>>,
    node: Raw,
    /// Index of the entry that the path takes.
    at: usize,
    /// Logical blocks `from..to` are those that the node may map.
    from: u64,
    to: u64,
}

impl Step {
    const fn max(&self) -> usize {
        if self.buffer.is_some() {
            BLOCK_MAX
        } else {
            ROOT_MAX
        }
    }

    fn is_full(&self) -> bool {
        self.node.entries.len() >= self.max()
    }
}

/// Extents that a step of a removal took out of the tree.
pub(crate) struct Removed {
    /// Removed extents or parts of extents, the last in the file first.
    pub(crate) entries: Vec<Entry>,
    /// Whether the range has no extents left.
    pub(crate) done: bool,
}

impl<P: Persist> ExtFs<P> {
    fn root_of(&self, node: &Node) -> Result<Raw> {
        if node.private.flags.get() & inode::FLAG_EXTENTS == 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let map = inode::MAP.get(&node.private.buffer.bytes()[node.private.at..]);
        let root = damaged(Raw::decode(&map, Expect::ROOT))?;
        self.check_entries(&root)?;
        Ok(root)
    }

    /// Checks that entries lead to blocks outside of the structures; `EUCLEAN` if not.
    fn check_entries(&self, node: &Raw) -> Result<()> {
        let fits = |e: &Entry| {
            let len = u64::from(e.len.max(1));
            self.is_for_files(Run {
                start: e.start,
                len,
            })
        };
        damaged(node.entries.iter().all(fits).then_some(()))
    }

    async fn read_node(
        &self,
        node: &Node,
        block: u64,
        expect: Expect,
    ) -> Result<(Rc<Buffer>, Raw)> {
        let buffer = self.persist.read(block, Purpose::Pointer).await?;
        if self.geometry.checksums && !buffer.checked.get() {
            let bytes = buffer.bytes();
            let sum = extent::checksum(node.private.seed, &bytes);
            damaged((extent::CHECKSUM.get(&bytes[..]) == sum).then_some(()))?;
        }
        let raw = damaged(Raw::decode(&buffer.bytes()[..extent::CHECKSUM.at], expect))?;
        if !buffer.checked.get() {
            self.check_entries(&raw)?;
            buffer.checked.set(true);
        }
        Ok((buffer, raw))
    }

    /// The nodes from the root to the leaf that maps logical `block`.
    async fn path(&self, node: &Node, block: u64) -> Result<Vec<Step>> {
        let raw = self.root_of(node)?;
        let mut path = vec![Step {
            at: raw.position(block).unwrap_or(0),
            buffer: None,
            node: raw,
            from: 0,
            to: Expect::ROOT.to,
        }];
        while let Some(last) = path.last().filter(|step| step.node.depth > 0) {
            let child = *damaged(last.node.entries.get(last.at))?;
            let after = last.node.entries.get(last.at + 1);
            let (from, to) = (
                u64::from(child.logical),
                after.map_or(last.to, |e| u64::from(e.logical)),
            );
            let expect = Expect {
                depth: Some(last.node.depth - 1),
                from,
                to,
            };
            let from = if last.at == 0 { last.from } else { from };
            let (buffer, raw) = self.read_node(node, child.start, expect).await?;
            path.push(Step {
                at: raw.position(block).unwrap_or(0),
                buffer: Some(buffer),
                node: raw,
                from,
                to,
            });
        }
        Ok(path)
    }

    /// State of the file from logical `block` on, and the length for which it holds. Reads the tree
    /// under the `turn` of the file if the cache lacks the block.
    pub(crate) async fn lookup_block(&self, node: &Node, block: u64) -> Result<Piece> {
        let known = node.private.extents.borrow().get(block);
        if let Some(piece) = known {
            return Ok(piece);
        }
        let _turn = node.private.turn.acquire(1).await;
        self.lookup_in_turn(node, block).await
    }

    /// [`Self::lookup_block`] for a caller that holds the `turn` of the file.
    pub(crate) async fn lookup_in_turn(&self, node: &Node, block: u64) -> Result<Piece> {
        let known = node.private.extents.borrow().get(block);
        if let Some(piece) = known {
            return Ok(piece);
        }
        let path = self.path(node, block).await?;
        let leaf = damaged(path.last())?;
        let mut extents = node.private.extents.borrow_mut();
        extents.learn(leaf.from, leaf.to, &leaf.node.entries);
        damaged(extents.get(block))
    }

    /// Stores a node of a path in its block or, for the root, in the inode.
    fn write_node(&self, tx: &P::Tx, node: &Node, step: &Step) {
        let Some(buffer) = &step.buffer else {
            let mut map = [0; inode::MAP_SIZE];
            map.copy_from_slice(
                &node.private.buffer.bytes()[node.private.at + inode::MAP.at..][..inode::MAP_SIZE],
            );
            step.node.encode(&mut map);
            return self.edit_inode(tx, node, |slot| inode::MAP.put(slot, map));
        };
        let mut bytes = *buffer.bytes();
        step.node.encode(&mut bytes[..extent::CHECKSUM.at]);
        if self.geometry.checksums {
            let sum = extent::checksum(node.private.seed, &bytes);
            extent::CHECKSUM.put(&mut bytes, sum);
        }
        self.write_changed(tx, buffer, 0, &bytes);
    }

    /// Updates the pointers above `level` to the first logical block of the node there.
    fn fix_parents(&self, tx: &P::Tx, node: &Node, path: &mut [Step], level: usize) {
        let Some(first) = path[level].node.entries.first().map(|e| e.logical) else {
            return;
        };
        for level in (0..level).rev() {
            let step = &mut path[level];
            if step.node.entries[step.at].logical == first {
                return;
            }
            step.node.entries[step.at].logical = first;
            let first_entry = step.at == 0;
            self.write_node(tx, node, &path[level]);
            if !first_entry {
                return;
            }
        }
    }

    /// Adds an extent in a hole of the file; joins it with its neighbours if possible.
    pub(crate) async fn insert_extent(&self, tx: &P::Tx, node: &Node, entry: Entry) -> Result<()> {
        let mut path = self.path(node, u64::from(entry.logical)).await?;
        let leaf = path.len() - 1;
        if !self.merge(tx, node, &mut path, entry)? {
            let mut spares = self.spares(tx, node, &path, entry).await?.into_iter();
            self.put_entry(tx, node, &mut path, leaf, entry, &mut spares);
        }
        let mut extents = node.private.extents.borrow_mut();
        extents.set(u64::from(entry.logical), entry.end(), State::of(&entry));
        Ok(())
    }

    /// Allocates blocks for the nodes that an insertion into the leaf of `path` adds.
    async fn spares(
        &self,
        tx: &P::Tx,
        node: &Node,
        path: &[Step],
        entry: Entry,
    ) -> Result<Vec<u64>> {
        let full = path.iter().rev().take_while(|step| step.is_full()).count();
        // A full root moves its entries to one new node.
        self.allocate_nodes(tx, node, entry.start, full).await
    }

    async fn allocate_nodes(
        &self,
        tx: &P::Tx,
        node: &Node,
        goal: u64,
        count: usize,
    ) -> Result<Vec<u64>> {
        let mut blocks = Vec::with_capacity(count);
        while blocks.len() < count {
            let want = Want {
                ino: 0,
                goal: self.geometry.group_start(self.geometry.group_of(goal)),
                len: 1,
                keep: 0,
            };
            match self.allocate(tx, want).await {
                Ok(run) => blocks.push(run.start),
                Err(error) => {
                    for &start in &blocks {
                        self.release(tx, Run { start, len: 1 }, false).await?;
                    }
                    return Err(error);
                }
            }
        }
        let added = count as u64 * SECTORS;
        self.count_sectors(tx, node, |sectors| sectors + added);
        Ok(blocks)
    }

    /// Joins `entry` with its neighbours in the leaf; false if none is adjacent. `EUCLEAN` if it
    /// overlaps an extent.
    fn merge(&self, tx: &P::Tx, node: &Node, path: &mut [Step], entry: Entry) -> Result<bool> {
        let level = path.len() - 1;
        let step = &mut path[level];
        let entries = &mut step.node.entries;
        let at = entries.partition_point(|e| e.logical < entry.logical);
        let clear = entries
            .get(at)
            .is_none_or(|e| u64::from(e.logical) >= entry.end())
            && (at == 0 || entries[at - 1].end() <= u64::from(entry.logical));
        damaged(clear.then_some(()))?;
        let mut merged = entry;
        let mut replaced = at..at;
        if at > 0 && entries[at - 1].joins(&entry) {
            merged.logical = entries[at - 1].logical;
            merged.start = entries[at - 1].start;
            merged.len += entries[at - 1].len;
            replaced.start = at - 1;
        }
        if let Some(next) = entries.get(at).filter(|next| merged.joins(next)) {
            merged.len += next.len;
            replaced.end = at + 1;
        }
        if replaced.is_empty() {
            return Ok(false);
        }
        let first = replaced.start == 0;
        entries.splice(replaced, [merged]);
        self.write_node(tx, node, &path[level]);
        if first {
            self.fix_parents(tx, node, path, level);
        }
        Ok(true)
    }

    /// Inserts an entry into the node at `level` of the path; splits the node, and its parents,
    /// if they are full.
    fn put_entry(
        &self,
        tx: &P::Tx,
        node: &Node,
        path: &mut Vec<Step>,
        level: usize,
        entry: Entry,
        spares: &mut impl Iterator<Item = u64>,
    ) {
        let step = &mut path[level];
        let at = step
            .node
            .entries
            .partition_point(|e| e.logical < entry.logical);
        if !step.is_full() {
            step.node.entries.insert(at, entry);
            self.write_node(tx, node, &path[level]);
            if at == 0 {
                self.fix_parents(tx, node, path, level);
            }
            return;
        }
        let block = spares.next().expect("blocks for new nodes were counted");
        if level == 0 {
            self.grow(tx, node, path, block);
            return self.put_entry(tx, node, path, 1, entry, spares);
        }
        let right = split(step, at, entry);
        let depth = step.node.depth;
        self.write_node(tx, node, &path[level]);
        self.fix_parents(tx, node, path, level);
        let logical = right[0].logical;
        self.make_node(
            tx,
            node,
            block,
            Raw {
                depth,
                entries: right,
            },
        );
        let parent = Entry {
            logical,
            start: block,
            ..Entry::default()
        };
        self.put_entry(tx, node, path, level - 1, parent, spares);
    }

    fn make_node(&self, tx: &P::Tx, node: &Node, block: u64, raw: Raw) -> Rc<Buffer> {
        let buffer = self.persist.create(tx, block, Purpose::Pointer);
        buffer.checked.set(true);
        let step = Step {
            buffer: Some(Rc::clone(&buffer)),
            node: raw,
            at: 0,
            from: 0,
            to: 0,
        };
        self.write_node(tx, node, &step);
        buffer
    }

    /// Adds a level: moves the entries of the root to a new node in `block`.
    fn grow(&self, tx: &P::Tx, node: &Node, path: &mut Vec<Step>, block: u64) {
        let root = &mut path[0];
        let depth = root.node.depth;
        let entries = std::mem::take(&mut root.node.entries);
        let (at, from, to) = (root.at, root.from, root.to);
        root.node.entries.push(Entry {
            logical: entries[0].logical,
            start: block,
            ..Entry::default()
        });
        root.node.depth += 1;
        root.at = 0;
        let raw = Raw { depth, entries };
        let buffer = self.make_node(tx, node, block, raw.clone());
        self.write_node(tx, node, &path[0]);
        let child = Step {
            buffer: Some(buffer),
            node: raw,
            at,
            from,
            to,
        };
        path.insert(1, child);
    }

    /// Takes the last extents within `from..to` out of the tree: at most [`STEP_ENTRIES`] of one
    /// leaf. The caller frees their blocks. If a cut in the middle of an extent finds no space for
    /// a new node, the tree is unchanged.
    pub(crate) async fn remove_step(
        &self,
        tx: &P::Tx,
        node: &Node,
        from: u64,
        to: u64,
    ) -> Result<Removed> {
        let mut path = self.path(node, to - 1).await?;
        let level = path.len() - 1;
        let leaf = &mut path[level];
        let (removed, back) = take_range(&mut leaf.node.entries, from, to);
        let Some(lowest) = removed.last().map(|e| u64::from(e.logical)) else {
            return Ok(Removed {
                entries: removed,
                done: true,
            });
        };
        let mut spares = match back {
            Some(back) => self.spares(tx, node, &path, back).await?.into_iter(),
            None => Vec::new().into_iter(),
        };
        let extents = &node.private.extents;
        extents.borrow_mut().set(lowest, to, State::Hole);
        if let Some(back) = back {
            self.put_back(tx, node, &mut path, back, &mut spares);
        } else if path[level].node.entries.is_empty() && level > 0 {
            self.drop_nodes(tx, node, &mut path, level).await?;
        } else {
            self.write_node(tx, node, &path[level]);
            self.fix_parents(tx, node, &mut path, level);
            self.pull_up(tx, node, &path).await?;
        }
        Ok(Removed {
            entries: removed,
            done: lowest <= from,
        })
    }

    /// Stores a leaf with an extent cut in the middle, and inserts the extent's end `back`.
    fn put_back(
        &self,
        tx: &P::Tx,
        node: &Node,
        path: &mut Vec<Step>,
        back: Entry,
        spares: &mut impl Iterator<Item = u64>,
    ) {
        let level = path.len() - 1;
        self.write_node(tx, node, &path[level]);
        self.put_entry(tx, node, path, level, back, spares);
    }

    /// Frees the empty node at `level` and the parents that become empty.
    async fn drop_nodes(
        &self,
        tx: &P::Tx,
        node: &Node,
        path: &mut [Step],
        level: usize,
    ) -> Result<()> {
        let mut blocks = Vec::new();
        let mut level = level;
        while level > 0 && path[level].node.entries.is_empty() {
            blocks.extend(path[level].buffer.as_ref().map(|buffer| buffer.block));
            level -= 1;
            let at = path[level].at;
            path[level].node.entries.remove(at);
        }
        if path[0].node.entries.is_empty() {
            path[0].node.depth = 0;
        }
        self.write_node(tx, node, &path[level]);
        if path[level].at == 0 {
            self.fix_parents(tx, node, path, level);
        }
        self.free_nodes(tx, node, &blocks).await
    }

    async fn free_nodes(&self, tx: &P::Tx, node: &Node, blocks: &[u64]) -> Result<()> {
        for &start in blocks {
            self.release(tx, Run { start, len: 1 }, true).await?;
        }
        let freed = blocks.len() as u64 * SECTORS;
        self.count_sectors(tx, node, |sectors| sectors.saturating_sub(freed));
        Ok(())
    }

    /// Moves the entries of an only leaf into the inode if they fit.
    async fn pull_up(&self, tx: &P::Tx, node: &Node, path: &[Step]) -> Result<()> {
        let [root, leaf] = path else { return Ok(()) };
        let fits = root.node.entries.len() == 1 && leaf.node.entries.len() <= ROOT_MAX;
        let Some(buffer) = leaf.buffer.as_ref().filter(|_| fits) else {
            return Ok(());
        };
        let step = Step {
            buffer: None,
            node: leaf.node.clone(),
            at: 0,
            from: 0,
            to: 0,
        };
        self.write_node(tx, node, &step);
        self.free_nodes(tx, node, &[buffer.block]).await
    }

    /// Whether the tree is only the root in the inode.
    pub(crate) fn is_shallow(&self, node: &Node) -> bool {
        self.root_of(node).is_ok_and(|root| root.depth == 0)
    }
}

/// Splits a full node with `entry` inserted at `at`; returns the right part. At the end
/// of the file the right part is the new entry alone.
fn split(step: &mut Step, at: usize, entry: Entry) -> Vec<Entry> {
    let entries = &mut step.node.entries;
    if at == entries.len() && step.to == Expect::ROOT.to {
        return vec![entry];
    }
    let mut right = entries.split_off(entries.len() / 2);
    match at.checked_sub(entries.len()) {
        Some(at) if at > 0 => right.insert(at, entry),
        _ => entries.insert(at, entry),
    }
    right
}

/// Removes the last parts of `entries` within `from..to`, at most [`STEP_ENTRIES`], the last
/// one first. An extent cut in the middle leaves its end, which is returned to be put back.
fn take_range(entries: &mut Vec<Entry>, from: u64, to: u64) -> (Vec<Entry>, Option<Entry>) {
    let (mut removed, mut back) = (Vec::new(), None);
    let end = entries.partition_point(|e| u64::from(e.logical) < to);
    for index in (0..end).rev() {
        let entry = entries[index];
        let Some(part) = entry.part(from, to) else {
            break;
        };
        if removed.len() == STEP_ENTRIES {
            break;
        }
        removed.push(part);
        let left = entry.part(0, from);
        let right = entry.part(to, u64::MAX);
        match (left, right) {
            (Some(left), right) => {
                entries[index] = left;
                back = right;
            }
            (None, Some(right)) => entries[index] = right,
            (None, None) => {
                entries.remove(index);
            }
        }
    }
    (removed, back)
}
