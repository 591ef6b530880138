//! Running a program under the library.

use crate::library;
use crate::preload::SPOOL;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use tempfile::TempDir;

/// A folder with the library, into which programs write what they do. It is
/// removed when this goes.
pub struct Spool {
    folder: TempDir,
}

/// The library's file in the folder.
const LIBRARY: &str = "libflashloom.so";

impl Spool {
    /// Makes the folder, among the temporary files.
    ///
    /// # Errors
    /// If the system refuses, or programs cannot be recorded on it.
    pub fn new() -> io::Result<Self> {
        // Programs change their working directory, so the path is absolute.
        let place = std::env::temp_dir().canonicalize()?;
        let folder = tempfile::Builder::new()
            .prefix("flashloom-record-")
            .tempdir_in(place)?;
        // A program may run as another user, and its files are its own.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o1777))?;
        let library = folder.path().join(LIBRARY);
        library::write(&library)?;
        fs::set_permissions(library, Permissions::from_mode(0o755))?;
        Ok(Self { folder })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join(LIBRARY)
    }

    /// Runs a program to its end. Meanwhile this process ignores the signals by
    /// which a terminal ends programs, so that the recording outlives one that
    /// is interrupted.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn run(&self, program: &OsStr, arguments: &[OsString]) -> io::Result<ExitStatus> {
        let mut preload = self.library().into_os_string();
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|it| !it.is_empty()) {
            preload.push(":");
            preload.push(others);
        }
        let mut command = Command::new(program);
        command.args(arguments);
        command.env("LD_PRELOAD", preload);
        command.env(SPOOL, self.folder.path());
        let mut child = command.spawn()?;
        let before = [libc::SIGINT, libc::SIGQUIT].map(|signal| (signal, ignore(signal)));
        let status = child.wait();
        for (signal, handler) in before {
            restore(signal, handler);
        }
        status
    }
}

/// Ignores a signal, and says what it did before.
fn ignore(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: ignoring runs no code of ours.
    unsafe { libc::signal(signal, libc::SIG_IGN) }
}

fn restore(signal: libc::c_int, handler: libc::sighandler_t) {
    if handler != libc::SIG_ERR {
        // SAFETY: the handler is the one that was there.
        unsafe { libc::signal(signal, handler) };
    }
}
