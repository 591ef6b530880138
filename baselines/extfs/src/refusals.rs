//! Why there was no space: the limit that was met, and who holds it.
//!
//! Invariant: what a log of refusals has is what a call was told, but for the parts of a
//! write that was made in part; what is tried again once space is free is taken back.

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

    /// `asked` blocks were asked for, and `kept` have to stay free.
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

    /// A block was asked for, and there was none in any group.
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

    /// What is refused is tried again, so nobody is told.
    pub(crate) fn take_back_refusal(&self) {
        self.refusals.borrow_mut().take_back(BLOCKS);
    }

    fn used_blocks(&self, why: NoSpace) -> NoSpace {
        let metadata: u64 = self.system.iter().map(|run| run.len).sum();
        let why = why.held("bitmaps, inode tables and superblocks", metadata);
        let why = why.held("the journal", self.options.journal_blocks);
        why.rest("files and directories")
    }

    /// An inode was asked for, and there was none in any group.
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

    /// A directory needs more entries in the top of its index than there is room for.
    pub(crate) fn refuse_index(&self, limit: usize) -> Errno {
        let full = || NoSpace::new(INDEX, 1, 0, limit as u64).rest("blocks of the index");
        self.refuse(INDEX, full)
    }

    /// Whether these attributes fit a block; the last one is new.
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
