//! Files that are there whole or not at all; drives in them.

use super::failure::Failure;
use ssd::{DriveConfig, DriveMedia};
use std::fs::{File, Permissions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::NamedTempFile;

/// A temporary file in the directory of `path`, to be renamed to it when whole.
pub(crate) fn beside(path: &Path) -> Result<NamedTempFile, Failure> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    if !parent.is_dir() {
        let reason = format!("expected a directory {}, found none", parent.display());
        return Err(Failure::at(path, reason));
    }
    if path.is_dir() {
        return Err(Failure::at(path, "expected a file, found a directory"));
    }
    // A temporary file is private by default; this one is as open as any file.
    let file = tempfile::Builder::new()
        .prefix(".flashloom-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent);
    // The error of the library names the temporary file.
    file.map_err(|e| Failure::at(path, io::Error::from(e.kind())))
}

/// Refuses a path where no file can be written, before work is done for it.
pub(crate) fn check_place(path: &Path) -> Result<(), Failure> {
    beside(path).map(drop)
}

/// Whether the file at `path` says that it holds a drive.
pub(crate) fn is_drive(path: &Path) -> bool {
    let mut magic = [0; ssd::image::MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == ssd::image::MAGIC
}

/// The drive in the file at `path`.
pub(crate) fn load(path: &Path) -> Result<(DriveConfig, DriveMedia), Failure> {
    let file = File::open(path).map_err(|e| Failure::at(path, e))?;
    ssd::image::read(&mut BufReader::new(file)).map_err(|e| Failure::at(path, e))
}

/// Puts a drive into the file at `path`, which is replaced when all is written.
pub(crate) fn save(path: &Path, config: &DriveConfig, media: &DriveMedia) -> Result<(), Failure> {
    let fault = |e| Failure::at(path, e);
    let mut file = beside(path)?;
    let mut out = BufWriter::new(&mut file);
    ssd::image::write(config, media, &mut out).map_err(|e| Failure::at(path, e))?;
    out.flush().map_err(fault)?;
    drop(out);
    file.persist(path).map_err(|e| fault(e.error))?;
    Ok(())
}
