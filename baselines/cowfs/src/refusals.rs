//! Refusals for lack of space: the limit that was reached, and the holders of the space.
//!
//! Invariant: free space and the holders' shares add up to the size of the resource.

use crate::format::NODE_BYTES;
use crate::fs::{Core, LAST_TREE};
use crate::persist::Persist;
use crate::space::Use;
use units::NoSpace;
use vfs::Errno;

const DATA: &str = "bytes for contents";
const NODES: &str = "bytes for nodes of trees";
const HASHES: &str = "bytes of names with one hash in a directory";
const ATTRIBUTES: &str = "bytes of attributes with one hash";
const INODES: &str = "numbers of inodes";
const TREES: &str = "numbers of subvolumes";

impl<S: Persist> Core<S> {
    /// Records that `limit` was reached; returns `ENOSPC`.
    fn refuse(&self, limit: &'static str, why: impl FnOnce() -> NoSpace) -> Errno {
        let now = self.sim.now();
        self.refusals.borrow_mut().note(now, limit, why);
        Errno::ENOSPC
    }

    /// Refuses `asked` bytes of contents that exceed the free and unpromised space.
    pub(crate) fn refuse_data(&self, asked: u64) -> Errno {
        self.refuse(DATA, || {
            let space = self.forest.space.borrow();
            let (free, promised) = (space.free(Use::Data), space.promised());
            let none = NoSpace::new(
                DATA,
                asked,
                free.saturating_sub(promised),
                space.size(Use::Data),
            );
            let pinned = space.pinned(Use::Data);
            none.held("pages that have no place yet", promised.min(free))
                .held("extents that the next commit frees", pinned)
                .rest("extents of files, each whole while a part of it is in use")
        })
    }

    /// Refuses an operation that may need `asked` bytes of nodes: less is free beyond what
    /// the next commit and operations under way need.
    pub(crate) fn refuse_nodes(&self, asked: u64) -> Errno {
        self.refuse(NODES, || {
            let space = self.forest.space.borrow();
            let (free, held) = (space.free(Use::Nodes), space.held());
            let left = free.saturating_sub(held);
            let none = NoSpace::new(NODES, asked, left, space.size(Use::Nodes));
            none.keeping(self.debt())
                .held("operations under way", held.min(free))
                .held("nodes that the next commit frees", space.pinned(Use::Nodes))
                .rest("nodes of trees")
        })
    }

    /// Refuses a name whose hash item has no room left; returns `EOVERFLOW`.
    pub(crate) fn refuse_hash(&self) -> Errno {
        self.refuse(HASHES, || {
            NoSpace::new(HASHES, 1, 0, NODE_BYTES).rest("names")
        });
        Errno::EOVERFLOW
    }

    /// Refuses an attribute of `asked` bytes whose hash item has only `room` bytes left.
    pub(crate) fn refuse_attribute(&self, asked: usize, room: usize) -> Errno {
        let (asked, room) = (asked as u64, room as u64);
        let why = || NoSpace::new(ATTRIBUTES, asked, room, NODE_BYTES).rest("other attributes");
        self.refuse(ATTRIBUTES, why)
    }

    /// Refuses a subvolume because all subvolume numbers have been used.
    pub(crate) fn refuse_tree(&self) -> Errno {
        self.refuse(TREES, || {
            NoSpace::new(TREES, 1, 0, LAST_TREE).rest("subvolumes that there were")
        })
    }

    /// Refuses an inode because its subvolume has used all inode numbers.
    pub(crate) fn refuse_inode(&self) -> Errno {
        self.refuse(INODES, || {
            NoSpace::new(INODES, 1, 0, 1 << 44).rest("inodes that there were")
        })
    }
}
