//! The library to preload, as bytes.

use std::io::{self, Write};
use std::path::Path;

/// The shared object; empty on systems that are not Linux.
pub const LIBRARY: &[u8] = include!(concat!(env!("OUT_DIR"), "/library.rs"));

/// Writes the shared object to `path`, so that the dynamic linker finds it.
///
/// # Errors
/// If the file cannot be written, or the library was not built for this system.
pub fn write(path: &Path) -> io::Result<()> {
    if LIBRARY.is_empty() {
        let why = "programs are recorded on Linux only";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let mut file = std::fs::File::create(path)?;
    file.write_all(LIBRARY)
}
