//! Transactions and the blocks that they change.
//!
//! Invariants: a block is in the running transaction, in the committing one, in
//! both or in none; its bytes in memory belong to the newest of them, and what
//! commits was copied at the moment when its transaction was closed. A block
//! whose committed bytes are not home yet names the transaction that committed
//! them, and that transaction counts it.

use crate::buffer::Buffer;
use crate::persist::Run;
use host::{Purpose, Who};
use nand::Payload;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use units::{Ns, Placement};

/// What a block holds.
pub(super) enum Content {
    /// Metadata, shared with the body.
    Buffer(Rc<Buffer>),
    /// File contents, with where and as whom they go home.
    Data(Payload, Placement, Who),
}

/// A block in memory. Transactions are named by their numbers; 0 is none.
pub(super) struct Entry {
    pub(super) block: u64,
    pub(super) content: RefCell<Content>,
    /// When it was used last, on the clock of the cache.
    pub(super) used: Cell<u64>,
    /// The running transaction, if that changes or forgets it.
    pub(super) running: Cell<u64>,
    /// The open transaction that forgets it.
    pub(super) forgotten: Cell<u64>,
    /// The committing transaction, if that changes or forgets it.
    pub(super) committing: Cell<u64>,
    /// The transaction that committed bytes of it that are not home yet.
    pub(super) checkpoint: Cell<u64>,
    /// It is being written home.
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

    /// Whether an open transaction has it.
    pub(super) fn is_joined(&self) -> bool {
        self.running.get() != 0 || self.committing.get() != 0
    }

    /// Whether it may leave memory: the medium has it, and nobody holds it.
    pub(super) fn is_idle(&self) -> bool {
        let held = match &*self.content.borrow() {
            Content::Buffer(buffer) => Rc::strong_count(buffer) > 1,
            Content::Data(..) => false,
        };
        !held && !self.is_joined() && self.checkpoint.get() == 0 && !self.writing.get()
    }

    /// Its buffer. File contents become one: who asks says that it is metadata.
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

    /// Its file contents, unless it is metadata or about to be forgotten.
    pub(super) fn data(&self) -> Option<Payload> {
        match &*self.content.borrow() {
            Content::Data(data, ..) if self.forgotten.get() == 0 => Some(data.clone()),
            _ => None,
        }
    }

    pub(super) fn is_data(&self) -> bool {
        matches!(&*self.content.borrow(), Content::Data(..))
    }

    /// Its newest bytes.
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
    /// When it was opened.
    pub(super) opened: Ns,
    /// Nobody may join it any more.
    pub(super) locked: Cell<bool>,
    /// The flush that makes its data durable has begun.
    pub(super) flushing: Cell<bool>,
    /// Open handles.
    pub(super) handles: Cell<usize>,
    /// Blocks that open handles may still add.
    pub(super) reserved: Cell<usize>,
    /// Blocks that it will log.
    pub(super) logged: Cell<usize>,
    /// Writes of file contents that it waits for.
    pub(super) in_flight: Cell<usize>,
    /// All blocks that it changes or forgets.
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

    /// Blocks of the log that it takes so far, without what leads to them.
    pub(super) fn size(&self) -> usize {
        let revokes = self.revoked.borrow().len().div_ceil(super::format::REVOKES);
        self.logged.get() + self.reserved.get() + revokes
    }

    /// Whether it logs `entry`.
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
    /// Blocks that it may still add.
    pub(super) credits: Cell<usize>,
}

/// A transaction that has committed and of which something is not home yet.
pub(super) struct Checkpoint {
    /// Where it starts in the log.
    pub(super) start: u32,
    /// Blocks of it that are not home.
    pub(super) left: usize,
    /// All its blocks; those that name another transaction by now do not count.
    pub(super) entries: Vec<Rc<Entry>>,
}
