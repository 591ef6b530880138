//! Output files before they get their names.

use crate::{descriptor_path, is_at};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use std::fs::{DirEntry, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tempfile::{NamedTempFile, TempPath};

/// Prefix of the name of an unfinished file, where it has one.
const PREFIX: &str = ".flashloom-";
/// Number of random letters and digits after the prefix.
const RANDOM: usize = 6;

/// A file that takes the name of its target once it is finished. Dropped earlier, it is removed.
///
/// It has the permissions of any file of this process (mode 0666 without the umask), and is locked
/// exclusively until the last copy of its descriptor is closed.
#[derive(Debug)]
pub struct Unfinished {
    file: File,
    target: PathBuf,
    /// The temporary name, on a file system without unnamed files.
    named: Option<TempPath>,
}

impl Unfinished {
    /// An empty file that will be at `target`, which keeps its old contents until then. Removes the
    /// remains of killed processes in the same directory.
    ///
    /// # Errors
    /// If the directory is missing or cannot be written, or if the target exists and is not a
    /// regular file.
    pub fn new(target: &Path) -> io::Result<Self> {
        Self::with(target, unnamed)
    }

    fn with(target: &Path, unnamed: impl FnOnce(&Path) -> Option<File>) -> io::Result<Self> {
        let folder = folder(target);
        check(target, folder)?;
        sweep(folder);
        let (file, named) = match unnamed(folder) {
            Some(file) => (file, None),
            None => named(folder)?,
        };
        Ok(Self {
            file,
            target: target.to_owned(),
            named,
        })
    }

    /// The open file, for writing.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Renames the file to its target, replacing the old one, and returns it with its lock. Syncing
    /// its contents to disk is up to the caller.
    ///
    /// # Errors
    /// If the rename fails; the target keeps its contents then.
    pub fn finish(self) -> io::Result<File> {
        let named = match self.named {
            Some(named) => named,
            None => link(&self.file, folder(&self.target))?,
        };
        named.persist(&self.target).map_err(|e| e.error)?;
        Ok(self.file)
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Unfinished {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// The directory that contains `path`.
fn folder(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Rejects a target that a rename would not replace as a user expects.
fn check(target: &Path, folder: &Path) -> io::Result<()> {
    if !folder.is_dir() {
        let folder = folder.display();
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("expected a directory {folder}, found none"),
        ));
    }
    match std::fs::metadata(target) {
        Ok(found) if found.is_dir() => Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "expected a file, found a directory",
        )),
        // A rename would replace the device or pipe by a file.
        Ok(found) if !found.is_file() => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "expected a file, found a device or a pipe",
        )),
        _ => Ok(()),
    }
}

/// A locked file without a name, if `folder` supports such files and it can get a name later.
fn unnamed(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = File::from(open(folder, flags, Mode::from_raw_mode(0o666)).ok()?);
    let can_be_named = file.try_lock().is_ok() && descriptor_path(&file).is_some();
    can_be_named.then_some(file)
}

/// A locked file with a name in `folder`.
fn named(folder: &Path) -> io::Result<(File, Option<TempPath>)> {
    loop {
        let made = builder().make_in(folder, |name| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(0o666);
            options.open(name)
        })?;
        let (file, path) = made.into_parts();
        // Without support for locks no sweep takes a file for an abandoned one.
        let _ = file.lock();
        // A sweep may have removed the file before it was locked.
        if is_at(&file, &path) {
            return Ok((file, Some(path)));
        }
    }
}

/// Gives `file` a temporary name in `folder`.
fn link(file: &File, folder: &Path) -> io::Result<TempPath> {
    let path = descriptor_path(file).ok_or_else(|| io::Error::other("/proc is not mounted"))?;
    let named: NamedTempFile<()> = builder().make_in(folder, |name| {
        Ok(linkat(CWD, &path, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    })?;
    Ok(named.into_temp_path())
}

fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(PREFIX).rand_bytes(RANDOM);
    builder
}

/// Removes unfinished files in `folder` whose processes have ended. A file that cannot be opened is
/// left alone.
fn sweep(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(is_unfinished) {
        let path = entry.path();
        let file = File::open(&path);
        if file.is_ok_and(|file| file.try_lock().is_ok() && is_at(&file, &path)) {
            // Another sweep may have removed the file first.
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// Whether an entry looks like an unfinished file.
fn is_unfinished(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let random = name.as_encoded_bytes().strip_prefix(PREFIX.as_bytes());
    let is_ours =
        |random: &[u8]| random.len() == RANDOM && random.iter().all(u8::is_ascii_alphanumeric);
    random.is_some_and(is_ours) && entry.file_type().is_ok_and(|kind| kind.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<DirEntry>| entry.expect("listed").file_name();
        let all = fs::read_dir(folder).expect("listed").map(name);
        let mut all: Vec<String> = all
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    }

    /// Runs `test` with unnamed files, and as on a file system without them.
    fn both(test: impl Fn(&dyn Fn(&Path) -> io::Result<Unfinished>)) {
        test(&|path| Unfinished::new(path));
        test(&|path| Unfinished::with(path, |_| None));
    }

    #[test]
    fn target_keeps_its_contents_until_the_file_is_finished() {
        both(|new| {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            fs::write(&path, "old").unwrap();
            let mut dropped = new(&path).unwrap();
            dropped.write_all(b"dropped").unwrap();
            drop(dropped);
            let mut file = new(&path).unwrap();
            file.write_all(b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"old");
            file.finish().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(names(folder.path()), ["a"]);
        });
    }

    /// `/dev/shm` and the directories that programs are built in support unnamed files.
    #[test]
    fn unfinished_file_has_no_name() {
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let file = Unfinished::new(&folder.path().join("a")).unwrap();
        assert_eq!(file.named.is_none(), names(folder.path()).is_empty());
        let other = unnamed(folder.path());
        assert_eq!(other.is_some(), file.named.is_none());
    }

    #[test]
    fn file_left_by_a_killed_process_is_removed_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let used = Unfinished::with(&path, |_| None).unwrap();
        let of_used = names(folder.path());
        let left = [
            ".flashloom-aB3dE6",
            ".flashloom-notours",
            ".flashloom-dir012",
        ];
        fs::write(folder.path().join(left[0]), "left").unwrap();
        fs::write(folder.path().join(left[1]), "another's").unwrap();
        fs::create_dir(folder.path().join(left[2])).unwrap();
        Unfinished::new(&path).unwrap().finish().unwrap();
        let mut expected = vec![left[1].to_owned(), left[2].to_owned(), "a".to_owned()];
        expected.extend(of_used);
        expected.sort();
        assert_eq!(names(folder.path()), expected);
        used.finish().unwrap();
    }

    #[test]
    fn target_that_cannot_be_a_file_is_rejected_in_words() {
        let folder = tempfile::tempdir().unwrap();
        for (path, why) in [
            (folder.path().join("none/a"), "expected a directory"),
            (folder.path().to_owned(), "found a directory"),
            (PathBuf::from("/dev/full"), "found a device"),
        ] {
            let error = Unfinished::new(&path).expect_err("refused").to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
