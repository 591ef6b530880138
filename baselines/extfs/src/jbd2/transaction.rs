//! Transactions and the blocks that they change.
//!
//! Invariants: a block is in the running transaction, in the committing transaction, in both or in
//! none; its bytes in memory belong to the newer of them. The copy for the log is taken when the
//! transaction closes. A block whose committed bytes are not home yet names the transaction that
//! committed them, and the checkpoint of that transaction counts the block.

use crate::buffer::Buffer;
use crate::persist::Run;
use host::{Purpose, Who};
use nand::Payload;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{Ns, Placement};

/// Contents of a block in memory.
pub(super) enum Content {
    /// Metadata, shared with the body.
    Buffer(Rc<Buffer>),
    /// File contents, with the placement and attribution of their home write.
    Data(Payload, Placement, Who),
}

/// A block in memory. Transactions are named by their numbers; 0 is none.
pub(super) struct Entry {
    pub(super) block: u64,
    pub(super) content: RefCell<Content>,
    /// Time of the last use, on the clock of the cache.
    pub(super) used: Cell<u64>,
    /// The running transaction, if that changes or forgets it.
    pub(super) running: Cell<u64>,
    /// The open transaction that forgets it.
    pub(super) forgotten: Cell<u64>,
    /// The committing transaction, if that changes or forgets it.
    pub(super) committing: Cell<u64>,
    /// The transaction whose committed bytes of this block are not home yet.
    pub(super) checkpoint: Cell<u64>,
    /// A home write is in flight.
    pub(super) writing: Cell<bool>,
}

impl Entry {
    pub(super) fn new(block: u64, content: Content) -> Self {
        Self {
            block,
            content: RefCell::new(content),
            used: Cell::default(),
            running: Cell::default(),
            forgotten: Cell::default(),
            committing: Cell::default(),
            checkpoint: Cell::default(),
            writing: Cell::default(),
        }
    }

    pub(super) fn of_buffer(buffer: Buffer) -> Self {
        Self::new(buffer.block, Content::Buffer(Rc::new(buffer)))
    }

    /// Whether the running or the committing transaction has this block.
    pub(super) fn is_joined(&self) -> bool {
        self.running.get() != 0 || self.committing.get() != 0
    }

    /// Whether the entry can be evicted: it is clean, in no transaction, and no reference
    /// pins its buffer.
    pub(super) fn is_idle(&self) -> bool {
        let held = match &*self.content.borrow() {
            Content::Buffer(buffer) => Rc::strong_count(buffer) > 1,
            Content::Data(..) => false,
        };
        !held && !self.is_joined() && self.checkpoint.get() == 0 && !self.writing.get()
    }

    /// The buffer of this block. File contents turn into a buffer: a caller of this
    /// function treats the block as metadata.
    pub(super) fn buffer(&self, purpose: Purpose) -> Rc<Buffer> {
        let mut content = self.content.borrow_mut();
        let bytes = match &*content {
            Content::Buffer(buffer) => return Rc::clone(buffer),
            Content::Data(data, ..) => Box::new(data.to_bytes()),
        };
        let buffer = Rc::new(Buffer::new(self.block, purpose, bytes));
        *content = Content::Buffer(Rc::clone(&buffer));
        buffer
    }

    /// File contents of this block; `None` for metadata and for a block that an open
    /// transaction forgets.
    pub(super) fn data(&self) -> Option<Payload> {
        match &*self.content.borrow() {
            Content::Data(data, ..) if self.forgotten.get() == 0 => Some(data.clone()),
            _ => None,
        }
    }

    pub(super) fn is_data(&self) -> bool {
        matches!(&*self.content.borrow(), Content::Data(..))
    }

    /// The newest bytes of this block.
    pub(super) fn payload(&self) -> Payload {
        match &*self.content.borrow() {
            Content::Buffer(buffer) => super::log::payload(&buffer.bytes()),
            Content::Data(data, ..) => data.clone(),
        }
    }
}

/// A transaction that has not committed.
pub(super) struct Transaction {
    pub(super) id: u64,
    /// Time at which it was opened.
    pub(super) opened: Ns,
    /// Closed to new handles.
    pub(super) locked: Cell<bool>,
    /// The flush before its commit block has begun.
    pub(super) flushing: Cell<bool>,
    /// Count of open handles.
    pub(super) handles: Cell<usize>,
    /// Blocks that open handles may still add.
    pub(super) reserved: Cell<usize>,
    /// Blocks that the transaction will log.
    pub(super) logged: Cell<usize>,
    /// Writes of file contents in flight that its commit waits for.
    pub(super) in_flight: Cell<usize>,
    /// All blocks that the transaction changes or forgets.
    pub(super) entries: RefCell<Vec<Rc<Entry>>>,
    pub(super) revoked: RefCell<BTreeSet<u64>>,
    pub(super) freed: RefCell<Vec<Run>>,
}

impl Transaction {
    pub(super) fn new(id: u64, opened: Ns) -> Self {
        Self {
            id,
            opened,
            locked: Cell::default(),
            flushing: Cell::default(),
            handles: Cell::default(),
            reserved: Cell::default(),
            logged: Cell::default(),
            in_flight: Cell::default(),
            entries: RefCell::default(),
            revoked: RefCell::default(),
            freed: RefCell::default(),
        }
    }

    /// Blocks of the log that the transaction takes so far, reservations included but
    /// descriptor blocks not.
    pub(super) fn size(&self) -> usize {
        let revokes = self.revoked.borrow().len().div_ceil(super::format::REVOKES);
        self.logged.get() + self.reserved.get() + revokes
    }

    /// Whether the transaction logs `entry`.
    pub(super) fn logs(&self, entry: &Entry) -> bool {
        entry.running.get() == self.id && entry.forgotten.get() != self.id
    }

    /// Adds `entry` as changed.
    pub(super) fn log(&self, entry: &Rc<Entry>) {
        if self.logs(entry) {
            return;
        }
        let mut revoked = self.revoked.borrow_mut();
        if !revoked.is_empty() {
            revoked.remove(&entry.block);
        }
        self.join(entry);
        entry.forgotten.set(0);
        self.logged.set(self.logged.get() + 1);
    }

    /// Adds a block as forgotten, with its entry if it is in memory.
    pub(super) fn forget(&self, block: u64, entry: Option<&Rc<Entry>>) {
        self.revoked.borrow_mut().insert(block);
        let Some(entry) = entry else { return };
        if self.logs(entry) {
            self.logged.set(self.logged.get() - 1);
        }
        self.join(entry);
        entry.forgotten.set(self.id);
    }

    fn join(&self, entry: &Rc<Entry>) {
        if entry.running.get() != self.id {
            entry.running.set(self.id);
            self.entries.borrow_mut().push(Rc::clone(entry));
        }
    }
}

/// A handle on a transaction: close it with `end` or `write_data`.
#[must_use = "a transaction commits once each of its handles is closed"]
pub struct Handle {
    pub(super) transaction: Rc<Transaction>,
    /// Blocks that the handle may still add.
    pub(super) credits: Cell<usize>,
}

/// A committed transaction with blocks that are not home yet.
pub(super) struct Checkpoint {
    /// First block of the transaction in the log.
    pub(super) start: u32,
    /// Count of its blocks that are not home.
    pub(super) left: usize,
    /// All its blocks; entries whose `checkpoint` names another transaction do not count.
    pub(super) entries: Vec<Rc<Entry>>,
}
