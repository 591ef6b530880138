//! Unix sockets in the file system.

use rustix::io::Errno;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at `path`; replaces the socket that a dead server has left there.
///
/// # Errors
/// If another process listens at `path`, or if no socket can be created.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // A regular file refuses connections too: only a socket may be replaced.
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

/// Whether `path` is a socket; false also for a symbolic link to one.
#[must_use]
pub fn is_socket(path: &Path) -> bool {
    let found = std::fs::symlink_metadata(path);
    found.is_ok_and(|found| found.file_type().is_socket())
}

/// A reserved file descriptor. When the process has no descriptors left, closing it frees one to
/// accept and drop a connection, which otherwise would stay queued and make the listener ready
/// forever.
pub struct Spare(Cell<Option<File>>);

impl Default for Spare {
    fn default() -> Self {
        Self(Cell::new(Self::open()))
    }
}

impl Spare {
    /// If `error`, returned by an attempt to accept, means that descriptors or memory ran out,
    /// accepts and drops the first connection of the queue.
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
    fn stale_socket_is_replaced_and_a_file_is_not() {
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
