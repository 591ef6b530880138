//! An inode in memory, with what the cache keeps beside it.
//!
//! Invariants: `pages` leads to frames of the pool that belong to this inode and
//! to no other; `dirty` counts its tagged pages; `batches` names the write-backs
//! that have not returned, and while there is none, no page is under write-back; a
//! name in `names` agrees with the body.

use crate::failure::Failures;
use crate::inode::Inode;
use crate::known::Names;
use crate::locks::FileLocks;
use crate::radix::Radix;
use crate::types::{Attr, FileKind, Ino};
use sim::{RwLock, Signal, Sim};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Ns;

/// State of a name in the cache of its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// The name leads to this inode.
    Leads(Ino),
    /// The directory has no such name.
    Absent,
    /// A task is looking the name up on the medium; `Node::looked` is notified at the end.
    Sought,
}

pub(crate) struct Node<P> {
    pub(crate) inode: Inode<P>,
    /// The inode lock: exclusive for calls that change a directory, write or truncate a file;
    /// shared for calls that read.
    pub(crate) lock: RwLock,
    pub(crate) pages: RefCell<Radix<u32>>,
    pub(crate) dirty: Cell<u32>,
    /// Time at which the inode became dirty; valid while `dirty` is not 0.
    pub(crate) dirtied: Cell<Ns>,
    pub(crate) batches: RefCell<Vec<u64>>,
    /// Pages being loaded from the medium.
    pub(crate) loading: Cell<u32>,
    /// Notified after a page was loaded or written back.
    pub(crate) changed: Signal,
    pub(crate) failures: Failures,
    /// Calls that are making this file durable.
    pub(crate) forces: Cell<u32>,
    /// References that [`Vfs`](crate::Vfs) calls have returned and `forget` has not dropped.
    pub(crate) lookups: Cell<u64>,
    pub(crate) opens: Cell<u32>,
    /// Ticket in the eviction queue of inodes, or 0.
    pub(crate) queued: Cell<u64>,
    pub(crate) names: RefCell<Names>,
    /// Notified after a lookup on the medium has ended.
    pub(crate) looked: Signal,
    /// Whether a cached name was used since the directory's last turn in `shrink_names`.
    pub(crate) names_used: Cell<bool>,
    /// Ticket in the eviction queue of names, or 0.
    pub(crate) names_queued: Cell<u64>,
    /// Set for an inode created without a name, until it is linked.
    pub(crate) unnamed: Cell<bool>,
    /// Parent of this directory, once known.
    pub(crate) parent: Cell<Option<Ino>>,
    pub(crate) locks: FileLocks,
}

impl<P> Node<P> {
    pub(crate) fn new(sim: &Sim, inode: Inode<P>) -> Rc<Self> {
        Rc::new(Self {
            inode,
            lock: RwLock::new(sim),
            pages: RefCell::default(),
            dirty: Cell::new(0),
            dirtied: Cell::new(Ns(0)),
            batches: RefCell::default(),
            loading: Cell::new(0),
            changed: Signal::default(),
            failures: Failures::default(),
            forces: Cell::new(0),
            lookups: Cell::new(0),
            opens: Cell::new(0),
            queued: Cell::new(0),
            names: RefCell::default(),
            looked: Signal::default(),
            names_used: Cell::new(false),
            names_queued: Cell::new(0),
            unnamed: Cell::new(false),
            parent: Cell::new(None),
            locks: FileLocks::default(),
        })
    }

    #[inline]
    pub(crate) fn ino(&self) -> Ino {
        self.inode.ino
    }

    #[inline]
    pub(crate) fn attr(&self) -> Attr {
        self.inode.attr.get()
    }

    pub(crate) fn size(&self) -> u64 {
        self.attr().size
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.attr().kind == FileKind::Directory
    }

    /// The frame of a page, if it is in the cache.
    #[inline]
    pub(crate) fn frame(&self, index: u64) -> Option<u32> {
        self.pages.borrow().get(index).copied()
    }
}
