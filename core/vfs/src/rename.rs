//! Renaming, in the order of checks of Linux.
//!
//! # Lock order
//!
//! Renames between two directories run one at a time, so the tree above them does not change. An
//! ancestor is locked before its descendants; of two unrelated directories, the one with the
//! smaller number first. The moved and the replaced file are locked after the directories, again by
//! number.

use crate::access::{EXEC, WRITE, ensure};
use crate::body::{Body, Rename};
use crate::errno::{Errno, Result};
use crate::names::{check_name, ensure_kind};
use crate::node::Name;
use crate::types::{Access, Attr, Ino};
use crate::vfs::{Core, NodeOf, Vfs};
use sim::Permit;
use std::rc::Rc;

/// Flags of a rename, as of `renameat2`; the default replaces the new name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail if the new name is taken.
    pub no_replace: bool,
    /// Exchange the two names.
    pub exchange: bool,
}

/// One side of a rename: a directory and a name in it.
pub(crate) struct End<'a, P> {
    pub(crate) dir: &'a Rc<crate::node::Node<P>>,
    pub(crate) name: &'a [u8],
    /// Whether a slash follows the name, so that it must lead to a directory.
    pub(crate) slash: bool,
}

type EndOf<'a, B> = End<'a, <B as Body>::Private>;

/// Relation of the two directories of a rename.
enum Kinship {
    /// The second is a descendant of the first, below this child.
    SecondBelow(Ino),
    /// The first is a descendant of the second, below this child.
    FirstBelow(Ino),
    None,
}

impl<B: Body> Vfs<B> {
    /// Renames atomically; an inode that the new name leads to loses that name.
    ///
    /// # Errors
    /// `ENOENT`, `EEXIST`, `EACCES`, `EPERM`, `ENOTDIR`, `EISDIR`, `ENOTEMPTY`,
    /// `EINVAL` for a directory into itself, `EBUSY` for `.` and `..`, `EMLINK`,
    /// `ENOSPC`, `EIO`.
    pub async fn rename(
        &self,
        who: &Access,
        from: Ino,
        from_name: &[u8],
        to: Ino,
        to_name: &[u8],
        flags: RenameFlags,
    ) -> Result<()> {
        self.core.pay(self.core.config.costs.change).await;
        let from = self.core.directory(from).await?;
        let to = self.core.directory(to).await?;
        let end = |dir, name| End {
            dir,
            name,
            slash: false,
        };
        let (from, to) = (end(&from, from_name), end(&to, to_name));
        self.core.rename(who, from, to, flags).await
    }
}

impl<B: Body> Core<B> {
    pub(crate) async fn rename(
        &self,
        who: &Access,
        from: EndOf<'_, B>,
        to: EndOf<'_, B>,
        flags: RenameFlags,
    ) -> Result<()> {
        who.check(&from.dir.attr(), EXEC)?;
        who.check(&to.dir.attr(), EXEC)?;
        let dots = |name: &[u8]| name == b"." || name == b"..";
        ensure(!dots(from.name), Errno::EBUSY)?;
        let target = if flags.no_replace {
            Errno::EEXIST
        } else {
            Errno::EBUSY
        };
        ensure(!dots(to.name), target)?;
        check_name(from.name)?;
        check_name(to.name)?;
        ensure(!(flags.no_replace && flags.exchange), Errno::EINVAL)?;
        if from.dir.ino() == to.dir.ino() {
            let guard = from.dir.lock.write().await;
            let renamed = self.rename_locked(who, &from, &to, flags, Kinship::None);
            let replaced = renamed.await?;
            return self.settle_renamed(&to, guard, replaced).await;
        }
        let moves = self.moves.write().await;
        let kinship = self.kinship(from.dir, to.dir).await?;
        let second_first = match kinship {
            Kinship::SecondBelow(_) => false,
            Kinship::FirstBelow(_) => true,
            Kinship::None => to.dir.ino() < from.dir.ino(),
        };
        let (first, second) = if second_first {
            (to.dir, from.dir)
        } else {
            (from.dir, to.dir)
        };
        let guards = (first.lock.write().await, second.lock.write().await, moves);
        let replaced = self.rename_locked(who, &from, &to, flags, kinship).await?;
        self.settle_renamed(&to, guards, replaced).await
    }

    /// Releases the directories and waits until the rename is as durable as the body promises; then
    /// drops the replaced inode.
    async fn settle_renamed<G>(
        &self,
        to: &EndOf<'_, B>,
        guards: G,
        replaced: Option<Rc<NodeOf<B>>>,
    ) -> Result<()> {
        let settled = self.settle_unlocked(to.dir, guards).await;
        if let Some(replaced) = replaced {
            self.put(replaced).await;
        }
        settled
    }

    async fn kinship(&self, first: &Rc<NodeOf<B>>, second: &Rc<NodeOf<B>>) -> Result<Kinship> {
        if let Some(child) = self.way_down(first, second).await? {
            return Ok(Kinship::SecondBelow(child));
        }
        let child = self.way_down(second, first).await?;
        Ok(child.map_or(Kinship::None, Kinship::FirstBelow))
    }

    /// The child of `top` on the path to `dir`; `None` if `dir` is not below `top`.
    async fn way_down(&self, top: &NodeOf<B>, dir: &Rc<NodeOf<B>>) -> Result<Option<Ino>> {
        let mut at = Rc::clone(dir);
        while at.ino() != self.body.root() && at.attr().nlink > 0 {
            let above = self.parent(&at).await?;
            if above.ino() == top.ino() {
                return Ok(Some(at.ino()));
            }
            at = above;
        }
        Ok(None)
    }

