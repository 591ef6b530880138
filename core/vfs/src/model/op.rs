//! Calls of programs as values, for the model, for processes, and for generators of sequences.

use crate::body::Body;
use crate::errno::Result;
use crate::flags::{OpenFlags, Source};
use crate::process::{Fd, Process};
use crate::rename::RenameFlags;
use crate::types::{Attr, FallocateMode, FileKind, XattrFlags};

/// One call. Paths are absolute; descriptors belong to the calling process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the calls and their arguments")]
pub enum Op {
    Open {
        path: Vec<u8>,
        flags: OpenFlags,
    },
    Close {
        fd: u32,
    },
    Read {
        fd: u32,
        offset: u64,
        len: u64,
    },
    /// Writes the byte `byte` `len` times, at `offset` or, with `APPEND`, at the end.
    Write {
        fd: u32,
        offset: u64,
        byte: u8,
        len: u64,
    },
    Ftruncate {
        fd: u32,
        size: u64,
    },
    Fallocate {
        fd: u32,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    },
    Fsync {
        fd: u32,
        data_only: bool,
    },
    Sync,
    Truncate {
        path: Vec<u8>,
        size: u64,
    },
    Mkdir {
        path: Vec<u8>,
    },
    Rmdir {
        path: Vec<u8>,
    },
    Unlink {
        path: Vec<u8>,
    },
    Rename {
        from: Vec<u8>,
        to: Vec<u8>,
        flags: RenameFlags,
    },
    Link {
        path: Vec<u8>,
        new: Vec<u8>,
    },
    Symlink {
        target: Vec<u8>,
        path: Vec<u8>,
    },
    Readlink {
        path: Vec<u8>,
    },
    Stat {
        path: Vec<u8>,
    },
    ReadDir {
        path: Vec<u8>,
    },
    Chmod {
        path: Vec<u8>,
        mode: u16,
    },
    SetXattr {
        path: Vec<u8>,
        name: Vec<u8>,
        value: Vec<u8>,
        flags: XattrFlags,
    },
    GetXattr {
        path: Vec<u8>,
        name: Vec<u8>,
    },
    RemoveXattr {
        path: Vec<u8>,
        name: Vec<u8>,
    },
}

/// Result of a successful call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The call returns no value.
    Done,
    /// A new descriptor of the process.
    Fd(u32),
    /// Number of bytes written.
    Count(u64),
    /// Bytes that were read.
    Bytes(Vec<u8>),
    /// Names in a directory in order, without `.` and `..`.
    Names(Vec<Vec<u8>>),
    /// Attributes that file systems agree on; the size of a directory is none.
    Stat {
        /// Type of the file.
        kind: FileKind,
        /// Permission bits and set-id and sticky bits.
        mode: u16,
        /// Number of hard links.
        nlink: u32,
        /// Size in bytes, 0 for a directory.
        size: u64,
    },
}

impl Value {
    fn stat(attr: &Attr) -> Self {
        let is_dir = attr.kind == FileKind::Directory;
        Self::Stat {
            kind: attr.kind,
            mode: attr.mode,
            nlink: attr.nlink,
            size: if is_dir { 0 } else { attr.size },
        }
    }
}

/// Performs `op` as `process`.
///
/// # Errors
/// The error of the call.
pub async fn perform<B: Body>(process: &Process<B>, op: &Op) -> Result<Value> {
    match op {
        Op::Open { path, flags } => {
            let fd = process.open(path, *flags, 0o644).await?;
            return Ok(Value::Fd(fd.0));
        }
        Op::Read { fd, offset, len } => {
            let bytes = process.read_bytes(Fd(*fd), *offset, *len as usize);
            return bytes.await.map(Value::Bytes);
        }
        Op::Write {
            fd,
            offset,
            byte,
            len,
        } => {
            let count = write(process, Fd(*fd), *offset, *byte, *len);
            return count.await.map(Value::Count);
        }
        Op::Readlink { path } => return process.readlink(path).await.map(Value::Bytes),
        Op::Stat { path } => return Ok(Value::stat(&process.lstat(path).await?)),
        Op::ReadDir { path } => return list(process, path).await.map(Value::Names),
        Op::GetXattr { path, name } => {
            return process.get_xattr(path, name).await.map(Value::Bytes);
        }
        _ => change(process, op).await?,
    }
    Ok(Value::Done)
}

/// Performs a call without a result.
async fn change<B: Body>(process: &Process<B>, op: &Op) -> Result<()> {
    match op {
        Op::Close { fd } => process.close(Fd(*fd)).await,
        Op::Ftruncate { fd, size } => process.ftruncate(Fd(*fd), *size).await,
        Op::Fallocate {
            fd,
            mode,
            offset,
            len,
        } => process.fallocate(Fd(*fd), *mode, *offset, *len).await,
        Op::Fsync {
            fd,
            data_only: true,
        } => process.fdatasync(Fd(*fd)).await,
        Op::Fsync { fd, .. } => process.fsync(Fd(*fd)).await,
        Op::Sync => process.sync().await,
        Op::Truncate { path, size } => process.truncate(path, *size).await,
        Op::Mkdir { path } => process.mkdir(path, 0o755).await,
        Op::Rmdir { path } => process.rmdir(path).await,
        Op::Unlink { path } => process.unlink(path).await,
        Op::Rename { from, to, flags } => process.rename(from, to, *flags).await,
        Op::Link { path, new } => process.link(path, new).await,
        Op::Symlink { target, path } => process.symlink(target, path).await,
        Op::Chmod { path, mode } => process.chmod(path, *mode).await,
        Op::SetXattr {
            path,
            name,
            value,
            flags,
        } => process.set_xattr(path, name, value, *flags).await,
        Op::RemoveXattr { path, name } => process.remove_xattr(path, name).await,
        _ => unreachable!("calls that give something are performed above"),
    }
}

async fn write<B: Body>(
    process: &Process<B>,
    fd: Fd,
    offset: u64,
    byte: u8,
    len: u64,
) -> Result<u64> {
    // Uses both kinds of sources, by the parity of the byte.
    if byte.is_multiple_of(2) {
        let pattern = u64::from_le_bytes([byte; 8]);
        return process
            .pwrite(fd, offset, Source::Fill { pattern, len })
            .await;
    }
    let bytes = vec![byte; len as usize];
    process.pwrite(fd, offset, Source::Bytes(&bytes)).await
}

/// All names in a directory, in order.
pub(crate) async fn list<B: Body>(process: &Process<B>, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let fd = process.open(path, flags, 0).await?;
    let mut names = Vec::new();
    let outcome = loop {
        match process.read_dir(fd, 7).await {
            Ok(entries) if entries.is_empty() => break Ok(()),
            Ok(entries) => names.extend(entries.into_iter().map(|entry| entry.name)),
            Err(errno) => break Err(errno),
        }
    };
    process.close(fd).await?;
    outcome?;
    names.retain(|name| name != b"." && name != b"..");
    names.sort();
    Ok(names)
}
