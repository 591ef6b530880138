//! Chunks: made when space is asked for that block groups do not have.
//!
//! Invariant: a chunk is one of the tree of chunks, has its ranges in the tree of the
//! device and its block group in the tree of extents, all with the same commit; before it,
//! nothing on the medium leads into it.
//= btrfs-format 3.1

use crate::format::tree::{Chunk, dev_extent};
use crate::format::{Key, NODE_BYTES, extent, id, kind};
use crate::fs::Core;
use crate::persist::Persist;
use crate::space::Use;
use vfs::Result;

/// Bytes of a chunk, at most: a GiB of contents, a quarter of that of nodes, as in Linux on
/// less than 50 GiB, and 8 MiB of nodes of the tree of chunks.
//= btrfs-format 3.1
const fn most(kind: Use) -> u64 {
    match kind {
        Use::Data => 1 << 30,
        Use::Nodes => 256 << 20,
        Use::System => 8 << 20,
    }
}

/// Bytes of a chunk, of a device of so many: a tenth of it, as in Linux, but 8 MiB at
/// least.
pub(crate) fn chunk_len(kind: Use, total: u64) -> u64 {
    most(kind).min((total / 10).max(8 << 20))
}

/// Nodes that the items of a chunk may need in the tree of chunks, or in the others.
const CHUNK_NODES: u64 = 12;

impl<S: Persist> Core<S> {
    /// Makes another chunk, if the device has room for one; gives whether it had.
    ///
    /// # Errors
    /// `EIO`, `EROFS`.
    pub(crate) async fn add_chunk(&self, kind: Use) -> Result<bool> {
        let _turn = self.chunking.acquire(1).await;
        let _operation = self.look().await;
        self.ensure_sound()?;
        let forest = &self.forest;
        let total = self.superblock.borrow().total_bytes;
        let dup = self.settings.dup && kind != Use::Data;
        if !self.has_room_for_chunk(kind) {
            return Ok(false);
        }
        let len = chunk_len(kind, total);
        let planned = forest.space.borrow().plan_chunk(kind, len, dup);
        let Some(chunk) = planned else {
            return Ok(false);
        };
        let made = self.make_chunk(&chunk).await;
        self.noted(made)?;
        let added = forest.space.borrow_mut().add_chunk(chunk);
        debug_assert!(added, "it was planned where there is room");
        self.since.borrow_mut().made_chunk();
        self.note_change();
        Ok(added)
    }

    /// Whether the items of a chunk have room: four of them, with the ways to them. One for
    /// nodes may take them from what is left for a commit, since it brings more.
    fn has_room_for_chunk(&self, kind: Use) -> bool {
        let space = self.forest.space.borrow();
        let kept = match kind {
            Use::Data => self.debt() + CHUNK_NODES * NODE_BYTES,
            Use::Nodes | Use::System => self.debt() / 2,
        };
        space.free(Use::Nodes) >= space.held() + kept
            && space.free(Use::System) >= CHUNK_NODES * NODE_BYTES
    }

    async fn make_chunk(&self, chunk: &Chunk) -> Result<()> {
        let forest = &self.forest;
        let (device, item) = {
            let mut superblock = self.superblock.borrow_mut();
            let more = chunk.len * chunk.copies.len() as u64;
            superblock.device_used = superblock.device_used.saturating_add(more);
            (superblock.device, superblock.device_item())
        };
        let chunk_item = chunk.item(device);
        self.with(|| forest.insert(&forest.chunks, chunk.key(), &chunk_item))
            .await?;
        let key = Key::new(id::DEV_ITEMS, kind::DEV_ITEM, id::DEVICE);
        self.with(|| forest.set(&forest.chunks, key, &item)).await?;
        let tree = forest.identity.get().chunk_tree;
        for copy in &chunk.copies {
            let key = Key::new(id::DEVICE, kind::DEV_EXTENT, *copy);
            let item = dev_extent::bytes(chunk.start, chunk.len, tree);
            self.with(|| forest.insert(&forest.devices, key, &item))
                .await?;
        }
        let mut group = [0; extent::group::SIZE];
        extent::group::CHUNK_OBJECT.put(&mut group, id::CHUNKS);
        extent::group::FLAGS.put(&mut group, chunk.flags);
        let key = Key::new(chunk.start, kind::BLOCK_GROUP_ITEM, chunk.len);
        self.with(|| forest.insert(&forest.extents, key, &group))
            .await
    }
}
