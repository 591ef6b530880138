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
//! - The first moment that recovery may show is the one after the last change that had
//!   ended when the one that a force has covered began: calls that overlap may have
//!   happened in either order, unless their file system has one for all.
//! - No two calls change one name at a time: the file API locks the directory.

use crate::alone::Forced;
use crate::attributes::{Attributes, Known};
use crate::spans::Spans;
use std::collections::BTreeMap;
use std::ops::Range;
use vfs::{Act, FileKind, Ino};

/// A name: the directory and the name in it.
pub(crate) type Key = (Ino, Box<[u8]>);

/// Bytes of a file, and the pattern that they are.
pub(crate) type Part = (Range<u64>, u64);

/// A file of the history. Numbers of inodes are used again, these are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u64);

/// What a name leads to once a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads<'a> {
    /// To nothing.
    Nowhere,
    /// To this inode.
    To(Ino),
    /// To a new one of this kind; a symbolic link says this.
    New(FileKind, &'a [u8]),
}

/// The same, kept.
#[derive(Clone, Debug)]
pub(crate) enum Becomes {
    Nothing,
    File(Id),
    New(FileKind, Vec<u8>),
}

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
    /// Moments that it comes after: those that there were when its call began, or
    /// ended, if they are in that order.
    pub(crate) since: usize,
    /// Whether it was forced.
    pub(crate) forced: bool,
    pub(crate) changes: Vec<Change>,
}

/// A value that bytes had.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    /// When it was overwritten.
    at: u64,
    pub(crate) range: Range<u64>,
    /// None if nobody knows.
    pub(crate) pattern: Option<u64>,
}

/// A file, directory or link.
#[derive(Clone, Debug)]
pub(crate) struct File {
    pub(crate) ino: Ino,
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
    /// Values that a change gave which failed, in part or not at all: forcing makes
    /// them durable, or what they would have replaced.
    pub(crate) maybe: Vec<Part>,
    /// Sizes of that kind.
    maybe_sizes: Vec<u64>,
    /// Moments whose change of names it had to do with, since it was forced.
    pub(crate) touches: Vec<usize>,
    /// The moment at which it got its first name.
    pub(crate) born: Option<usize>,
    pub(crate) attributes: Known,
}

impl File {
    fn new(ino: Ino, kind: FileKind, target: &[u8]) -> Self {
        Self {
            ino,
            kind,
            target: target.to_vec(),
            size: 0,
            now: Spans::default(),
            unknown: Spans::default(),
            older: Vec::new(),
            sizes: Vec::new(),
            maybe: Vec::new(),
            maybe_sizes: Vec::new(),
            touches: Vec::new(),
            born: None,
            attributes: Known::default(),
        }
    }

