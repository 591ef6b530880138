//! The allocator: free blocks and inodes of the groups, promises and reservations.
//!
//! A group with a loaded block bitmap has two views of its blocks: the bitmap as on the medium, and
//! `busy`. `busy` also contains the blocks that a transaction freed which is not durable yet, the
//! blocks kept for a file that grows, and the blocks of structures. Searches look at `busy` only.
//!
//! Invariants: `busy` contains the bitmap; counts of a descriptor agree with its
//! bitmaps; the allocator hands out nothing of a group with a damaged bitmap.

mod bits;
mod blocks;
mod inodes;

pub(crate) use bits::Busy;
pub(crate) use blocks::Want;
pub(crate) use inodes::NewSlot;

use crate::buffer::Buffer;
use crate::format::group::Descriptor;
use crate::persist::Run;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The loaded block bitmap of a group.
pub(crate) struct BlockMap {
    pub(crate) buffer: Rc<Buffer>,
    pub(crate) busy: Busy,
    /// Blocks that are not busy.
    pub(crate) free: u32,
    /// Upper bound on the length of a free run; [`bits::BITS`] while it is unknown.
    pub(crate) longest: u32,
    /// Bit behind the last allocation: a search without a goal in this group starts here.
    pub(crate) cursor: u32,
}

/// The loaded inode bitmap of a group.
pub(crate) struct InodeMap {
    pub(crate) buffer: Rc<Buffer>,
    /// Lower bound on the index of the first free inode.
    pub(crate) first_free: u32,
}

/// A block group: its descriptor, and its bitmaps once they are loaded.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) descriptor: Descriptor,
    pub(crate) blocks: Option<BlockMap>,
    pub(crate) inodes: Option<InodeMap>,
    /// A bitmap has a wrong checksum or a wrong count: the allocator skips the group.
    pub(crate) damaged: bool,
}

/// State of the allocator: groups, sums over them, promises and kept runs.
#[derive(Default)]
pub(crate) struct Alloc {
    pub(crate) groups: Vec<Group>,
    pub(crate) free_blocks: u64,
    pub(crate) free_inodes: u64,
    /// Blocks promised to dirty pages that have no block until write-back.
    pub(crate) promised: u64,
    /// Blocks kept for files that grow, by inode.
    pub(crate) kept: BTreeMap<u32, Run>,
}

impl Alloc {
    /// Builds the state from the descriptors in the order of their groups.
    pub(crate) fn new(descriptors: impl Iterator<Item = Descriptor>) -> Self {
        let mut alloc = Self::default();
        for descriptor in descriptors {
            alloc.free_blocks += u64::from(descriptor.free_blocks);
            alloc.free_inodes += u64::from(descriptor.free_inodes);
            alloc.groups.push(Group {
                descriptor,
                ..Group::default()
            });
        }
        alloc
    }

    /// Blocks that are neither used nor promised.
    pub(crate) fn available(&self) -> u64 {
        self.free_blocks.saturating_sub(self.promised)
    }
}
