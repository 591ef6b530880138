//! Creates the tree of files that a workload expects before its first call.

use crate::data::{Data, pattern};
use crate::{Failure, Place, translate};
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::{self, Errno, Result};
use workload::files::{Entry, EntryKind, Names, Setup};

/// Permissions that the owner needs to create entries in a directory.
const OWNER: Mode = Mode::RWXU;

/// Creates the tree of `setup` beneath `place` and syncs it.
///
/// # Errors
/// [`Failure::Setup`] names the first entry that cannot be created, and the system's error.
pub fn prepare(place: &Place, setup: &Setup, names: &Names) -> std::result::Result<(), Failure> {
    let failed = |entry: &Entry, error: Errno| {
        let path = String::from_utf8_lossy(names.bytes(entry.path)).into_owned();
        Failure::Setup { path, error }
    };
    let mut data = Data::default();
    for entry in &setup.entries {
        make(place, entry, names, &mut data).map_err(|error| failed(entry, error))?;
    }
    // Entries before their directory, whose final permissions may forbid access to them.
    for entry in setup.entries.iter().rev() {
        permit(place, entry, names).map_err(|error| failed(entry, error))?;
    }
    place.sync()
}

fn make(place: &Place, entry: &Entry, names: &Names, data: &mut Data) -> Result<()> {
    let path = names.bytes(entry.path);
    let (parent, name) = place.parent(path)?;
    let mode = translate::mode(entry.mode);
    match entry.kind {
        EntryKind::Directory => fs::mkdirat(parent, name, mode | OWNER),
        EntryKind::File { size } => file(place, path, mode, (entry.path.0, size), data),
        EntryKind::Symlink { target } => fs::symlinkat(names.bytes(target), parent, name),
        EntryKind::Link { to } => {
            let (from, old) = place.parent(names.bytes(to))?;
            fs::linkat(from, old, parent, name, AtFlags::empty())
        }
        EntryKind::Node(kind) => fs::mknodat(parent, name, translate::node(kind), mode, 0),
    }
}

fn file(place: &Place, path: &[u8], mode: Mode, of: (u32, u64), data: &mut Data) -> Result<()> {
    let (number, size) = of;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let fd = place.open(path, flags, mode)?;
    let mut written = 0;
    while written < size {
        let bytes = data.filled(pattern(number, written, 0), size - written);
        written += io::write(&fd, bytes)? as u64;
    }
    Ok(())
}

/// Gives a directory or file its final permissions, which may differ because of the umask, or
/// because of [`OWNER`] while the tree was created.
fn permit(place: &Place, entry: &Entry, names: &Names) -> Result<()> {
    if !matches!(entry.kind, EntryKind::Directory | EntryKind::File { .. }) {
        return Ok(());
    }
    let (parent, name) = place.parent(names.bytes(entry.path))?;
    let mode = translate::mode(entry.mode);
    let stat = fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match Mode::from_raw_mode(stat.st_mode) == mode {
        true => Ok(()),
        false => fs::chmodat(parent, name, mode, AtFlags::empty()),
    }
}