    /// The smallest and the largest size that it had since it was forced.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let maybe = self.maybe_sizes.iter().copied();
        let sizes = self.sizes.iter().map(|s| s.1).chain(maybe);
        let sizes = sizes.chain([self.size]);
        let most = sizes.clone().max().unwrap_or(self.size);
        (sizes.min().unwrap_or(self.size), most)
    }

    /// What `edit` lays over which bytes, none if nobody knows, and the size
    /// afterwards.
    fn effect(&self, edit: Edit, done: u64) -> (Range<u64>, Vec<Part>, u64) {
        let size = self.size;
        let zeros = |range: Range<u64>| vec![(range, 0)];
        match edit {
            Edit::Write { range, parts } => {
                let end = range.end.min(range.start + done);
                let parts = parts.into_iter();
                let parts = parts.map(|(part, pattern)| (part.start..part.end.min(end), pattern));
                let parts = parts.filter(|(part, _)| !part.is_empty()).collect();
                // Nothing that is written behind the end leaves it where it is.
                let grown = if end > range.start { end } else { 0 };
                (range.start..end, parts, size.max(grown))
            }
            Edit::Zero { range } => {
                let range = range.start..range.end.min(size).max(range.start);
                (range.clone(), zeros(range), size)
            }
            Edit::Resize { size: new } => {
                let range = new..size.max(new);
                (range.clone(), zeros(range), new)
            }
        }
    }

    fn change(&mut self, at: u64, edit: Edit, done: u64) {
        let cuts = matches!(edit, Edit::Resize { .. });
        let (range, mut parts, size) = self.effect(edit, done);
        let unknown = parts.is_empty();
        if unknown {
            parts.push((range.clone(), 0));
        }
        self.overwrite_maybe(at, &range);
        for (range, pattern) in parts {
            let overwritten = self.now.write(range, pattern).into_iter();
            let older = overwritten.map(|(range, pattern)| Older {
                at,
                range,
                pattern: Some(pattern),
            });
            self.older.extend(older);
        }
        if cuts {
            let sizes = std::mem::take(&mut self.maybe_sizes).into_iter();
            self.sizes.extend(sizes.map(|size| (at - 1, size)));
        } else if size > self.size {
            // Until it is forced the file may be as it was, whichever that is.
            let sizes = self.maybe_sizes.iter().map(|&size| (at - 1, size));
            self.sizes.extend(sizes);
            let sizes = self.maybe_sizes.iter_mut();
            sizes.for_each(|maybe| *maybe = size.max(*maybe));
        }
        let before = self.unknown.write(range, u64::from(unknown)).into_iter();
        let before = before.filter(|(_, unknown)| *unknown != 0);
        self.older.extend(before.map(|(range, _)| Older {
            at,
            range,
            pattern: None,
        }));
        self.size = size;
        self.sizes.push((at, size));
    }

    /// What a change that failed may have left in `range` is overwritten.
    fn overwrite_maybe(&mut self, at: u64, range: &Range<u64>) {
        for (part, pattern) in std::mem::take(&mut self.maybe) {
            let inside = part.start.max(range.start)..part.end.min(range.end);
            let outside = [
                part.start..part.end.min(range.start),
                part.start.max(range.end)..part.end,
            ];
            let outside = outside.into_iter().filter(|part| !part.is_empty());
            self.maybe.extend(outside.map(|part| (part, pattern)));
            if !inside.is_empty() {
                self.older.push(Older {
                    at,
                    range: inside,
                    pattern: Some(pattern),
                });
            }
        }
    }

    fn maybe_change(&mut self, edit: Edit) {
        let (range, parts, size) = self.effect(edit, u64::MAX / 2);
        if parts.is_empty() {
            self.unknown.write(range, 1);
        }
        self.maybe.extend(parts);
        if size != self.size {
            self.maybe_sizes.push(size);
        }
    }

    /// To force `range`, or to write it back, has failed: what it had to make durable may have been given up,
    /// and whoever forces it again is not told.
    fn doubt(&mut self, range: &Range<u64>) {
        for older in std::mem::take(&mut self.older) {
            let part = older.range.start.max(range.start)..older.range.end.min(range.end);
            match older.pattern {
                _ if part.is_empty() => self.older.push(older),
                Some(pattern) => self.maybe.push((older.range, pattern)),
                None => drop(self.unknown.write(older.range, 1)),
            }
        }
        let sizes = std::mem::take(&mut self.sizes).into_iter();
        self.maybe_sizes.extend(sizes.map(|(_, size)| size));
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
    /// Patterns over the parts of a range; the file grows to hold it. No parts
    /// for bytes that are no patterns: nothing is known of them.
    Write { range: Range<u64>, parts: Vec<Part> },
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
    Attributes(Id),
    Names(Vec<(Key, Becomes)>),
    Force(Ino, Range<u64>, bool),
    ForceAll,
}

/// The history of a file system.
#[derive(Clone, Debug, Default)]
pub struct Chronicle {
    clock: u64,
    next: u64,
    pub(crate) files: BTreeMap<Id, File>,
    pub(crate) inodes: BTreeMap<Ino, Id>,
    pub(crate) names: BTreeMap<Key, Id>,
    pub(crate) log: Vec<Moment>,
    /// Moments before this one cannot be shown any more.
    pub(crate) floor: usize,
    pub(crate) pending: BTreeMap<Ticket, Pending>,
    /// Whether bytes that changed since they were forced may be anything.
    pub(crate) stale: bool,
    /// Whether this is so while the file is being forced.
    torn: bool,
    /// Whether names change on the medium in the order in which the calls end.
    in_order: bool,
    /// Whether files are forced by themselves.
    pub(crate) alone: bool,
    pub(crate) forced: Vec<Forced>,
}

impl Chronicle {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn begin(&mut self, pending: Pending) -> Ticket {
        let ticket = Ticket(self.tick());
        self.pending.insert(ticket, pending);
        ticket
    }

    /// An inode came into being, with or without a name; `target` is where a
    /// symbolic link leads.
    pub fn made(&mut self, ino: Ino, kind: FileKind, target: &[u8]) {
        let id = Id(self.next);
        self.next += 1;
        self.files.insert(id, File::new(ino, kind, target));
        self.inodes.insert(ino, id);
    }

    /// The file of an inode; one that was there before the history, as the root
    /// is, is a directory.
    pub(crate) fn id(&mut self, ino: Ino) -> Id {
        if !self.inodes.contains_key(&ino) {
            self.made(ino, FileKind::Directory, b"");
        }
        self.inodes[&ino]
    }

