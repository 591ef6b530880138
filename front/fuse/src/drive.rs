//! A directory of two files: the drive itself and its counters.

use crate::answer::list;
use crate::wants::ask_for;
use engine::{Device, Fault, Handle, Medium};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use serde::Serialize;
use ssd::{Health, IoError};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Name of the file that shows the drive's bytes.
pub const DRIVE_NAME: &str = "drive";
/// Name of the file that shows the drive's counters.
const SMART_NAME: &str = "smart.json";

const ROOT: INodeNo = INodeNo(1);
const DRIVE: INodeNo = INodeNo(2);
const SMART: INodeNo = INodeNo(3);

/// Time for which the kernel may cache names and fixed attributes, which never change.
const LONG: Duration = Duration::from_secs(3600);

/// `fallocate`: flag to keep the size.
const KEEP_SIZE: i32 = 1;
/// `fallocate`: flag to deallocate a range.
const PUNCH_HOLE: i32 = 2;
/// `fallocate`: flag to zero a range.
const ZERO_RANGE: i32 = 16;
/// `lseek`: origin of the next data.
const SEEK_DATA: i32 = 3;
/// `lseek`: origin of the next hole.
const SEEK_HOLE: i32 = 4;

/// A drive shown as a file, for FUSE.
pub struct DriveFs {
    device: Handle<Device>,
    /// Path of the drive file, as the counters name it.
    file: String,
    size: u64,
    mounted: SystemTime,
    owner: (u32, u32),
    /// Snapshots of the counters for open files, by handle.
    texts: Mutex<BTreeMap<u64, Vec<u8>>>,
}

/// The document of `smart.json`, the same as that of `flashloom drive smart`.
#[derive(Serialize)]
struct Counters<'a> {
    schema: &'static str,
    file: &'a str,
    #[serde(flatten)]
    health: Health,
}

impl DriveFs {
    /// A view of `device`, which has `size` bytes and is stored in the drive file `file`.
    #[must_use]
    pub fn new(device: Handle<Device>, file: String, size: u64) -> Self {
        let owner = (
            nix::unistd::geteuid().as_raw(),
            nix::unistd::getegid().as_raw(),
        );
        Self {
            device,
            file,
            size,
            mounted: SystemTime::now(),
            owner,
            texts: Mutex::default(),
        }
    }

