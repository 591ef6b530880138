//! Scratch files for readers that need a path.

use crate::descriptor_path;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Prefix of the name of a scratch file without `/proc`.
const PREFIX: &str = "flashloom-";

/// A temporary file without a name, which this process and its children can open by a path of
/// `/proc` while this value lives. Without `/proc` it has a name, which is removed with this value.
#[derive(Debug)]
pub struct Scratch {
    file: File,
    path: PathBuf,
    /// Removes the name on drop, if there is one.
    _named: Option<TempPath>,
}

impl Scratch {
    /// An empty file in the system's directory for temporary files.
    ///
    /// # Errors
    /// If the file cannot be made there.
    pub fn new() -> io::Result<Self> {
        let file = tempfile::tempfile()?;
        if let Some(path) = descriptor_path(&file) {
            return Ok(Self {
                file,
                path,
                _named: None,
            });
        }
        let named = tempfile::Builder::new().prefix(PREFIX).tempfile()?;
        let (file, path) = named.into_parts();
        Ok(Self {
            file,
            path: path.to_path_buf(),
            _named: Some(path),
        })
    }

    /// The open file, for writing.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// The path to open the file by. Each open has a position of its own.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;

    #[test]
    fn scratch_file_is_read_by_path_here_and_in_a_child_and_has_no_name() {
        let scratch = Scratch::new().expect("made");
        scratch.file().write_all(b"seen").expect("written");
        assert_eq!(std::fs::read(scratch.path()).expect("read"), b"seen");
        assert!(scratch.path().is_file(), "{scratch:?}");
        let cat = Command::new("cat").arg(scratch.path()).output();
        assert_eq!(cat.expect("cat starts").stdout, b"seen");
        let link = std::fs::read_link(scratch.path()).expect("a link");
        assert!(!link.exists(), "{link:?} would outlive a kill");
    }
}
