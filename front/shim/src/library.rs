//! The preload libraries, embedded as bytes.

use std::io::{self, Write};
use std::path::Path;

/// The shared object that records; empty on systems that are not Linux.
pub const LIBRARY: &[u8] = include!(concat!(env!("OUT_DIR"), "/preload.rs"));

/// The shared object that places files; empty on systems that are not Linux.
pub const PLACER: &[u8] = include!(concat!(env!("OUT_DIR"), "/place.rs"));

/// Writes a shared object to `path`, so that the dynamic linker finds it.
///
/// # Errors
/// If the file cannot be written, or the library was not built for this system.
pub fn write(library: &[u8], path: &Path) -> io::Result<()> {
    if library.is_empty() {
        let why = "programs are run under a library on Linux only";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut file = std::fs::File::create(path)?;
    file.write_all(library)
}
