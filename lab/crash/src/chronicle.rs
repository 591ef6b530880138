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

use crate::judge::{Seen, Shown};
use crate::spans::Spans;
use nand::{Payload, UNIT};
use std::collections::BTreeMap;
use std::ops::Range;
use vfs::{Act, FileKind, Ino};

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
    /// 1 where nothing is known of the bytes.
    pub(crate) unknown: Spans,
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
            unknown: Spans::default(),
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

    /// What `edit` lays over which bytes, and the size afterwards.
    fn effect(&self, edit: Edit, done: u64) -> (Range<u64>, Option<u64>, u64) {
        let size = self.size;
        match edit {
            Edit::Write { range, pattern } => {
                let end = range.end.min(range.start + done);
                (range.start..end, pattern, size.max(end))
            }
            Edit::Zero { range } => {
                let end = range.end.min(size).max(range.start);
                (range.start..end, Some(0), size)
            }
            Edit::Resize { size: new } => (new..size.max(new), Some(0), new),
        }
    }

    fn change(&mut self, at: u64, edit: Edit, done: u64) {
        let (range, pattern, size) = self.effect(edit, done);
        let overwritten = self.now.write(range.clone(), pattern.unwrap_or(0));
        let older = overwritten
            .into_iter()
            .map(|(range, pattern)| Older { at, range, pattern });
        self.older.extend(older);
        self.unknown.write(range, u64::from(pattern.is_none()));
        self.size = size;
        self.sizes.push((at, size));
    }

    fn maybe_change(&mut self, at: u64, edit: Edit) {
        let (range, pattern, size) = self.effect(edit, u64::MAX / 2);
        match pattern {
            Some(pattern) => self.older.push(Older { at, range, pattern }),
            None => drop(self.unknown.write(range, 1)),
        }
        self.sizes.push((at, size));
        self.sizes.push((at, self.size));
    }

    /// The bytes of `range` are durable as they were at time `at`, if they have
    /// not changed since; and so is the size, if the range has no end, or as much
    /// of it as leads to them.
    fn force(&mut self, at: u64, range: &Range<u64>) {
        for older in std::mem::take(&mut self.older) {
            if older.at >= at {
                self.older.push(older);
                continue;
            }
            let Range { start, end } = older.range;
            let outside = [start..end.min(range.start), start.max(range.end)..end];
            let outside = outside.into_iter().filter(|part| !part.is_empty());
            self.older
                .extend(outside.map(|range| Older { range, ..older }));
        }
        // The size at `at` is the last one that was set before it.
        let last = self.sizes.iter().rposition(|&(time, _)| time < at);
        let Some(last) = last else { return };
        if range.start == 0 && range.end >= u64::MAX / 2 {
            self.sizes.drain(..last);
            return;
        }
        let reached = self.sizes[last].1.min(range.end);
        for (_, size) in &mut self.sizes[..last] {
            *size = reached.max(*size);
        }
    }
}

/// What a file is made to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    /// A pattern over a range; the file grows to hold it. None for bytes that
    /// are no pattern: nothing is known of them.
    Write {
        range: Range<u64>,
        pattern: Option<u64>,
    },
    /// Zeros over a range; the size stays.
    Zero { range: Range<u64> },
    /// A size.
    Resize { size: u64 },
}

