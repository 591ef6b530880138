//! A simulated process: descriptors, working directory, umask, and calls by path.
//!
//! Invariants: a descriptor leads to an open file description, whose offset duplicates and children
//! share; closing the last descriptor closes the file. Calls that move the offset of a description
//! run one after the other, as under the `f_pos_lock` of Linux. Each call pays for its processor
//! time once, when its turn has come and before anything else happens.

use crate::access::ensure;
use crate::body::Body;
use crate::errno::{Errno, Result};
use crate::file::Handle;
use crate::flags::{OpenFlags, Source};
use crate::locks::{LockKind, RecordLock};
use crate::node::Node;
use crate::types::{Access, Attr, DirEntry, FallocateMode, Ino, SeekWhat};
use crate::vfs::{NodeOf, Vfs};
use crate::walk::Last;
use sim::Semaphore;
use ssd::Sink;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::Hint;

/// Most descriptors of a process: the hard limit of Debian.
const FD_MAX: usize = 1 << 20;

/// A file descriptor: an index into the table of open files of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fd(pub u32);

/// Base of a relative path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The working directory of the process.
    Cwd,
    /// An open directory, as `openat` takes it.
    Fd(Fd),
}

/// Target of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// An offset from the start of the file.
    Start(u64),
    /// A distance from the present offset.
    Current(i64),
    /// A distance from the end of the file.
    End(i64),
    /// The next data at or after this offset.
    Data(u64),
    /// The next hole at or after this offset.
    Hole(u64),
}

struct Description {
    handle: Handle,
    offset: Cell<u64>,
    /// Held by the call that moves the offset.
    turn: Semaphore,
}

pub(crate) struct State<P> {
    /// The working directory; `None` is the root.
    pub(crate) cwd: Option<Rc<Node<P>>>,
    pub(crate) umask: u16,
    files: Vec<Option<Rc<Description>>>,
}

/// A program that uses a file system.
pub struct Process<B: Body> {
    pub(crate) vfs: Vfs<B>,
    pub(crate) who: Access,
    id: u64,
    pub(crate) state: RefCell<State<B::Private>>,
}

impl<B: Body> Process<B> {
    /// A process with these credentials, in the root directory, with umask 022.
    #[must_use]
    pub fn new(vfs: &Vfs<B>, who: Access) -> Self {
        let state = State {
            cwd: None,
            umask: 0o022,
            files: Vec::new(),
        };
        Self {
            vfs: vfs.clone(),
            who,
            id: vfs.core.next_process(),
            state: RefCell::new(state),
        }
    }

    /// Forks a child, which shares the open files but owns no locks.
    #[must_use]
    pub fn fork(&self) -> Self {
        let state = self.state.borrow();
        let state = State {
            cwd: state.cwd.clone(),
            umask: state.umask,
            files: state.files.clone(),
        };
        Self {
            vfs: self.vfs.clone(),
            who: self.who.clone(),
            id: self.vfs.core.next_process(),
            state: RefCell::new(state),
        }
    }

    /// Process id: the owner of its record locks.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Closes all descriptors, as the end of a process does.
    pub async fn exit(self) {
        let count = self.state.borrow().files.len();
        for fd in 0..count {
            // `EBADF`: the descriptor is closed already.
            let _ = self.close(Fd(fd as u32)).await;
        }
    }

    /// The mount that the process uses.
    #[must_use]
    pub const fn vfs(&self) -> &Vfs<B> {
        &self.vfs
    }

    /// Credentials of the process.
    #[must_use]
    pub const fn access(&self) -> &Access {
        &self.who
    }

    /// Sets the permission bits that new files are denied; returns the previous mask.
    pub fn umask(&self, mask: u16) -> u16 {
        std::mem::replace(&mut self.state.borrow_mut().umask, mask & 0o777)
    }

    pub(crate) fn masked(&self, mode: u16) -> u16 {
        mode & !self.state.borrow().umask & 0o7_777
    }

