//! Sockets in the file system, and who comes to them.

use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at `path`, also if a server that has died has left its socket there.
///
/// # Errors
/// If somebody listens there, or there can be no socket.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // Of a file nobody answers either: only a socket is taken for one that was left.
            let dead = || {
                let connected = UnixStream::connect(path);
                connected.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            };
            if !is_socket(path) || !dead() {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}

/// Whether a socket lies at `path`.
#[must_use]
pub fn is_socket(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.file_type().is_socket())
}

/// A file to close for who is to be hung up on although there is none left. Otherwise he would
/// wait, and whoever listens would be told of him again and again.
pub struct Spare(Cell<Option<File>>);

impl Default for Spare {
    fn default() -> Self {
        Self(Cell::new(Self::open()))
    }
}

impl Spare {
    /// Hangs up on who is first in the queue if `error`, of taking him in, says that there is no
    /// file for him.
    pub fn refuse<T, E>(&self, error: Errno, accept: impl FnOnce() -> Result<T, E>) {
        let none_left = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::NOBUFS];
        if none_left.contains(&error) {
            drop(self.0.take());
            drop(accept());
            self.0.set(Self::open());
        }
    }

    fn open() -> Option<File> {
        File::open("/dev/null").ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_socket_that_was_left_is_taken_over_and_a_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (socket, file) = (dir.path().join("socket"), dir.path().join("file"));
        drop(UnixListener::bind(&socket).unwrap());
        let listener = listen(&socket).expect("nobody listens there");
        let taken = listen(&socket).expect_err("somebody does");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        fs::write(&file, "something of somebody").unwrap();
        let taken = listen(&file).expect_err("it is no socket");
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read(&file).unwrap(), b"something of somebody");
    }
}
