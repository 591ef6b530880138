//! Attributes: reading and setting them, and the timestamps that other calls set.
//!
//! Times follow Linux: a change of contents sets mtime and ctime, a change of attributes sets
//! ctime. A read sets atime if atime is not newer than both or is older than a day (`relatime`), or
//! as [`Atime`] says. The body stores an inode only when a time has really changed, so many writes
//! within a tick cost one update.

use crate::access::{SGID, SUID, WRITE, ensure, stripped};
use crate::body::{Body, Change};
use crate::config::Atime;
use crate::errno::{Errno, Result};
use crate::file::Handle;
use crate::flags::OpenFlags;
use crate::node::Node;
use crate::observe::Act;
use crate::types::{Access, Attr, FileKind, Ino, PAGE, SetAttr, SetTime, StatFs, Timestamp};
use crate::vfs::{Core, NodeOf, Vfs};
use std::rc::Rc;

/// Age of atime in seconds from which a read sets it in any case.
const DAY: i64 = 86_400;

impl<B: Body> Vfs<B> {
    /// Attributes of a file, with times at the grain of the medium.
    ///
    /// # Errors
    /// `ENOENT`, `EIO`.
    pub async fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        Ok(self.core.told(&node))
    }

    /// Checks that the caller has all permissions in `need`: 4 to read, 2 to write, 1 to execute.
    ///
    /// # Errors
    /// `EACCES`, `ENOENT`, `EIO`.
    pub async fn access(&self, who: &Access, ino: Ino, need: u16) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        who.check(&node.attr(), need)
    }

    /// Sets the attributes in `set`; returns all attributes afterwards.
    ///
    /// # Errors
    /// `EPERM` without ownership, `EACCES` without write permission, `EISDIR` or `EINVAL` for the
    /// size of a file that is not regular, `EFBIG`, `ENOSPC`, `EROFS`, `EIO`.
    pub async fn setattr(&self, who: &Access, ino: Ino, set: SetAttr) -> Result<Attr> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        if set.size.is_some() {
            check_sizable(&node.attr())?;
            who.check(&node.attr(), WRITE)?;
        }
        self.core.setattr(who, &node, set).await
    }

    /// Sets the size of an open file.
    ///
    /// # Errors
    /// `EINVAL` if the file was not opened for writing or is not regular; `EFBIG`, `ENOSPC`,
    /// `EROFS`, `EIO`.
    pub async fn truncate(&self, handle: &Handle, size: u64) -> Result<()> {
        self.core.pay(self.core.config.costs.call).await;
        let file = self.core.file(handle)?;
        ensure(file.has(OpenFlags::WRITE), Errno::EINVAL)?;
        check_sizable(&file.node.attr())?;
        self.core.resize(&file.who, &file.node, size).await
    }

    /// Whether a read of the open file at this instant would set its atime. A front end that caches
    /// contents itself must then read through this mount.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn notes_read(&self, handle: &Handle) -> Result<bool> {
        let file = self.core.file(handle)?;
        let reads = file.has(OpenFlags::READ) && !file.has(OpenFlags::NO_ATIME);
        Ok(reads && self.core.noted(&file.node).is_some())
    }

    /// Clears the set-id bits of a file, as a write by an ordinary user does.
    ///
    /// # Errors
    /// `ENOENT`, `EROFS`, `ENOSPC`, `EIO`.
    pub async fn drop_privileges(&self, ino: Ino) -> Result<()> {
        let node = self.core.node(ino).await?;
        self.core.ensure_writable(&node)?;
        let guard = node.lock.write().await;
        let mode = node.attr().mode;
        if stripped(mode) == mode {
            return Ok(());
        }
        let now = self.core.now();
        node.inode.update(|attr| {
            attr.mode = stripped(mode);
            attr.ctime = now;
        });
        self.core.body.store(&node.inode).await?;
        self.core.settle_unlocked(&node, guard).await
    }

    /// Capacity and free space of the file system.
    ///
    /// # Errors
    /// None so far; bodies that must look at the medium may fail.
    pub async fn statfs(&self) -> Result<StatFs> {
        self.core.pay(self.core.config.costs.call).await;
        Ok(self.core.body.stat())
    }
}

