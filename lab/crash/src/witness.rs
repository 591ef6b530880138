//! Recorders of a history: [`Witness`] wraps a file system and records changes of names,
//! [`Scribe`] observes the file API and records contents and forces.
//!
//! Invariants: a change is in the chronicle from the instant at which the file system has
//! made it. Before that instant it can only be durable as part of a call under way. If the
//! file system promises synchronous calls, the wait at the end of a call counts as a force.

use crate::attributes::Attributes;
use crate::chronicle::{Chronicle, Leads, Ticket};
use crate::file::{Edit, Part};
use nand::Payload;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use vfs::{
    Access, Act, Body, Change, DirEntry, DirtyPage, FallocateMode, FileKind, Ino, Inode, NewInode,
    Observer, Rename, Result, SeekWhat, Source, StatFs, TimeRange, Timestamp, XattrFlags,
};

/// Changes that are durable when their call returns, without a force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Settles {
    /// No change is: durability needs a force.
    #[default]
    Nothing,
    /// Changes of names and attributes are.
    Names,
    /// Every change is, writes included.
    All,
}

/// A file system whose changes of names and attributes are recorded.
pub struct Witness<B> {
    body: B,
    chronicle: Rc<RefCell<Chronicle>>,
    settles: Settles,
    /// Forces that stand for the waits of synchronous calls, by the change waited for.
    asked: RefCell<BTreeMap<Change, Vec<Ticket>>>,
}

/// A name and the inode that it leads to after the call.
type Name<'a> = (Ino, &'a [u8], Option<Ino>);

/// Observer of the file API that records contents and forces.
pub struct Scribe {
    chronicle: Rc<RefCell<Chronicle>>,
}

impl Scribe {
    /// A recorder that writes into `chronicle`.
    pub const fn new(chronicle: Rc<RefCell<Chronicle>>) -> Self {
        Self { chronicle }
    }
}

impl Observer for Scribe {
    fn begins(&self, act: &Act<'_>) -> u64 {
        let mut chronicle = self.chronicle.borrow_mut();
        let ticket = match edit(act, &mut chronicle) {
            Some((ino, edit)) => chronicle.begin_edit(ino, edit),
            None => chronicle.begin_act(act),
        };
        ticket.0
    }

    fn ends(&self, number: u64, done: Option<u64>) {
        self.chronicle.borrow_mut().end(Ticket(number), done);
    }

    fn gave_up(&self, ino: Ino, range: Range<u64>) {
        self.chronicle.borrow_mut().give_up(ino, &range);
    }
}

/// The edit that an act makes to a file; none for forces.
fn edit(act: &Act<'_>, chronicle: &mut Chronicle) -> Option<(Ino, Edit)> {
    Some(match act {
        Act::Write {
            ino,
            offset,
            source,
        } => {
            let range = *offset..offset + source.len();
            let parts = parts(*offset, source);
            (*ino, Edit::Write { range, parts })
        }
        Act::Resize { ino, size } => (*ino, Edit::Resize { size: *size }),
        Act::Zero { ino, range } => {
            let range = range.clone();
            (*ino, Edit::Zero { range })
        }
        Act::Share {
            from,
            span,
            to,
            place,
        } => {
            let range = *place..place + (span.end - span.start);
            let parts = chronicle.held(*from, span, *place);
            (*to, Edit::Write { range, parts })
        }
        Act::Force { .. } | Act::ForceAll => return None,
    })
}

/// Most patterns that are recorded of one write.
const MOST_PARTS: usize = 256;

/// Patterns of the bytes written at `offset`; none if there are more than [`MOST_PARTS`].
fn parts(offset: u64, source: &Source<'_>) -> Vec<Part> {
    let mut rest = match *source {
        Source::Fill { pattern, len } => return vec![(offset..offset + len, pattern)],
        Source::Bytes(bytes) => bytes,
    };
    let (mut at, mut parts) = (offset, Vec::new());
    while !rest.is_empty() {
        if parts.len() == MOST_PARTS {
            return Vec::new();
        }
        let (len, pattern) = first_part(at, rest);
        parts.push((at..at + len as u64, pattern));
        at += len as u64;
        rest = &rest[len..];
    }
    parts
}

