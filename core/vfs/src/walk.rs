//! Path resolution, and the calls that take paths.
//!
//! The rules are those of Linux: each directory on the path must be searchable; symbolic links on
//! the path are followed, up to 40 of them; a trailing slash demands a directory; a path has at
//! most 4,095 bytes.

use crate::access::{WRITE, ensure};
use crate::attr::check_sizable;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::names::{Make, link_to};
use crate::process::{At, Fd, Process};
use crate::rename::{End, RenameFlags};
use crate::types::{Attr, FileKind, SetAttr, SetTime, XattrFlags};
use crate::vfs::NodeOf;
use std::rc::Rc;
use units::Ns;

/// Longest path in bytes, and most symbolic links on it.
const PATH_MAX: usize = 4_095;
const LINKS_MAX: u32 = 40;

/// The last component of a path.
pub(crate) enum Last {
    /// A name, followed by a slash or not.
    Name { name: Vec<u8>, slash: bool },
    /// `.`, or an empty rest: the directory itself.
    Here,
    /// The parent directory, `..`.
    Above,
    /// The root directory: the path has no component.
    Root,
}

/// A path resolved up to its last component.
pub(crate) struct Way<N> {
    pub(crate) dir: Rc<N>,
    pub(crate) last: Last,
}

impl Last {
    /// The last component as calls that change directories take it.
    fn name(&self) -> &[u8] {
        match self {
            Self::Name { name, .. } => name,
            Self::Here | Self::Root => b".",
            Self::Above => b"..",
        }
    }

    const fn has_slash(&self) -> bool {
        matches!(self, Self::Name { slash: true, .. })
    }
}

impl<B: Body> Process<B> {
    /// Charges a call for its processor time, with the cost of each component of the path.
    pub(crate) async fn pay_path(&self, path: &[u8], changes: bool) {
        let costs = &self.vfs.core.config.costs;
        let names = path.split(|&b| b == b'/').filter(|n| !n.is_empty()).count();
        let change = if changes { costs.change.0 } else { 0 };
        let span = costs.call.0 + change + costs.name.0 * names as u64;
        self.vfs.core.pay(Ns(span)).await;
    }

    /// Target of a symbolic link; counts the link against [`LINKS_MAX`].
    pub(crate) async fn follow(&self, node: &NodeOf<B>, links: &mut u32) -> Result<Vec<u8>> {
        *links += 1;
        ensure(*links <= LINKS_MAX, Errno::ELOOP)?;
        let core = &self.vfs.core;
        let target = core.body.readlink(&node.inode).await?;
        core.touch(node).await?;
        Ok(target)
    }

    /// Resolves all but the last component of a path.
    pub(crate) async fn walk_to_last(
        &self,
        start: Rc<NodeOf<B>>,
        path: &[u8],
        links: &mut u32,
    ) -> Result<Way<NodeOf<B>>> {
        ensure(!path.is_empty(), Errno::ENOENT)?;
        ensure(path.len() <= PATH_MAX, Errno::ENAMETOOLONG)?;
        let core = &self.vfs.core;
        let mut dir = match path[0] {
            b'/' => core.node(core.body.root()).await?,
            _ => start,
        };
        // The rest of the path once a link was followed.
        let mut rest: Vec<u8>;
        let mut path = path;
        loop {
            let from = path.iter().position(|&b| b != b'/');
            let Some(from) = from else {
                return Ok(Way {
                    dir,
                    last: Last::Root,
                });
            };
            let to = path[from..].iter().position(|&b| b == b'/');
            let to = to.map_or(path.len(), |len| from + len);
            let name = &path[from..to];
            if path[to..].iter().all(|&b| b == b'/') {
                let slash = to < path.len();
                ensure(dir.is_dir(), Errno::ENOTDIR)?;
                return Ok(Way {
                    dir,
                    last: last(name, slash),
                });
            }
            ensure(dir.is_dir(), Errno::ENOTDIR)?;
            let node = core.step(&self.who, &dir, name).await?;
            if node.attr().kind != FileKind::Symlink {
                ensure(node.is_dir(), Errno::ENOTDIR)?;
                dir = node;
                path = &path[to..];
                continue;
            }
            let mut whole = self.follow(&node, links).await?;
            if whole.first() == Some(&b'/') {
                dir = core.node(core.body.root()).await?;
            }
            whole.extend_from_slice(&path[to..]);
            rest = whole;
            path = &rest;
        }
    }

