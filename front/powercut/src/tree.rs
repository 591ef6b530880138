//! Recovered trees as ordinary files.
//!
//! Invariants: contents, holes, names, hard links, permissions and owners are those of the recovered
//! tree. Devices and sockets are left out, and times are those of the copy. Attributes of the user
//! are copied where the file system below the copy has room for them.

use crash::{Seen, Shown};
use nand::Payload;
use rustix::fs::{FileType, Mode, XattrFlags, mknodat, setxattr};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use vfs::{FileKind, Ino, PAGE};

/// Names of a tree by directory.
type Names<'a> = BTreeMap<Ino, Vec<(&'a [u8], &'a Seen)>>;

/// Writes the tree below the directory `root` of `shown` into the empty directory `dir`.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(shown: &Shown, root: Ino, dir: &Path) -> io::Result<()> {
    let mut names = Names::new();
    for (dir, name, seen) in shown.iter() {
        names.entry(dir).or_default().push((name, seen));
    }
    let mut linked = BTreeMap::new();
    write_dir(&names, root, dir, &mut linked)
}

fn write_dir(
    names: &Names<'_>,
    number: Ino,
    dir: &Path,
    linked: &mut BTreeMap<Ino, PathBuf>,
) -> io::Result<()> {
    for (name, seen) in names.get(&number).into_iter().flatten() {
        let path = dir.join(OsStr::from_bytes(name));
        match seen.kind {
            FileKind::Directory => {
                fs::create_dir(&path)?;
                write_dir(names, seen.ino, &path, linked)?;
            }
            FileKind::Symlink => symlink(OsStr::from_bytes(&seen.target), &path)?,
            FileKind::Regular | FileKind::Fifo => {
                if let Some(first) = linked.get(&seen.ino) {
                    fs::hard_link(first, &path)?;
                    continue;
                }
                match seen.kind {
                    FileKind::Regular => write_file(seen, &path)?,
                    _ => mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::empty(), 0)?,
                }
                linked.insert(seen.ino, path.clone());
            }
            _ => continue,
        }
        set_attributes(seen, &path)?;
    }
    Ok(())
}

fn write_file(seen: &Seen, path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(seen.size)?;
    for (index, page) in (0..).zip(&seen.pages) {
        if matches!(page, Payload::Zero) {
            continue;
        }
        let at = index * PAGE;
        let len = PAGE.min(seen.size.saturating_sub(at)) as usize;
        file.write_all_at(&page.to_bytes()[..len], at)?;
    }
    Ok(())
}

/// Sets owner, permissions and the user's attributes, in the order in which the system keeps them.
fn set_attributes(seen: &Seen, path: &Path) -> io::Result<()> {
    let own = &seen.attributes;
    let has = fs::symlink_metadata(path)?;
    if (has.uid(), has.gid()) != (own.uid, own.gid) {
        lchown(path, Some(own.uid), Some(own.gid))?;
    }
    if seen.kind == FileKind::Symlink {
        return Ok(());
    }
    for (name, value) in &own.extended {
        if !name.starts_with(b"user.") {
            continue;
        }
        let name = OsStr::from_bytes(name);
        match setxattr(path, name, value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    fs::set_permissions(path, Permissions::from_mode(own.mode.into()))
}

/// Removes the directory `dir` with all that is in it, also where its owner may not look.
///
/// # Errors
/// If something cannot be removed.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    if fs::remove_dir_all(dir).is_ok() {
        return Ok(());
    }
    open_up(dir)?;
    fs::remove_dir_all(dir)
}

/// Gives the owner all permissions on the directories of a tree.
fn open_up(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_up(&entry.path())?;
        }
    }
    Ok(())
}
