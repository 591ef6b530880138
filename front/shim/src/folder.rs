//! Temporary folders of one run, and their removal after the run was killed.
//!
//! Invariants: a folder is removed with its owner, or by a later run if the owner was killed. It is
//! never removed while its owner lives, which holds the folder's lock, nor while a program has a
//! file in it mapped, like one that outlives its owner with a library loaded from there.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// Prefix of the names of all these folders.
const PREFIX: &str = "flashloom-record-";

/// Minimum age of a folder that is swept: a younger one may not be locked yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that every user may write to: a program may run as another user, and its files are its
/// own.
pub(crate) struct Folder {
    dir: TempDir,
    /// The folder's lock, held until the folder is dropped.
    _lock: File,
}

impl Folder {
    /// Makes a folder in `place`, after removing folders that killed runs left there.
    ///
    /// # Errors
    /// The system's error if the folder cannot be made or locked.
    pub(crate) fn new(place: &Path) -> io::Result<Self> {
        sweep(place, YOUNG);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let lock = File::open(dir.path())?;
        lock.lock()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Path of the folder.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Removes folders that are unused and at least `young` old. A folder that cannot be removed, such
/// as another user's, stays.
fn sweep(place: &Path, young: Duration) {
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) && is_left(&path, young) {
            let _ = fs::remove_dir_all(path);
        }
    }
}

fn is_left(path: &Path, young: Duration) -> bool {
    let is_old = || {
        let about = fs::symlink_metadata(path)
            .ok()
            .filter(fs::Metadata::is_dir)?;
        Some(about.modified().ok()?.elapsed().ok()? >= young)
    };
    let is_free = || File::open(path).is_ok_and(|folder| folder.try_lock().is_ok());
    is_old() == Some(true) && is_free() && !is_mapped(path)
}

/// Whether a process whose `/proc/PID/maps` can be read has a file in `folder` mapped.
fn is_mapped(folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut maps = processes.filter_map(|process| fs::read(process.path().join("maps")).ok());
    maps.any(|maps| maps.windows(folder.len()).any(|part| part == folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_of_a_killed_run_is_removed_and_no_other_one() {
        let place = TempDir::new().unwrap();
        let at = |name: &str| place.path().join(format!("{PREFIX}{name}"));
        for name in ["killed", "mapped"] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), "a page").unwrap();
        }
        fs::create_dir(place.path().join("other")).unwrap();
        let used = Folder::new(place.path()).unwrap();
        assert!(at("killed").exists(), "it is too young");
        let file = File::open(at("mapped").join("file")).unwrap();
        let how = (libc::PROT_READ, libc::MAP_PRIVATE);
        let map = crate::sys::map(0, 6, how, (std::os::fd::AsRawFd::as_raw_fd(&file), 0)).unwrap();
        sweep(place.path(), Duration::ZERO);
        assert!(!at("killed").exists() && at("mapped").exists());
        assert!(used.path().exists() && place.path().join("other").exists());
        crate::sys::unmap(map, 6);
        drop(used);
        sweep(place.path(), Duration::ZERO);
        let left: Vec<_> = fs::read_dir(place.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
    }
}
