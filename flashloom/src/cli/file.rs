//! Drive files, whole or not at all.

use super::failure::Failure;
use super::trace::beside;
use ssd::{DriveConfig, DriveMedia};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

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
    let mut file = beside(path).map_err(fault)?;
    let mut out = BufWriter::new(&mut file);
    ssd::image::write(config, media, &mut out).map_err(|e| Failure::at(path, e))?;
    out.flush().map_err(fault)?;
    drop(out);
    file.persist(path).map_err(|e| fault(e.error))?;
    Ok(())
}