fn set_stamp<P>(who: &Access, node: &Node<P>, now: Timestamp) {
    let strip = node.attr().mode & (SUID | SGID) != 0 && !who.is_root();
    node.inode.update(|attr| {
        (attr.mtime, attr.ctime) = (now, now);
        if strip {
            attr.mode = stripped(attr.mode);
        }
    });
}

/// Checks that the size of such a file can be set.
pub(crate) fn check_sizable(attr: &Attr) -> Result<()> {
    match attr.kind {
        FileKind::Regular => Ok(()),
        FileKind::Directory => Err(Errno::EISDIR),
        _ => Err(Errno::EINVAL),
    }
}

/// Checks that the caller may set these attributes.
fn check_set(who: &Access, attr: &Attr, set: &SetAttr) -> Result<()> {
    if let Some(uid) = set.uid {
        let same = who.uid == attr.uid && uid == attr.uid;
        ensure(who.is_root() || same, Errno::EPERM)?;
    }
    if let Some(gid) = set.gid {
        let own = who.uid == attr.uid && (who.in_group(gid) || gid == attr.gid);
        ensure(who.is_root() || own, Errno::EPERM)?;
    }
    if set.mode.is_some() {
        ensure(who.owns(attr), Errno::EPERM)?;
        ensure(attr.kind != FileKind::Symlink, Errno::EOPNOTSUPP)?;
    }
    match (set.atime, set.mtime) {
        (None, None) => Ok(()),
        (Some(SetTime::Now), Some(SetTime::Now)) => {
            let allowed = who.owns(attr) || who.check(attr, WRITE).is_ok();
            ensure(allowed, Errno::EACCES)
        }
        _ => ensure(who.owns(attr), Errno::EPERM),
    }
}

impl<B: Body> Core<B> {
    pub(crate) async fn setattr(
        &self,
        who: &Access,
        node: &Rc<NodeOf<B>>,
        set: SetAttr,
    ) -> Result<Attr> {
        self.ensure_writable(node)?;
        check_set(who, &node.attr(), &set)?;
        let guard = node.lock.write().await;
        if let Some(size) = set.size {
            self.resize_locked(who, node, size).await?;
        }
        let rest = SetAttr { size: None, ..set };
        if rest != SetAttr::default() {
            self.apply(who, node, &rest);
            self.body.store(&node.inode).await?;
        }
        let attr = self.told(node);
        self.settle_unlocked(node, guard).await?;
        Ok(attr)
    }

    /// Unlocks an inode that a call has changed; returns a future that waits until the change is as
    /// durable as the body promises.
    pub(crate) fn settle_unlocked<G>(
        &self,
        node: &NodeOf<B>,
        guard: G,
    ) -> impl Future<Output = Result<()>> {
        let change = self.body.change(&node.inode);
        drop(guard);
        self.body.settle(change)
    }

    fn apply(&self, who: &Access, node: &NodeOf<B>, set: &SetAttr) {
        let now = self.now();
        let time = |set: SetTime| match set {
            SetTime::Now => now,
            SetTime::At(time) => time,
        };
        node.inode.update(|attr| {
            let owner_set = set.uid.is_some() || set.gid.is_some();
            if owner_set && set.mode.is_none() && attr.kind != FileKind::Directory {
                attr.mode = stripped(attr.mode);
            }
            attr.uid = set.uid.unwrap_or(attr.uid);
            attr.gid = set.gid.unwrap_or(attr.gid);
            if let Some(mode) = set.mode {
                attr.mode = who.settable(mode, attr.gid);
            }
            attr.atime = set.atime.map_or(attr.atime, time);
            attr.mtime = set.mtime.map_or(attr.mtime, time);
            attr.ctime = now;
        });
    }

    /// Sets the size of a regular file, with the inode lock.
    pub(crate) async fn resize(&self, who: &Access, node: &Rc<NodeOf<B>>, size: u64) -> Result<()> {
        let guard = node.lock.write().await;
        self.resize_locked(who, node, size).await?;
        self.settle_unlocked(node, guard).await
    }

