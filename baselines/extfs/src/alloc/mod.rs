//! What is free: groups, their bitmaps, and who may have what.
//!
//! Each group whose bitmap was needed once has two views of its blocks: the
//! bitmap as it is on the medium, and `busy`, in which also those are set that
//! were freed by a transaction that is not durable yet and those that are kept
//! for a file that grows. Searches look at `busy` only.
//!
//! Invariants: `busy` contains the bitmap; counts of a descriptor agree with its
//! bitmaps; a group whose bitmap is damaged is left alone.

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

/// Blocks of a group.
pub(crate) struct BlockMap {
    pub(crate) buffer: Rc<Buffer>,
    pub(crate) busy: Busy,
    /// Blocks that are not busy.
    pub(crate) free: u32,
    /// No free run is longer.
    pub(crate) longest: u32,
    /// Where the last search ended.
    pub(crate) cursor: u32,
}

/// Inodes of a group.
pub(crate) struct InodeMap {
    pub(crate) buffer: Rc<Buffer>,
    /// No inode before this one is free.
    pub(crate) first_free: u32,
}

/// A group.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) descriptor: Descriptor,
    pub(crate) blocks: Option<BlockMap>,
    pub(crate) inodes: Option<InodeMap>,
    /// A bitmap is damaged: nothing is allocated here.
    pub(crate) damaged: bool,
}

/// All groups.
#[derive(Default)]
pub(crate) struct Alloc {
    pub(crate) groups: Vec<Group>,
    pub(crate) free_blocks: u64,
    pub(crate) free_inodes: u64,
    /// Blocks that were promised to pages which are not written back yet.
    pub(crate) promised: u64,
    /// Blocks kept for files that grow, by inode.
    pub(crate) kept: BTreeMap<u32, Run>,
}

impl Alloc {
    /// All of `groups`, with their sums.
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

    /// Blocks that were neither used nor promised.
    pub(crate) fn available(&self) -> u64 {
        self.free_blocks.saturating_sub(self.promised)
    }
}