    /// A call has begun that will have these names lead elsewhere, all at once.
    pub fn begin_names(&mut self, names: &[(Ino, &[u8], Leads<'_>)]) -> Ticket {
        let mut kept = Vec::new();
        for &(dir, name, leads) in names {
            let becomes = match leads {
                Leads::Nowhere => Becomes::Nothing,
                Leads::To(ino) => Becomes::File(self.id(ino)),
                Leads::New(kind, target) => Becomes::New(kind, target.to_vec()),
            };
            kept.push(((dir, name.into()), becomes));
        }
        self.begin(Pending::Names(kept))
    }

    /// It has ended: each name leads where it says now, all at once.
    pub fn end_names(&mut self, ticket: Ticket, changes: &[(Ino, &[u8], Option<Ino>)]) {
        self.pending.remove(&ticket);
        let since = match self.in_order {
            true => self.log.len(),
            false => self.moments_at(ticket),
        };
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
            since,
            forced: false,
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
            let file = self.file(id);
            file.touches.push(moment);
            file.born.get_or_insert(moment);
        }
    }

    /// How many moments there were when `ticket` was given.
    pub(crate) fn moments_at(&self, ticket: Ticket) -> usize {
        self.log.partition_point(|moment| moment.at < ticket.0)
    }

    pub(crate) fn file(&mut self, id: Id) -> &mut File {
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
            None => file.maybe_change(edit),
        }
    }

    /// The attributes of an inode are known, and durable with it.
    pub(crate) fn know(&mut self, ino: Ino, attributes: Attributes) {
        let (id, now) = (self.id(ino), self.tick());
        self.file(id).attributes = Known::since(now, attributes);
    }

    /// A call has begun that changes attributes of an inode.
    pub(crate) fn begin_attributes(
        &mut self,
        ino: Ino,
        change: impl FnOnce(&mut Attributes),
    ) -> Ticket {
        let id = self.id(ino);
        let ticket = self.begin(Pending::Attributes(id));
        self.file(id).attributes.begin(ticket.0, change);
        ticket
    }

    /// It has ended, and has had its effect or none.
    pub(crate) fn end_attributes(&mut self, ticket: Ticket, done: bool) {
        let Some(Pending::Attributes(id)) = self.pending.remove(&ticket) else {
            return;
        };
        let now = self.tick();
        self.file(id).attributes.end(ticket.0, done.then_some(now));
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
            Some(Pending::Force(ino, range, _)) => {
                let id = self.id(ino);
                self.file(id).doubt(&range);
                self.force_alone(id, self.moments_at(ticket), false);
                self.cancel(ticket);
            }
            Some(Pending::ForceAll) => {
                let files = self.files.values_mut();
                files.for_each(|file| file.doubt(&(0..u64::MAX)));
                self.cancel(ticket);
            }
            _ => self.cancel(ticket),
        }
    }

    /// Bytes could not be written back: whoever forces everything later is not told.
    pub(crate) fn give_up(&mut self, ino: Ino, range: &Range<u64>) {
        let id = self.id(ino);
        self.file(id).doubt(range);
    }

    /// It has ended well: what the bytes `range` of the file `ino` held when it
    /// began is durable, and, but for `data_only`, so are its names.
    fn end_force(&mut self, ticket: Ticket, ino: Ino, range: &Range<u64>, data_only: bool) {
        self.pending.remove(&ticket);
        let before = self.moments_at(ticket);
        let id = self.id(ino);
        let file = self.file(id);
        file.force(ticket.0, range);
        let alone = self.force_alone(id, before, !data_only);
        if data_only {
            return;
        }
        let file = self.file(id);
        file.attributes.force(ticket.0);
        let covered = file.touches.partition_point(|&moment| moment < before);
        let forced: Vec<usize> = file.touches.drain(..covered).collect();
        for moment in forced.into_iter().filter(|_| !alone) {
            let moment = &mut self.log[moment];
            moment.forced = true;
            self.floor = self.floor.max(moment.since);
        }
    }

    /// It has ended well: all there was when it began is durable.
    pub(crate) fn end_force_all(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
        self.floor = self.floor.max(self.moments_at(ticket));
        let floor = self.floor;
        self.forced.retain(|forced| forced.is_after(floor));
        for file in self.files.values_mut() {
            file.force(ticket.0, &(0..u64::MAX));
            file.attributes.force(ticket.0);
        }
    }

    /// Says whether contents that were not forced may be anything, as in a file
    /// system that does not write them before what leads to them.
    pub fn set_stale(&mut self, stale: bool) {
        self.stale = stale;
    }

    /// Says whether contents may be anything that were changed and are being forced, as in a
    /// file system that has nothing of a force wait for the rest of it: what leads to them
    /// may be there before they are.
    pub fn set_torn(&mut self, torn: bool) {
        self.torn = torn;
    }

    /// Whether what was changed of an inode may be anything.
    pub(crate) fn may_be_torn(&self, ino: Ino) -> bool {
        let is_its = |pending: &Pending| matches!(pending, Pending::Force(of, ..) if *of == ino);
        self.torn && self.pending.values().any(is_its)
    }

    /// Says whether names become durable in the order in which the calls that change
    /// them end, as in a file system with one journal; otherwise calls that overlap may
    /// have happened in either order.
    pub fn set_in_order(&mut self, in_order: bool) {
        self.in_order = in_order;
    }

    /// Anything has ended without effect.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
    }
}
