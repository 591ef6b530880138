//! Names: looking them up, creating and removing them.
//!
//! Invariants: a call that changes a directory holds its inode lock exclusively from the lookup of
//! the name to the end of the change; a lookup on the medium holds it shared, so a cached name is
//! never older than the last change. A directory to be removed is locked after its parent.

use crate::access::{EXEC, SGID, ensure};
use crate::body::{Body, NewInode};
use crate::errno::{Errno, Result};
use crate::node::Name;
use crate::types::{Access, Attr, FileKind, Ino};
use crate::vfs::{Core, NodeOf, Vfs};
use std::rc::Rc;

/// Longest name in bytes, as in Linux.
pub(crate) const NAME_MAX: usize = 255;

/// Attributes of an inode to be created under a name.
#[derive(Clone, Copy)]
pub(crate) struct Make<'a> {
    pub(crate) kind: FileKind,
    pub(crate) mode: u16,
    pub(crate) rdev: u32,
    pub(crate) target: &'a [u8],
}

impl<B: Body> Vfs<B> {
    /// Looks `name` up in `dir`, `.` and `..` included. The caller holds a reference to the inode
    /// until [`Vfs::forget`].
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `EACCES`, `ENAMETOOLONG`, `EIO`.
    pub async fn lookup(&self, who: &Access, dir: Ino, name: &[u8]) -> Result<(Ino, Attr)> {
        self.core.pay(self.core.config.costs.name).await;
        let dir = self.core.directory(dir).await?;
        let node = self.core.step(who, &dir, name).await?;
        Ok(self.core.refer(&node))
    }

    /// Takes a reference to an inode by number, for a caller that kept the number without its name.
    /// The caller holds the reference until [`Vfs::forget`].
    ///
    /// # Errors
    /// `ENOENT` if no inode has this number, `EIO`.
    pub async fn refer(&self, ino: Ino) -> Result<(Ino, Attr)> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        Ok(self.core.refer(&node))
    }

    /// Creates a file of any kind but a symbolic link.
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT` in a removed directory, `EACCES`, `EPERM` for a device unless `who` is
    /// user 0, `ENOSPC`, `EIO`.
    pub async fn mknod(
        &self,
        who: &Access,
        dir: Ino,
        name: &[u8],
        kind: FileKind,
        mode: u16,
        rdev: u32,
    ) -> Result<(Ino, Attr)> {
        let device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let make = Make {
            kind,
            mode,
            rdev: if device { rdev } else { 0 },
            target: &[],
        };
        self.made(who, dir, name, make).await
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// As [`Vfs::mknod`]; `EMLINK`.
    pub async fn mkdir(
        &self,
        who: &Access,
        dir: Ino,
        name: &[u8],
        mode: u16,
    ) -> Result<(Ino, Attr)> {
        let kind = FileKind::Directory;
        self.mknod(who, dir, name, kind, mode, 0).await
    }

    /// Creates a symbolic link to `target`.
    ///
    /// # Errors
    /// As [`Vfs::mknod`]; `ENOENT` if `target` is empty, `ENAMETOOLONG` if it has
    /// more than 4,095 bytes.
    pub async fn symlink(
        &self,
        who: &Access,
        dir: Ino,
        name: &[u8],
        target: &[u8],
    ) -> Result<(Ino, Attr)> {
        self.made(who, dir, name, link_to(target)?).await
    }

    async fn made(
        &self,
        who: &Access,
        dir: Ino,
        name: &[u8],
        make: Make<'_>,
    ) -> Result<(Ino, Attr)> {
        self.core.pay(self.core.config.costs.change).await;
        let dir = self.core.directory(dir).await?;
        let node = self.core.make(who, &dir, name, make).await?;
        Ok(self.core.refer(&node))
    }

    /// Adds a hard link `name` in `dir` to a file.
    ///
    /// # Errors
    /// `EPERM` for a directory, `EEXIST`, `EACCES`, `EMLINK`, `ENOENT` if the file has lost its
    /// last name, `ENOSPC`, `EIO`.
    pub async fn link(&self, who: &Access, ino: Ino, dir: Ino, name: &[u8]) -> Result<(Ino, Attr)> {
        self.core.pay(self.core.config.costs.change).await;
        let node = self.core.node(ino).await?;
        let dir = self.core.directory(dir).await?;
        self.core.link(who, &node, &dir, name).await?;
        Ok(self.core.refer(&node))
    }

    /// Removes the name of a file other than a directory.
    ///
    /// # Errors
    /// `ENOENT`, `EISDIR`, `EACCES`, `EPERM`, `EIO`.
    pub async fn unlink(&self, who: &Access, dir: Ino, name: &[u8]) -> Result<()> {
        self.core.pay(self.core.config.costs.change).await;
        let dir = self.core.directory(dir).await?;
        self.core.remove(who, &dir, name, false).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTDIR`, `ENOTEMPTY`, `EINVAL` for `.`, `EACCES`, `EPERM`,
    /// `EIO`.
    pub async fn rmdir(&self, who: &Access, dir: Ino, name: &[u8]) -> Result<()> {
        self.core.pay(self.core.config.costs.change).await;
        let dir = self.core.directory(dir).await?;
        self.core.remove(who, &dir, name, true).await
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// `EINVAL` if the inode is of another kind, `EIO`.
    pub async fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        ensure(node.attr().kind == FileKind::Symlink, Errno::EINVAL)?;
        let target = self.core.body.readlink(&node.inode).await?;
        self.core.touch(&node).await?;
        Ok(target)
    }
}

