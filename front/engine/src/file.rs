//! Drives in files, under file locks.
//!
//! Invariants: a drive file exists whole or not at all; while a process powers a drive, no other
//! process opens its file; the locked file is the one that the path names.

use ssd::image::{self, ImageError, Memory, Opened};
use ssd::{DriveConfig, DriveMedia};
use std::fs::{File, TryLockError};
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use whole::Unfinished;

/// Time to wait for an exclusive lock: a server releases the drive a moment after its last client
/// has gone.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time to wait while the lock is shared: by a server that writes the drive to its file after the
/// shutdown, and by readers.
const MORE_PATIENCE: Duration = Duration::from_secs(60);
/// Time before the caller is informed about a shared lock.
const SILENCE: Duration = Duration::from_millis(250);
/// Time between two attempts to lock.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a drive's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be opened, read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file holds no valid drive image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Another process powers the drive or writes its file.
    #[error("the drive is in use by another process; stop what serves or mounts it first")]
    InUse,
    /// The drive holds no remapping layer that can be opened, and none may be made.
    #[error(transparent)]
    Layer(#[from] remap::OpenError),
    /// A remapping layer cannot be formatted on the drive.
    #[error(transparent)]
    Format(#[from] remap::FormatError),
    /// The simulation came to rest, without room for garbage collection, while the layer opened.
    #[error(
        "the drive stalled while its remapping layer was opened: garbage collection has no \
        free space"
    )]
    AtRest,
    /// The path names a terminal or another character device.
    #[error("expected a file, found a device or a pipe")]
    Device,
}

/// Kind of lock under which a drive's file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Shared lock, read only.
    Look,
    /// Exclusive lock, read and write.
    Change,
}

/// Result of an attempt to lock a file.
enum Tried {
    Locked(DriveFile),
    /// Another process holds a shared lock.
    Shared,
    InUse,
}

/// A drive's file, locked until this is dropped.
pub struct DriveFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

impl DriveFile {
    /// Opens and locks the file at `path`.
    ///
    /// # Errors
    /// If there is no file, or if another process keeps the lock for two seconds.
    pub fn open(path: &Path, access: Access) -> Result<Self, FileError> {
        let until = Instant::now() + PATIENCE;
        loop {
            match Self::try_open(path, access)? {
                Tried::Locked(file) => return Ok(file),
                Tried::Shared | Tried::InUse if Instant::now() >= until => {
                    return Err(FileError::InUse);
                }
                Tried::Shared | Tried::InUse => sleep(PAUSE),
            }
        }
    }

    /// Opens and locks the file at `path` to change the drive. Waits for a server that writes the
    /// drive to its file after the shutdown, which takes longer the more the drive holds; calls
    /// `told` if that takes longer than a quarter of a second.
    ///
    /// # Errors
    /// If there is no file, if the lock stays exclusive for two seconds, or if it is still shared
    /// after a minute.
    pub fn open_after_others(path: &Path, told: impl FnOnce()) -> Result<Self, FileError> {
        let (start, mut told) = (Instant::now(), Some(told));
        let (mut until, mut shared) = (start + PATIENCE, None);
        loop {
            let now = Instant::now();
            match Self::try_open(path, Access::Change)? {
                Tried::Locked(file) => return Ok(file),
                Tried::Shared => {
                    until = start + MORE_PATIENCE;
                    if now.duration_since(*shared.get_or_insert(now)) >= SILENCE {
                        told.take().into_iter().for_each(|told| told());
                    }
                }
                // Another process has locked the file now and may serve the drive for long.
                Tried::InUse if shared.take().is_some() => until = now + PATIENCE,
                Tried::InUse => {}
            }
            if now >= until {
                return Err(FileError::InUse);
            }
            sleep(PAUSE);
        }
    }

