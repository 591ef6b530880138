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

/// An output file that appears at its path once it is finished. Its write errors name that path.
pub(crate) struct Out {
    file: Unfinished,
    path: PathBuf,
}

impl Out {
    /// The open file, whose errors do not name the path.
    pub(crate) const fn file(&self) -> &File {
        self.file.file()
    }

    /// Syncs the contents to disk and renames the file to its path.
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

/// An empty output file for `path`.
pub(crate) fn beside(path: &Path) -> Result<Out, Failure> {
    let file = Unfinished::new(path).map_err(|e| Failure::at(path, e))?;
    let path = path.to_owned();
    Ok(Out { file, path })
}

/// Rejects a path where no file can be written, before the work is done.
pub(crate) fn check_place(path: &Path) -> Result<(), Failure> {
    beside(path).map(drop)
}

/// Rejects `out` if it is one of the input files `read`, which would be lost.
pub(crate) fn check_other<'a>(
    out: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    let Ok(whole) = out.canonicalize() else {
        return Ok(());
    };
    let same = |path: &Path| path.canonicalize().is_ok_and(|path| path == whole);
    match read.into_iter().any(same) {
        true => Err(Failure::at(
            out,
            "expected an output file that is not also an input",
        )),
        false => Ok(()),
    }
}

/// Whether the file at `path` starts with the magic of a drive file.
pub(crate) fn is_drive(path: &Path) -> bool {
    let mut magic = [0; ssd::image::MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == ssd::image::MAGIC
}

/// Opens the drive file at `path`, and locks it: no other process may have it open in a mode that
/// `access` excludes.
pub(crate) fn open(path: &Path, access: Access) -> Result<DriveFile, Failure> {
    DriveFile::open(path, access).map_err(|e| Failure::at(path, e))
}

/// Waits until the last server of the drive in the file at `path` has saved it, with a note if that
/// takes a while.
pub(crate) fn wait_for_others(path: &Path) -> Result<(), Failure> {
    let told = || note("waiting until the drive is written to its file");
    let free = DriveFile::open_after_others(path, told);
    free.map(drop).map_err(|e| Failure::at(path, e))
}

/// Loads the drive in `file`, which is at `path`.
pub(crate) fn load(path: &Path, file: &DriveFile) -> Result<Opened, Failure> {
    file.load().map_err(|e| Failure::at(path, e))
}

/// Saves a drive in a file at `path`, replacing any drive there that is not in use.
pub(crate) fn create(path: &Path, config: &DriveConfig, media: &DriveMedia) -> Result<(), Failure> {
    let other = is_drive(path).then(|| open(path, Access::Change));
    let _locked = other.transpose()?;
    DriveFile::create(path, config, media).map_err(|e| Failure::at(path, e))
}
