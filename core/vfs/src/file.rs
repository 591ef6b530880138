//! Open files and their handles.
//!
//! Invariants: an open file keeps its inode in memory; a [`Handle`] whose file was closed is
//! rejected with `EBADF`, even when its slot is used again.

use crate::access::{EXEC, READ, WRITE, ensure};
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::flags::OpenFlags;
use crate::names::{Make, check_name};
use crate::node::Node;
use crate::readahead::Ahead;
use crate::types::{Access, Attr, FileKind, Ino};
use crate::vfs::{Core, NodeOf, Slot, Vfs};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Hint;
use units::Origin;

/// A reference to an open file of a mount, valid until the file is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle {
    ino: Ino,
    slot: u32,
    generation: u32,
}

impl Handle {
    /// Number of the inode that is open.
    #[must_use]
    pub const fn ino(&self) -> Ino {
        self.ino
    }

    /// Number of the open file, unique in its mount.
    #[must_use]
    pub const fn number(&self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }
}

pub(crate) struct OpenFile<P> {
    pub(crate) node: Rc<Node<P>>,
    pub(crate) flags: OpenFlags,
    pub(crate) who: Access,
    pub(crate) ahead: RefCell<Ahead>,
    /// Last cookie of the body that the listing in progress returns; `None` before it starts.
    pub(crate) listed_to: Cell<Option<u64>>,
    /// Write-back failures of this file that this open file has reported or need not report.
    pub(crate) failures: Cell<u32>,
    /// Write-back failures of any file that this open file has reported or need not report.
    pub(crate) all_failures: Cell<u32>,
}

impl<P> OpenFile<P> {
    #[inline]
    pub(crate) fn has(&self, flags: OpenFlags) -> bool {
        self.flags.has(flags)
    }
}

/// Outcome of `create`: the name was free, or led to an inode.
pub(crate) enum Created<P> {
    Made(Rc<Node<P>>),
    Existed(Rc<Node<P>>),
}

impl<B: Body> Vfs<B> {
    /// Opens a file.
    ///
    /// # Errors
    /// `EACCES`, `EISDIR` for a directory to be written, `ENOTDIR`, `ELOOP` for a symbolic link,
    /// `ENXIO` for a pipe, socket or device, `EPERM` for `NO_ATIME` without ownership, `EROFS`,
    /// `EIO`.
    pub async fn open(&self, who: &Access, ino: Ino, flags: OpenFlags) -> Result<Handle> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        self.core.open(who, node, flags).await
    }

    /// Opens a file for `who` without checking permissions, for a front end whose kernel has
    /// checked them.
    ///
    /// # Errors
    /// As [`Vfs::open`], but for `EACCES`.
    pub async fn open_granted(&self, who: &Access, ino: Ino, flags: OpenFlags) -> Result<Handle> {
        self.core.pay(self.core.config.costs.call).await;
        let node = self.core.node(ino).await?;
        self.core.check_open(&Access::root(), &node, flags)?;
        self.core.open_checked(who, node, flags).await
    }

    /// Opens a name in a directory, and creates a regular file first if the name is free. The
    /// caller holds a reference to the inode until [`Vfs::forget`].
    ///
    /// # Errors
    /// As [`Vfs::open`] and [`Vfs::mknod`]; `EEXIST` with `EXCLUSIVE`.
    pub async fn create(
        &self,
        who: &Access,
        dir: Ino,
        name: &[u8],
        mode: u16,
        flags: OpenFlags,
    ) -> Result<(Handle, Attr)> {
        self.core.pay(self.core.config.costs.change).await;
        let dir = self.core.directory(dir).await?;
        let handle = match self.core.create(who, &dir, name, mode, flags).await? {
            Created::Made(node) => self.core.opened(who, node, flags),
            Created::Existed(node) => self.core.open(who, node, flags).await?,
        };
        let file = self.core.file(&handle)?;
        Ok((handle, self.core.refer(&file.node).1))
    }

    /// Opens a new file without a name, on the file system of `dir`. The caller holds a reference
    /// to the inode until [`Vfs::forget`].
    ///
    /// # Errors
    /// As [`Vfs::mknod`]; `EINVAL` if `flags` lack `WRITE`.
    pub async fn tmpfile(
        &self,
        who: &Access,
        dir: Ino,
        mode: u16,
        flags: OpenFlags,
    ) -> Result<(Handle, Attr)> {
        self.core.pay(self.core.config.costs.change).await;
        let dir = self.core.directory(dir).await?;
        let handle = self.core.tmpfile(who, &dir, mode, flags).await?;
        let file = self.core.file(&handle)?;
        Ok((handle, self.core.refer(&file.node).1))
    }

    /// Closes a file. Its dirty pages stay in the cache.
    pub async fn release(&self, handle: Handle) {
        self.core.release(handle).await;
    }

    /// Flags with which a file was opened.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn flags(&self, handle: &Handle) -> Result<OpenFlags> {
        Ok(self.core.file(handle)?.flags)
    }

    /// Sets the expected lifetime of the data of a file.
    ///
    /// # Errors
    /// `ENOENT`, `EIO`.
    pub async fn set_hint(&self, ino: Ino, hint: Hint) -> Result<()> {
        self.core.node(ino).await?.inode.hint.set(hint);
        Ok(())
    }

    /// The expected lifetime of the data of a file.
    ///
    /// # Errors
    /// `ENOENT`, `EIO`.
    pub async fn hint(&self, ino: Ino) -> Result<Hint> {
        Ok(self.core.node(ino).await?.inode.hint.get())
    }

    /// Sets the origin (process or file) to which requests for the data of a file are attributed.
    ///
    /// # Errors
    /// `ENOENT`, `EIO`.
    pub async fn set_origin(&self, ino: Ino, origin: Origin) -> Result<()> {
        self.core.node(ino).await?.inode.origin.set(origin);
        Ok(())
    }
}

