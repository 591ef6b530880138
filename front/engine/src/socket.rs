//! Sockets in the file system.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at `path`, also if a server that has died has left its socket there.
///
/// # Errors
/// If somebody listens there, or there can be no socket.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let left = UnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
            if !left {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
}
