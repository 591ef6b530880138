//! Raw records: the format that the preload library writes and the conversion reads.
//!
//! A thread appends to a sequence of files, its chunks. A chunk starts with a [`Chunk`]; records
//! follow, each a multiple of 8 bytes: a [`Head`], up to two [`Info`], two strings, padding.
//! Numbers are in native byte order, as chunks never leave the machine.
//!
//! Invariants: a record's size is written before its operation, so that a record left unfinished by
//! a crash or a jump out of a signal handler has the operation 0 and is skipped. A chunk ends at
//! the first size of 0, or at its end. Readers trust none of this.

/// First bytes of a chunk.
pub const MAGIC: [u8; 8] = *b"flspool1";

/// Declares the operations, their numbers and names.
macro_rules! ops {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Operation of a record. The words `a`, `b` and `c` are fields of [`Head`]. Unless said
        /// otherwise, `s1` is a path, `fd` the descriptor or the folder that the path starts from,
        /// and `flags` are those of the system.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Op {
            /// A record that is not finished.
            Nothing = 0,
            $($(#[$doc])* $name,)*
        }

        impl Op {
            /// The operation of this number; `None` if there is none.
            #[must_use]
            pub fn of(number: u16) -> Option<Self> {
                const ALL: &[Op] = &[Op::Nothing, $(Op::$name),*];
                ALL.get(usize::from(number)).copied()
            }
        }
    };
}