    /// Opens a file.
    ///
    /// # Errors
    /// Errors of path resolution, of [`Vfs::open`] and [`Vfs::create`]; `EMFILE`.
    pub async fn open(&self, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Fd> {
        self.open_at(At::Cwd, path, flags, mode).await
    }

    /// Opens a file at a path relative to `at`.
    ///
    /// # Errors
    /// As [`Process::open`].
    pub async fn open_at(&self, at: At, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Fd> {
        let creates = flags.has(OpenFlags::CREATE);
        self.pay_path(path, creates).await;
        ensure(!(creates && flags.has(OpenFlags::DIRECTORY)), Errno::EINVAL)?;
        let handle = self.open_path(at, path, flags, self.masked(mode)).await?;
        self.install(handle, 0).await
    }

    /// Assigns the lowest free descriptor to an open file; releases the file on `EMFILE`.
    async fn install(&self, handle: Handle, offset: u64) -> Result<Fd> {
        let description = Rc::new(Description {
            handle,
            offset: Cell::new(offset),
            turn: Semaphore::new(self.vfs.sim(), 1),
        });
        let placed = self.place(description);
        if placed.is_err() {
            self.vfs.release(handle).await;
        }
        placed
    }

    fn place(&self, description: Rc<Description>) -> Result<Fd> {
        let files = &mut self.state.borrow_mut().files;
        let free = files.iter().position(Option::is_none);
        let fd = free.unwrap_or(files.len());
        ensure(fd < FD_MAX, Errno::EMFILE)?;
        if fd == files.len() {
            files.push(None);
        }
        files[fd] = Some(description);
        Ok(Fd(fd as u32))
    }

    fn description(&self, fd: Fd) -> Result<Rc<Description>> {
        let state = self.state.borrow();
        let file = state.files.get(fd.0 as usize).and_then(Clone::clone);
        file.ok_or(Errno::EBADF)
    }

    /// The open file behind a descriptor, for calls of [`Vfs`].
    ///
    /// # Errors
    /// `EBADF`.
    pub fn handle(&self, fd: Fd) -> Result<Handle> {
        let state = self.state.borrow();
        let file = state.files.get(fd.0 as usize).and_then(Option::as_ref);
        file.map(|file| file.handle).ok_or(Errno::EBADF)
    }

    pub(crate) fn node_of(&self, fd: Fd) -> Result<Rc<NodeOf<B>>> {
        let handle = self.handle(fd)?;
        Ok(Rc::clone(&self.vfs.core.file(&handle)?.node))
    }

    /// Closes a descriptor, and releases all record locks that the process holds on its file.
    ///
    /// # Errors
    /// `EBADF`.
    pub async fn close(&self, fd: Fd) -> Result<()> {
        self.vfs.core.pay(self.vfs.core.config.costs.call).await;
        let taken = {
            let files = &mut self.state.borrow_mut().files;
            files.get_mut(fd.0 as usize).and_then(Option::take)
        };
        let description = taken.ok_or(Errno::EBADF)?;
        self.vfs.unlock_all(description.handle.ino(), self.id);
        self.let_go(description).await;
        Ok(())
    }

    /// Drops a reference to a description. The last reference closes the file: it belongs to the
    /// last `close`, or to a call that was still running then.
    async fn let_go(&self, description: Rc<Description>) {
        let handle = description.handle;
        if Rc::into_inner(description).is_some() {
            self.vfs.release(handle).await;
        }
    }

    /// Duplicates a descriptor; both share the offset.
    ///
    /// # Errors
    /// `EBADF`, `EMFILE`.
    pub fn dup(&self, fd: Fd) -> Result<Fd> {
        self.place(self.description(fd)?)
    }

    /// Reads at the current offset and advances it.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub async fn read(&self, fd: Fd, len: u64, sink: &mut impl Sink) -> Result<u64> {
        let file = self.description(fd)?;
        let turn = file.turn.acquire(1).await;
        let offset = file.offset.get();
        let done = self.vfs.read(&file.handle, offset, len, sink).await;
        if let Ok(done) = done {
            file.offset.set(offset + done);
        }
        drop(turn);
        self.let_go(file).await;
        done
    }

    /// Reads at `offset`; the offset of the descriptor stays.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub async fn pread(&self, fd: Fd, offset: u64, len: u64, sink: &mut impl Sink) -> Result<u64> {
        self.vfs.read(&self.handle(fd)?, offset, len, sink).await
    }

    /// Reads up to `len` bytes at `offset` into a new buffer; shorter at the end of the file.
    ///
    /// # Errors
    /// As [`Vfs::read`].
    pub async fn read_bytes(&self, fd: Fd, offset: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        let sink = &mut bytes.as_mut_slice();
        let done = self.pread(fd, offset, len as u64, sink).await?;
        bytes.truncate(done as usize);
        Ok(bytes)
    }

    /// Writes at the current offset and advances it.
    ///
    /// # Errors
    /// As [`Vfs::write`].
    pub async fn write(&self, fd: Fd, source: Source<'_>) -> Result<u64> {
        let file = self.description(fd)?;
        let turn = file.turn.acquire(1).await;
        let done = self.write_here(&file, source).await;
        drop(turn);
        self.let_go(file).await;
        done
    }

    /// Writes at the offset of `file`; the caller holds its turn.
    async fn write_here(&self, file: &Description, source: Source<'_>) -> Result<u64> {
        let open = self.vfs.core.file(&file.handle)?;
        let at = file.offset.get();
        let (start, done) = self.vfs.core.write(&open, at, source).await?;
        file.offset.set(start + done);
        Ok(done)
    }

