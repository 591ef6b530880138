//! The file operations of a mounted file system, as the kernel's FUSE calls them.
//!
//! The kernel checks permissions, keeps locks, applies the umask and finds the end of a file that
//! is appended to; these checks are not repeated here. A new file belongs to the user of the
//! request, and written blocks count against that user's space.
//!
//! The kernel may cache names and contents, as all changes go through it. It asks for attributes
//! again after a second, since blocks are allocated later than they are written. A file opened with
//! `O_DIRECT` bypasses the cache.

use crate::answer::{VolumeFs, cached, sized};
use crate::tasks::{Write, add_entries, add_whole_entries, change, find, trust, write};
use crate::translate::{allocation, bytes, errno, open_flags, set_time, who};
use crate::wants::ask_for;
use fuser::{
    AccessFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;
use vfs::{Access, Body, FileKind, SeekWhat, SetAttr, XattrFlags};

/// `lseek`: origin of the next data.
const SEEK_DATA: i32 = 3;
/// `lseek`: origin of the next hole.
const SEEK_HOLE: i32 = 4;
/// `setxattr`: fail if the attribute exists.
const XATTR_CREATE: i32 = 1;
/// `setxattr`: fail if the attribute does not exist.
const XATTR_REPLACE: i32 = 2;

impl<B: Body> Filesystem for VolumeFs<B> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        ask_for(
            config,
            &[
                InitFlags::FUSE_ASYNC_DIO,
                InitFlags::FUSE_CACHE_SYMLINKS,
                InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
                InitFlags::FUSE_DO_READDIRPLUS,
                InitFlags::FUSE_EXPORT_SUPPORT,
                InitFlags::FUSE_MAX_PAGES,
                InitFlags::FUSE_PARALLEL_DIROPS,
                InitFlags::FUSE_READDIRPLUS_AUTO,
            ],
        );
        Ok(())
    }

    fn lookup(&self, _: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (dir, name) = (self.numbers.ino(dir), bytes(name));
        self.enter(reply, move |volume| async move {
            find(volume.vfs(), dir, &name).await
        });
    }

    fn forget(&self, _: &Request, ino: INodeNo, times: u64) {
        let ino = self.numbers.ino(ino);
        self.submit(move |volume| async move { volume.vfs().forget(ino, times).await });
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let own = self.numbers.ino(ino);
        self.attributes(ino, reply, move |volume| async move {
            volume.vfs().getattr(own).await
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
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let own = self.numbers.ino(ino);
        let set = SetAttr {
            mode: mode.map(|mode| (mode & 0o7_777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(set_time),
            mtime: mtime.map(set_time),
        };
        self.attributes(ino, reply, move |volume| async move {
            change(&volume, own, handle.map(|handle| handle.0), set).await
        });
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let ino = self.numbers.ino(ino);
        self.submit(move |volume| async move {
            match volume.vfs().readlink(ino).await {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn mknod(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        match FileKind::of_mode((mode & 0o170_000) as u16) {
            Some(kind) => self.make(request, dir, name, (kind, mode, rdev), reply),
            None => reply.error(Errno::EINVAL),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let what = (FileKind::Directory, mode, 0);
        self.make(request, dir, name, what, reply);
    }

    fn symlink(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let (who, dir, name) = (who(request), self.numbers.ino(dir), bytes(name));
        let target = bytes(target.as_os_str());
        self.enter(reply, move |volume| async move {
            volume.vfs().symlink(&who, dir, &name, &target).await
        });
    }

    fn link(&self, _: &Request, ino: INodeNo, dir: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (ino, dir) = (self.numbers.ino(ino), self.numbers.ino(dir));
        let name = bytes(name);
        self.enter(reply, move |volume| async move {
            volume.vfs().link(&Access::root(), ino, dir, &name).await
        });
    }

    fn unlink(&self, _: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (dir, name) = (self.numbers.ino(dir), bytes(name));
        self.finish(reply, move |volume| async move {
            volume.vfs().unlink(&Access::root(), dir, &name).await
        });
    }

    fn rmdir(&self, _: &Request, dir: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (dir, name) = (self.numbers.ino(dir), bytes(name));
        self.finish(reply, move |volume| async move {
            volume.vfs().rmdir(&Access::root(), dir, &name).await
        });
    }

    fn rename(
        &self,
        _: &Request,
        from: INodeNo,
        from_name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return reply.error(Errno::EINVAL);
        }
        let how = vfs::RenameFlags {
            no_replace: flags.contains(RenameFlags::RENAME_NOREPLACE),
            exchange: flags.contains(RenameFlags::RENAME_EXCHANGE),
        };
        let (from, to) = (self.numbers.ino(from), self.numbers.ino(to));
        let (from_name, to_name) = (bytes(from_name), bytes(to_name));
        self.finish(reply, move |volume| async move {
            let root = Access::root();
            let vfs = volume.vfs();
            vfs.rename(&root, from, &from_name, to, &to_name, how).await
        });
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_for(request, ino, flags, cached(flags.0), reply);
    }

    fn create(
        &self,
        request: &Request,
        dir: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (who, dir, name) = (who(request), self.numbers.ino(dir), bytes(name));
        let (numbers, mode) = (self.numbers, (mode & 0o7_777) as u16);
        let exclusive = vfs::OpenFlags::from_linux(flags).has(vfs::OpenFlags::EXCLUSIVE);
        let mut how = open_flags(flags);
        if exclusive {
            how |= vfs::OpenFlags::EXCLUSIVE;
        }
        self.submit(move |volume| async move {
            match volume.vfs().create(&who, dir, &name, mode, how).await {
                Ok((handle, attr)) => {
                    let (made, generation) = numbers.entry(handle.ino(), &attr);
                    let number = FileHandle(volume.keep(handle));
                    reply.created(&trust(&attr), &made, generation, number, cached(flags));
                }
                Err(error) => reply.error(errno(error)),
            }
        });
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
        self.submit(move |volume| async move {
            let read = async {
                let handle = volume.handle(handle.0)?;
                let mut out = vec![0; size as usize];
                let sink = &mut out.as_mut_slice();
                let len = volume
                    .vfs()
                    .read(&handle, offset, size.into(), sink)
                    .await?;
                out.truncate(len as usize);
                Ok(out)
            };
            match read.await {
                Ok(out) => reply.data(&out),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let what = Write {
            ino: self.numbers.ino(ino),
            handle: handle.0,
            offset,
            bytes: data.to_vec(),
            mapped: write_flags.contains(WriteFlags::FUSE_WRITE_CACHE),
            strip: write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            flags: vfs::OpenFlags::from_linux(flags.0),
        };
        self.submit(move |volume| async move {
            match write(&volume, what).await {
                Ok(len) => reply.written(len as u32),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close promises nothing; after this error the kernel no longer sends it.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.finish(reply, move |volume| async move {
            volume.release(handle.0).await;
            Ok(())
        });
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.finish(reply, move |volume| async move {
            volume.force(handle.0, data_only).await
        });
    }

    fn opendir(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.open_for(request, ino, flags, FopenFlags::empty(), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let numbers = self.numbers;
        self.submit(move |volume| async move {
            match add_entries(&volume, numbers, handle.0, offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn readdirplus(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let numbers = self.numbers;
        self.submit(move |volume| async move {
            match add_whole_entries(&volume, numbers, handle.0, offset, &mut reply).await {
                Ok(()) => reply.ok(),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn releasedir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.release(request, ino, handle, flags, None, false, reply);
    }

    fn fsyncdir(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, ino, handle, data_only, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.submit(move |volume| async move {
            match volume.vfs().statfs().await {
                Ok(stat) => reply.statfs(
                    stat.blocks,
                    stat.blocks_free,
                    stat.blocks_available,
                    stat.files,
                    stat.files_free,
                    stat.block_size,
                    stat.name_max,
                    stat.block_size,
                ),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let (ino, name, value) = (self.numbers.ino(ino), bytes(name), value.to_vec());
        let flags = match flags {
            XATTR_CREATE => XattrFlags::Create,
            XATTR_REPLACE => XattrFlags::Replace,
            _ => XattrFlags::Any,
        };
        self.finish(reply, move |volume| async move {
            let root = Access::root();
            let vfs = volume.vfs();
            vfs.set_xattr(&root, ino, &name, &value, flags).await
        });
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let (ino, name) = (self.numbers.ino(ino), name.as_bytes().to_vec());
        self.submit(move |volume| async move {
            let found = volume.vfs().get_xattr(&Access::root(), ino, &name).await;
            sized(reply, size, found);
        });
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let ino = self.numbers.ino(ino);
        let who = Access {
            uid: request.uid(),
            ..Access::default()
        };
        self.submit(move |volume| async move {
            let names = volume.vfs().list_xattrs(&who, ino).await;
            let ended = |names: Vec<Vec<u8>>| {
                let names = names.into_iter();
                names.flat_map(|name| [name, vec![0]].concat()).collect()
            };
            sized(reply, size, names.map(ended));
        });
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (ino, name) = (self.numbers.ino(ino), bytes(name));
        self.finish(reply, move |volume| async move {
            volume.vfs().remove_xattr(&Access::root(), ino, &name).await
        });
    }

    fn access(&self, request: &Request, ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty) {
        let (who, ino) = (who(request), self.numbers.ino(ino));
        self.finish(reply, move |volume| async move {
            volume.vfs().access(&who, ino, mask.bits() as u16).await
        });
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.finish(reply, move |volume| async move {
            let (mode, handle) = (allocation(mode)?, volume.handle(handle.0)?);
            volume.vfs().fallocate(&handle, mode, offset, length).await
        });
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let what = match whence {
            SEEK_DATA => SeekWhat::Data,
            SEEK_HOLE => SeekWhat::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(from) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        self.submit(move |volume| async move {
            let found = async {
                volume
                    .vfs()
                    .seek(&volume.handle(handle.0)?, from, what)
                    .await
            };
            match found.await {
                Ok(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        from_offset: u64,
        _: INodeNo,
        to: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The reply has 32 bits; a caller that wants more continues after a short copy.
        let len = len.min(1 << 30);
        self.submit(move |volume| async move {
            let copy = async {
                let (from, to) = (volume.handle(from.0)?, volume.handle(to.0)?);
                let vfs = volume.vfs();
                vfs.copy_range(&from, from_offset, &to, to_offset, len)
                    .await
            };
            match copy.await {
                Ok(done) => reply.written(done as u32),
                Err(error) => reply.error(errno(error)),
            }
        });
    }
}