    async fn rename_locked(
        &self,
        who: &Access,
        from: &EndOf<'_, B>,
        to: &EndOf<'_, B>,
        flags: RenameFlags,
        kinship: Kinship,
    ) -> Result<Option<Rc<NodeOf<B>>>> {
        let moved = self.child(from.dir, from.name, true).await?;
        let moved = moved.ok_or(Errno::ENOENT)?;
        let replaced = self.child(to.dir, to.name, true).await?;
        ensure(!(flags.no_replace && replaced.is_some()), Errno::EEXIST)?;
        ensure(!(flags.exchange && replaced.is_none()), Errno::ENOENT)?;
        let other = replaced.as_ref().filter(|_| flags.exchange);
        check_slashes(from, to, &moved.attr(), other.map(|n| n.attr()))?;
        match kinship {
            Kinship::SecondBelow(child) if child == moved.ino() => return Err(Errno::EINVAL),
            Kinship::FirstBelow(child) if replaced.as_ref().is_some_and(|r| r.ino() == child) => {
                let errno = if flags.exchange {
                    Errno::EINVAL
                } else {
                    Errno::ENOTEMPTY
                };
                return Err(errno);
            }
            _ => {}
        }
        if replaced.as_ref().is_some_and(|r| r.ino() == moved.ino()) {
            return Ok(None);
        }
        self.may_rename(who, from, to, &moved, replaced.as_deref(), flags)?;
        self.exchange_names(from, to, &moved, replaced.as_ref(), flags)
            .await?;
        Ok(replaced.filter(|_| !flags.exchange))
    }

    fn may_rename(
        &self,
        who: &Access,
        from: &EndOf<'_, B>,
        to: &EndOf<'_, B>,
        moved: &NodeOf<B>,
        replaced: Option<&NodeOf<B>>,
        flags: RenameFlags,
    ) -> Result<()> {
        let (target, attr) = (to.dir.attr(), moved.attr());
        let is_dir = moved.is_dir();
        who.may_remove(&from.dir.attr(), &attr)?;
        match replaced {
            None => who.may_add(&target)?,
            Some(replaced) => {
                who.may_remove(&target, &replaced.attr())?;
                if !flags.exchange {
                    ensure_kind(&replaced.attr(), is_dir)?;
                }
            }
        }
        ensure(target.nlink > 0, Errno::ENOENT)?;
        if from.dir.ino() == to.dir.ino() {
            return Ok(());
        }
        if is_dir {
            // The `..` of a moved directory changes.
            who.check(&attr, WRITE)?;
        }
        let other = replaced.filter(|r| flags.exchange && r.is_dir());
        if let Some(other) = other {
            who.check(&other.attr(), WRITE)?;
        }
        let full = |dir: &Attr| dir.nlink >= self.body.max_links();
        let gains = is_dir && !replaced.is_some_and(NodeOf::<B>::is_dir);
        ensure(!(gains && full(&target)), Errno::EMLINK)?;
        let gives = other.is_some() && !is_dir;
        ensure(!(gives && full(&from.dir.attr())), Errno::EMLINK)
    }

    /// Performs the rename in the body and updates the cached names.
    async fn exchange_names(
        &self,
        from: &EndOf<'_, B>,
        to: &EndOf<'_, B>,
        moved: &Rc<NodeOf<B>>,
        replaced: Option<&Rc<NodeOf<B>>>,
        flags: RenameFlags,
    ) -> Result<()> {
        let _guards = self.lock_both(moved, replaced).await;
        let rename = Rename {
            from: &from.dir.inode,
            from_name: from.name,
            to: &to.dir.inode,
            to_name: to.name,
            moved: &moved.inode,
            replaced: replaced.map(|replaced| &replaced.inode),
            exchange: flags.exchange,
            now: self.now(),
        };
        self.body.rename(rename).await?;
        let behind = match replaced {
            Some(replaced) if flags.exchange => Name::Leads(replaced.ino()),
            _ => Name::Absent,
        };
        self.remember(from.dir, from.name, behind);
        self.remember(to.dir, to.name, Name::Leads(moved.ino()));
        moved.parent.set(Some(to.dir.ino()));
        if let Some(replaced) = replaced.filter(|_| flags.exchange) {
            replaced.parent.set(Some(from.dir.ino()));
        }
        Ok(())
    }

    /// Locks the moved and the replaced inode, by number.
    async fn lock_both(
        &self,
        moved: &Rc<NodeOf<B>>,
        replaced: Option<&Rc<NodeOf<B>>>,
    ) -> (Permit, Option<Permit>) {
        match replaced {
            Some(replaced) if replaced.ino() < moved.ino() => {
                let first = replaced.lock.write().await;
                (moved.lock.write().await, Some(first))
            }
            Some(replaced) => {
                let first = moved.lock.write().await;
                (first, Some(replaced.lock.write().await))
            }
            None => (moved.lock.write().await, None),
        }
    }
}

/// Checks that a name followed by a slash leads to a directory.
fn check_slashes<P>(
    from: &End<'_, P>,
    to: &End<'_, P>,
    moved: &Attr,
    other: Option<Attr>,
) -> Result<()> {
    use crate::types::FileKind::Directory;
    let wrong = moved.kind != Directory && (from.slash || other.is_none() && to.slash);
    ensure(!wrong, Errno::ENOTDIR)?;
    let wrong = to.slash && other.is_some_and(|other| other.kind != Directory);
    ensure(!wrong, Errno::ENOTDIR)
}
