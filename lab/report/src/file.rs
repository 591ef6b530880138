//! Atomic writes: a file appears with all of its contents or not at all.

use std::io::{self, Write};
use std::path::Path;
use whole::Unfinished;

/// Writes `text` to `path` atomically: readers see the old contents until the new ones are on disk.
///
/// # Errors
/// If the directory is missing or cannot be written, with the path in the text.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let mut file = Unfinished::new(path)?;
    file.write_all(text.as_bytes())?;
    file.file().sync_all()?;
    file.finish().map(drop)
}