/// Attributes of a symbolic link that leads to `target`.
pub(crate) fn link_to(target: &[u8]) -> Result<Make<'_>> {
    ensure(!target.is_empty(), Errno::ENOENT)?;
    ensure(target.len() < 4096, Errno::ENAMETOOLONG)?;
    Ok(Make {
        kind: FileKind::Symlink,
        mode: 0o777,
        rdev: 0,
        target,
    })
}

pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    ensure(!name.is_empty(), Errno::ENOENT)?;
    ensure(name.len() <= NAME_MAX, Errno::ENAMETOOLONG)?;
    ensure(!name.iter().any(|&b| b == b'/' || b == 0), Errno::EINVAL)
}

fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

impl<B: Body> Core<B> {
    /// Takes a reference for a caller of [`Vfs`].
    pub(crate) fn refer(&self, node: &Rc<NodeOf<B>>) -> (Ino, Attr) {
        node.lookups.set(node.lookups.get() + 1);
        (node.ino(), self.told(node))
    }

    /// Resolves one component of a path.
    pub(crate) async fn step(
        &self,
        who: &Access,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
    ) -> Result<Rc<NodeOf<B>>> {
        who.check(&dir.attr(), EXEC)?;
        match name {
            b"." => Ok(Rc::clone(dir)),
            b".." => self.parent(dir).await,
            _ => {
                check_name(name)?;
                let found = self.child(dir, name, false).await?;
                found.ok_or(Errno::ENOENT)
            }
        }
    }

    /// The parent of `dir`; the root is its own parent.
    pub(crate) async fn parent(&self, dir: &Rc<NodeOf<B>>) -> Result<Rc<NodeOf<B>>> {
        if dir.ino() == self.body.root() {
            return Ok(Rc::clone(dir));
        }
        ensure(dir.attr().nlink > 0, Errno::ENOENT)?;
        if let Some(parent) = dir.parent.get() {
            return self.node(parent).await;
        }
        let parent = self.body.parent(&dir.inode).await?;
        dir.parent.set(Some(parent));
        self.node(parent).await
    }

    /// The inode that `name` leads to. `locked` says that the caller holds the lock of `dir`
    /// exclusively.
    pub(crate) async fn child(
        &self,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
        locked: bool,
    ) -> Result<Option<Rc<NodeOf<B>>>> {
        if dir.attr().nlink == 0 {
            return Ok(None);
        }
        loop {
            let ino = match self.known(dir, name) {
                Some(Name::Leads(ino)) => Some(ino),
                Some(Name::Absent) => None,
                _ if locked => self.look(dir, name).await?,
                _ => self.seek_name(dir, name).await?,
            };
            let Some(ino) = ino else { return Ok(None) };
            let node = match self.node(ino).await {
                // The name was removed between lookup and load.
                Err(Errno::ENOENT) if !locked => return Ok(None),
                node => node?,
            };
            let now = dir.names.borrow().get(name);
            if now.is_some_and(|now| now != Name::Leads(ino)) {
                // The name leads elsewhere by now, and the number may be another file's.
                continue;
            }
            if node.is_dir() && node.parent.get().is_none() {
                node.parent.set(Some(dir.ino()));
            }
            return Ok(Some(node));
        }
    }