    async fn resize_locked(&self, who: &Access, node: &Rc<NodeOf<B>>, size: u64) -> Result<()> {
        self.ensure_writable(node)?;
        ensure(size <= self.body.max_size(), Errno::EFBIG)?;
        let ino = node.ino();
        let told = self.begins(|| Act::Resize { ino, size });
        let done = self.set_size(who, node, size).await;
        self.ends(told, done.ok().map(|()| 0));
        done
    }

    async fn set_size(&self, who: &Access, node: &Rc<NodeOf<B>>, size: u64) -> Result<()> {
        let old = node.size();
        if size < old && !self.body.is_dax() {
            self.write_before_cut(node, size / PAGE).await;
            self.cut_page(node, size).await?;
        } else if size > old {
            self.seal_end(node).await?;
        }
        let (now, before) = (self.now(), node.attr());
        node.inode.update(|attr| {
            attr.size = size;
            (attr.mtime, attr.ctime) = (now, now);
            if !who.is_root() {
                attr.mode = stripped(attr.mode);
            }
        });
        if size < old {
            self.drop_pages(node, size.div_ceil(PAGE), u64::MAX).await;
        }
        if size != old {
            let done = self.body.truncate(&node.inode, old).await;
            if done.is_err() && size > old {
                // The file has not grown: a retry must not find the larger size.
                node.inode.update(|attr| {
                    attr.size = old;
                    (attr.mtime, attr.ctime, attr.mode) = (before.mtime, before.ctime, before.mode);
                });
            }
            done?;
        }
        self.body.store(&node.inode).await
    }

    /// Sets mtime and ctime to `now` after the caller changed contents.
    pub(crate) async fn stamp(&self, who: &Access, node: &NodeOf<B>, now: Timestamp) -> Result<()> {
        let before = node.attr();
        set_stamp(who, node, now);
        if node.attr() == before {
            return Ok(());
        }
        self.body.store(&node.inode).await
    }

    /// Stamps a file that is about to be written. A body in place ([`Body::is_dax`]) persists the
    /// times with the data. Returns the change that the caller must settle after the write.
    pub(crate) async fn stamp_written(&self, who: &Access, node: &NodeOf<B>) -> Result<Change> {
        let before = node.attr();
        set_stamp(who, node, self.now());
        let with_it = self.body.is_dax() && node.attr().mode == before.mode;
        if with_it || node.attr() == before {
            return Ok(Change::default());
        }
        self.body.store(&node.inode).await?;
        Ok(self.body.change(&node.inode))
    }

    /// `EROFS` if the body is read-only or the inode frozen.
    pub(crate) fn ensure_writable(&self, node: &NodeOf<B>) -> Result<()> {
        ensure(self.is_writable(node), Errno::EROFS)
    }

    fn is_writable(&self, node: &NodeOf<B>) -> bool {
        !self.body.is_read_only() && !self.body.is_frozen(&node.inode)
    }

    /// The atime that a read of `node` would set at this instant; `None` if it would set none.
    #[inline]
    fn noted(&self, node: &NodeOf<B>) -> Option<Timestamp> {
        let attr = node.attr();
        let now = self.now();
        let newer = attr.atime > attr.mtime && attr.atime > attr.ctime;
        let recent = now.secs.saturating_sub(attr.atime.secs) < DAY;
        let due = match self.config.atime {
            Atime::Never => false,
            Atime::Relative => !newer || !recent,
            Atime::Always => true,
        };
        let kind = self.config.diratime || attr.kind != FileKind::Directory;
        let writable = self.is_writable(node);
        (due && kind && writable && attr.atime != now).then_some(now)
    }

    /// Sets atime for a read, if due.
    #[inline]
    pub(crate) async fn touch(&self, node: &NodeOf<B>) -> Result<()> {
        let Some(now) = self.noted(node) else {
            return Ok(());
        };
        node.inode.update(|attr| attr.atime = now);
        self.body.store(&node.inode).await?;
        self.settle_unlocked(node, ()).await
    }
}
