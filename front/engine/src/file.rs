//! Drives in files, and who may use them.
//!
//! Invariants: a drive file is there whole or not at all; while a process keeps a
//! drive under power nobody else opens its file; what is under a lock is what the
//! path names.

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

/// How long a lock is waited for. Who serves a drive lets go of it a moment after
/// its last user has.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it is waited for while it is shared: by who has served a drive and
/// writes it to its file, and by those who look at it.
const MORE_PATIENCE: Duration = Duration::from_secs(60);
/// How long nothing is said of that.
const SILENCE: Duration = Duration::from_millis(250);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Why a drive's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It holds no drive.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Another process has the drive under power, or is writing it.
    #[error("the drive is in use by another process; stop what serves or mounts it first")]
    InUse,
    /// There is no layer on the drive that remaps its addresses, nor room or leave for one.
    #[error(transparent)]
    Layer(#[from] remap::OpenError),
    /// A layer cannot be made on it.
    #[error(transparent)]
    Format(#[from] remap::FormatError),
    /// It has no room left to collect garbage in.
    #[error("the drive came to rest while the layer on it was opened")]
    AtRest,
    /// It is a terminal, a pipe or the like.
    #[error("expected a file, found a device or a pipe")]
    Device,
}

/// What a drive's file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To look at it; others may too.
    Look,
    /// To change it.
    Change,
}

/// What became of a try to lock a file.
enum Tried {
    Locked(DriveFile),
    /// Others have it who would let anyone look at it.
    Shared,
    InUse,
}

/// The file of a drive, under a lock until this is dropped.
pub struct DriveFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
}

impl DriveFile {
    /// Opens and locks the file at `path`.
    ///
    /// # Errors
    /// If there is none, or if it stays in use for two seconds.
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

    /// Opens and locks the file at `path` to change the drive. Whoever has just
    /// served it is waited for while he writes it to the file, which takes longer
    /// the more is on it; `told` is called if that is not over at once.
    ///
    /// # Errors
    /// If there is none, if it stays in use for two seconds, or if it is still
    /// shared after a minute.
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
                // Another one has it now, who is not about to be done.
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
        // A drive that is looked at may lie where nothing can be written.
        let file = File::options()
            .read(true)
            .write(access == Access::Change)
            .open(path)?;
        // A terminal would be waited for.
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

    /// Puts a drive into a file at `path`, which is not locked.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn create(path: &Path, config: &DriveConfig, media: &DriveMedia) -> Result<(), FileError> {
        let over = AtomicBool::new(false);
        let (whole, _) = write_beside(path, config, media, None, &over)?;
        whole.file().sync_all()?;
        whole.finish()?;
        Ok(sync_folder(path)?)
    }

    /// Reads the drive.
    ///
    /// # Errors
    /// If the file holds none.
    pub fn load(&self) -> Result<Opened, FileError> {
        // It may have been read, or written, before.
        (&self.file).rewind()?;
        Ok(image::open(&mut BufReader::new(&self.file))?)
    }

    /// Puts a drive into the file, with the memory beside it if it has any; the file is
    /// replaced when all is written.
    ///
    /// # Errors
    /// If it cannot be written; the old one is there then.
    pub fn save(
        &mut self,
        config: &DriveConfig,
        media: &DriveMedia,
        memory: Option<&Memory>,
    ) -> Result<(), FileError> {
        let over = AtomicBool::new(false);
        self.save_whole(write_beside(&self.path, config, media, memory, &over)?.0)
    }

    /// Puts `whole` in the place of the file, and keeps the lock; all of it is on the disk then.
    pub(crate) fn save_whole(&mut self, whole: Unfinished) -> Result<(), FileError> {
        whole.file().sync_all()?;
        self.replace(whole)
    }

    /// Puts `whole`, which is locked, in the place of the file. Its data are on the disk
    /// before, so that the death of the machine leaves one file or the other.
    pub(crate) fn replace(&mut self, whole: Unfinished) -> Result<(), FileError> {
        self.file = whole.finish()?;
        Ok(sync_folder(&self.path)?)
    }

    /// Lets others look at the drive, which does not change any more.
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

/// Whether `path` still names `file`, which may have been replaced meanwhile.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let (own, named) = (file.metadata().map(id), std::fs::metadata(path).map(id));
    own.is_ok() && own.ok() == named.ok()
}

/// Forces the name of the file at `path` to the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder(path))?.sync_all()
}

/// A file, until somebody says that it is not wanted any more.
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

/// A drive in a temporary file beside `path`, and where that file ends; an error as soon as
/// it is `over`.
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

/// The directory of `path`.
fn folder(path: &Path) -> &Path {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}
