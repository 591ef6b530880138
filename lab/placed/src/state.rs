//! State of files in use, and operations on placed ones.
//!
//! Invariants: a file in use has an entry; the entry of a placed file refers to a file that the
//! core has open; no borrow is held across an await.

use crate::choose::Chooser;
use crate::names::Paths;
use crate::volume::Volume;
use crate::zones::payloads;
use nand::Payload;
use parakeet::directive::Directive;
use shimmer::FileId;
use sim::Sim;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Origin, Refusals};
use vfs::{
    Access, AnyBody, AnyPrivate, Attr, Body, DirtyPage, Errno, Hint, Ino, Inode, PAGE, Result,
};

/// The mark: the attribute of files that stand for placed ones, as in the preload library.
pub const MARK: &[u8] = b"user.flashloom.placed";

/// Pages of one copy when a file moves: 1 MiB.
const AT_ONCE: u64 = 256;

/// The state of a file system with placed files.
pub(crate) struct State {
    /// The ordinary file system.
    pub(crate) below: AnyBody,
    pub(crate) sim: Sim,
    /// The core and its zones; `None` in hint-only mode.
    pub(crate) volume: Option<Volume>,
    pub(crate) chooser: Chooser,
    pub(crate) paths: Paths,
    pub(crate) files: RefCell<BTreeMap<Ino, Entry>>,
    pub(crate) refusals: RefCell<Refusals>,
    /// Origin of requests on behalf of no file.
    pub(crate) origin: Origin,
}

/// The entry of a regular file in use.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    directive: Option<Directive>,
    /// The hint of the inode at the last check.
    seen: Hint,
    kept: Option<Kept>,
}

/// State of a placed file.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) id: FileId,
    /// Key of the file in the core.
    key: Vec<u8>,
    /// The attributes that the ordinary file system was given last.
    told: Attr,
    /// Whether those attributes, and the file's name, are durable.
    forced: bool,
}

/// The core's key for the file of an inode.
pub(crate) fn key(ino: Ino, generation: u32) -> Vec<u8> {
    format!("{}.{generation}", ino.0).into_bytes()
}

/// The inode and the generation in a key of the core; `None` if it is malformed.
pub(crate) fn of_key(key: &[u8]) -> Option<(Ino, u32)> {
    let (ino, generation) = std::str::from_utf8(key).ok()?.split_once('.')?;
    Some((Ino(ino.parse().ok()?), generation.parse().ok()?))
}

/// Whether two states of a placed file differ in attributes that the ordinary file system must
/// store at once: all except its length and its times.
fn differ(one: &Attr, other: &Attr) -> bool {
    let same = Attr {
        size: one.size,
        sectors: one.sectors,
        atime: one.atime,
        mtime: one.mtime,
        ctime: one.ctime,
        ..*other
    };
    same != *one
}

/// Whether a file has the mark of placed files.
///
/// # Errors
/// If the attribute cannot be read. Such a file must not count as unmarked: its data would be
/// dropped.
pub(crate) async fn is_marked(below: &AnyBody, inode: &Inode<AnyPrivate>) -> Result<bool> {
    marks(&below.get_xattr(inode, MARK).await)
}

/// Interprets the result of reading the mark: a missing or unsupported attribute is no mark.
fn marks(answer: &Result<Vec<u8>>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(Errno::ENODATA | Errno::EOPNOTSUPP) => Ok(false),
        Err(errno) => Err(*errno),
    }
}

impl State {
    /// The core's id of the placed file `ino`; `None` if it is not placed.
    pub(crate) fn kept(&self, ino: Ino) -> Option<FileId> {
        let files = self.files.borrow();
        Some(files.get(&ino)?.kept.as_ref()?.id)
    }

    fn with_kept<T>(&self, ino: Ino, change: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let mut files = self.files.borrow_mut();
        files.get_mut(&ino)?.kept.as_mut().map(change)
    }

    /// Adds an entry for a regular file that comes into use: places a newly made file if a rule
    /// matches, and looks up a placed one.
    pub(crate) async fn met(
        self: &Rc<Self>,
        inode: Inode<AnyPrivate>,
        made: bool,
    ) -> Result<Inode<AnyPrivate>> {
        let ino = inode.ino;
        let (path, now) = (self.paths.of(ino), self.sim.now());
        let kept = match made {
            true => None,
            false => self.find(&inode).await?,
        };
        let attr = inode.attr.get();
        let directive = self.chooser.opened(now, ino, (&path, attr.mode, attr.size));
        let kept = match directive.filter(|_| made) {
            Some(directive) => self.place(&inode, directive).await,
            None => kept,
        };
        let entry = Entry {
            directive,
            seen: Hint::NotSet,
            kept,
        };
        self.files.borrow_mut().insert(ino, entry);
        Ok(inode)
    }