ops! {
    /// Start of a program, by `exec` or otherwise: `a` the parent process, `s1` the working
    /// directory, `s2` the program.
    Start,
    /// Birth of a process by a fork: `a` the parent process.
    Born,
    /// A descriptor that is open though its opening was not recorded: `a` the offset, `flags` those
    /// of the open file.
    Found,
    /// `open` and its variants: `a` the mode; `b` 1 if the file existed before, in which case the
    /// first info describes it as it was.
    Open,
    /// `close` of a descriptor.
    Close,
    /// `close_range`: `a` the first and `b` the last descriptor.
    CloseRange,
    /// `dup` and its variants; the result is the copy.
    Dup,
    /// `read`: `a` the length.
    Read,
    /// `write`: `a` the length.
    Write,
    /// `pread`: `a` the length, `b` the offset.
    Pread,
    /// `pwrite`: `a` the length, `b` the offset.
    Pwrite,
    /// `lseek`: `a` the offset, `b` the origin.
    Seek,
    /// `fsync` of a descriptor.
    Fsync,
    /// `fdatasync` of a descriptor.
    Fdatasync,
    /// `sync_file_range`: `a` the offset, `b` the length.
    SyncRange,
    /// `syncfs` on a descriptor.
    SyncFs,
    /// `sync` of all file systems.
    Sync,
    /// `truncate`: `a` the length.
    Truncate,
    /// `ftruncate`: `a` the length.
    Ftruncate,
    /// `fallocate`: `a` the offset, `b` the length; `flags` the mode.
    Fallocate,
    /// `rename`: two paths, two folders, and both files' infos from before.
    Rename,
    /// `unlink`; the info is from before the call.
    Unlink,
    /// `rmdir`; the info is from before the call.
    Rmdir,
    /// `mkdir`: `a` the mode.
    Mkdir,
    /// `mknod`: `a` the mode.
    Mknod,
    /// `link`: two paths, two folders.
    Link,
    /// `symlink`: `s1` the path, `s2` the target.
    Symlink,
    /// `readlink`: `s2` the target.
    Readlink,
    /// `stat` and its variants, on a path.
    Stat,
    /// `fstat` of a descriptor.
    Fstat,
    /// `access`: `a` the mode.
    Access,
    /// `statfs` on a path.
    StatFs,
    /// `fstatfs` on a descriptor.
    FstatFs,
    /// Read of directory entries: `a` their number.
    Readdir,
    /// `rewinddir` of a directory stream.
    Rewind,
    /// `chmod`: `a` the mode.
    Chmod,
    /// `fchmod`: `a` the mode.
    Fchmod,
    /// `chown`: `a` user, `b` group.
    Chown,
    /// `fchown`: `a` user, `b` group.
    Fchown,
    /// `utimensat` and its variants, on a path.
    Utimens,
    /// `futimens` on a descriptor.
    Futimens,
    /// `getxattr`: `s2` the name, `a` the size of the buffer.
    GetXattr,
    /// `fgetxattr`: `s2` the name, `a` the size of the buffer.
    FgetXattr,
    /// `setxattr`: `s2` the name, `a` the length, `b` the flags.
    SetXattr,
    /// `fsetxattr`: `s2` the name, `a` the length, `b` the flags.
    FsetXattr,
    /// `listxattr`: `a` the size of the buffer.
    ListXattr,
    /// `flistxattr`: `a` the size of the buffer.
    FlistXattr,
    /// `removexattr`: `s2` the name.
    RemoveXattr,
    /// `fremovexattr`: `s2` the name.
    FremoveXattr,
    /// `flock`: `flags` the operation.
    Flock,
    /// `fcntl` on a lock: `a` the offset, `b` the length, `c` the kind, `fd2` the origin; `flags` 1
    /// if it waits.
    RecordLock,
    /// `posix_fadvise`: `a` the offset, `b` the length, `c` the advice.
    Advise,
    /// `F_SET_RW_HINT`: `a` the hint.
    Hint,
    /// `F_SETFL`: `flags` the new ones.
    SetFlags,
    /// `mmap`: `a` the length, `b` the offset, `c` the protection; the result
    /// is the address.
    Map,
    /// `munmap`: `a` the address, `b` the length.
    Unmap,
    /// `mremap`: `a` the address, `b` the old and `c` the new length; the
    /// result is the new address.
    Remap,
    /// `msync`: `a` the address, `b` the length.
    Msync,
    /// Touched pages of a mapping: `a` the address, `b` the length.
    Touched,
    /// `copy_file_range`: `a` the length, `b` and `c` the offsets, or all ones for file offsets.
    CopyRange,
    /// `chdir` to a path.
    Chdir,
    /// `fchdir` to a descriptor.
    Fchdir,
    /// Start of a program that may not load the library: `a` its process if that is another one.
    Exec,
    /// Use of an interface that is not recorded: `s1` its name.
    Unseen,
    /// Loss of records: `a` their number.
    Lost,
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Operation that the record is about.
    pub op: Op,
    /// Number of [`Info`] that follow, at most 2.
    pub infos: u16,
    /// Length of the first string in bytes.
    pub s1: u16,
    /// Length of the second string in bytes.
    pub s2: u16,
    /// Descriptor of the call, or `AT_FDCWD`; -1 if it has none.
    pub fd: i32,
    /// Second descriptor of the call; -1 if it has none.
    pub fd2: i32,
    /// Flags of the call, as the system defines them.
    pub flags: u32,
    /// Number of calls of its thread that this call, made in a signal handler, interrupted. Their
    /// records follow, though they began earlier.
    pub within: u32,
    /// Start of the call, in ns of the system's monotonic clock.
    pub start: u64,
    /// End of the call, in ns of the same clock.
    pub end: u64,
    /// Result of the call, or the negative error number.
    pub result: i64,
    /// First word; its meaning depends on the [`Op`].
    pub a: u64,
    /// Second word; its meaning depends on the [`Op`].
    pub b: u64,
    /// Third word; its meaning depends on the [`Op`].
    pub c: u64,
}

/// Attributes of a file, the part of `stat` that the conversion needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// File type and permissions, as `st_mode`.
    pub mode: u32,
    /// Number of names (hard links).
    pub links: u32,
    /// Size of the file in bytes.
    pub size: u64,
    /// Inode number within the device.
    pub inode: u64,
    /// Device number of its file system.
    pub device: u64,
}

impl Info {
    /// Encoded size of an info in bytes.
    pub const SIZE: usize = 32;

