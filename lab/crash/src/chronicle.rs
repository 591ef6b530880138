//! What a workload did, as far as a power cut may undo it.
//!
//! The rules are those of `vfs::model::crash`, kept so that they scale: contents
//! are ranges of patterns instead of bytes, and moments of the names are a log of
//! changes instead of copies. A test sets the two side by side.
//!
//! # Invariants
//!
//! - A value of a byte that was overwritten is kept until a force that began after
//!   the overwriting has ended; so is every size.
//! - A change of names is in the log from its end on. One that has begun and not
//!   ended may have happened or not, and so may a write.
//! - The first moment that recovery may show is the one after the last change
//!   that a force has covered.

use crate::spans::Spans;
use std::collections::BTreeMap;
use std::ops::Range;
use vfs::{FileKind, Ino};

/// A name: the directory and the name in it.
pub(crate) type Key = (Ino, Box<[u8]>);

/// A file of the history. Numbers of inodes are used again, these are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u64);

/// One name leads elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) old: Option<Id>,
    pub(crate) new: Option<Id>,
}

/// Names that change at once.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// When.
    at: u64,
    pub(crate) changes: Vec<Change>,
}

/// A value that bytes had.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    /// When it was overwritten.
    at: u64,
    pub(crate) range: Range<u64>,
    pub(crate) pattern: u64,
}

/// A file, directory or link.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) kind: FileKind,
    /// Where a symbolic link leads.
    pub(crate) target: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) now: Spans,
    /// Values since the last force, that are not the present ones.
    pub(crate) older: Vec<Older>,
    /// Sizes since the last force, with the time of each.
    sizes: Vec<(u64, u64)>,
    /// Moments whose change of names it had to do with, since it was forced.
    touches: Vec<usize>,
}

impl File {
    fn new(kind: FileKind, target: &[u8]) -> Self {
        Self {
            kind,
            target: target.to_vec(),
            size: 0,
            now: Spans::default(),
            older: Vec::new(),
            sizes: Vec::new(),
            touches: Vec::new(),
        }
    }

    /// The smallest and the largest size that it had since it was forced.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let sizes = self.sizes.iter().map(|s| s.1).chain([self.size]);
        let most = sizes.clone().max().unwrap_or(self.size);
        (sizes.min().unwrap_or(self.size), most)
    }

    /// The size and the contents from time `at` on, if something older than
    /// that was still possible.
    fn force(&mut self, at: u64) {
        self.older.retain(|older| older.at >= at);
        // The size at `at` is the last one that was set before it.
        let last = self.sizes.iter().rposition(|&(time, _)| time < at);
        self.sizes.drain(..last.unwrap_or(0));
    }
}

/// What a file is made to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// A pattern over a range; the file grows to hold it.
    Write {
        /// Where.
        range: Range<u64>,
        /// The eight bytes that repeat from offset 0 of the file on.
        pattern: u64,
    },
    /// A pattern of this length at what is then the end.
    Append {
        /// How much.
        len: u64,
        /// As above.
        pattern: u64,
    },
    /// Zeros over a range; the size stays.
    Zero {
        /// Where.
        range: Range<u64>,
    },
    /// A size.
    Resize {
        /// In bytes.
        size: u64,
    },
}

/// Something that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

/// What has begun and not ended.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Edit(Id, Edit),
    Names(Vec<Key>),
    Force,
}

/// The history of a file system.
#[derive(Clone, Debug, Default)]
pub struct Chronicle {
    clock: u64,
    next: u64,
    pub(crate) files: BTreeMap<Id, File>,
    inodes: BTreeMap<Ino, Id>,
    pub(crate) names: BTreeMap<Key, Id>,
    pub(crate) log: Vec<Moment>,
    /// Moments before this one cannot be shown any more.
    pub(crate) floor: usize,
    pub(crate) pending: BTreeMap<Ticket, Pending>,
}

impl Chronicle {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn begin(&mut self, pending: Pending) -> Ticket {
        let ticket = Ticket(self.tick());
        self.pending.insert(ticket, pending);
        ticket
    }

    /// An inode came into being, with or without a name; `target` is where a
    /// symbolic link leads.
    pub fn made(&mut self, ino: Ino, kind: FileKind, target: &[u8]) {
        let id = Id(self.next);
        self.next += 1;
        self.files.insert(id, File::new(kind, target));
        self.inodes.insert(ino, id);
    }