    /// Creates a placed file in the core for a new file, and marks it; `None` if that fails.
    async fn place(
        self: &Rc<Self>,
        inode: &Inode<AnyPrivate>,
        directive: Directive,
    ) -> Option<Kept> {
        let volume = self.volume.as_ref()?;
        let attr = inode.attr.get();
        let key = key(inode.ino, attr.generation);
        let placement = self.chooser.placement(directive);
        let created = {
            let mut core = volume.core.borrow_mut();
            // A file of that key was never forced, or the file system has lost it.
            let _ = core.unlink(&key);
            core.create(&key, placement)
        };
        let id = created.ok()?;
        let flags = vfs::XattrFlags::Any;
        let marked = self
            .below
            .set_xattr(inode, MARK, &[], flags, attr.ctime)
            .await;
        if marked.is_err() {
            self.forget(id, &key);
            return None;
        }
        Some(Kept {
            id,
            key,
            told: inode.attr.get(),
            forced: false,
        })
    }

    /// The placed file that an inode stands for; `None` if it is not marked. A file that was never
    /// forced is empty.
    async fn find(self: &Rc<Self>, inode: &Inode<AnyPrivate>) -> Result<Option<Kept>> {
        let Some(volume) = &self.volume else {
            return Ok(None);
        };
        if !is_marked(&self.below, inode).await? {
            return Ok(None);
        }
        let attr = inode.attr.get();
        let key = key(inode.ino, attr.generation);
        let found = volume.core.borrow().lookup(&key);
        let Some(id) = found else {
            inode.update(|attr| attr.size = 0);
            return Ok(None);
        };
        let opened = volume.core.borrow_mut().open_file(id);
        opened.map_err(|_| Errno::EIO)?;
        let kept = Kept {
            id,
            key,
            told: attr,
            forced: true,
        };
        self.show(inode, id);
        Ok(Some(kept))
    }

    /// Sets the visible length of a placed file. The sectors that it occupies stay hidden: that
    /// attribute is the ordinary file system's own count.
    pub(crate) fn show(&self, inode: &Inode<AnyPrivate>, id: FileId) {
        let Some(volume) = &self.volume else { return };
        if let Some(status) = volume.core.borrow().status(id) {
            inode.update(|attr| attr.size = status.size);
        }
    }

    /// Checks the hint of a file that is about to be written, and updates the placement of the
    /// file.
    pub(crate) fn look(&self, inode: &Inode<AnyPrivate>) {
        let (ino, said) = (inode.ino, inode.hint.get());
        let Some((id, directive)) = self.heard(ino, said) else {
            return;
        };
        let Some(volume) = &self.volume else {
            if let Some(directive) = directive {
                inode.handle.set(self.chooser.handle(directive));
                inode.hint.set(self.chooser.hint(directive));
                self.heard_own(ino, inode.hint.get());
            }
            return;
        };
        if let Some(directive) = directive {
            self.belongs(id, directive);
        }
        if let Some(id) = id {
            volume.origins.borrow_mut().insert(id, inode.origin.get());
        }
    }

    /// Records the hint of a file; returns its id in the core, and its directive.
    fn heard(&self, ino: Ino, said: Hint) -> Option<(Option<FileId>, Option<Directive>)> {
        let mut files = self.files.borrow_mut();
        let entry = files.get_mut(&ino)?;
        if said != entry.seen {
            entry.seen = said;
            entry.directive = self.chooser.hinted(self.sim.now(), ino, said);
        }
        let id = entry.kept.as_ref().map(|kept| kept.id);
        Some((id, entry.directive))
    }

    /// Records a hint that was set here, and not by the program.
    fn heard_own(&self, ino: Ino, hint: Hint) {
        if let Some(entry) = self.files.borrow_mut().get_mut(&ino) {
            entry.seen = hint;
        }
    }

    fn belongs(&self, id: Option<FileId>, directive: Directive) {
        if let (Some(volume), Some(id)) = (&self.volume, id) {
            let placement = self.chooser.placement(directive);
            let _ = volume.core.borrow_mut().set_placement(id, placement);
        }
    }

    /// Applies the new directive of a file after a rename or an allocation.
    pub(crate) fn moved(&self, ino: Ino, directive: Option<Directive>) {
        let mut files = self.files.borrow_mut();
        let Some(entry) = files.get_mut(&ino) else {
            return;
        };
        entry.directive = directive;
        let id = entry.kept.as_ref().map(|kept| kept.id);
        drop(files);
        if let Some(directive) = directive {
            self.belongs(id, directive);
        }
    }

    /// Notes that the file's name, or another of its attributes in the ordinary file system, is not
    /// durable.
    pub(crate) fn unforce(&self, ino: Ino) {
        self.with_kept(ino, |kept| kept.forced = false);
    }

    /// Whether the ordinary file system need not store the attributes of a file now.
    pub(crate) fn holds_back(&self, inode: &Inode<AnyPrivate>) -> bool {
        let attr = inode.attr.get();
        let told = self.with_kept(inode.ino, |kept| {
            let held = !differ(&attr, &kept.told);
            if !held {
                (kept.told, kept.forced) = (attr, false);
            }
            held
        });
        told.unwrap_or(false)
    }

