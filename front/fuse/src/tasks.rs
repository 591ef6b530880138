//! Requests that take more than one call of the file API.

use crate::translate::{attr, kind};
use crate::volume::Volume;
use fuser::{FileAttr, Generation, INodeNo, ReplyDirectory, ReplyDirectoryPlus};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use vfs::{
    Access, Attr, Body, DirEntry, Errno, FileKind, Ino, OpenFlags, Result, SetAttr, Source, Vfs,
};

/// How long the kernel may believe what it was told.
const SHORT: Duration = Duration::from_secs(1);

/// Set-user-id bit and set-group-id bit.
const SET_ID: u16 = 0o6_000;

/// How long the kernel may believe these attributes: not at all if a direct write
/// would take set-id bits, as it does not ask for the mode after one.
pub(crate) const fn trust(attr: &Attr) -> Duration {
    let regular = matches!(attr.kind, FileKind::Regular);
    if regular && attr.mode & SET_ID != 0 {
        return Duration::ZERO;
    }
    SHORT
}

/// Entries of a directory that are asked for at a time.
const ENTRIES: usize = 64;

/// The kernel calls the root directory 1, whatever its number is.
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

    /// What the kernel is told of an inode.
    pub(crate) fn entry(self, ino: Ino, found: &Attr) -> (FileAttr, Generation) {
        let told = attr(self.number(ino), found);
        (told, Generation(found.generation.into()))
    }
}

/// Where a name leads. The kernel asks for `.` and `..` of what it has forgotten,
/// also of a file, when somebody comes with a handle for it.
pub(crate) async fn find<B: Body>(vfs: &Vfs<B>, ino: Ino, name: &[u8]) -> Result<(Ino, Attr)> {
    match name {
        b"." => vfs.refer(ino).await,
        _ => vfs.lookup(&Access::root(), ino, name).await,
    }
}

/// Sets attributes, the size through the open file if there is one.
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

/// A write as the kernel asks for it.
pub(crate) struct Write {
    pub(crate) ino: Ino,
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Whether these are pages of a mapped file: they come through any of its
    /// open files.
    pub(crate) mapped: bool,
    /// Whether the file loses its set-id bits.
    pub(crate) strip: bool,
    /// How the file is open at this instant.
    pub(crate) flags: OpenFlags,
}

/// Writes, and forces what was written if the file is open so.
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

/// Adds the entries of a directory after `cookie`, as many as fit.
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

/// Adds entries with what they lead to. The kernel refers to each that fits, but
/// for `.` and `..`.
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
                // Removed since it was listed.
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