impl<B: Body> Core<B> {
    #[inline]
    pub(crate) fn file(&self, handle: &Handle) -> Result<Rc<OpenFile<B::Private>>> {
        let files = self.files.borrow();
        let slot = files.get(handle.slot as usize).ok_or(Errno::EBADF)?;
        ensure(slot.generation == handle.generation, Errno::EBADF)?;
        slot.file.clone().ok_or(Errno::EBADF)
    }

    /// Opens an existing inode after checking permissions.
    pub(crate) async fn open(
        &self,
        who: &Access,
        node: Rc<NodeOf<B>>,
        flags: OpenFlags,
    ) -> Result<Handle> {
        self.check_open(who, &node, flags)?;
        self.open_checked(who, node, flags).await
    }

    fn check_open(&self, who: &Access, node: &NodeOf<B>, flags: OpenFlags) -> Result<()> {
        if flags.has(OpenFlags::PATH) {
            return Ok(());
        }
        check_open(who, &node.attr(), flags)?;
        if flags.has(OpenFlags::WRITE) || flags.has(OpenFlags::TRUNCATE) {
            self.ensure_writable(node)?;
        }
        Ok(())
    }

    async fn open_checked(
        &self,
        who: &Access,
        node: Rc<NodeOf<B>>,
        flags: OpenFlags,
    ) -> Result<Handle> {
        let handle = self.opened(who, Rc::clone(&node), flags);
        let regular = node.attr().kind == FileKind::Regular;
        if flags.has(OpenFlags::TRUNCATE) && regular && !flags.has(OpenFlags::PATH) {
            let cut = self.resize(who, &node, 0).await;
            if let Err(errno) = cut {
                drop(node);
                self.release(handle).await;
                return Err(errno);
            }
        }
        Ok(handle)
    }