    /// The inode that a path leads to.
    pub(crate) async fn resolve(&self, at: At, path: &[u8], follow: bool) -> Result<Rc<NodeOf<B>>> {
        let core = &self.vfs.core;
        let mut links = 0;
        let mut dir = self.start_of(at).await?;
        let mut target: Option<Vec<u8>> = None;
        loop {
            let path = target.as_deref().unwrap_or(path);
            let way = self.walk_to_last(dir, path, &mut links).await?;
            let Last::Name { name, slash } = &way.last else {
                return match way.last {
                    Last::Root => Ok(way.dir),
                    _ => core.step(&self.who, &way.dir, way.last.name()).await,
                };
            };
            let node = core.step(&self.who, &way.dir, name).await?;
            let is_link = node.attr().kind == FileKind::Symlink;
            if is_link && (follow || *slash) {
                let mut next = self.follow(&node, &mut links).await?;
                if *slash {
                    next.push(b'/');
                }
                target = Some(next);
                dir = way.dir;
                continue;
            }
            ensure(!slash || node.is_dir(), Errno::ENOTDIR)?;
            return Ok(node);
        }
    }

    /// The directory and name that a call changes.
    async fn parent_of(&self, at: At, path: &[u8]) -> Result<Way<NodeOf<B>>> {
        let start = self.start_of(at).await?;
        self.walk_to_last(start, path, &mut 0).await
    }

    /// Creates an inode at `path`.
    async fn make_path(&self, at: At, path: &[u8], make: Make<'_>) -> Result<()> {
        self.pay_path(path, true).await;
        let way = self.parent_of(at, path).await?;
        let core = &self.vfs.core;
        if way.last.has_slash() && make.kind != FileKind::Directory {
            // Only a directory can have such a name.
            core.step(&self.who, &way.dir, way.last.name()).await?;
            return Err(Errno::EEXIST);
        }
        let name = way.last.name();
        core.make(&self.who, &way.dir, name, make).await.map(drop)
    }

    /// Creates an empty directory.
    ///
    /// # Errors
    /// Errors of path resolution and of [`crate::Vfs::mkdir`].
    pub async fn mkdir(&self, path: &[u8], mode: u16) -> Result<()> {
        self.mkdir_at(At::Cwd, path, mode).await
    }

    /// Creates a directory at a path relative to `at`.
    ///
    /// # Errors
    /// As [`Process::mkdir`].
    pub async fn mkdir_at(&self, at: At, path: &[u8], mode: u16) -> Result<()> {
        let make = Make {
            kind: FileKind::Directory,
            mode: self.masked(mode),
            rdev: 0,
            target: &[],
        };
        self.make_path(at, path, make).await
    }

    /// Creates a file of any kind but a directory or a symbolic link.
    ///
    /// # Errors
    /// Errors of path resolution and of [`crate::Vfs::mknod`]; `EPERM` for a directory, `EINVAL`
    /// for a symbolic link.
    pub async fn mknod(&self, path: &[u8], kind: FileKind, mode: u16, rdev: u32) -> Result<()> {
        ensure(kind != FileKind::Directory, Errno::EPERM)?;
        ensure(kind != FileKind::Symlink, Errno::EINVAL)?;
        let mode = self.masked(mode);
        let make = Make {
            kind,
            mode,
            rdev,
            target: &[],
        };
        self.make_path(At::Cwd, path, make).await
    }

    /// Creates a symbolic link at `path` to `target`.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::symlink`].
    pub async fn symlink(&self, target: &[u8], path: &[u8]) -> Result<()> {
        self.make_path(At::Cwd, path, link_to(target)?).await
    }

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// Errors of path resolution; `EINVAL` if the file is of another kind.
    pub async fn readlink(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.pay_path(path, false).await;
        let node = self.resolve(At::Cwd, path, false).await?;
        ensure(node.attr().kind == FileKind::Symlink, Errno::EINVAL)?;
        self.follow(&node, &mut 0).await
    }