    fn attr(&self, ino: INodeNo, size: u64) -> FileAttr {
        let (kind, perm, nlink) = match ino {
            ROOT => (FileType::Directory, 0o755, 2),
            DRIVE => (FileType::RegularFile, 0o600, 1),
            _ => (FileType::RegularFile, 0o444, 1),
        };
        let time = self.mounted;
        FileAttr {
            ino,
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// The attributes of `ino`, and the time for which the kernel may cache them.
    fn look(&self, ino: INodeNo) -> Result<(Duration, FileAttr), Errno> {
        match ino {
            ROOT => Ok((LONG, self.attr(ROOT, 0))),
            DRIVE => Ok((LONG, self.attr(DRIVE, self.size))),
            SMART => {
                let size = self.counters().map_err(|fault| errno(&fault))?.len();
                Ok((Duration::ZERO, self.attr(SMART, size as u64)))
            }
            _ => Err(Errno::ENOENT),
        }
    }

    fn counters(&self) -> Result<Vec<u8>, Fault> {
        let health = self
            .device
            .ask(|device: Rc<Device>| async move { device.health() })??;
        let counters = Counters {
            schema: "flashloom.smart/1",
            file: &self.file,
            health,
        };
        let text = serde_json::to_vec_pretty(&counters).map_err(io::Error::from)?;
        Ok([&text[..], b"\n"].concat())
    }

    fn texts(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Vec<u8>>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_counters(&self) -> Result<FileHandle, Errno> {
        let text = self.counters().map_err(|fault| errno(&fault))?;
        let mut texts = self.texts();
        let handle = texts.last_key_value().map_or(1, |(last, _)| last + 1);
        texts.insert(handle, text);
        Ok(FileHandle(handle))
    }

    fn read_counters(&self, handle: FileHandle, offset: u64, size: u32, reply: ReplyData) {
        let texts = self.texts();
        let Some(text) = texts.get(&handle.0) else {
            return reply.error(Errno::EBADF);
        };
        let from = text
            .len()
            .min(usize::try_from(offset).unwrap_or(usize::MAX));
        let to = text.len().min(from + size as usize);
        reply.data(&text[from..to]);
    }

    /// Flushes the drive, then replies.
    fn flush_drive(&self, reply: ReplyEmpty) {
        self.device.submit(|device: Rc<Device>| async move {
            done(reply, device.flush().await);
        });
    }
}

fn done(reply: ReplyEmpty, result: Result<(), Fault>) {
    match result {
        Ok(()) => reply.ok(),
        Err(fault) => reply.error(errno(&fault)),
    }
}

/// The error number for a fault of the drive.
fn errno(fault: &Fault) -> Errno {
    match fault {
        Fault::PastEnd { .. } | Fault::Drive(IoError::OutOfRange { .. }) => Errno::EINVAL,
        Fault::Drive(IoError::ReadOnly) => Errno::EROFS,
        _ => Errno::EIO,
    }
}

impl Filesystem for DriveFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        ask_for(
            config,
            &[
                InitFlags::FUSE_ASYNC_DIO,
                InitFlags::FUSE_ATOMIC_O_TRUNC,
                InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
                InitFlags::FUSE_MAX_PAGES,
                InitFlags::FUSE_PARALLEL_DIROPS,
            ],
        );
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ino = match name.to_str() {
            Some(DRIVE_NAME) if parent == ROOT => DRIVE,
            Some(SMART_NAME) if parent == ROOT => SMART,
            _ => return reply.error(Errno::ENOENT),
        };
        match self.look(ino) {
            Ok((_, attr)) if ino == SMART => {
                reply.entry_with_ttls(&LONG, &Duration::ZERO, &attr, Generation(0));
            }
            Ok((ttl, attr)) => reply.entry(&ttl, &attr, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.look(ino) {
            Ok((ttl, attr)) => reply.attr(&ttl, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.is_some_and(|size| size != self.size || ino != DRIVE);
        if resized || mode.is_some() || uid.is_some() || gid.is_some() {
            return reply.error(Errno::EPERM);
        }
        // Times are not stored; a call that sets only times succeeds.
        match self.look(ino) {
            Ok((ttl, attr)) => reply.attr(&ttl, &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let reads = flags.acc_mode() == OpenAccMode::O_RDONLY;
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        match ino {
            DRIVE => {
                let flags = direct | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                // The handle tells whether a close must flush the drive.
                reply.opened(FileHandle(u64::from(!reads)), flags);
            }
            SMART if !reads => reply.error(Errno::EACCES),
            SMART => match self.open_counters() {
                Ok(handle) => reply.opened(handle, direct),
                Err(errno) => reply.error(errno),
            },
            _ => reply.error(Errno::EISDIR),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if ino == SMART {
            return self.read_counters(handle, offset, size, reply);
        }
        let len = u64::from(size).min(self.size.saturating_sub(offset)) as usize;
        self.device.submit(move |device: Rc<Device>| async move {
            match device.read(offset, len).await {
                Ok(bytes) => reply.data(&bytes),
                Err(fault) => reply.error(errno(&fault)),
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
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let len = (data.len() as u64).min(self.size.saturating_sub(offset)) as usize;
        if ino != DRIVE {
            return reply.error(Errno::EACCES);
        }
        if len == 0 && !data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        let bytes = data[..len].to_vec();
        self.device.submit(move |device: Rc<Device>| async move {
            match device.write(offset, &bytes).await {
                Ok(()) => reply.written(len as u32),
                Err(fault) => reply.error(errno(&fault)),
            }
        });
    }

    fn flush(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        if ino == DRIVE && handle.0 == 1 {
            return self.flush_drive(reply);
        }
        reply.ok();
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
        if ino == SMART {
            self.texts().remove(&handle.0);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if ino == DRIVE {
            return self.flush_drive(reply);
        }
        reply.ok();
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        if ino != ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let (dir, file) = (FileType::Directory, FileType::RegularFile);
        let entries = [
            (ROOT, dir, "."),
            (ROOT, dir, ".."),
            (DRIVE, file, DRIVE_NAME),
            (SMART, file, SMART_NAME),
        ];
        list(reply, offset, entries.into_iter().skip(offset as usize));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(self.size / 4096, 0, 0, 3, 0, 4096, 255, 4096);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let clears = [KEEP_SIZE | PUNCH_HOLE, KEEP_SIZE | ZERO_RANGE, ZERO_RANGE];
        let end = offset.saturating_add(length);
        if ino != DRIVE || !clears.contains(&mode) || (mode == ZERO_RANGE && end > self.size) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        // The range behind the end reads as zeros anyway.
        let len = end.min(self.size).saturating_sub(offset);
        self.device.submit(move |device: Rc<Device>| async move {
            let result = if len > 0 {
                device.zero(offset, len).await
            } else {
                Ok(())
            };
            done(reply, result);
        });
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let wanted = match whence {
            SEEK_DATA if ino == DRIVE => Medium::Data,
            SEEK_HOLE if ino == DRIVE => Medium::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let from = u64::try_from(offset).unwrap_or(u64::MAX);
        self.device.submit(move |device: Rc<Device>| async move {
            match device.seek(from, wanted) {
                Some(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
                None => reply.error(Errno::ENXIO),
            }
        });
    }
}