    #[inline]
    fn known(&self, dir: &NodeOf<B>, name: &[u8]) -> Option<Name> {
        dir.names_used.set(true);
        dir.names.borrow().get(name)
    }

    /// Looks a name up on the medium, once for all tasks that miss on it at the same time.
    async fn seek_name(&self, dir: &Rc<NodeOf<B>>, name: &[u8]) -> Result<Option<Ino>> {
        loop {
            let guard = dir.lock.read().await;
            match self.known(dir, name) {
                Some(Name::Leads(ino)) => return Ok(Some(ino)),
                Some(Name::Absent) => return Ok(None),
                Some(Name::Sought) => {
                    drop(guard);
                    dir.looked.wait(&self.sim).await;
                }
                None => {
                    self.remember(dir, name, Name::Sought);
                    let found = self.look(dir, name).await;
                    if found.is_err() {
                        self.forget_name(dir, name);
                    }
                    dir.looked.notify(&self.sim);
                    return found;
                }
            }
        }
    }

    async fn look(&self, dir: &Rc<NodeOf<B>>, name: &[u8]) -> Result<Option<Ino>> {
        let found = self.body.lookup(&dir.inode, name).await?;
        let known = found.map_or(Name::Absent, Name::Leads);
        self.remember(dir, name, known);
        Ok(found)
    }

    /// Caches a name; evicts names of other directories beyond the limit.
    pub(crate) fn remember(&self, dir: &NodeOf<B>, name: &[u8], known: Name) {
        if !dir.names.borrow_mut().insert(name, known) {
            return;
        }
        self.name_count.set(self.name_count.get() + 1);
        if dir.names_queued.get() == 0 {
            self.queue_names(dir);
        }
        if self.name_count.get() > self.config.names as usize {
            self.shrink_names();
        }
    }

    fn forget_name(&self, dir: &NodeOf<B>, name: &[u8]) {
        if dir.names.borrow_mut().remove(name) {
            self.name_count.set(self.name_count.get() - 1);
        }
    }

    /// Drops all cached names of `dir` except those being looked up.
    pub(crate) fn forget_names(&self, dir: &NodeOf<B>) {
        let mut names = dir.names.borrow_mut();
        let before = names.len();
        names.retain(|known| known == Name::Sought);
        let gone = before - names.len();
        self.name_count.set(self.name_count.get() - gone);
    }

    /// Drops the cached names of all directories.
    pub(crate) fn drop_names(&self) {
        let named = std::mem::take(&mut *self.named.borrow_mut());
        for (ino, ticket) in named {
            if let Some(dir) = self.ready(ino)
                && dir.names_queued.get() == ticket
            {
                self.forget_names(&dir);
                self.queue_names(&dir);
            }
        }
    }

    /// Appends `dir` to the eviction queue of names, if it has any cached.
    fn queue_names(&self, dir: &NodeOf<B>) {
        dir.names_queued.set(0);
        if !dir.names.borrow().is_empty() {
            dir.names_queued.set(self.ticket());
            let turn = (dir.ino(), dir.names_queued.get());
            self.named.borrow_mut().push_back(turn);
        }
    }

    /// Evicts the names of the directories next in the queue until the limit is met; a directory
    /// used since its last turn is spared once.
    fn shrink_names(&self) {
        let turns = self.named.borrow().len() * 2;
        for _ in 0..turns {
            let Some((ino, ticket)) = self.named.borrow_mut().pop_front() else {
                return;
            };
            let Some(dir) = self.ready(ino) else { continue };
            if dir.names_queued.get() != ticket {
                continue;
            }
            if !dir.names_used.replace(false) {
                self.forget_names(&dir);
            }
            self.queue_names(&dir);
            if self.name_count.get() <= self.config.names as usize {
                return;
            }
        }
    }

    /// Creates an inode under a free name, with the checks of `mknod`.
    pub(crate) async fn make(
        &self,
        who: &Access,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
        make: Make<'_>,
    ) -> Result<Rc<NodeOf<B>>> {
        who.check(&dir.attr(), EXEC)?;
        ensure(!is_dots(name), Errno::EEXIST)?;
        check_name(name)?;
        let guard = dir.lock.write().await;
        let taken = self.child(dir, name, true).await?.is_some();
        ensure(!taken, Errno::EEXIST)?;
        let node = self.make_locked(who, dir, name, make).await?;
        self.settle_unlocked(dir, guard).await?;
        Ok(node)
    }