    /// Allocates a slot for a file whose permissions have been checked.
    pub(crate) fn opened(&self, who: &Access, node: Rc<NodeOf<B>>, flags: OpenFlags) -> Handle {
        node.opens.set(node.opens.get() + 1);
        let ino = node.ino();
        let file = Rc::new(OpenFile {
            failures: Cell::new(node.failures.known()),
            all_failures: Cell::new(self.failures.known()),
            flags,
            who: who.clone(),
            ahead: RefCell::new(Ahead::new(self.config.read_ahead)),
            listed_to: Cell::new(None),
            node,
        });
        let mut files = self.files.borrow_mut();
        if let Some(slot) = self.free_files.borrow_mut().pop() {
            let place = &mut files[slot as usize];
            place.file = Some(file);
            let generation = place.generation;
            return Handle {
                ino,
                slot,
                generation,
            };
        }
        files.push(Slot {
            generation: 0,
            file: Some(file),
        });
        Handle {
            ino,
            slot: (files.len() - 1) as u32,
            generation: 0,
        }
    }

    /// Creates a regular file under `name`, unless the name leads to an inode already.
    pub(crate) async fn create(
        &self,
        who: &Access,
        dir: &Rc<NodeOf<B>>,
        name: &[u8],
        mode: u16,
        flags: OpenFlags,
    ) -> Result<Created<B::Private>> {
        who.check(&dir.attr(), EXEC)?;
        check_name(name)?;
        let exclusive = flags.has(OpenFlags::EXCLUSIVE);
        if !exclusive && let Some(node) = self.child(dir, name, false).await? {
            return Ok(Created::Existed(node));
        }
        let guard = dir.lock.write().await;
        if let Some(node) = self.child(dir, name, true).await? {
            ensure(!exclusive, Errno::EEXIST)?;
            return Ok(Created::Existed(node));
        }
        let make = Make {
            kind: FileKind::Regular,
            mode,
            rdev: 0,
            target: &[],
        };
        let node = self.make_locked(who, dir, name, make).await?;
        self.settle_unlocked(dir, guard).await?;
        Ok(Created::Made(node))
    }

    pub(crate) async fn tmpfile(
        &self,
        who: &Access,
        dir: &Rc<NodeOf<B>>,
        mode: u16,
        flags: OpenFlags,
    ) -> Result<Handle> {
        ensure(flags.has(OpenFlags::WRITE), Errno::EINVAL)?;
        who.may_add(&dir.attr())?;
        let make = Make {
            kind: FileKind::Regular,
            mode,
            rdev: 0,
            target: &[],
        };
        let new = self.new_inode(who, &dir.attr(), make);
        let loaded = self.body.create_unnamed(new).await?;
        let node = self.adopt(loaded).await?;
        self.settle_unlocked(&node, ()).await?;
        node.unnamed.set(!flags.has(OpenFlags::EXCLUSIVE));
        Ok(self.opened(who, node, flags))
    }

    pub(crate) async fn release(&self, handle: Handle) {
        let Ok(file) = self.file(&handle) else { return };
        if let Some(slot) = self.files.borrow_mut().get_mut(handle.slot as usize) {
            slot.file = None;
            slot.generation = slot.generation.wrapping_add(1);
        }
        self.free_files.borrow_mut().push(handle.slot);
        let node = Rc::clone(&file.node);
        drop(file);
        self.drop_flock(&node, handle.number());
        node.opens.set(node.opens.get() - 1);
        if node.opens.get() == 0 {
            self.put(node).await;
        }
    }
}

/// Checks that the caller may open an inode with attributes `attr` with `flags`.
fn check_open(who: &Access, attr: &Attr, flags: OpenFlags) -> Result<()> {
    let changes = flags.has(OpenFlags::WRITE) || flags.has(OpenFlags::TRUNCATE);
    match attr.kind {
        FileKind::Symlink => return Err(Errno::ELOOP),
        FileKind::Directory if changes || flags.has(OpenFlags::CREATE) => {
            return Err(Errno::EISDIR);
        }
        FileKind::Directory => {}
        _ => ensure(!flags.has(OpenFlags::DIRECTORY), Errno::ENOTDIR)?,
    }
    let read = if flags.has(OpenFlags::READ) { READ } else { 0 };
    let write = if changes { WRITE } else { 0 };
    who.check(attr, read | write)?;
    let file = matches!(attr.kind, FileKind::Regular | FileKind::Directory);
    ensure(file, Errno::ENXIO)?;
    let own = !flags.has(OpenFlags::NO_ATIME) || who.owns(attr);
    ensure(own, Errno::EPERM)
}
