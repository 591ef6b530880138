//! Output files that appear complete or not at all, and drives in files.

use super::failure::Failure;
use super::output::note;
use engine::{Access, DriveFile};
use ssd::image::Opened;
use ssd::{DriveConfig, DriveMedia};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use whole::Unfinished;

/// An output file that appears at its path once it is finished. Errors of writing to it name that
/// path.
pub(crate) struct Out {
    file: Unfinished,
    path: PathBuf,
}

impl Out {
    /// The file itself, whose errors name nothing.
    pub(crate) const fn file(&self) -> &File {
        self.file.file()
    }

    /// Forces the contents to the disk and gives them their name.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        let finished = self.file().sync_all();
        let finished = finished.and_then(|()| self.file.finish());
        finished.map(drop).map_err(|e| Failure::at(&self.path, e))
    }

    fn named(&self, error: &io::Error) -> io::Error {
        io::Error::new(error.kind(), format!("{}: {error}", self.path.display()))
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        written.map_err(|e| self.named(&e))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An empty output file that is to be at `path`.
pub(crate) fn beside(path: &Path) -> Result<Out, Failure> {
    let file = Unfinished::new(path).map_err(|e| Failure::at(path, e))?;
    let path = path.to_owned();
    Ok(Out { file, path })
}

/// Refuses a path where no file can be written, before work is done for it.
pub(crate) fn check_place(path: &Path) -> Result<(), Failure> {
    beside(path).map(drop)
}

/// Refuses to write to `out` if that is one of the files `read`, which would be lost.
pub(crate) fn check_other<'a>(
    out: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let Ok(whole) = out.canonicalize() else {
        return Ok(());
    };
    let same = |path: &Path| path.canonicalize().is_ok_and(|path| path == whole);
    match read.into_iter().any(same) {
        true => Err(Failure::at(out, "expected another file than what is read")),
        false => Ok(()),
    }
}

/// Whether the file at `path` says that it holds a drive.
pub(crate) fn is_drive(path: &Path) -> bool {
    let mut magic = [0; ssd::image::MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == ssd::image::MAGIC
}

/// The file at `path`, which holds a drive; nobody else has it open for something
/// that `access` excludes.
pub(crate) fn open(path: &Path, access: Access) -> Result<DriveFile, Failure> {
    DriveFile::open(path, access).map_err(|e| Failure::at(path, e))
}

/// Waits until whoever has just served the drive in the file at `path` has put it
/// there, and says so if that takes a while.
pub(crate) fn wait_for_others(path: &Path) -> Result<(), Failure> {
    let told = || note("the drive is still being written to its file: waiting for that");
    let free = DriveFile::open_after_others(path, told);
    free.map(drop).map_err(|e| Failure::at(path, e))
}

/// What is in `file`, which is at `path`.
pub(crate) fn load(path: &Path, file: &DriveFile) -> Result<Opened, Failure> {
    file.load().map_err(|e| Failure::at(path, e))
}

/// Puts a drive into a file at `path`, in the place of another one that nobody
/// has open.
pub(crate) fn create(path: &Path, config: &DriveConfig, media: &DriveMedia) -> Result<(), Failure> {
    let other = is_drive(path).then(|| open(path, Access::Change));
    let _locked = other.transpose()?;
    DriveFile::create(path, config, media).map_err(|e| Failure::at(path, e))
}
