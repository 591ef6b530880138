//! Files that are there as a whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes `text` to `path`: into a temporary file beside it, which is then
/// renamed, so that a reader never sees half a page.
///
/// # Errors
/// If the directory is missing or cannot be written, with the path in the text.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    replace(path, text).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
    // A temporary file is private by default; a report is as open as any file.
    let mut file = tempfile::Builder::new()
        .prefix(".report-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(parent.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