    /// Adds a hard link to a file; a symbolic link at `path` is not followed.
    ///
    /// # Errors
    /// Those of the paths and of [`crate::Vfs::link`].
    pub async fn link(&self, path: &[u8], new: &[u8]) -> Result<()> {
        self.pay_path(path, true).await;
        let node = self.resolve(At::Cwd, path, false).await?;
        self.link_to_path(&node, new).await
    }

    /// Links an open file at a path, also a file that was created without a name.
    ///
    /// # Errors
    /// As [`Process::link`].
    pub async fn link_fd(&self, fd: Fd, new: &[u8]) -> Result<()> {
        self.pay_path(new, true).await;
        let node = self.node_of(fd)?;
        self.link_to_path(&node, new).await
    }

    async fn link_to_path(&self, node: &Rc<NodeOf<B>>, new: &[u8]) -> Result<()> {
        let core = &self.vfs.core;
        let way = self.parent_of(At::Cwd, new).await?;
        if way.last.has_slash() {
            core.step(&self.who, &way.dir, way.last.name()).await?;
            return Err(Errno::EEXIST);
        }
        core.link(&self.who, node, &way.dir, way.last.name()).await
    }

    /// Removes the name of a file other than a directory.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::unlink`].
    pub async fn unlink(&self, path: &[u8]) -> Result<()> {
        self.pay_path(path, true).await;
        let core = &self.vfs.core;
        let way = self.parent_of(At::Cwd, path).await?;
        if way.last.has_slash() {
            let node = core.step(&self.who, &way.dir, way.last.name()).await?;
            let is_dir = node.is_dir();
            return Err(if is_dir {
                Errno::EISDIR
            } else {
                Errno::ENOTDIR
            });
        }
        core.remove(&self.who, &way.dir, way.last.name(), false)
            .await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::rmdir`]; `EBUSY` for the root.
    pub async fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.pay_path(path, true).await;
        let way = self.parent_of(At::Cwd, path).await?;
        ensure(!matches!(way.last, Last::Root), Errno::EBUSY)?;
        let core = &self.vfs.core;
        core.remove(&self.who, &way.dir, way.last.name(), true)
            .await
    }

    /// Renames atomically, with the flags of `renameat2`.
    ///
    /// # Errors
    /// Those of the paths and of [`crate::Vfs::rename`].
    pub async fn rename(&self, from: &[u8], to: &[u8], flags: RenameFlags) -> Result<()> {
        self.pay_path(from, true).await;
        let from = self.parent_of(At::Cwd, from).await?;
        let to = self.parent_of(At::Cwd, to).await?;
        fn end<P>(way: &Way<crate::node::Node<P>>) -> End<'_, P> {
            End {
                dir: &way.dir,
                name: way.last.name(),
                slash: way.last.has_slash(),
            }
        }
        let core = &self.vfs.core;
        core.rename(&self.who, end(&from), end(&to), flags).await
    }

    /// The attributes of the file that a path leads to.
    ///
    /// # Errors
    /// Errors of path resolution.
    pub async fn stat(&self, path: &[u8]) -> Result<Attr> {
        self.pay_path(path, false).await;
        let node = self.resolve(At::Cwd, path, true).await?;
        Ok(self.vfs.core.told(&node))
    }

    /// The attributes of a file; a symbolic link at the end of the path is not followed.
    ///
    /// # Errors
    /// Those of the path.
    pub async fn lstat(&self, path: &[u8]) -> Result<Attr> {
        self.pay_path(path, false).await;
        let node = self.resolve(At::Cwd, path, false).await?;
        Ok(self.vfs.core.told(&node))
    }

    /// The attributes of the file that a path relative to `at` leads to.
    ///
    /// # Errors
    /// Those of the path.
    pub async fn stat_at(&self, at: At, path: &[u8], follow: bool) -> Result<Attr> {
        self.pay_path(path, false).await;
        let node = self.resolve(at, path, follow).await?;
        Ok(self.vfs.core.told(&node))
    }

    /// Checks that the process has all permissions in `need`: 4 to read, 2 to write, 1 to execute.
    ///
    /// # Errors
    /// `EACCES`; those of the path.
    pub async fn may(&self, path: &[u8], need: u16) -> Result<()> {
        let attr = self.stat(path).await?;
        self.who.check(&attr, need)
    }

    async fn set(&self, path: &[u8], follow: bool, set: SetAttr) -> Result<()> {
        self.pay_path(path, false).await;
        let node = self.resolve(At::Cwd, path, follow).await?;
        if set.size.is_some() {
            check_sizable(&node.attr())?;
            self.who.check(&node.attr(), WRITE)?;
        }
        let core = &self.vfs.core;
        core.setattr(&self.who, &node, set).await.map(drop)
    }

    /// Sets the size of a file.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::setattr`].
    pub async fn truncate(&self, path: &[u8], size: u64) -> Result<()> {
        let set = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        self.set(path, true, set).await
    }

