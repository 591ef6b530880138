//! zonefs in a directory: `cnv/N`, `seq/N`, and `.zones.json`, which no listing shows.
//!
//! The kernel's part is kept minimal. Writes to a sequential file bypass the kernel's cache and
//! reach the drive in call order, one request after the other. The cache serves reads only, and
//! asks for the file's size at each read. Sequential files that are open for writing cannot be
//! mapped shared. Conventional files are cached and mapped like ordinary files.

mod tree;

pub use tree::Zones;

use crate::answer::list;
use crate::translate::errno;
use crate::wants::ask_for;
use engine::Handle;
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use tree::{BLOCK, Change, NAME_MAX, Node};
use vfs::Result;
use zonefs::Group;

/// Time for which the kernel may cache names, which never change.
const LONG: Duration = Duration::from_secs(3600);
/// No caching, for attributes that a failure of the drive may change.
const NOT: Duration = Duration::ZERO;
/// Handle of a file that is open for reading only.
const READS: FileHandle = FileHandle(0);
/// Handle of a file that is open for writing.
const WRITES: FileHandle = FileHandle(1);

/// A mounted zonefs, to be shown in a directory by FUSE.
pub struct ZonesFs {
    zones: Handle<Zones>,
}

impl ZonesFs {
    /// A file system that shows `zones`.
    #[must_use]
    pub fn new(zones: Handle<Zones>) -> Self {
        Self { zones }
    }

    fn submit<F: Future<Output = ()> + 'static>(
        &self,
        work: impl FnOnce(Rc<Zones>) -> F + Send + 'static,
    ) {
        self.zones.submit(work);
    }
}

/// The group and index of the file with an inode number of the kernel.
fn file(number: INodeNo) -> Result<(Group, usize)> {
    match Node::of(number) {
        Some(Node::File(group, number)) => Ok((group, number)),
        Some(Node::Table) => Err(vfs::Errno::EACCES),
        Some(_) => Err(vfs::Errno::EISDIR),
        None => Err(vfs::Errno::ENOENT),
    }
}

fn node(number: INodeNo) -> Result<Node> {
    Node::of(number).ok_or(vfs::Errno::ENOENT)
}

fn time(time: TimeOrNow) -> SystemTime {
    match time {
        TimeOrNow::Now => SystemTime::now(),
        TimeOrNow::SpecificTime(time) => time,
    }
}

/// Flags for the kernel's cache of an open file.
fn kept((group, _): (Group, usize), writes: bool, readable: bool) -> FopenFlags {
    match group {
        Group::Conventional => FopenFlags::FOPEN_KEEP_CACHE,
        Group::Sequential if writes || !readable => FopenFlags::FOPEN_DIRECT_IO,
        Group::Sequential => FopenFlags::FOPEN_KEEP_CACHE,
    }
}

fn attributes(zones: &Zones, node: Node, reply: ReplyAttr) {
    let trust = match node {
        Node::Root | Node::Directory(_) => LONG,
        Node::Table | Node::File(..) => NOT,
    };
    match zones.attr(node) {
        Ok(attr) => reply.attr(&trust, &attr),
        Err(error) => reply.error(errno(error)),
    }
}

impl Filesystem for ZonesFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Not FUSE_ASYNC_DIO, which sends the pieces of a write concurrently, nor
        // FUSE_DIRECT_IO_ALLOW_MMAP, which allows mappings of sequential files that are open for
        // writing.
        ask_for(
            config,
            &[
                InitFlags::FUSE_AUTO_INVAL_DATA,
                InitFlags::FUSE_MAX_PAGES,
                InitFlags::FUSE_PARALLEL_DIROPS,
            ],
        );
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // A name that is not UTF-8 does not exist here.
        let name = name.to_str().unwrap_or_default().to_owned();
        self.submit(move |zones| async move {
            let found = node(parent).and_then(|parent| zones.find(parent, &name));
            let found = found.and_then(|node| Ok((node, zones.attr(node)?)));
            match found {
                Ok((node, mut attr)) => {
                    // The kernel uses this number in later requests. Programs get the other one,
                    // since attributes are not cached and requested at once.
                    attr.ino = INodeNo(node.number());
                    reply.entry_with_ttls(&NOT, &LONG, &attr, Generation(0));
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.submit(move |zones| async move {
            match node(ino) {
                Ok(node) => attributes(&zones, node, reply),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change {
            mode: mode.map(|mode| (mode & 0o7_777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(time),
            mtime: mtime.map(time),
        };
        self.submit(move |zones| async move {
            let changed = async {
                let node = node(ino)?;
                zones.change(node, change).await?;
                Ok(node)
            };
            match changed.await {
                Ok(node) => attributes(&zones, node, reply),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = vfs::OpenFlags::from_linux(flags.0);
        let writes = flags.has(vfs::OpenFlags::WRITE);
        self.submit(move |zones| async move {
            let opened = async {
                if node(ino)? == Node::Table && !writes {
                    let handle = FileHandle(zones.open_table()?);
                    return Ok((handle, FopenFlags::FOPEN_DIRECT_IO));
                }
                let name = file(ino)?;
                let readable = zones.open(name, flags).await?;
                let handle = if writes { WRITES } else { READS };
                Ok((handle, kept(name, writes, readable)))
            };
            match opened.await {
                Ok((handle, kept)) => reply.opened(handle, kept),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.submit(move |zones| async move {
            match Node::of(ino) {
                Some(Node::Table) => zones.close_table(handle.0),
                Some(Node::File(group, number)) if handle == WRITES => {
                    zones.release((group, number)).await;
                }
                _ => {}
            }
            reply.ok();
        });
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let flags = vfs::OpenFlags::from_linux(flags.0);
        self.submit(move |zones| async move {
            let read = async {
                if node(ino)? == Node::Table {
                    return zones.read_table(handle.0, offset, size as usize);
                }
                zones.read(file(ino)?, offset, size as usize, flags).await
            };
            match read.await {
                Ok(bytes) => reply.data(&bytes),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut flags = vfs::OpenFlags::from_linux(flags.0);
        if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            // Pages of a mapping may arrive through any of the open files.
            flags = vfs::OpenFlags::WRITE;
        }
        let bytes = data.to_vec();
        self.submit(move |zones| async move {
            let written = async { zones.write(file(ino)?, (offset, &bytes), flags).await };
            match written.await {
                Ok(len) => reply.written(len as u32),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.submit(move |zones| async move {
            let forced = async {
                match node(ino)? {
                    Node::Table => Ok(()),
                    _ => zones.force(file(ino)?).await,
                }
            };
            match forced.await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(Errno::EINVAL);
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.submit(move |zones| async move {
            let from = usize::try_from(offset).unwrap_or(usize::MAX);
            let entries = node(ino).and_then(|node| zones.entries(node, from));
            match entries {
                Ok(entries) => {
                    let entries = entries.map(|(ino, kind, name)| (INodeNo(ino), kind, name));
                    list(reply, offset, entries);
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.submit(move |zones| async move {
            let (most, used, files) = zones.space();
            let block = u64::from(BLOCK);
            let (all, free) = (most / block, (most - used) / block);
            reply.statfs(all, free, free, files, 0, BLOCK, NAME_MAX as u32, BLOCK);
        });
    }

    fn listxattr(&self, _: &Request, _: INodeNo, size: u32, reply: ReplyXattr) {
        match size {
            0 => reply.size(0),
            _ => reply.data(&[]),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EACCES);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }
}
