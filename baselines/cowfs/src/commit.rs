//! Commits: the trees of one instant, made durable together.
//!
//! Invariants: a commit ends with a superblock, which alone leads to the nodes it has written;
//! freed space is overwritten only once that superblock is durable. The next transaction runs
//! while the nodes of a commit are being written. The nodes of the commit do not change
//! meanwhile: the next transaction copies them first, or, where nodes are changed in place,
//! the batch holds a copy of their bytes.
//= btrfs-format 1.2

use crate::forest::Tree;
use crate::format::superblock::{State, Superblock};
use crate::format::{Key, NODE_BYTES, NODE_SECTORS, SECTOR, extent, id, kind};
use crate::fs::Core;
use crate::nodes::{Dirt, Node, TreeKind};
use crate::persist::{Batch, ChangedNode, FreshNode, Persist, Reason};
use nand::Payload;
use std::rc::Rc;
use std::sync::Arc;
use vfs::Result;

/// Nodes of a batch, referenced until it is durable so that the cache keeps them.
type Taken = Vec<Rc<Node>>;

impl<S: Persist> Core<S> {
    /// Makes all changes so far durable; a no-op if a commit already covers them.
    pub(crate) async fn commit(&self) -> Result<()> {
        self.publish(Reason::Commit).await
    }

    /// Commits because a file was forced; counted as a forced commit.
    pub(crate) async fn commit_forced(&self) -> Result<()> {
        self.publish(Reason::Forced).await
    }

    async fn publish(&self, reason: Reason) -> Result<()> {
        let changes = self.changes.get();
        let _publishing = self.publishing.acquire(1).await;
        self.ensure_sound()?;
        // Another commit may have covered these changes meanwhile.
        if self.settled.get() >= changes {
            return Ok(());
        }
        if reason == Reason::Forced {
            self.tally(|counts| counts.forced_commits += 1);
        }
        let alone = self.alone().await;
        self.ensure_sound()?;
        let changes = self.changes.get();
        let finished = self.finish().await;
        self.noted(finished)?;
        let (batch, on_their_way) = self.noted(self.take_batch(reason))?;
        let freed = self.forest.space.borrow_mut().take_pinned();
        // A log is one generation behind its superblock, which may be as it was.
        let generation = self.committed.borrow().generation;
        self.forest.transid.set(generation + 1);
        self.since.borrow_mut().clear();
        drop(alone);
        let published = self.persist.publish(batch).await;
        self.noted(published)?;
        drop(on_their_way);
        self.settled.set(changes);
        self.discard(&freed).await;
        self.forest.space.borrow_mut().unpin(&freed);
        self.tally(|counts| counts.commits += 1);
        Ok(())
    }

    /// Brings the trees of extents, sums and roots up to date. Repeats until nothing changes,
    /// since each update may change the trees themselves.
    async fn finish(&self) -> Result<()> {
        self.drop_log();
        let forest = &self.forest;
        loop {
            self.settle_refs().await?;
            let groups = forest.space.borrow_mut().take_changed();
            for (start, len, used, flags) in groups {
                let mut item = [0; extent::group::SIZE];
                extent::group::USED.put(&mut item, used);
                extent::group::CHUNK_OBJECT.put(&mut item, id::CHUNKS);
                extent::group::FLAGS.put(&mut item, flags);
                let key = Key::new(start, kind::BLOCK_GROUP_ITEM, len);
                self.with(|| forest.put(&forest.extents, key, &item))
                    .await?;
            }
            let trees = self.changed_trees();
            for tree in &trees {
                self.store_root(tree).await?;
            }
            let done = trees.is_empty() && forest.refs.borrow().steps() == 0;
            if done && !self.renew_root().await? {
                return Ok(());
            }
        }
    }

    /// Copies the root of the tree of roots if nodes are changed in place and a new superblock is
    /// due, because the superblock takes its generation from that node. A tree that has shrunk may
    /// have a root that is older than the root before.
    async fn renew_root(&self) -> Result<bool> {
        let forest = &self.forest;
        let (roots, now) = (&forest.roots, forest.transid.get());
        let start = roots.start.get();
        let moved = start != self.committed.borrow().root;
        let is_due = moved || forest.nodes.borrow().has_fresh();
        let renews = forest.in_place && start.generation < now && is_due;
        if renews {
            self.with(|| forest.copy_root(roots)).await?;
        }
        Ok(renews)
    }

    /// Trees with a root item that is out of date.
    fn changed_trees(&self) -> Vec<Rc<Tree>> {
        let forest = &self.forest;
        let own = [&forest.extents, &forest.devices, &forest.csums];
        let trees = self.trees.borrow();
        let all = own.into_iter().chain(trees.values());
        all.filter(|tree| tree.is_unsaid()).cloned().collect()
    }