    fn try_open(path: &Path, access: Access) -> Result<Tried, FileError> {
        // A read-only file system is no obstacle to reading a drive.
        let file = File::options()
            .read(true)
            .write(access == Access::Change)
            .open(path)?;
        // A read from a terminal would block.
        if file.metadata()?.file_type().is_char_device() {
            return Err(FileError::Device);
        }
        if !try_lock(&file, access)? {
            let shared = try_lock(&file, Access::Look)?;
            return Ok(if shared { Tried::Shared } else { Tried::InUse });
        }
        if !is_at(&file, path) {
            return Ok(Tried::InUse);
        }
        let path = path.to_owned();
        Ok(Tried::Locked(Self { path, file }))
    }

    /// Writes a drive to a new file at `path`, which is not locked, and syncs it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn create(path: &Path, config: &DriveConfig, media: &DriveMedia) -> Result<(), FileError> {
        let over = AtomicBool::new(false);
        let (whole, _) = write_beside(path, config, media, None, &over)?;
        whole.file().sync_all()?;
        whole.finish()?;
        Ok(sync_folder(path)?)
    }

    /// Reads the drive from the start of the file.
    ///
    /// # Errors
    /// If the file holds no valid drive image.
    pub fn load(&self) -> Result<Opened, FileError> {
        // The file position is anywhere after an earlier read or write.
        (&self.file).rewind()?;
        Ok(image::open(&mut BufReader::new(&self.file))?)
    }

    /// Replaces the file by one with the drive, and with the persistent memory beside it if there
    /// is any. The old file stays until the new one is complete and synced.
    ///
    /// # Errors
    /// If the new file cannot be written; the old one stays.
    pub fn save(
        &mut self,
        config: &DriveConfig,
        media: &DriveMedia,
        memory: Option<&Memory>,
    ) -> Result<(), FileError> {
        let over = AtomicBool::new(false);
        self.save_whole(write_beside(&self.path, config, media, memory, &over)?.0)
    }

    /// Syncs `whole` and replaces the file by it; the lock moves along.
    pub(crate) fn save_whole(&mut self, whole: Unfinished) -> Result<(), FileError> {
        whole.file().sync_all()?;
        self.replace(whole)
    }

    /// Replaces the file by `whole`, which is locked and whose data are synced: a crash of the
    /// machine leaves one complete file or the other.
    pub(crate) fn replace(&mut self, whole: Unfinished) -> Result<(), FileError> {
        self.file = whole.finish()?;
        Ok(sync_folder(&self.path)?)
    }

    /// Downgrades the lock to shared: the drive does not change any more.
    pub(crate) fn share(&self) -> io::Result<()> {
        self.file.lock_shared()
    }
}

fn try_lock(file: &File, access: Access) -> io::Result<bool> {
    let locked = match access {
        Access::Look => file.try_lock_shared(),
        Access::Change => file.try_lock(),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether `path` still names `file`; another process may have replaced it.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (own, named) = (file.metadata().map(id), std::fs::metadata(path).map(id));
    own.is_ok() && own.ok() == named.ok()
}

/// Syncs the directory of the file at `path`.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// A writer to a file that fails once `over` is set.
struct Wanted<'a> {
    file: &'a File,
    over: &'a AtomicBool,
}

impl Write for Wanted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.over.load(Ordering::Relaxed) {
            return Err(io::Error::other("the file is not wanted any more"));
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a drive to a temporary file beside `path`; returns the file and the mark of its end.
/// Fails as soon as `over` is set.
pub(crate) fn write_beside(
    path: &Path,
    config: &DriveConfig,
    media: &DriveMedia,
    memory: Option<&Memory>,
    over: &AtomicBool,
) -> Result<(Unfinished, image::Mark), FileError> {
    let file = Unfinished::new(path)?;
    let mut out = BufWriter::new(Wanted {
        file: file.file(),
        over,
    });
    let mark = image::write_with(config, media, memory, &mut out)?;
    out.flush()?;
    drop(out);
    Ok((file, mark))
}

/// Directory of `path`; the current one if `path` has no parent.
fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