/// Something that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// What has begun and not ended.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Edit(Id, Edit),
    Names(Vec<Key>),
    Force(Ino, Range<u64>, bool),
    ForceAll,
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
    /// Whether bytes that changed since they were forced may be anything.
    pub(crate) stale: bool,
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
    pub(crate) fn moments_at(&self, ticket: Ticket) -> usize {
        self.log.partition_point(|moment| moment.at < ticket.0)
    }

    fn file(&mut self, id: Id) -> &mut File {
        self.files
            .get_mut(&id)
            .expect("ids are made with their file")
    }

    /// A call that changes what the file `ino` holds has begun.
    pub(crate) fn begin_edit(&mut self, ino: Ino, edit: Edit) -> Ticket {
        let id = self.id(ino);
        self.begin(Pending::Edit(id, edit))
    }

    /// It has ended: so many bytes were written, or, if it failed, nobody knows
    /// which part of it has happened.
    fn end_edit(&mut self, ticket: Ticket, done: Option<u64>) {
        let Some(Pending::Edit(id, edit)) = self.pending.remove(&ticket) else {
            return;
        };
        let at = self.tick();
        let file = self.file(id);
        if file.sizes.is_empty() {
            file.sizes.push((0, file.size));
        }
        match done {
            Some(done) => file.change(at, edit, done),
            None => file.maybe_change(at, edit),
        }
    }

    /// Forcing has begun.
    pub(crate) fn begin_act(&mut self, act: &Act<'_>) -> Ticket {
        let pending = match act {
            Act::Force {
                ino,
                range,
                data_only,
            } => Pending::Force(*ino, range.clone(), *data_only),
            _ => Pending::ForceAll,
        };
        self.begin(pending)
    }

    /// An edit or a force has ended.
    pub(crate) fn end(&mut self, ticket: Ticket, done: Option<u64>) {
        match self.pending.get(&ticket).cloned() {
            Some(Pending::Edit(..)) => self.end_edit(ticket, done),
            Some(Pending::Force(ino, range, data_only)) if done.is_some() => {
                self.end_force(ticket, ino, &range, data_only);
            }
            Some(Pending::ForceAll) if done.is_some() => self.end_force_all(ticket),
            _ => self.cancel(ticket),
        }
    }

    /// It has ended well: what the bytes `range` of the file `ino` held when it
    /// began is durable, and, but for `data_only`, so are its names.
    fn end_force(&mut self, ticket: Ticket, ino: Ino, range: &Range<u64>, data_only: bool) {
        self.pending.remove(&ticket);
        let before = self.moments_at(ticket);
        let id = self.id(ino);
        let file = self.file(id);
        file.force(ticket.0, range);
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
    fn end_force_all(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
        self.floor = self.floor.max(self.moments_at(ticket));
        for file in self.files.values_mut() {
            file.force(ticket.0, &(0..u64::MAX));
        }
    }

    /// Says whether contents that were not forced may be anything, as in a file
    /// system that does not write them before what leads to them.
    pub fn set_stale(&mut self, stale: bool) {
        self.stale = stale;
    }

    /// Takes over what is there before the history begins, durable.
    pub fn adopt(&mut self, shown: &Shown) {
        for (dir, name, seen) in shown.iter() {
            if !self.inodes.contains_key(&seen.ino) {
                self.made(seen.ino, seen.kind, &seen.target);
                self.fill(seen);
            }
            let ticket = self.begin_names(&[(dir, name)]);
            self.end_names(ticket, &[(dir, name, Some(seen.ino))]);
        }
        self.settle();
    }

    /// Takes over the contents of a file.
    fn fill(&mut self, seen: &Seen) {
        let size = seen.size;
        let id = self.id(seen.ino);
        let file = self.file(id);
        file.size = size;
        for (index, page) in (0..).zip(&seen.pages) {
            let start = index * UNIT as u64;
            let range = start..size.min(start + UNIT as u64);
            match pattern_of(page, range.end - range.start) {
                Some(pattern) => drop(file.now.write(range, pattern)),
                None => drop(file.unknown.write(range, 1)),
            }
        }
    }

    /// What there is was there before, and is durable.
    pub fn settle(&mut self) {
        let ticket = self.begin(Pending::ForceAll);
        self.end_force_all(ticket);
    }

    /// Anything has ended without effect.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
    }
}

/// The pattern that the first `len` bytes of a page are, if they are one.
fn pattern_of(page: &Payload, len: u64) -> Option<u64> {
    match page {
        Payload::Zero => Some(0),
        Payload::Fill(pattern) => Some(*pattern),
        Payload::Lost => None,
        Payload::Bytes(bytes) => {
            let bytes = &bytes[..len as usize];
            let mut first = [0; 8];
            let known = bytes.len().min(8);
            first[..known].copy_from_slice(&bytes[..known]);
            let mut chunks = bytes.chunks(8);
            let same = chunks.all(|chunk| chunk == &first[..chunk.len()]);
            same.then(|| u64::from_le_bytes(first))
        }
    }
}
