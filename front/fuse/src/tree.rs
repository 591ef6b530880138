//! Files of another process, shown read-only: a directory in which each file is at its full path.
//!
//! Invariants: nothing can be written. Reading a file here takes the permission to read the file
//! that stands at its path. The kernel caches nothing, so that new data are visible.

use crate::answer::list;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEntry, ReplyOpen, Request,
};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A set of files, identified by their absolute paths.
pub trait Tree: Send + Sync + 'static {
    /// The paths of all files, sorted.
    ///
    /// # Errors
    /// If the files cannot be listed.
    fn list(&self) -> io::Result<Vec<Vec<u8>>>;

    /// The number of the file at a path, and its length in bytes.
    ///
    /// # Errors
    /// If there is no file at the path.
    fn find(&self, path: &[u8]) -> io::Result<(u64, u64)>;

    /// Up to `len` bytes at `offset` of the file with a number.
    ///
    /// # Errors
    /// If the file is gone or cannot be read.
    fn read(&self, number: u64, offset: u64, len: usize) -> io::Result<Vec<u8>>;
}

/// Inodes that the kernel knows: paths by number, and the kernel's references to each.
#[derive(Default)]
struct Nodes {
    paths: BTreeMap<u64, (Vec<u8>, u64)>,
    numbers: BTreeMap<Vec<u8>, u64>,
    last: u64,
}

impl Nodes {
    /// The number of a path; counts one more reference of the kernel.
    fn tell(&mut self, path: &[u8]) -> u64 {
        if let Some(number) = self.numbers.get(path) {
            if let Some((_, told)) = self.paths.get_mut(number) {
                *told += 1;
            }
            return *number;
        }
        self.last += 1;
        let number = ROOT.0 + self.last;
        self.numbers.insert(path.to_vec(), number);
        self.paths.insert(number, (path.to_vec(), 1));
        number
    }

    fn forget(&mut self, number: u64, times: u64) {
        let Some((_, told)) = self.paths.get_mut(&number) else {
            return;
        };
        *told = told.saturating_sub(times);
        if *told == 0
            && let Some((path, _)) = self.paths.remove(&number)
        {
            self.numbers.remove(&path);
        }
    }
}

/// A file system that shows a [`Tree`].
pub struct TreeFs<T> {
    tree: T,
    nodes: Mutex<Nodes>,
}

const ROOT: INodeNo = INodeNo(1);

fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}

/// Metadata of the real file at the path, if there is one.
fn standing(path: &[u8]) -> Option<Metadata> {
    let path = if path.is_empty() { b"/" } else { path };
    std::fs::symlink_metadata(Path::new(OsStr::from_bytes(path))).ok()
}

impl<T: Tree> TreeFs<T> {
    /// A file system that shows `tree`.
    pub fn new(tree: T) -> Self {
        Self {
            tree,
            nodes: Mutex::default(),
        }
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, ino: INodeNo) -> Result<Vec<u8>, Errno> {
        if ino == ROOT {
            return Ok(Vec::new());
        }
        let nodes = self.nodes();
        let found = nodes.paths.get(&ino.0).map(|(path, _)| path.clone());
        found.ok_or(Errno::ESTALE)
    }

    /// Names in a folder, and whether each is a folder; empty if the folder does not exist.
    fn within(&self, folder: &[u8]) -> Result<BTreeMap<Vec<u8>, bool>, Errno> {
        let before = [folder, b"/"].concat();
        let mut names = BTreeMap::new();
        for path in self.tree.list().map_err(|error| errno(&error))? {
            let Some(rest) = path.strip_prefix(&before[..]) else {
                continue;
            };
            match rest.iter().position(|byte| *byte == b'/') {
                Some(end) => names.insert(rest[..end].to_vec(), true),
                None => names.insert(rest.to_vec(), false),
            };
        }
        Ok(names)
    }

    /// Attributes of the file or folder at a path: those of the real file there, without write
    /// permission. If there is none, only root has access.
    fn attr(&self, path: &[u8], ino: INodeNo) -> Result<FileAttr, Errno> {
        let file = self.tree.find(path);
        let (kind, size) = match file {
            Ok((_, size)) => (FileType::RegularFile, size),
            Err(_) if path.is_empty() || !self.within(path)?.is_empty() => (FileType::Directory, 0),
            Err(error) => return Err(errno(&error)),
        };
        let real = standing(path);
        let mode = real.as_ref().map_or(0o500, |real| real.mode() & 0o555);
        let (uid, gid) = real
            .as_ref()
            .map_or((0, 0), |real| (real.uid(), real.gid()));
        let time = |seconds: i64| {
            let since = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
            UNIX_EPOCH
                .checked_add(since)
                .unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let changed = time(real.as_ref().map_or(0, MetadataExt::mtime));
        Ok(FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: changed,
            mtime: changed,
            ctime: changed,
            crtime: changed,
            kind,
            perm: mode as u16,
            nlink: 1,
            uid,
            gid,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }
}

impl<T: Tree> Filesystem for TreeFs<T> {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let look = || {
            let path = [&self.path(parent)?[..], b"/", name.as_bytes()].concat();
            let mut attr = self.attr(&path, ROOT)?;
            attr.ino = INodeNo(self.nodes().tell(&path));
            Ok::<_, Errno>(attr)
        };
        match look() {
            Ok(attr) => reply.entry(&Duration::ZERO, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        self.nodes().forget(ino.0, times);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.path(ino).and_then(|path| self.attr(&path, ino)) {
            Ok(attr) => reply.attr(&Duration::ZERO, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let path = self.path(ino);
        let found = path.and_then(|path| self.tree.find(&path).map_err(|error| errno(&error)));
        match found {
            // An open file keeps its number, whatever file is at its path later.
            Ok((number, _)) => reply.opened(FileHandle(number), FopenFlags::FOPEN_DIRECT_IO),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.tree.read(handle.0, offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let names = match self.path(ino).and_then(|path| self.within(&path)) {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        let own = [(b".".to_vec(), true), (b"..".to_vec(), true)];
        let all = own.into_iter().chain(names);
        let entry = |(name, folder)| {
            let kind = if folder {
                FileType::Directory
            } else {
                FileType::RegularFile
            };
            // Listings have no inode number; a lookup assigns it.
            (INodeNo(u64::MAX), kind, OsString::from_vec(name))
        };
        list(reply, offset, all.skip(offset as usize).map(entry));
    }
}
