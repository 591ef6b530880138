//! Refusals for lack of space: the limit that a call met, and the holders of the space.
//!
//! Invariant: the log of refusals has the `ENOSPC` errors that calls returned, and those
//! that cut a write short. A refusal is taken back if the allocation is tried again.

use crate::buffer::BLOCK;
use crate::format::xattr::{self, Xattr};
use crate::fs::ExtFs;
use crate::persist::Persist;
use units::NoSpace;
use vfs::{Errno, Result};

const BLOCKS: &str = "blocks";
const INODES: &str = "inodes";
const ATTRIBUTES: &str = "bytes of a block of attributes";
const INDEX: &str = "entries of the index of a directory";

impl<P: Persist> ExtFs<P> {
    fn refuse(&self, limit: &'static str, why: impl FnOnce() -> NoSpace) -> Errno {
        let now = self.sim.now();
        self.refusals.borrow_mut().note(now, limit, why);
        Errno::ENOSPC
    }

    /// Refuses a promise of `asked` blocks, where `kept` blocks have to stay free.
    pub(crate) fn refuse_promise(&self, asked: u64, kept: u64) -> Errno {
        self.refuse(BLOCKS, || {
            let alloc = self.alloc.borrow();
            let (free, of_pages) = (alloc.available(), alloc.promised);
            let why = NoSpace::new(BLOCKS, asked, free, self.geometry.blocks).keeping(kept);
            let why = why.held(
                "pages that are not written back",
                of_pages.min(alloc.free_blocks),
            );
            self.used_blocks(why)
        })
    }

    /// Refuses a block: no group has a usable free one.
    pub(crate) fn refuse_block(&self) -> Errno {
        self.refuse(BLOCKS, || {
            let alloc = self.alloc.borrow();
            let (mut free, mut waiting, mut damaged) = (0, 0, 0);
            for group in &alloc.groups {
                let here = u64::from(group.descriptor.free_blocks);
                let usable = group.blocks.as_ref().map_or(here, |map| map.free.into());
                match group.damaged {
                    true => damaged += here,
                    false => waiting += here.saturating_sub(usable),
                }
                free += if group.damaged { 0 } else { usable.min(here) };
            }
            let why = NoSpace::new(BLOCKS, 1, free, self.geometry.blocks);
            let why = why.held("freed by what is not durable", waiting);
            self.used_blocks(why.held("damaged groups", damaged))
        })
    }

    /// Drops the last refusal of blocks: the caller tries again, so no call returns the error.
    pub(crate) fn take_back_refusal(&self) {
        self.refusals.borrow_mut().take_back(BLOCKS);
    }

    fn used_blocks(&self, why: NoSpace) -> NoSpace {
        let metadata: u64 = self.system.iter().map(|run| run.len).sum();
        let why = why.held("bitmaps, inode tables and superblocks", metadata);
        let why = why.held("the journal", self.options.journal_blocks);
        why.rest("files and directories")
    }

    /// Refuses an inode: no group has a usable free one.
    pub(crate) fn refuse_inode(&self) -> Errno {
        self.refuse(INODES, || {
            let alloc = self.alloc.borrow();
            let broken = alloc.groups.iter().filter(|group| group.damaged);
            let damaged: u64 = broken.map(|g| u64::from(g.descriptor.free_inodes)).sum();
            let dirs = alloc
                .groups
                .iter()
                .map(|g| u64::from(g.descriptor.used_dirs));
            let free = alloc.free_inodes.saturating_sub(damaged);
            NoSpace::new(INODES, 1, free, self.geometry.inodes.into())
                .held("damaged groups", damaged)
                .held("directories", dirs.sum())
                .rest("files, and those that are reserved")
        })
    }

    /// Refuses a name in a directory whose index root is full at `limit` entries.
    pub(crate) fn refuse_index(&self, limit: usize) -> Errno {
        let full = || NoSpace::new(INDEX, 1, 0, limit as u64).rest("blocks of the index");
        self.refuse(INDEX, full)
    }

    /// Refuses a list of attributes that does not fit a block; its last attribute is the new one.
    pub(crate) fn ensure_attributes_fit(&self, list: &[Xattr]) -> Result<()> {
        let room = (BLOCK - xattr::HEADER) as u64;
        let needed = xattr::needed(list) as u64;
        if needed <= room {
            return Ok(());
        }
        Err(self.refuse(ATTRIBUTES, || {
            let others = xattr::needed(&list[..list.len() - 1]) as u64;
            NoSpace::new(ATTRIBUTES, needed - others, room - others, room)
                .rest("other attributes of the file")
        }))
    }
}
