//! Why there was no space: the limit that was met, and who holds it.
//!
//! Invariant: what is free and what holders have add up to what there is.

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
    /// Notes that a limit was met.
    fn refuse(&self, limit: &'static str, why: impl FnOnce() -> NoSpace) -> Errno {
        let now = self.sim.now();
        self.refusals.borrow_mut().note(now, limit, why);
        Errno::ENOSPC
    }

    /// Contents were to get more than is free and not promised.
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

    /// An operation may need more nodes than are free besides what a commit needs.
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

    /// A name was to be beside others of the same hash that leave no room.
    pub(crate) fn refuse_hash(&self) -> Errno {
        self.refuse(HASHES, || {
            NoSpace::new(HASHES, 1, 0, NODE_BYTES).rest("names")
        });
        Errno::EOVERFLOW
    }

    /// `asked` bytes of an attribute were to be where there is `room`.
    pub(crate) fn refuse_attribute(&self, asked: usize, room: usize) -> Errno {
        let (asked, room) = (asked as u64, room as u64);
        let why = || NoSpace::new(ATTRIBUTES, asked, room, NODE_BYTES).rest("other attributes");
        self.refuse(ATTRIBUTES, why)
    }

    /// There were as many subvolumes as there are numbers.
    pub(crate) fn refuse_tree(&self) -> Errno {
        self.refuse(TREES, || {
            NoSpace::new(TREES, 1, 0, LAST_TREE).rest("subvolumes that there were")
        })
    }

    /// A subvolume has had as many inodes as there are numbers.
    pub(crate) fn refuse_inode(&self) -> Errno {
        self.refuse(INODES, || {
            NoSpace::new(INODES, 1, 0, 1 << 44).rest("inodes that there were")
        })
    }
}
