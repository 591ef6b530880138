//! Chunk allocation, on demand when the block groups of a kind lack space.
//!
//! Invariant: the chunk's item, its device ranges and its block group become durable with the
//! same commit; before that commit, nothing on the medium leads into the chunk.
//= btrfs-format 3.1

use crate::format::tree::{Chunk, dev_extent};
use crate::format::{Key, NODE_BYTES, extent, id, kind};
use crate::fs::Core;
use crate::persist::Persist;
use crate::space::Use;
use vfs::Result;

/// Maximum length of a chunk in bytes: 1 GiB for contents, 256 MiB for nodes, as in Linux on
/// less than 50 GiB, and 8 MiB for nodes of the tree of chunks.
//= btrfs-format 3.1
const fn most(kind: Use) -> u64 {
    match kind {
        Use::Data => 1 << 30,
        Use::Nodes => 256 << 20,
        Use::System => 8 << 20,
    }
}

/// Length in bytes of a new chunk on a device of `total` bytes: a tenth of the device, as in
/// Linux, at least 8 MiB, and at most the limit of its kind.
pub(crate) fn chunk_len(kind: Use, total: u64) -> u64 {
    most(kind).min((total / 10).max(8 << 20))
}

/// Nodes that the items of a new chunk may need: as many in the tree of chunks as in the
/// other trees together.
const CHUNK_NODES: u64 = 12;

impl<S: Persist> Core<S> {
    /// Adds a chunk of this kind. Returns false if the device or the trees lack room for it.
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

    /// Whether the trees have room for the items of a chunk and the paths to them. A chunk for
    /// nodes may use half of the commit's reserve, since it adds room for nodes.
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
