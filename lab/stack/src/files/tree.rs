//! Creation of the tree that must exist before the first call.

use super::origins::Origins;
use super::slots::tag;
use super::words;
use crate::error::StackError;
use units::Origin;
use vfs::{Access, Body, Errno, OpenFlags, Process, Result, Source, Vfs};
use workload::files::{Entry, EntryKind, Name, Names, Setup};

/// Bytes of one write while files are filled.
const CHUNK: u64 = 1 << 20;

/// Makes the tree `setup`, durable and dropped from the cache; its files have patterns of version
/// 0, and origins from `origins`.
///
/// # Errors
/// With the first entry that cannot be made.
pub async fn make_tree<B: Body>(
    vfs: &Vfs<B>,
    setup: &Setup,
    names: &Names,
    origins: &mut Origins,
) -> std::result::Result<(), StackError> {
    let process = Process::new(vfs, Access::default());
    process.umask(0);
    for entry in &setup.entries {
        let refused = |errno| refused(vfs, names.bytes(entry.path), errno);
        make(&process, entry, names, origins)
            .await
            .map_err(refused)?;
    }
    let settle = async {
        vfs.sync().await?;
        vfs.drop_caches().await
    };
    settle.await.map_err(|errno| refused(vfs, b"", errno))
}

fn refused<B: Body>(vfs: &Vfs<B>, path: &[u8], errno: Errno) -> StackError {
    let refusals = vfs.body().refusals();
    let why = refusals.last().filter(|_| errno == Errno::ENOSPC);
    StackError::Tree {
        path: String::from_utf8_lossy(path).into_owned(),
        problem: why.map_or(errno.to_string(), |why| format!("{errno}; {why}")),
    }
}

async fn make<B: Body>(
    process: &Process<B>,
    entry: &Entry,
    names: &Names,
    origins: &mut Origins,
) -> Result<()> {
    let (path, mode) = (names.bytes(entry.path), entry.mode.0);
    match entry.kind {
        EntryKind::Directory => match process.mkdir(path, mode).await {
            // Some directories always exist, such as those of zonefs.
            Err(Errno::EEXIST) => Ok(()),
            made => made,
        },
        EntryKind::File { size } => {
            let origin = origins.of(entry.path, path);
            make_file(process, entry, path, size, origin).await
        }
        EntryKind::Symlink { target } => process.symlink(names.bytes(target), path).await,
        EntryKind::Link { to } => process.link(names.bytes(to), path).await,
        EntryKind::Node(kind) => process.mknod(path, words::kind(kind), mode, 0).await,
    }
}

async fn make_file<B: Body>(
    process: &Process<B>,
    entry: &Entry,
    path: &[u8],
    size: u64,
    origin: Origin,
) -> Result<()> {
    let fd = process.open(path, OpenFlags::CREAT, entry.mode.0).await?;
    process.vfs().set_origin(process.ino(fd)?, origin).await?;
    let filled = fill(process, fd, entry.path, size).await;
    process.close(fd).await?;
    filled
}

async fn fill<B: Body>(process: &Process<B>, fd: vfs::Fd, file: Name, size: u64) -> Result<()> {
    let mut at = 0;
    while at < size {
        let source = Source::Fill {
            pattern: tag(file, 0, 0),
            len: CHUNK.min(size - at),
        };
        at += process.write(fd, source).await?;
    }
    Ok(())
}
