//! Taking blocks away from files.
//!
//! Invariant: a file that takes several handles to cut is on the list of orphans
//! meanwhile, so that a power cut does not leave blocks past its end.

use crate::buffer::BLOCK;
use crate::format::extent::Entry;
use crate::format::inode as raw;
use crate::fs::{ExtFs, Node};
use crate::inode::number;
use crate::persist::{Persist, Run};
use crate::tree::{SECTORS, STEP_CREDITS};
use crate::{orphan, xattrs};
use vfs::{FileKind, Result};

/// One past the last block that a file can have.
pub(crate) const END: u64 = 1 << 32;

/// Blocks of metadata that a handle changes which frees blocks: a step, the
/// inode and its place on the list, attributes, and the inode's own bitmap.
pub(crate) const FREE_CREDITS: usize = STEP_CREDITS + orphan::CREDITS + xattrs::CREDITS + 4;

/// Whether the blocks of a file are metadata to a journal.
pub(crate) fn is_metadata(node: &Node) -> bool {
    matches!(
        node.attr.get().kind,
        FileKind::Directory | FileKind::Symlink
    )
}

pub(crate) fn has_tree(node: &Node) -> bool {
    node.private.flags.get() & raw::FLAG_EXTENTS != 0
}

impl<P: Persist> ExtFs<P> {
    async fn release_entries(&self, tx: &P::Tx, node: &Node, entries: &[Entry]) -> Result<()> {
        for entry in entries {
            let run = Run {
                start: entry.start,
                len: u64::from(entry.len),
            };
            self.release(tx, run, is_metadata(node)).await?;
            let freed = run.len * SECTORS;
            self.count_sectors(tx, node, |sectors| sectors.saturating_sub(freed));
        }
        Ok(())
    }

    async fn free_step(&self, tx: &P::Tx, node: &Node, from: u64, to: u64) -> Result<bool> {
        let _turn = node.private.turn.acquire(1).await;
        let removed = self.remove_step(tx, node, from, to).await?;
        self.release_entries(tx, node, &removed.entries).await?;
        self.store_data(tx, node);
        Ok(removed.done)
    }

    /// Frees the blocks of a file in `from..to` over as many handles as it takes,
    /// and gives back an open one.
    pub(crate) async fn free_range(
        &self,
        tx: P::Tx,
        node: &Node,
        from: u64,
        to: u64,
    ) -> Result<P::Tx> {
        let mut tx = tx;
        if from >= to {
            return Ok(tx);
        }
        loop {
            match self.free_step(&tx, node, from, to).await {
                Ok(true) => return Ok(tx),
                Ok(false) if self.persist.extend(&mut tx, STEP_CREDITS) => {}
                Ok(false) => {
                    self.persist.end(tx).await?;
                    tx = self.persist.begin(FREE_CREDITS).await?;
                }
                Err(error) => {
                    self.persist.end(tx).await?;
                    return Err(error);
                }
            }
        }
    }

    /// Makes the file on the medium as long as its size says.
    pub(crate) async fn cut_to_size(&self, node: &Node) -> Result<()> {
        let size = node.attr.get().size;
        let first = size.div_ceil(BLOCK as u64);
        self.unpromise(node, first..u64::MAX);
        self.unkeep(number(node));
        let mut tx = self.persist.begin(FREE_CREDITS).await?;
        node.private.disk_size.set(size);
        self.store_data(&tx, node);
        if has_tree(node) {
            if !self.is_shallow(node) {
                self.add_orphan(&tx, node);
            }
            tx = self.free_range(tx, node, first, END).await?;
        }
        let result = if node.attr.get().nlink > 0 {
            self.remove_orphan(&tx, node).await
        } else {
            Ok(())
        };
        self.finish(tx, result).await
    }

    /// Closes a handle after work that may have failed.
    pub(crate) async fn finish<T>(&self, tx: P::Tx, result: Result<T>) -> Result<T> {
        self.persist.end(tx).await?;
        result
    }

    /// Frees an inode that has no name any more, with all that it has.
    pub(crate) async fn delete(&self, node: &Node) -> Result<()> {
        self.unpromise(node, 0..u64::MAX);
        self.unkeep(number(node));
        let mut tx = self.persist.begin(FREE_CREDITS).await?;
        if has_tree(node) {
            self.add_orphan(&tx, node);
            tx = self.free_range(tx, node, 0, END).await?;
        }
        let result = self.delete_rest(&tx, node).await;
        self.finish(tx, result).await
    }

    async fn delete_rest(&self, tx: &P::Tx, node: &Node) -> Result<()> {
        self.drop_xattr_block(tx, node).await?;
        self.remove_orphan(tx, node).await?;
        self.free_inode(tx, node).await
    }
}
