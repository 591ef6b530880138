//! History of a file system, as far as a power cut may undo the calls in it.
//!
//! The rules are those of `vfs::model::crash` in a form that scales: contents are ranges of
//! patterns instead of bytes, and moments of the names are a log of changes instead of
//! copies. `tests/it/brute.rs` compares the judge with a model that enumerates all states.
//!
//! # Invariants
//!
//! - A change of names enters the log when its call ends. A call that has begun and not ended
//!   may have happened or not; the same holds for a write.
//! - Calls that overlap may have happened in either order, unless the file system has one
//!   order for all calls. The floor, the first moment that recovery may show, follows from
//!   this: it is not before any call that had ended when a forced call began.
//! - No two calls change one name at a time: the file API locks the directory.

use crate::alone::Forced;
use crate::attributes::{Attributes, Known};
use crate::file::{Birth, Edit, File, Part};
use std::collections::BTreeMap;
use std::ops::Range;
use vfs::{Act, FileKind, Ino};

/// A directory entry: the inode of the directory, and the bytes of the name.
pub(crate) type Key = (Ino, Box<[u8]>);

/// Number of a file in the history. Inode numbers are reused, these numbers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(pub(crate) u64);

/// Target of a name once a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leads<'a> {
    /// The name is removed.
    Nowhere,
    /// The name leads to an inode that was made before.
    To(Ino),
    /// The name leads to a new inode of this kind; the bytes are the target of a symbolic link.
    New(FileKind, &'a [u8]),
}

/// An owned copy of [`Leads`], for calls that have not ended.
#[derive(Clone, Debug)]
pub(crate) enum Becomes {
    Nothing,
    File(Id),
    New(FileKind, Vec<u8>),
}

/// Change of one name from one file to another; none stands for a missing name.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) old: Option<Id>,
    pub(crate) new: Option<Id>,
}

/// Names that one call changed, atomically.
#[derive(Clone, Debug)]
pub(crate) struct Moment {
    /// Time at which the call ended, in ticks of the chronicle.
    at: u64,
    /// Number of moments that certainly came before: those in the log when the call began,
    /// or, if calls have one order, when it ended.
    pub(crate) since: usize,
    /// Whether a force has made the moment durable.
    pub(crate) forced: bool,
    pub(crate) changes: Vec<Change>,
}

/// Number of a call that has begun: the tick at which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// A call that has begun and not ended.
#[derive(Clone, Debug)]
pub(crate) enum Pending {
    Edit(Id, Edit),
    Attributes(Id),
    Names(Vec<(Key, Becomes)>),
    Force(Ino, Range<u64>, bool),
    ForceAll,
}

/// The history of one file system, from which [`Chronicle::judge`] judges a recovery.
#[derive(Clone, Debug, Default)]
pub struct Chronicle {
    clock: u64,
    next: u64,
    pub(crate) files: BTreeMap<Id, File>,
    pub(crate) inodes: BTreeMap<Ino, Id>,
    pub(crate) names: BTreeMap<Key, Id>,
    pub(crate) log: Vec<Moment>,
    /// Index of the first moment that recovery may show.
    pub(crate) floor: usize,
    pub(crate) pending: BTreeMap<Ticket, Pending>,
    /// Edits and forces that have failed.
    failed: u64,
    /// Whether bytes written since the last force may recover with any value.
    pub(crate) stale: bool,
    /// Whether they may while a force of their file is running.
    torn: bool,
    /// Whether names become durable in the order in which calls end.
    in_order: bool,
    /// Whether a new file is forced by itself, without earlier changes of names.
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

    /// Records a new inode, which has no name yet; `target` is that of a symbolic link.
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

    /// Records that a call has begun which changes `names`, all of them atomically.
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

    /// Records that the call of `ticket` has ended well and what each name leads to now.
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

    /// Number of moments in the log when `ticket` was given out.
    pub(crate) fn moments_at(&self, ticket: Ticket) -> usize {
        self.log.partition_point(|moment| moment.at < ticket.0)
    }

    pub(crate) fn file(&mut self, id: Id) -> &mut File {
        self.files
            .get_mut(&id)
            .expect("ids are made with their file")
    }

    /// Contents of `span` in the file `ino`, moved to offset `place`; no parts if they are
    /// not known.
    pub(crate) fn held(&mut self, ino: Ino, span: &Range<u64>, place: u64) -> Vec<Part> {
        let id = self.id(ino);
        self.file(id).held(span, place)
    }

    /// Records that a call has begun which changes the contents of `ino`.
    pub(crate) fn begin_edit(&mut self, ino: Ino, edit: Edit) -> Ticket {
        let id = self.id(ino);
        self.begin(Pending::Edit(id, edit))
    }

    /// Records that the edit of `ticket` has ended: `done` bytes were written, or, if it
    /// failed, any part of them.
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

    /// Sets the attributes that an inode was made with; they become durable with it.
    pub(crate) fn know(&mut self, ino: Ino, attributes: Attributes) {
        let (id, now) = (self.id(ino), self.tick());
        self.file(id).attributes = Known::since(now, attributes);
    }

    /// Records that a call has begun which changes attributes of `ino`.
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

    /// Records that the change of attributes of `ticket` has ended; `done` if it succeeded.
    pub(crate) fn end_attributes(&mut self, ticket: Ticket, done: bool) {
        let Some(Pending::Attributes(id)) = self.pending.remove(&ticket) else {
            return;
        };
        let now = self.tick();
        self.file(id).attributes.end(ticket.0, done.then_some(now));
    }

    /// Records that a force of a file, or of all files, has begun.
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

    /// Records that a write-back of `range` failed and was given up: a later force of all
    /// files succeeds although the bytes may not be on the medium.
    pub(crate) fn give_up(&mut self, ino: Ino, range: &Range<u64>) {
        let id = self.id(ino);
        self.file(id).doubt(range);
    }

    /// Records that a force of `ino` has ended well: the bytes that `range` had when the force
    /// began are durable, and, unless `data_only`, so are attributes and names.
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

    /// Records that a force of all files has ended well: everything from before it is durable.
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

    /// Sets whether unforced contents may recover with any value. They may in a file system
    /// that does not write data before the metadata that points to it.
    pub fn set_stale(&mut self, stale: bool) {
        self.stale = stale;
    }

    /// Sets whether changed contents may recover with any value while their file is being
    /// forced. They may in a file system that issues data and metadata of a force without
    /// waiting in between: the metadata may be on the medium before the data.
    pub fn set_torn(&mut self, torn: bool) {
        self.torn = torn;
    }

    /// Whether a force of `ino` is running that may be torn.
    pub(crate) fn may_be_torn(&self, ino: Ino) -> bool {
        let is_its = |pending: &Pending| matches!(pending, Pending::Force(of, ..) if *of == ino);
        self.torn && self.pending.values().any(is_its)
    }

    /// Sets whether names become durable in the order in which calls end, as with one
    /// journal. Otherwise calls that overlap may become durable in either order.
    pub fn set_in_order(&mut self, in_order: bool) {
        self.in_order = in_order;
    }

    /// Records that the call of `ticket` has ended without effect.
    pub fn cancel(&mut self, ticket: Ticket) {
        self.pending.remove(&ticket);
    }
}