    /// The file of an inode; one that was there before the history, as the root
    /// is, is a directory.
    fn id(&mut self, ino: Ino) -> Id {
        if !self.inodes.contains_key(&ino) {
            self.made(ino, FileKind::Directory, b"");
        }
        self.inodes[&ino]
    }

    /// A call that changes these names has begun.
    pub fn begin_names(&mut self, keys: &[(Ino, &[u8])]) -> Ticket {
        let keys = keys.iter().map(|(dir, name)| (*dir, (*name).into()));
        self.begin(Pending::Names(keys.collect()))
    }

    /// It has ended: each name leads where it says now, all at once.
    pub fn end_names(&mut self, ticket: Ticket, changes: &[(Ino, &[u8], Option<Ino>)]) {
        self.pending.remove(&ticket);
        let mut moment = Vec::new();
        for &(dir, name, to) in changes {
            let new = to.map(|ino| self.id(ino));
            let key: Key = (dir, name.into());
            let old = match new {
                Some(id) => self.names.insert(key.clone(), id),
                None => self.names.remove(&key),
            };
            moment.push(Change { key, old, new });
        }
        let at = self.tick();
        self.touch(&moment);
        self.log.push(Moment {
            at,
            changes: moment,
        });
    }

    /// Notes who has to do with the moment that comes next.
    fn touch(&mut self, changes: &[Change]) {
        let ids = changes.iter().flat_map(|c| [c.old, c.new]).flatten();
        let mut ids: Vec<Id> = ids.collect();
        let dirs = changes.iter().map(|c| c.key.0);
        ids.extend(dirs.map(|dir| self.id(dir)));
        let moment = self.log.len();
        for id in ids {
            self.file(id).touches.push(moment);
        }
    }

    /// How many moments there were when `ticket` was given.
    fn moments_at(&self, ticket: Ticket) -> usize {
        self.log.partition_point(|moment| moment.at < ticket.0)
    }

    fn file(&mut self, id: Id) -> &mut File {
        self.files
            .get_mut(&id)
            .expect("ids are made with their file")
    }

    /// A call that changes what the file `ino` holds has begun.
    pub fn begin_edit(&mut self, ino: Ino, edit: Edit) -> Ticket {
        let id = self.id(ino);
        self.begin(Pending::Edit(id, edit))
    }

    /// It has ended, and this is what it did; none if nothing.
    pub fn end_edit(&mut self, ticket: Ticket, done: Option<Edit>) {
        let Some(Pending::Edit(id, _)) = self.pending.remove(&ticket) else {
            return;
        };
        let at = self.tick();
        let file = self.file(id);
        let size = file.size;
        let (range, pattern, size) = match done {
            None => return,
            Some(Edit::Write { range, pattern }) => {
                let end = range.end;
                (range, pattern, size.max(end))
            }
            Some(Edit::Append { len, pattern }) => (size..size + len, pattern, size + len),
            Some(Edit::Zero { range }) => {
                let end = range.end.min(size).max(range.start);
                (range.start..end, 0, size)
            }
            Some(Edit::Resize { size: new }) => (new..size.max(new), 0, new),
        };
        let overwritten = file.now.write(range, pattern);
        let older = overwritten
            .into_iter()
            .map(|(range, pattern)| Older { at, range, pattern });
        file.older.extend(older);
        if file.sizes.is_empty() {
            file.sizes.push((0, file.size));
        }
        file.size = size;
        file.sizes.push((at, size));
    }

    /// Forcing has begun.
    pub fn begin_force(&mut self) -> Ticket {
        self.begin(Pending::Force)
    }

    /// It has ended well: what the file `ino` held when it began is durable, and,
    /// but for `data_only`, so are its names.
    pub fn end_force(&mut self, ticket: Ticket, ino: Ino, data_only: bool) {
        self.pending.remove(&ticket);
        let before = self.moments_at(ticket);
        let id = self.id(ino);
        let file = self.file(id);
        file.force(ticket.0);
        if data_only {
            return;
        }
        let covered = file.touches.partition_point(|&moment| moment < before);
        let last = file.touches.drain(..covered).next_back();
        if let Some(last) = last {
            self.floor = self.floor.max(last + 1);
        }
    }

    /// It has ended well: all there was when it began is durable.
    pub fn end_force_all(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
        self.floor = self.floor.max(self.moments_at(ticket));
        for file in self.files.values_mut() {
            file.force(ticket.0);
        }
    }

    /// Anything has ended without effect.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
    }
}
