//! What a workload did, as far as a power cut may undo it.
//!
//! The rules are those of `vfs::model::crash`, kept so that they scale: contents
//! are ranges of patterns instead of bytes, and moments of the names are a log of
//! changes instead of copies. A test sets the two side by side.
//!
//! # Invariants
//!
//! - A change of names is in the log from its end on. One that has begun and not
//!   ended may have happened or not, and so may a write.
//! - The first moment that recovery may show is the one after the last change that had
//!   ended when the one that a force has covered began: calls that overlap may have
//!   happened in either order, unless their file system has one for all.
//! - No two calls change one name at a time: the file API locks the directory.

use crate::alone::Forced;
use crate::attributes::{Attributes, Known};
use crate::file::{Birth, Edit, File, Part};
use std::collections::BTreeMap;
use std::ops::Range;
use vfs::{Act, FileKind, Ino};

/// A name: the directory and the name in it.
pub(crate) type Key = (Ino, Box<[u8]>);

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
    /// Edits and forces that have failed.
    failed: u64,
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

    /// The file of an inode. An inode that no call of the history has made is taken for a
    /// directory from before the history, such as the root.
    pub(crate) fn id(&mut self, ino: Ino) -> Id {
        if !self.inodes.contains_key(&ino) {
            self.made(ino, FileKind::Directory, b"");
            let id = self.inodes[&ino];
            self.file(id).birth = Birth::Before;
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

    /// Adds the next moment to the touches of every inode in `changes`: the inodes that
    /// names led and lead to, and the directories. Only an inode that had no name yet is
    /// born at this moment; a directory in which a name changes was there before.
    fn touch(&mut self, changes: &[Change]) {
        let moment = self.log.len();
        for id in changes.iter().filter_map(|change| change.new) {
            let birth = &mut self.file(id).birth;
            if *birth == Birth::Unnamed {
                *birth = Birth::At(moment);
            }
        }
        let ids = changes.iter().flat_map(|c| [c.old, c.new]).flatten();
        let mut ids: Vec<Id> = ids.collect();
        let dirs = changes.iter().map(|c| c.key.0);
        ids.extend(dirs.map(|dir| self.id(dir)));
        for id in ids {
            self.file(id).touches.push(moment);
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

    /// What a file holds in `span`, as it is in one that has the same bytes from `place` on;
    /// no parts if that is not known.
    pub(crate) fn held(&mut self, ino: Ino, span: &Range<u64>, place: u64) -> Vec<Part> {
        let id = self.id(ino);
        self.file(id).held(span, place)
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

    /// Edits and forces that have failed so far.
    #[must_use]
    pub const fn failed(&self) -> u64 {
        self.failed
    }

    /// An edit or a force has ended: with `done` bytes written (0 for a force), or, if it
    /// failed, with none of them known.
    pub(crate) fn end(&mut self, ticket: Ticket, done: Option<u64>) {
        self.failed += u64::from(done.is_none());
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
            self.force_moment(moment);
        }
    }

    /// Makes a moment durable. With one order for all calls recovery shows a later moment;
    /// otherwise calls that ended while this one ran may still be missing.
    pub(crate) fn force_moment(&mut self, moment: usize) {
        self.log[moment].forced = true;
        let first = match self.in_order {
            true => moment + 1,
            false => self.log[moment].since,
        };
        self.floor = self.floor.max(first);
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