    /// Writes at `offset`; the offset of the descriptor stays.
    ///
    /// # Errors
    /// As [`Vfs::write`].
    pub async fn pwrite(&self, fd: Fd, offset: u64, source: Source<'_>) -> Result<u64> {
        self.vfs.write(&self.handle(fd)?, offset, source).await
    }

    /// Moves the offset of a file; returns the new one.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` before the start; `ENXIO` for data and holes past the end.
    pub async fn lseek(&self, fd: Fd, to: Whence) -> Result<u64> {
        let file = self.description(fd)?;
        let turn = file.turn.acquire(1).await;
        let moved = self.seek(&file, to).await;
        drop(turn);
        self.let_go(file).await;
        moved
    }

    async fn seek(&self, file: &Description, to: Whence) -> Result<u64> {
        let open = self.vfs.core.file(&file.handle)?;
        let moved = |from: u64, by: i64| from.checked_add_signed(by).ok_or(Errno::EINVAL);
        let offset = match to {
            Whence::Start(offset) => offset,
            Whence::Current(by) => moved(file.offset.get(), by)?,
            Whence::End(by) => moved(open.node.size(), by)?,
            Whence::Data(from) => self.vfs.seek(&file.handle, from, SeekWhat::Data).await?,
            Whence::Hole(from) => self.vfs.seek(&file.handle, from, SeekWhat::Hole).await?,
        };
        ensure(offset <= i64::MAX as u64, Errno::EINVAL)?;
        file.offset.set(offset);
        Ok(offset)
    }

    /// Lists up to `most` entries of a directory from its offset on, and advances the offset.
    ///
    /// # Errors
    /// As [`Vfs::read_dir`].
    pub async fn read_dir(&self, fd: Fd, most: usize) -> Result<Vec<DirEntry>> {
        let file = self.description(fd)?;
        let turn = file.turn.acquire(1).await;
        let cookie = file.offset.get();
        let entries = self.vfs.read_dir(&file.handle, cookie, most).await;
        if let Some(last) = entries.as_ref().ok().and_then(|e| e.last()) {
            file.offset.set(last.cookie);
        }
        drop(turn);
        self.let_go(file).await;
        entries
    }

    /// Makes the contents and attributes of a file durable.
    ///
    /// # Errors
    /// As [`Vfs::fsync`].
    pub async fn fsync(&self, fd: Fd) -> Result<()> {
        self.vfs.fsync(&self.handle(fd)?, false).await
    }

    /// Makes the contents of a file durable, with the attributes needed to read them.
    ///
    /// # Errors
    /// As [`Vfs::fsync`].
    pub async fn fdatasync(&self, fd: Fd) -> Result<()> {
        self.vfs.fsync(&self.handle(fd)?, true).await
    }

    /// Makes the whole file system durable.
    ///
    /// # Errors
    /// As [`Vfs::sync`].
    pub async fn sync(&self) -> Result<()> {
        self.vfs.sync().await
    }

    /// Makes the file system of a descriptor durable; a process uses only one.
    ///
    /// # Errors
    /// As [`Vfs::sync_fs`].
    pub async fn syncfs(&self, fd: Fd) -> Result<()> {
        self.vfs.sync_fs(&self.handle(fd)?).await
    }

    /// Sets the size of an open file.
    ///
    /// # Errors
    /// As [`Vfs::truncate`].
    pub async fn ftruncate(&self, fd: Fd, size: u64) -> Result<()> {
        self.vfs.truncate(&self.handle(fd)?, size).await
    }

    /// Changes the allocation of a range.
    ///
    /// # Errors
    /// As [`Vfs::fallocate`].
    pub async fn fallocate(
        &self,
        fd: Fd,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        let handle = self.handle(fd)?;
        self.vfs.fallocate(&handle, mode, offset, len).await
    }

    /// Copies a range between files; returns the number of bytes copied.
    ///
    /// # Errors
    /// As [`Vfs::copy_range`].
    pub async fn copy_file_range(
        &self,
        from: Fd,
        from_offset: u64,
        to: Fd,
        to_offset: u64,
        len: u64,
    ) -> Result<u64> {
        let (from, to) = (self.handle(from)?, self.handle(to)?);
        self.vfs
            .copy_range(&from, from_offset, &to, to_offset, len)
            .await
    }

    /// The attributes of an open file.
    ///
    /// # Errors
    /// `EBADF`.
    pub async fn fstat(&self, fd: Fd) -> Result<Attr> {
        self.vfs.core.pay(self.vfs.core.config.costs.call).await;
        let node = self.node_of(fd)?;
        Ok(self.vfs.core.told(&node))
    }