/// Length of the first run of `bytes`, written at `offset`, that is one pattern, and the
/// pattern.
fn first_part(offset: u64, bytes: &[u8]) -> (usize, u64) {
    let mut pattern = [0; 8];
    for (at, &byte) in (offset..).zip(bytes).take(8) {
        pattern[(at % 8) as usize] = byte;
    }
    let mut differs = (offset..).zip(bytes);
    let len = differs.position(|(at, &byte)| pattern[(at % 8) as usize] != byte);
    (len.unwrap_or(bytes.len()), u64::from_le_bytes(pattern))
}

impl<B: Body> Witness<B> {
    /// Wraps `body` and records into `chronicle`. `settles` is the promise of the file system
    /// about calls that have returned.
    pub const fn new(body: B, chronicle: Rc<RefCell<Chronicle>>, settles: Settles) -> Self {
        Self {
            body,
            chronicle,
            settles,
            asked: RefCell::new(BTreeMap::new()),
        }
    }

    /// The wrapped file system.
    pub const fn body(&self) -> &B {
        &self.body
    }

    fn begin(&self, names: &[(Ino, &[u8], Leads<'_>)]) -> Ticket {
        self.chronicle.borrow_mut().begin_names(names)
    }

    fn end<T>(&self, ticket: Ticket, result: Result<T>, names: &[Name<'_>]) -> Result<T> {
        let mut chronicle = self.chronicle.borrow_mut();
        match &result {
            Ok(_) => chronicle.end_names(ticket, names),
            Err(_) => chronicle.cancel(ticket),
        }
        result
    }

    fn made(&self, made: &Result<Inode<B::Private>>, kind: FileKind, target: &[u8]) {
        if let Ok(inode) = made {
            let mut chronicle = self.chronicle.borrow_mut();
            chronicle.made(inode.ino, kind, target);
            chronicle.know(inode.ino, Attributes::of(&inode.attr.get()));
        }
    }

    fn begin_attributes(&self, ino: Ino, change: impl FnOnce(&mut Attributes)) -> Ticket {
        let mut chronicle = self.chronicle.borrow_mut();
        chronicle.begin_attributes(ino, change)
    }

    fn end_attributes<T>(&self, ticket: Ticket, result: Result<T>) -> Result<T> {
        let mut chronicle = self.chronicle.borrow_mut();
        chronicle.end_attributes(ticket, result.is_ok());
        result
    }
}

impl<B: Body> Body for Witness<B> {
    type Private = B::Private;

    vfs::pass_body!([|own| &own.body] wants_duplicates, is_dax, takes_write, max_size, max_links, times,
        is_read_only, is_frozen, root, load, evict, lookup, readlink, read_dir, last_cookie, parent, truncate, seal_end,
        end_on_medium, read_pages, reserve, write_pages, read_direct, write_direct, fallocate,
        clones, seek, sync, sync_all, unmount, get_xattr, list_xattrs, stat);

    async fn create(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        new: NewInode<'_>,
    ) -> Result<Inode<B::Private>> {
        let leads = Leads::New(new.kind, new.target);
        let ticket = self.begin(&[(dir.ino, name, leads)]);
        let made = self.body.create(dir, name, new).await;
        self.made(&made, new.kind, new.target);
        let to = made.as_ref().ok().map(|inode| inode.ino);
        self.end(ticket, made, &[(dir.ino, name, to)])
    }

    async fn create_unnamed(&self, new: NewInode<'_>) -> Result<Inode<B::Private>> {
        let made = self.body.create_unnamed(new).await;
        self.made(&made, new.kind, new.target);
        made
    }

    async fn link(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        inode: &Inode<B::Private>,
        now: Timestamp,
    ) -> Result<()> {
        let ticket = self.begin(&[(dir.ino, name, Leads::To(inode.ino))]);
        let done = self.body.link(dir, name, inode, now).await;
        self.end(ticket, done, &[(dir.ino, name, Some(inode.ino))])
    }

    async fn unlink(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        inode: &Inode<B::Private>,
        now: Timestamp,
    ) -> Result<()> {
        let ticket = self.begin(&[(dir.ino, name, Leads::Nowhere)]);
        let done = self.body.unlink(dir, name, inode, now).await;
        self.end(ticket, done, &[(dir.ino, name, None)])
    }

    async fn rmdir(
        &self,
        dir: &Inode<B::Private>,
        name: &[u8],
        inode: &Inode<B::Private>,
        now: Timestamp,
    ) -> Result<()> {
        let ticket = self.begin(&[(dir.ino, name, Leads::Nowhere)]);
        let done = self.body.rmdir(dir, name, inode, now).await;
        self.end(ticket, done, &[(dir.ino, name, None)])
    }

    async fn rename(&self, rename: Rename<'_, B::Private>) -> Result<()> {
        let (from, to) = (rename.from.ino, rename.to.ino);
        let (old, new) = (rename.from_name, rename.to_name);
        let behind = rename.replaced.filter(|_| rename.exchange);
        let leads = [
            (from, old, behind.map(|inode| inode.ino)),
            (to, new, Some(rename.moved.ino)),
        ];
        let begun = leads.map(|(dir, name, to)| (dir, name, to.map_or(Leads::Nowhere, Leads::To)));
        let ticket = self.begin(&begun);
        let done = self.body.rename(rename).await;
        self.end(ticket, done, &leads)
    }

    async fn clone_range(
        &self,
        from: &Inode<B::Private>,
        span: Range<u64>,
        to: &Inode<B::Private>,
        place: u64,
        now: Timestamp,
    ) -> Result<bool> {
        self.body.clone_range(from, span, to, place, now).await
    }

    async fn store(&self, inode: &Inode<B::Private>) -> Result<()> {
        let attr = inode.attr.get();
        let ticket = self.begin_attributes(inode.ino, |attributes| attributes.take_over(&attr));
        let done = self.body.store(inode).await;
        self.end_attributes(ticket, done)
    }

    fn change(&self, inode: &Inode<B::Private>) -> Change {
        let change = self.body.change(inode);
        let range = match self.settles {
            Settles::Nothing => return change,
            Settles::Names => 0..0,
            Settles::All => 0..u64::MAX,
        };
        let ticket = self.chronicle.borrow_mut().begin_act(&Act::Force {
            ino: inode.ino,
            range,
            data_only: false,
        });
        let mut asked = self.asked.borrow_mut();
        asked.entry(change).or_default().push(ticket);
        change
    }

    async fn settle(&self, change: Change) -> Result<()> {
        let asked = self.asked.borrow_mut().remove(&change);
        let settled = self.body.settle(change).await;
        let mut chronicle = self.chronicle.borrow_mut();
        for ticket in asked.into_iter().flatten() {
            chronicle.end(ticket, settled.ok().map(|()| 0));
        }
        settled
    }

    async fn set_xattr(
        &self,
        inode: &Inode<B::Private>,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timestamp,
    ) -> Result<()> {
        let ticket = self.begin_attributes(inode.ino, |attributes| {
            attributes.extended.insert(name.into(), value.into());
        });
        let done = self.body.set_xattr(inode, name, value, flags, now).await;
        self.end_attributes(ticket, done)
    }

    async fn remove_xattr(
        &self,
        inode: &Inode<B::Private>,
        name: &[u8],
        now: Timestamp,
    ) -> Result<()> {
        let ticket = self.begin_attributes(inode.ino, |attributes| {
            attributes.extended.remove(name);
        });
        let done = self.body.remove_xattr(inode, name, now).await;
        self.end_attributes(ticket, done)
    }
}
