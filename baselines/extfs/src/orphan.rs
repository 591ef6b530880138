//! The list of inodes that are in use and lead nowhere after a power cut: files
//! without a name, and files that are being cut over several transactions.
//!
//! On the medium the superblock names the first, and each of them the next, where
//! an inode in peace keeps the time of its deletion.
//!
//! Invariant: the list in memory is the one on the medium, backwards.

use crate::format::inode as raw;
use crate::format::superblock as sb;
use crate::fs::{ExtFs, Node};
use crate::inode::number;
use crate::persist::Persist;
use vfs::{Errno, Result};

/// Blocks of metadata that a change of the list touches: the superblock and the inode before.
pub(crate) const CREDITS: usize = 3;

impl<P: Persist> ExtFs<P> {
    pub(crate) fn is_orphan(&self, ino: u32) -> bool {
        self.orphans
            .borrow()
            .iter()
            .rev()
            .any(|&orphan| orphan == ino)
    }

    /// Puts `node` at the head of the list.
    //= ext4-layout 5.1
    pub(crate) fn add_orphan(&self, tx: &P::Tx, node: &Node) {
        let ino = number(node);
        if self.is_orphan(ino) {
            return;
        }
        let next = self.orphans.borrow().last().copied().unwrap_or(0);
        self.edit_inode(tx, node, |slot| raw::DTIME.put(slot, next));
        self.edit_superblock(tx, |bytes| sb::LAST_ORPHAN.put(bytes, ino));
        self.orphans.borrow_mut().push(ino);
    }

    /// Takes `node` out of the list.
    pub(crate) async fn remove_orphan(&self, tx: &P::Tx, node: &Node) -> Result<()> {
        let ino = number(node);
        loop {
            let (at, before) = {
                let orphans = self.orphans.borrow();
                let Some(at) = orphans.iter().rposition(|&orphan| orphan == ino) else {
                    return Ok(());
                };
                (at, orphans.get(at + 1).copied())
            };
            let next = at.checked_sub(1).map_or(0, |at| self.orphans.borrow()[at]);
            let Some(before) = before else {
                self.edit_superblock(tx, |bytes| sb::LAST_ORPHAN.put(bytes, next));
                break;
            };
            let place = self.read_slot(before).await?;
            // While the block was read, the list may have changed.
            let same = self.orphans.borrow().get(at + 1) == Some(&before)
                && self.orphans.borrow().get(at) == Some(&ino);
            if same {
                self.edit_slot(tx, &place, before, |slot| raw::DTIME.put(slot, next));
                break;
            }
        }
        self.orphans.borrow_mut().retain(|&orphan| orphan != ino);
        self.edit_inode(tx, node, |slot| raw::DTIME.put(slot, 0));
        Ok(())
    }

    /// Finishes what a power cut interrupted: frees inodes without a name, cuts
    /// the others to their size.
    pub(crate) async fn clean_orphans(&self) -> Result<()> {
        let mut list = self.orphan_list().await?;
        list.reverse();
        self.orphans.borrow_mut().clone_from(&list);
        loop {
            let next = self.orphans.borrow().last().copied();
            let Some(ino) = next else { return Ok(()) };
            let node = self.load_inode(ino, true).await?;
            if node.attr.get().nlink == 0 {
                self.delete(&node).await?;
            } else {
                self.cut_to_size(&node).await?;
            }
            if self.is_orphan(ino) {
                return Err(Errno::EUCLEAN);
            }
        }
    }

    /// The list on the medium, from its head.
    async fn orphan_list(&self) -> Result<Vec<u32>> {
        let head = sb::LAST_ORPHAN.get(&self.superblock.bytes()[sb::OFFSET..]);
        let mut list = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut next = head;
        while next != 0 {
            let usable = next >= self.geometry.first_inode && next <= self.geometry.inodes;
            if !usable || !seen.insert(next) {
                return Err(Errno::EUCLEAN);
            }
            list.push(next);
            let node = self.load_inode(next, true).await?;
            next = raw::DTIME.get(&self.slot(&node).0);
        }
        Ok(list)
    }
}