    /// Sets the permission bits of a file.
    ///
    /// # Errors
    /// As [`Process::truncate`].
    pub async fn chmod(&self, path: &[u8], mode: u16) -> Result<()> {
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        self.set(path, true, set).await
    }

    /// Sets owner and group of a file; without `follow`, of a symbolic link itself. `None` leaves
    /// one as it is.
    ///
    /// # Errors
    /// As [`Process::truncate`].
    pub async fn chown(
        &self,
        path: &[u8],
        uid: Option<u32>,
        gid: Option<u32>,
        follow: bool,
    ) -> Result<()> {
        let set = SetAttr {
            uid,
            gid,
            ..SetAttr::default()
        };
        self.set(path, follow, set).await
    }

    /// Sets the times of a file; without `follow`, of a symbolic link itself. `None` leaves one as
    /// it is.
    ///
    /// # Errors
    /// As [`Process::truncate`].
    pub async fn utimens(
        &self,
        path: &[u8],
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
        follow: bool,
    ) -> Result<()> {
        let set = SetAttr {
            atime,
            mtime,
            ..SetAttr::default()
        };
        self.set(path, follow, set).await
    }

    /// Sets attributes of an open file but its size, which is set by [`Process::ftruncate`].
    ///
    /// # Errors
    /// `EBADF`; as [`crate::Vfs::setattr`].
    pub async fn fset(&self, fd: Fd, set: SetAttr) -> Result<()> {
        let core = &self.vfs.core;
        core.pay(core.config.costs.call).await;
        let node = self.node_of(fd)?;
        let set = SetAttr { size: None, ..set };
        core.setattr(&self.who, &node, set).await.map(drop)
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::get_xattr`].
    pub async fn get_xattr(&self, path: &[u8], name: &[u8]) -> Result<Vec<u8>> {
        let node = self.resolve(At::Cwd, path, true).await?;
        self.vfs.get_xattr(&self.who, node.ino(), name).await
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::set_xattr`].
    pub async fn set_xattr(
        &self,
        path: &[u8],
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<()> {
        let ino = self.resolve(At::Cwd, path, true).await?.ino();
        self.vfs.set_xattr(&self.who, ino, name, value, flags).await
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::remove_xattr`].
    pub async fn remove_xattr(&self, path: &[u8], name: &[u8]) -> Result<()> {
        let ino = self.resolve(At::Cwd, path, true).await?.ino();
        self.vfs.remove_xattr(&self.who, ino, name).await
    }

    /// The names of all extended attributes that the process may see.
    ///
    /// # Errors
    /// Those of the path and of [`crate::Vfs::list_xattrs`].
    pub async fn list_xattrs(&self, path: &[u8]) -> Result<Vec<Vec<u8>>> {
        let ino = self.resolve(At::Cwd, path, true).await?.ino();
        self.vfs.list_xattrs(&self.who, ino).await
    }
}

fn last(name: &[u8], slash: bool) -> Last {
    match name {
        b"." => Last::Here,
        b".." => Last::Above,
        _ => Last::Name {
            name: name.to_vec(),
            slash,
        },
    }
}