    /// Writes the root item of a tree with the current address, generation and level of its root.
    pub(crate) async fn store_root(&self, tree: &Tree) -> Result<()> {
        let start = tree.start.get();
        tree.changed.set(false);
        let mut item = tree.item.borrow().clone();
        item.set_place(start.bytenr, start.generation, start.level);
        item.set_bytes_used(tree.bytes_used.get());
        item.set_last_snapshot(tree.last_snapshot.get());
        if id::is_subvolume(tree.id) {
            item.touch(self.forest.transid.get(), self.now());
        }
        *tree.item.borrow_mut() = item.clone();
        let key = tree.root_key();
        let roots = &self.forest.roots;
        self.with(|| self.forest.put(roots, key, item.bytes()))
            .await
    }

    /// Applies all pending reference changes to the tree of extents, and removes the sums of
    /// contents that have lost their last reference.
    async fn settle_refs(&self) -> Result<()> {
        let forest = &self.forest;
        // Sweeps by ascending address until none is left, so that changed nodes are near.
        let mut from = 0;
        loop {
            let Some((at, gone)) = self.with(|| forest.settle_ref(from)).await? else {
                if from == 0 {
                    return Ok(());
                }
                from = 0;
                continue;
            };
            from = at;
            if let Some(gone) = gone.filter(|gone| gone.data) {
                self.remove_sums(&forest.csums, at, gone.len).await?;
            }
        }
    }

    /// Takes all dirty nodes into a batch, with the superblocks that lead to them.
    fn take_batch(&self, reason: Reason) -> Result<(Batch, Taken)> {
        let (mut batch, taken) = self.take_nodes(reason, |_| true)?;
        batch.replaced = self.replaced.take();
        let mut superblock = self.superblock.borrow_mut();
        self.refresh(&mut superblock);
        // Where nodes are changed in place, the superblock may be unchanged.
        if !self.forest.in_place || *superblock != *self.committed.borrow() {
            let places = Superblock::places(superblock.total_bytes);
            batch.superblocks = places.map(|at| (at, superblock.encode(at))).collect();
            self.committed.borrow_mut().clone_from(&superblock);
        }
        Ok((batch, taken))
    }

    /// Takes the dirty nodes that `wanted` selects into a batch. The caller keeps the second
    /// value until the batch is on the medium, so that readers find the nodes in the cache.
    pub(crate) fn take_nodes(
        &self,
        reason: Reason,
        wanted: impl Fn(&Node) -> bool,
    ) -> Result<(Batch, Taken)> {
        let mut batch = Batch {
            reason,
            fresh: Vec::new(),
            changed: Vec::new(),
            replaced: Vec::new(),
            superblocks: Vec::new(),
            origin: self.settings.origin,
        };
        let taken = self.forest.nodes.borrow_mut().take_dirty(wanted);
        let mut stats = self.forest.stats.get();
        for node in &taken {
            let (dirt, owner, generation) = (node.dirt(), node.owner(), node.generation());
            let (bytes, ranges) = node.seal();
            let sectors = bytes.chunks_exact(SECTOR);
            let mut contents: [Payload; NODE_SECTORS] = Default::default();
            for (sector, payload) in sectors.zip(&mut contents) {
                let sector: [u8; SECTOR] = sector.try_into().expect("chunks have this length");
                *payload = Payload::Bytes(Arc::new(sector));
            }
            let tree = TreeKind::of(owner);
            let written = FreshNode {
                address: node.bytenr,
                places: self.places(node.bytenr, NODE_BYTES)?,
                contents,
                tree,
            };
            if dirt == Dirt::Fresh {
                stats.written[tree as usize] += 1;
                batch.fresh.push(written);
            } else if !ranges.is_empty() {
                stats.handed[tree as usize] += 1;
                batch.changed.push(ChangedNode {
                    node: written,
                    generation,
                    ranges,
                });
            }
        }
        self.forest.stats.set(stats);
        self.forest.nodes.borrow_mut().shrink();
        Ok((batch, taken))
    }

    /// Updates the superblock, and one of its four backups, to the current roots and usage.
    fn refresh(&self, superblock: &mut Superblock) {
        let forest = &self.forest;
        superblock.root = forest.roots.start.get();
        // The root's generation: that of this transaction, unless all changes are in place.
        let generation = superblock.root.generation;
        superblock.generation = generation;
        superblock.chunk_root = forest.chunks.start.get();
        superblock.log_root = None;
        let space = forest.space.borrow();
        let used = space.groups().map(|group| group.used).sum();
        superblock.bytes_used = used;
        let files = self.tree(id::FS_TREE).map(|tree| tree.start.get());
        let state = State {
            starts: [
                superblock.root,
                superblock.chunk_root,
                forest.extents.start.get(),
                files.unwrap_or_default(),
                forest.devices.start.get(),
                forest.csums.start.get(),
            ],
            bytes_used: used,
        };
        superblock.backups[(generation % 4) as usize] = state;
    }
}
