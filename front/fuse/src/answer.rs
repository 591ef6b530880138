//! Dispatch of the kernel's requests to a file system, and its answers.

use crate::tasks::{Numbers, trust};
use crate::translate::{bytes, errno, open_flags, who};
use crate::volume::Volume;
use engine::Handle;
use fuser::{
    Errno, FileHandle, FileType, FopenFlags, INodeNo, OpenFlags, ReplyAttr, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyXattr, Request,
};
use std::ffi::OsStr;
use std::rc::Rc;
use vfs::{Attr, Body, FileKind, Ino, Result};

/// Replies with as many of `entries` as fit the kernel's buffer; `offset` entries precede them.
pub(crate) fn list(
    mut reply: ReplyDirectory,
    offset: u64,
    entries: impl Iterator<Item = (INodeNo, FileType, impl AsRef<OsStr>)>,
) {
    for ((ino, kind, name), next) in entries.zip(offset.saturating_add(1)..) {
        if reply.add(ino, next, kind, name) {
            break;
        }
    }
    reply.ok();
}

/// A mounted file system, to be shown in a directory by FUSE.
pub struct VolumeFs<B: Body> {
    volume: Handle<Volume<B>>,
    pub(crate) numbers: Numbers,
}

impl<B: Body> VolumeFs<B> {
    /// Shows `volume`, whose root directory is `root`.
    #[must_use]
    pub fn new(volume: Handle<Volume<B>>, root: Ino) -> Self {
        Self {
            volume,
            numbers: Numbers { root },
        }
    }

    pub(crate) fn submit<F: Future<Output = ()> + 'static>(
        &self,
        work: impl FnOnce(Rc<Volume<B>>) -> F + Send + 'static,
    ) {
        self.volume.submit(move |volume| {
            let told = Rc::clone(&volume);
            let work = work(volume);
            async move {
                work.await;
                told.tell_refusal();
            }
        });
    }

    /// Replies with the inode and attributes that `work` finds or creates, or with its error.
    pub(crate) fn enter<F: Future<Output = Result<(Ino, Attr)>> + 'static>(
        &self,
        reply: ReplyEntry,
        work: impl FnOnce(Rc<Volume<B>>) -> F + Send + 'static,
    ) {
        let numbers = self.numbers;
        self.submit(move |volume| {
            let work = work(volume);
            async move {
                match work.await {
                    Ok((ino, attr)) => {
                        let (found, generation) = numbers.entry(ino, &attr);
                        reply.entry(&trust(&attr), &found, generation);
                    }
                    Err(error) => reply.error(errno(error)),
                }
            }
        });
    }

    /// Replies when `work` is done, or with its error.
    pub(crate) fn finish<F: Future<Output = Result<()>> + 'static>(
        &self,
        reply: ReplyEmpty,
        work: impl FnOnce(Rc<Volume<B>>) -> F + Send + 'static,
    ) {
        self.submit(move |volume| {
            let work = work(volume);
            async move {
                match work.await {
                    Ok(()) => reply.ok(),
                    Err(error) => reply.error(errno(error)),
                }
            }
        });
    }

    /// Replies with the attributes that `work` returns, or with its error.
    pub(crate) fn attributes<F: Future<Output = Result<Attr>> + 'static>(
        &self,
        ino: INodeNo,
        reply: ReplyAttr,
        work: impl FnOnce(Rc<Volume<B>>) -> F + Send + 'static,
    ) {
        self.submit(move |volume| {
            let work = work(volume);
            async move {
                match work.await {
                    Ok(attr) => reply.attr(&trust(&attr), &crate::translate::attr(ino, &attr)),
                    Err(error) => reply.error(errno(error)),
                }
            }
        });
    }

    /// Opens a file or a directory for the kernel.
    pub(crate) fn open_for(
        &self,
        request: &Request,
        ino: INodeNo,
        flags: OpenFlags,
        opened: FopenFlags,
        reply: ReplyOpen,
    ) {
        let (ino, flags) = (self.numbers.ino(ino), open_flags(flags.0));
        // The kernel has granted access; the space of later writes is charged to the opener.
        let who = who(request);
        self.submit(move |volume| async move {
            match volume.vfs().open_granted(&who, ino, flags).await {
                Ok(handle) => {
                    let opened = unless_noted(volume.vfs(), &handle, opened);
                    reply.opened(FileHandle(volume.keep(handle)), opened);
                }
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    pub(crate) fn make(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        (kind, mode, rdev): (FileKind, u32, u32),
        reply: ReplyEntry,
    ) {
        let (who, dir, name) = (who(request), self.numbers.ino(dir), bytes(name));
        let mode = (mode & 0o7_777) as u16;
        self.enter(reply, move |volume| async move {
            let vfs = volume.vfs();
            vfs.mknod(&who, dir, &name, kind, mode, rdev).await
        });
    }
}

/// Flags for the kernel's cache of a file that is opened with `flags`.
pub(crate) fn cached(flags: i32) -> FopenFlags {
    if open_flags(flags).has(vfs::OpenFlags::DIRECT) {
        return FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
    }
    FopenFlags::FOPEN_KEEP_CACHE
}

/// `opened`, with the kernel's cache of the file dropped if the next read must update the access
/// time: reads from that cache are not seen here.
fn unless_noted<B: Body>(
    vfs: &vfs::Vfs<B>,
    handle: &vfs::Handle,
    opened: FopenFlags,
) -> FopenFlags {
    match vfs.notes_read(handle) {
        Ok(true) => opened.difference(FopenFlags::FOPEN_KEEP_CACHE),
        _ => opened,
    }
}

/// Replies to a request for an attribute or list of unknown length; `size` 0 only asks for it.
pub(crate) fn sized(reply: ReplyXattr, size: u32, found: Result<Vec<u8>>) {
    match found {
        Err(error) => reply.error(errno(error)),
        Ok(bytes) if size == 0 => reply.size(bytes.len() as u32),
        Ok(bytes) if bytes.len() > size as usize => reply.error(Errno::ERANGE),
        Ok(bytes) => reply.data(&bytes),
    }
}