    /// Makes the data of a placed file durable, then its name and attributes.
    //= dissertation 5.4.3
    pub(crate) async fn sync_kept(
        self: &Rc<Self>,
        inode: &Inode<AnyPrivate>,
        id: FileId,
        data_only: bool,
    ) -> Result<()> {
        self.force(Some(id)).await?;
        let forced = self.with_kept(inode.ino, |kept| std::mem::replace(&mut kept.forced, true));
        if forced != Some(false) {
            return Ok(());
        }
        let synced = self.below.sync(inode, data_only).await;
        if synced.is_err() {
            self.unforce(inode.ino);
        }
        synced
    }

    /// Removes the entry of a file that is not in use any more; frees the file if it has no name.
    pub(crate) async fn left(self: &Rc<Self>, inode: &Inode<AnyPrivate>) -> Result<()> {
        let entry = self.files.borrow_mut().remove(&inode.ino);
        let Some(entry) = entry else { return Ok(()) };
        let attr = inode.attr.get();
        self.chooser
            .left(self.sim.now(), inode.ino, attr.nlink == 0);
        let (Some(kept), Some(volume)) = (entry.kept, &self.volume) else {
            return Ok(());
        };
        if attr.nlink == 0 {
            self.forget(kept.id, &kept.key);
            return Ok(());
        }
        volume.origins.borrow_mut().remove(&kept.id);
        volume.core.borrow_mut().close_file(kept.id);
        self.pump();
        match attr == kept.told {
            true => Ok(()),
            false => self.below.store(inode).await,
        }
    }

    /// Removes a file from the core.
    fn forget(self: &Rc<Self>, id: FileId, key: &[u8]) {
        let Some(volume) = &self.volume else { return };
        volume.forgets();
        let mut core = volume.core.borrow_mut();
        let _ = core.unlink(key);
        core.close_file(id);
        drop(core);
        volume.origins.borrow_mut().remove(&id);
        self.pump();
    }

    /// Moves the `size` bytes of a placed file to the ordinary file system, where it is a normal
    /// file from then on.
    pub(crate) async fn demote(
        self: &Rc<Self>,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        size: u64,
    ) -> Result<()> {
        let found = self.with_kept(inode.ino, |kept| (kept.id, kept.key.clone()));
        let Some((id, key)) = found else {
            return Ok(());
        };
        let mut at = 0;
        while at < size {
            let bytes = self.get(id, at, AT_ONCE * PAGE).await?;
            if bytes.is_empty() {
                return Err(Errno::EIO);
            }
            self.put_below(who, inode, at / PAGE, payloads(&bytes))
                .await?;
            at += bytes.len() as u64;
        }
        self.below.store(inode).await?;
        self.below.sync(inode, false).await?;
        let now = inode.attr.get().ctime;
        self.below.remove_xattr(inode, MARK, now).await?;
        self.below.sync(inode, false).await?;
        if let Some(entry) = self.files.borrow_mut().get_mut(&inode.ino) {
            entry.kept = None;
        }
        self.forget(id, &key);
        Ok(())
    }

    async fn put_below(
        &self,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        first: u64,
        pages: Vec<Payload>,
    ) -> Result<()> {
        let range = first..first + pages.len() as u64;
        self.below.reserve(who, inode, range.clone()).await?;
        let page = |(index, now)| DirtyPage {
            index,
            now,
            before: None,
        };
        let pages: Vec<_> = range.zip(pages).map(page).collect();
        self.below.write_pages(inode, &pages).await
    }

    /// Writes bytes at any offset to a file of the ordinary file system, around the cache.
    pub(crate) async fn patch_below(
        &self,
        who: &Access,
        inode: &Inode<AnyPrivate>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<u64> {
        let (size, end) = (inode.attr.get().size, offset + bytes.len() as u64);
        let first = offset / PAGE;
        let count = end.div_ceil(PAGE) - first;
        let mut pages = vec![Payload::Zero; count as usize];
        let there = size.div_ceil(PAGE).saturating_sub(first).min(count) as usize;
        self.below
            .read_pages(inode, first, &mut pages[..there])
            .await?;
        let mut all = vec![0; (count * PAGE) as usize];
        for (page, out) in pages.iter().zip(all.chunks_mut(PAGE as usize)) {
            if !page.copy_to(0, out) {
                return Err(Errno::EIO);
            }
        }
        let from = (offset - first * PAGE) as usize;
        all[from..from + bytes.len()].copy_from_slice(bytes);
        inode.update(|attr| attr.size = attr.size.max(end));
        self.put_below(who, inode, first, payloads(&all)).await?;
        Ok(bytes.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_mark_is_an_error() {
        assert_eq!(marks(&Ok(Vec::new())), Ok(true));
        assert_eq!(marks(&Err(Errno::ENODATA)), Ok(false));
        assert_eq!(marks(&Err(Errno::EOPNOTSUPP)), Ok(false));
        assert_eq!(marks(&Err(Errno::EIO)), Err(Errno::EIO));
    }

    #[test]
    fn key_of_an_inode_resolves_to_it() {
        assert_eq!(of_key(&key(Ino(12), 7)), Some((Ino(12), 7)));
        for other in [&b"12"[..], b"x.7", b"12.-1", b"\xff.1", b""] {
            assert_eq!(of_key(other), None);
        }
    }
}
