//! Output files that appear complete or not at all, and scratch files for readers by path.
//!
//! Invariants:
//! - An unfinished file has no directory entry where the file system has `O_TMPFILE`, so no end
//!   of the process, `kill -9` included, leaves anything behind.
//! - Elsewhere, and for the instant between link and rename, it is named `.flashloom-` and six
//!   letters or digits, in the directory of its target, and is locked (`flock`) while its process
//!   lives. The next write of a file into the same directory removes such files that have no lock.
//! - Errors are those of the system alone: they name neither the temporary file nor the target,
//!   which the caller knows as the user wrote it.

mod scratch;
mod unfinished;

pub use scratch::Scratch;
pub use unfinished::Unfinished;

use std::fs::{File, Metadata};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Whether `path` names `file`.
fn is_at(file: &File, path: &Path) -> bool {
    let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let (own, named) = (file.metadata().map(id), std::fs::metadata(path).map(id));
    own.is_ok() && own.ok() == named.ok()
}

/// A path by which this process and its children can open `file`, with or without a name; `None` if
/// `/proc` is not mounted.
fn descriptor_path(file: &File) -> Option<PathBuf> {
    // Not `std::process::id`: `/proc` may be that of another PID namespace.
    let process = std::fs::read_link("/proc/self").ok()?;
    let path = Path::new("/proc").join(process).join("fd");
    let path = path.join(file.as_raw_fd().to_string());
    is_at(file, &path).then_some(path)
}
