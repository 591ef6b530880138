//! Use of a file system on a medium with arbitrary contents.
//!
//! Invariant: an error ends one call only, and at most [`NAMES`] names are followed, however many
//! the medium seems to have; so every reachable structure is visited, and the walk ends.

use crate::body::Body;
use crate::flags::{OpenFlags, Source};
use crate::process::{Process, Whence};
use crate::rename::RenameFlags;
use crate::types::{FileKind, XattrFlags};

/// Most names that a walk visits.
const NAMES: usize = 600;
/// Most files that are changed.
const CHANGED: usize = 12;
/// Bytes read at each of a few offsets of a file.
const LEN: usize = 20_000;

/// Visits all names, reads a part of each file, and changes, moves and removes some files.
pub async fn endure<B: Body>(process: &Process<B>) {
    let files = look(process).await;
    for (number, path) in (0..).zip(files.iter().take(CHANGED)) {
        change(process, path, number).await;
    }
    let flags = OpenFlags::BOTH | OpenFlags::CREATE;
    if let Ok(fd) = process.open(b"/new", flags, 0o600).await {
        let (pattern, len) = (7, 30_000);
        let _ = process
            .pwrite(fd, 5_000_000, Source::Fill { pattern, len })
            .await;
        let _ = process.fsync(fd).await;
        let _ = process.close(fd).await;
    }
    let _ = process.mkdir(b"/made", 0o700).await;
    for path in files.iter().rev().take(CHANGED) {
        let _ = process
            .rename(path, b"/made/moved", RenameFlags::default())
            .await;
        let _ = process.link(b"/made/moved", path).await;
    }
    let _ = process.rmdir(b"/made").await;
    let _ = process.sync().await;
}

/// Names in a directory, up to the first error.
async fn list<B: Body>(process: &Process<B>, path: &[u8]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let flags = OpenFlags::READ | OpenFlags::DIRECTORY;
    let Ok(fd) = process.open(path, flags, 0).await else {
        return names;
    };
    while let Ok(entries) = process.read_dir(fd, 64).await {
        if entries.is_empty() || names.len() > NAMES {
            break;
        }
        names.extend(entries.into_iter().map(|entry| entry.name));
    }
    let _ = process.close(fd).await;
    names.retain(|name| name != b"." && name != b"..");
    names
}

/// Paths of all files but directories, after a `stat` of each.
async fn look<B: Body>(process: &Process<B>) -> Vec<Vec<u8>> {
    let (mut files, mut dirs, mut met) = (Vec::new(), vec![b"/".to_vec()], 0);
    while let Some(dir) = dirs.pop() {
        for name in list(process, &dir).await {
            met += 1;
            if met > NAMES {
                return files;
            }
            let mut path = if dir == b"/" { Vec::new() } else { dir.clone() };
            path.push(b'/');
            path.extend(name);
            match process.lstat(&path).await.map(|attr| attr.kind) {
                Ok(FileKind::Directory) => dirs.push(path),
                Ok(kind) => {
                    read(process, &path, kind).await;
                    files.push(path);
                }
                Err(_) => {}
            }
        }
    }
    files
}

/// Reads a file at its start, at its first data and at its end.
async fn read<B: Body>(process: &Process<B>, path: &[u8], kind: FileKind) {
    for name in process.list_xattrs(path).await.unwrap_or_default() {
        let _ = process.get_xattr(path, &name).await;
    }
    if kind != FileKind::Regular {
        let _ = process.readlink(path).await;
        return;
    }
    let Ok(fd) = process.open(path, OpenFlags::READ, 0).await else {
        return;
    };
    let end = process.fstat(fd).await.map_or(0, |attr| attr.size);
    let data = process.lseek(fd, Whence::Data(LEN as u64)).await;
    for offset in [0, data.unwrap_or(0), end.saturating_sub(LEN as u64)] {
        let _ = process.read_bytes(fd, offset, LEN).await;
    }
    let _ = process.close(fd).await;
}

/// Writes to a file, truncates it, and removes some files.
async fn change<B: Body>(process: &Process<B>, path: &[u8], number: usize) {
    if let Ok(fd) = process.open(path, OpenFlags::BOTH, 0).await {
        let (pattern, len) = (1, 9_000);
        let offset = [0, 4_000, 9_000_000][number % 3];
        let _ = process
            .pwrite(fd, offset, Source::Fill { pattern, len })
            .await;
        let _ = process.fsync(fd).await;
        let _ = process.ftruncate(fd, [100, 8_000_000, 0][number % 3]).await;
        let any = XattrFlags::Any;
        let _ = process.set_xattr(path, b"user.b", &[2; 300], any).await;
        let _ = process.close(fd).await;
    }
    if number.is_multiple_of(2) {
        let _ = process.unlink(path).await;
    }
}