    /// Encodes the info for a record.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let mut out = Writer::new();
        out.put(&self.mode.to_ne_bytes());
        out.put(&self.links.to_ne_bytes());
        out.put(&self.size.to_ne_bytes());
        out.put(&self.inode.to_ne_bytes());
        out.put(&self.device.to_ne_bytes());
        out.bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            mode: u32_at(bytes, 0)?,
            links: u32_at(bytes, 4)?,
            size: u64_at(bytes, 8)?,
            inode: u64_at(bytes, 16)?,
            device: u64_at(bytes, 24)?,
        })
    }
}

impl Head {
    /// Encoded size of a head in bytes.
    pub const SIZE: usize = 80;

    /// A head for `op`; all other fields are empty, and both descriptors -1.
    #[must_use]
    pub const fn new(op: Op) -> Self {
        Self {
            op,
            infos: 0,
            s1: 0,
            s2: 0,
            fd: -1,
            fd2: -1,
            flags: 0,
            within: 0,
            start: 0,
            end: 0,
            result: 0,
            a: 0,
            b: 0,
            c: 0,
        }
    }

    /// A head for `op` on the descriptor `fd`.
    #[must_use]
    pub const fn on(op: Op, fd: i32) -> Self {
        let mut head = Self::new(op);
        head.fd = fd;
        head
    }

    /// Sets the words `a`, `b` and `c`.
    #[must_use]
    pub const fn words(mut self, a: u64, b: u64, c: u64) -> Self {
        (self.a, self.b, self.c) = (a, b, c);
        self
    }

    /// Sets the flags of the call.
    #[must_use]
    pub const fn flags(mut self, flags: i32) -> Self {
        self.flags = flags as u32;
        self
    }

    /// Sets the second descriptor, `fd2`.
    #[must_use]
    pub const fn and(mut self, fd: i32) -> Self {
        self.fd2 = fd;
        self
    }

    /// Size of the whole record in bytes, padding included.
    #[must_use]
    pub const fn size(&self) -> usize {
        let infos = self.infos as usize * Info::SIZE;
        (Self::SIZE + infos + self.s1 as usize + self.s2 as usize).next_multiple_of(8)
    }

    /// Encodes the head with the operation `op`, which is [`Op::Nothing`] until the rest of the
    /// record is written.
    #[must_use]
    pub fn bytes(&self, op: Op) -> [u8; Self::SIZE] {
        let mut out = Writer::new();
        out.put(&(self.size() as u32).to_ne_bytes());
        out.put(&(op as u16).to_ne_bytes());
        out.put(&self.infos.to_ne_bytes());
        out.put(&self.s1.to_ne_bytes());
        out.put(&self.s2.to_ne_bytes());
        out.put(&self.fd.to_ne_bytes());
        out.put(&self.fd2.to_ne_bytes());
        out.put(&self.flags.to_ne_bytes());
        out.put(&self.within.to_ne_bytes());
        out.put(&[0; 4]);
        out.put(&self.start.to_ne_bytes());
        out.put(&self.end.to_ne_bytes());
        out.put(&self.result.to_ne_bytes());
        out.put(&self.a.to_ne_bytes());
        out.put(&self.b.to_ne_bytes());
        out.put(&self.c.to_ne_bytes());
        out.bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            op: Op::of(u16_at(bytes, 4)?).unwrap_or(Op::Nothing),
            infos: u16_at(bytes, 6)?,
            s1: u16_at(bytes, 8)?,
            s2: u16_at(bytes, 10)?,
            fd: u32_at(bytes, 12)? as i32,
            fd2: u32_at(bytes, 16)? as i32,
            flags: u32_at(bytes, 20)?,
            within: u32_at(bytes, 24)?,
            start: u64_at(bytes, 32)?,
            end: u64_at(bytes, 40)?,
            result: u64_at(bytes, 48)? as i64,
            a: u64_at(bytes, 56)?,
            b: u64_at(bytes, 64)?,
            c: u64_at(bytes, 72)?,
        })
    }
}

/// Byte offset of the operation in a record.
pub const OP_OFFSET: usize = 4;

/// Header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Process ID of the writer.
    pub pid: u32,
    /// Thread ID of the writer.
    pub tid: u32,
    /// Image number of the process: when it started or forked, in ns, which tells images apart.
    pub image: u64,
    /// Index among the chunks of the process; orders the chunks of a thread.
    pub index: u32,
}