    /// Inode number of the file that a descriptor refers to.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn ino(&self, fd: Fd) -> Result<Ino> {
        Ok(self.handle(fd)?.ino())
    }

    /// Sets the expected lifetime of the data of a file, which write-back passes to the drive.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn set_hint(&self, fd: Fd, hint: Hint) -> Result<()> {
        self.node_of(fd)?.inode.hint.set(hint);
        Ok(())
    }

    /// Locks an open file as a whole, or unlocks it.
    ///
    /// # Errors
    /// As [`Vfs::flock`].
    pub async fn flock(&self, fd: Fd, kind: Option<LockKind>, wait: bool) -> Result<()> {
        self.vfs.flock(&self.handle(fd)?, kind, wait).await
    }

    /// Locks `len` bytes from `start` on (0: to the end), or unlocks them.
    ///
    /// # Errors
    /// As [`Vfs::set_lock`].
    pub async fn lock(
        &self,
        fd: Fd,
        kind: Option<LockKind>,
        start: u64,
        len: u64,
        wait: bool,
    ) -> Result<()> {
        let handle = self.handle(fd)?;
        let last = match len {
            0 => u64::MAX,
            len => start.checked_add(len - 1).ok_or(Errno::EOVERFLOW)?,
        };
        let Some(kind) = kind else {
            return self.vfs.unlock(&handle, self.id, start, last);
        };
        let wanted = RecordLock {
            kind,
            start,
            last,
            owner: self.id,
        };
        self.vfs.set_lock(&handle, wanted, wait).await
    }

    /// Directory at which resolution of a path relative to `at` starts.
    pub(crate) async fn start_of(&self, at: At) -> Result<Rc<NodeOf<B>>> {
        if let At::Fd(fd) = at {
            return self.node_of(fd);
        }
        let cwd = self.state.borrow().cwd.clone();
        match cwd {
            Some(cwd) => Ok(cwd),
            None => self.vfs.core.node(self.vfs.root()).await,
        }
    }

    /// Changes the working directory.
    ///
    /// # Errors
    /// Errors of path resolution; `ENOTDIR`, `EACCES`.
    pub async fn chdir(&self, path: &[u8]) -> Result<()> {
        self.pay_path(path, false).await;
        let node = self.resolve(At::Cwd, path, true).await?;
        ensure(node.is_dir(), Errno::ENOTDIR)?;
        self.who.check(&node.attr(), crate::access::EXEC)?;
        self.state.borrow_mut().cwd = Some(node);
        Ok(())
    }

    /// Opens the file at `path`, or creates it if `flags` allow it.
    async fn open_path(&self, at: At, path: &[u8], flags: OpenFlags, mode: u16) -> Result<Handle> {
        let (core, who) = (&self.vfs.core, &self.who);
        if flags.has(OpenFlags::TMPFILE) {
            let dir = self.resolve(at, path, true).await?;
            ensure(dir.is_dir(), Errno::ENOTDIR)?;
            return core.tmpfile(who, &dir, mode, flags).await;
        }
        if flags.has(OpenFlags::CREATE) {
            return self.create_path(at, path, flags, mode).await;
        }
        let follow = !flags.has(OpenFlags::NO_FOLLOW);
        let node = self.resolve(at, path, follow).await?;
        if flags.has(OpenFlags::DIRECTORY) {
            ensure(node.is_dir(), Errno::ENOTDIR)?;
        }
        core.open(who, node, flags).await
    }

    async fn create_path(
        &self,
        at: At,
        path: &[u8],
        flags: OpenFlags,
        mode: u16,
    ) -> Result<Handle> {
        use crate::file::Created;
        let (core, who) = (&self.vfs.core, &self.who);
        let mut links = 0;
        let mut dir = self.start_of(at).await?;
        let mut path = path.to_vec();
        loop {
            let end = self.walk_to_last(dir, &path, &mut links).await?;
            let Last::Name { name, slash } = end.last else {
                ensure(!flags.has(OpenFlags::EXCLUSIVE), Errno::EEXIST)?;
                return Err(Errno::EISDIR);
            };
            if slash {
                // A trailing slash names a directory, which `open` does not create.
                return Err(Errno::EISDIR);
            }
            let node = match core.create(who, &end.dir, &name, mode, flags).await? {
                Created::Made(node) => return Ok(core.opened(who, node, flags)),
                Created::Existed(node) => node,
            };
            let is_link = node.attr().kind == crate::types::FileKind::Symlink;
            if !is_link {
                return core.open(who, node, flags).await;
            }
            ensure(!flags.has(OpenFlags::NO_FOLLOW), Errno::ELOOP)?;
            path = self.follow(&node, &mut links).await?;
            dir = end.dir;
        }
    }
}
