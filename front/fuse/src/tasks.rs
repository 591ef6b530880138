//! Requests that take several calls of the file API.

use crate::translate::{attr, kind};
use crate::volume::Volume;
use fuser::{FileAttr, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use vfs::{
    Access, Attr, Body, DirEntry, Errno, FileKind, Ino, OpenFlags, Result, SetAttr, Source, Vfs,
};

/// Time for which the kernel may cache names and attributes.
const SHORT: Duration = Duration::from_secs(1);

/// Set-user-id bit and set-group-id bit.
const SET_ID: u16 = 0o6_000;

/// Time for which the kernel may cache these attributes: none if a direct write would clear set-id
/// bits, as the kernel does not ask for the mode after one.
pub(crate) const fn trust(attr: &Attr) -> Duration {
    let regular = matches!(attr.kind, FileKind::Regular);
    if regular && attr.mode & SET_ID != 0 {
        return Duration::ZERO;
    }
    SHORT
}

/// Number of directory entries that are read at a time.
const ENTRIES: usize = 64;

/// Translates inode numbers: for the kernel, the root directory is always 1.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) root: Ino,
}

impl Numbers {
    pub(crate) fn ino(self, number: INodeNo) -> Ino {
        match number {
            INodeNo::ROOT => self.root,
            INodeNo(number) => Ino(number),
        }
    }

    fn number(self, ino: Ino) -> INodeNo {
        if ino == self.root {
            return INodeNo::ROOT;
        }
        INodeNo(ino.0)
    }

    /// Attributes and generation of an inode, as replied to the kernel.
    pub(crate) fn entry(self, ino: Ino, found: &Attr) -> (FileAttr, Generation) {
        let told = attr(self.number(ino), found);
        (told, Generation(found.generation.into()))
    }
}

/// Looks a name up. The kernel looks up `.` and `..` of inodes that it has dropped, also of files,
/// when a program opens one by its file handle.
pub(crate) async fn find<B: Body>(vfs: &Vfs<B>, ino: Ino, name: &[u8]) -> Result<(Ino, Attr)> {
    match name {
        b"." => vfs.refer(ino).await,
        _ => vfs.lookup(&Access::root(), ino, name).await,
    }
}

/// Sets attributes; the size is set through the open file if there is one.
pub(crate) async fn change<B: Body>(
    volume: &Volume<B>,
    ino: Ino,
    handle: Option<u64>,
    set: SetAttr,
) -> Result<Attr> {
    let (vfs, root) = (volume.vfs(), Access::root());
    let (Some(handle), Some(size)) = (handle, set.size) else {
        return vfs.setattr(&root, ino, set).await;
    };
    vfs.truncate(&volume.handle(handle)?, size).await?;
    let rest = SetAttr { size: None, ..set };
    vfs.setattr(&root, ino, rest).await
}

/// A write request of the kernel.
pub(crate) struct Write {
    pub(crate) ino: Ino,
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Whether these are pages of a mapped file, which may arrive through any of its open files.
    pub(crate) mapped: bool,
    /// Whether the file must lose its set-id bits.
    pub(crate) strip: bool,
    /// Flags of the open file at this time.
    pub(crate) flags: OpenFlags,
}

/// Writes, and syncs the write if the file is open with `O_SYNC` or `O_DSYNC`.
pub(crate) async fn write<B: Body>(volume: &Volume<B>, what: Write) -> Result<u64> {
    let source = Source::Bytes(&what.bytes);
    if what.strip {
        volume.vfs().drop_privileges(what.ino).await?;
    }
    if what.mapped {
        let (vfs, root) = (volume.vfs(), Access::root());
        let handle = vfs.open(&root, what.ino, OpenFlags::WRITE).await?;
        let written = vfs.write(&handle, what.offset, source).await;
        vfs.release(handle).await;
        return written;
    }
    let handle = volume.handle(what.handle)?;
    let written = volume.vfs().write(&handle, what.offset, source).await?;
    if what.flags.has(OpenFlags::DATA_SYNC) {
        let data_only = !what.flags.has(OpenFlags::SYNC);
        volume.force(what.handle, data_only).await?;
    }
    Ok(written)
}

/// Adds the entries of a directory behind `cookie` to a reply, as many as fit.
pub(crate) async fn add_entries<B: Body>(
    volume: &Volume<B>,
    numbers: Numbers,
    handle: u64,
    mut cookie: u64,
    reply: &mut ReplyDirectory,
) -> Result<()> {
    let handle = volume.handle(handle)?;
    loop {
        let entries = volume.vfs().read_dir(&handle, cookie, ENTRIES).await?;
        let Some(last) = entries.last() else {
            return Ok(());
        };
        cookie = last.cookie;
        for entry in &entries {
            let (ino, name) = (numbers.number(entry.ino), OsStr::from_bytes(&entry.name));
            if reply.add(ino, entry.cookie, kind(entry.kind), name) {
                return Ok(());
            }
        }
    }
}

/// Adds entries with their attributes to a reply. The kernel takes a reference to the inode of each
/// entry that fits, except `.` and `..`.
pub(crate) async fn add_whole_entries<B: Body>(
    volume: &Volume<B>,
    numbers: Numbers,
    handle: u64,
    mut cookie: u64,
    reply: &mut ReplyDirectoryPlus,
) -> Result<()> {
    let handle = volume.handle(handle)?;
    loop {
        let entries = volume.vfs().read_dir(&handle, cookie, ENTRIES).await?;
        let Some(last) = entries.last() else {
            return Ok(());
        };
        cookie = last.cookie;
        for entry in &entries {
            let found = look(volume, handle.ino(), entry).await;
            let (ino, attr) = match found {
                Ok(found) => found,
                // The entry was removed after it was listed.
                Err(Errno::ENOENT) => continue,
                Err(error) => return Err(error),
            };
            let (told, generation) = numbers.entry(ino, &attr);
            let name = OsStr::from_bytes(&entry.name);
            if reply.add(
                told.ino,
                entry.cookie,
                name,
                &trust(&attr),
                &told,
                generation,
            ) {
                if !is_dots(entry) {
                    volume.vfs().forget(ino, 1).await;
                }
                return Ok(());
            }
        }
    }
}

fn is_dots(entry: &DirEntry) -> bool {
    matches!(&entry.name[..], b"." | b"..")
}

async fn look<B: Body>(volume: &Volume<B>, dir: Ino, entry: &DirEntry) -> Result<(Ino, Attr)> {
    let vfs = volume.vfs();
    if is_dots(entry) {
        return Ok((entry.ino, vfs.getattr(entry.ino).await?));
    }
    vfs.lookup(&Access::root(), dir, &entry.name).await
}