impl Chunk {
    /// Encoded size of a chunk's header in bytes.
    pub const SIZE: usize = 32;

    /// Encodes the header of a chunk.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let mut out = Writer::new();
        out.put(&MAGIC);
        out.put(&self.pid.to_ne_bytes());
        out.put(&self.tid.to_ne_bytes());
        out.put(&self.image.to_ne_bytes());
        out.put(&self.index.to_ne_bytes());
        out.bytes
    }

    /// Decodes the header; `None` if `bytes` do not start a chunk.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        (bytes.get(..8)? == MAGIC).then_some(())?;
        Some(Self {
            pid: u32_at(bytes, 8)?,
            tid: u32_at(bytes, 12)?,
            image: u64_at(bytes, 16)?,
            index: u32_at(bytes, 24)?,
        })
    }
}

/// A record in the bytes of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The fixed part of the record.
    pub head: Head,
    /// Attributes of up to two files.
    pub infos: [Option<Info>; 2],
    /// First string, mostly a path.
    pub s1: &'a [u8],
    /// Second string; its meaning depends on the [`Op`].
    pub s2: &'a [u8],
}

impl<'a> Record<'a> {
    /// Decodes the record at the start of `bytes` and returns its size, too; `None` at the end of
    /// the chunk.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let size = u32_at(bytes, 0)? as usize;
        let bytes = bytes.get(..size)?;
        let head = Head::read(bytes)?;
        let mut at = Head::SIZE;
        let mut infos = [None; 2];
        for info in infos.iter_mut().take(head.infos.into()) {
            *info = Some(Info::read(bytes.get(at..)?)?);
            at += Info::SIZE;
        }
        let s1 = bytes.get(at..at + usize::from(head.s1))?;
        let at = at + s1.len();
        let s2 = bytes.get(at..at + usize::from(head.s2))?;
        let record = Self {
            head,
            infos,
            s1,
            s2,
        };
        Some((record, size))
    }
}

struct Writer<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Writer<N> {
    #[inline]
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            at: 0,
        }
    }

    #[inline]
    fn put(&mut self, part: &[u8]) {
        self.bytes[self.at..self.at + part.len()].copy_from_slice(part);
        self.at += part.len();
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let part = bytes.get(at..at + 2)?;
    part.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let part = bytes.get(at..at + 4)?;
    part.try_into().ok().map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at + 8)?;
    part.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_back_as_written() {
        let mut head = Head::on(Op::Rename, -100)
            .words(1, 2, u64::MAX)
            .flags(-1)
            .and(7);
        (head.infos, head.s1, head.s2) = (1, 3, 2);
        (head.start, head.end, head.result) = (10, 20, -2);
        head.within = 3;
        let info = Info {
            mode: 0o100_644,
            links: 1,
            size: 9,
            inode: 8,
            device: 7,
        };
        let mut bytes = head.bytes(head.op).to_vec();
        bytes.extend(info.bytes());
        bytes.extend(b"abcde");
        bytes.resize(head.size(), 0);
        let (record, size) = Record::read(&bytes).unwrap();
        assert_eq!((record.head, size), (head, bytes.len()));
        assert_eq!((record.s1, record.s2), (&b"abc"[..], &b"de"[..]));
        assert_eq!(record.infos, [Some(info), None]);
        for end in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..end]), None);
        }
    }

    #[test]
    fn operation_numbers_end_at_the_last_one() {
        assert_eq!(Op::of(0), Some(Op::Nothing));
        assert_eq!(Op::of(Op::Lost as u16), Some(Op::Lost));
        assert_eq!(Op::of(Op::Lost as u16 + 1), None);
    }

    #[test]
    fn chunk_is_recognized_by_its_magic() {
        let chunk = Chunk {
            pid: 1,
            tid: 2,
            image: 3,
            index: 4,
        };
        assert_eq!(Chunk::read(&chunk.bytes()), Some(chunk));
        assert_eq!(Chunk::read(b"flspool2"), None);
    }
}