    /// Creates an inode under `name`, which the caller has found free with the lock of `dir` held.
    pub(crate) async fn make_locked(
        &self,
        who: &Access,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
        make: Make<'_>,
    ) -> Result<Rc<NodeOf<B>>> {
        let attr = dir.attr();
        who.may_add(&attr)?;
        let device = matches!(make.kind, FileKind::CharDevice | FileKind::BlockDevice);
        ensure(!device || who.is_root(), Errno::EPERM)?;
        let is_dir = make.kind == FileKind::Directory;
        let full = is_dir && attr.nlink >= self.body.max_links();
        ensure(!full, Errno::EMLINK)?;
        let new = self.new_inode(who, &attr, make);
        let loaded = self.body.create(&dir.inode, name, new).await?;
        let node = self.adopt(loaded).await?;
        if is_dir {
            node.parent.set(Some(dir.ino()));
        }
        self.remember(dir, name, Name::Leads(node.ino()));
        Ok(node)
    }

    /// Attributes of an inode created in a directory with attributes `dir`: a directory with the
    /// set-group-id bit passes on its group.
    pub(crate) fn new_inode<'a>(&self, who: &Access, dir: &Attr, make: Make<'a>) -> NewInode<'a> {
        let inherits = dir.mode & SGID != 0;
        let gid = if inherits { dir.gid } else { who.gid };
        let mut mode = make.mode & 0o7_777;
        if make.kind == FileKind::Directory {
            mode = mode & !SGID | dir.mode & SGID;
        } else if inherits && mode & SGID != 0 && mode & 0o010 != 0 {
            mode = who.settable(mode, gid);
        }
        NewInode {
            kind: make.kind,
            mode,
            uid: who.uid,
            gid,
            rdev: make.rdev,
            target: make.target,
            now: self.now(),
        }
    }

    pub(crate) async fn link(
        &self,
        who: &Access,
        node: &Rc<NodeOf<B>>,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
    ) -> Result<()> {
        who.check(&dir.attr(), EXEC)?;
        ensure(!is_dots(name), Errno::EEXIST)?;
        check_name(name)?;
        let guard = dir.lock.write().await;
        let taken = self.child(dir, name, true).await?.is_some();
        ensure(!taken, Errno::EEXIST)?;
        who.may_add(&dir.attr())?;
        ensure(!node.is_dir(), Errno::EPERM)?;
        let inner = node.lock.write().await;
        let attr = node.attr();
        ensure(attr.nlink > 0 || node.unnamed.get(), Errno::ENOENT)?;
        ensure(attr.nlink < self.body.max_links(), Errno::EMLINK)?;
        let now = self.now();
        self.body.link(&dir.inode, name, &node.inode, now).await?;
        node.unnamed.set(false);
        self.remember(dir, name, Name::Leads(node.ino()));
        self.settle_unlocked(dir, (inner, guard)).await
    }

    /// Removes the name of a directory if `is_dir`, else of any other file.
    pub(crate) async fn remove(
        &self,
        who: &Access,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
        is_dir: bool,
    ) -> Result<()> {
        who.check(&dir.attr(), EXEC)?;
        match (name, is_dir) {
            (b".", true) => return Err(Errno::EINVAL),
            (b"..", true) => return Err(Errno::ENOTEMPTY),
            (b"." | b"..", false) => return Err(Errno::EISDIR),
            _ => check_name(name)?,
        }
        let guard = dir.lock.write().await;
        let node = self.child(dir, name, true).await?.ok_or(Errno::ENOENT)?;
        who.may_remove(&dir.attr(), &node.attr())?;
        ensure_kind(&node.attr(), is_dir)?;
        let inner = node.lock.write().await;
        let now = self.now();
        if is_dir {
            self.body.rmdir(&dir.inode, name, &node.inode, now).await?;
        } else {
            self.body.unlink(&dir.inode, name, &node.inode, now).await?;
        }
        self.remember(dir, name, Name::Absent);
        drop(inner);
        // The inode of the last name is freed only once the removal is durable.
        let settled = self.settle_unlocked(dir, guard).await;
        self.put(node).await;
        settled
    }
}

/// Checks that a name to be removed or replaced is that of a directory exactly if `is_dir`.
pub(crate) fn ensure_kind(attr: &Attr, is_dir: bool) -> Result<()> {
    match (is_dir, attr.kind == FileKind::Directory) {
        (true, false) => Err(Errno::ENOTDIR),
        (false, true) => Err(Errno::EISDIR),
        _ => Ok(()),
    }
}
