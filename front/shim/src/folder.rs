//! Folders of one run, and what becomes of them if it is killed.
//!
//! Invariants: a folder is removed when its owner goes, or by a later run if the owner was killed;
//! never while its owner is there, which holds a lock of it, nor while a program has a file of it
//! mapped, as one does that outlives its owner with a library from there.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

/// How the names of all begin.
const PREFIX: &str = "flashloom-record-";

/// Younger ones may not have their lock yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder that any user may write to: a program may run as another one, and its files are its
/// own.
pub(crate) struct Folder {
    dir: TempDir,
    /// Held as long as the folder is used.
    _lock: File,
}

impl Folder {
    /// Makes one in `place`, after it has taken away what killed runs left there.
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn new(place: &Path) -> io::Result<Self> {
        sweep(place, YOUNG);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        let lock = File::open(dir.path())?;
        lock.lock()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777))?;
        Ok(Self { dir, _lock: lock })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Takes away folders that nobody uses and that are no younger than so. What cannot be removed,
/// as that of another user, stays.
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

/// Whether a process that can be looked at has a file of a folder mapped.
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
