//! A time limit for each client, where clients are served one after another.
//!
//! Invariant: however slowly a client sends and receives, all I/O with it ends at its deadline:
//! each wait is limited to the time that is left.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A socket whose waits can be limited.
pub(crate) trait Limited {
    /// Limits the next read or write to the time `left`.
    fn limit(&self, left: Duration) -> io::Result<()>;
}

impl Limited for TcpStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

impl Limited for UnixStream {
    fn limit(&self, left: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(left))?;
        self.set_write_timeout(Some(left))
    }
}

/// A socket with a deadline.
pub(crate) struct Until<'a, S> {
    socket: &'a S,
    end: Instant,
}

impl<'a, S: Limited> Until<'a, S> {
    /// Sets the deadline `patience` from now.
    pub(crate) fn new(socket: &'a S, patience: Duration) -> Self {
        let end = Instant::now() + patience;
        Self { socket, end }
    }

    /// The socket, limited for one wait.
    fn limited(&self) -> io::Result<&'a S> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.limit(left)?;
        Ok(self.socket)
    }
}

impl<'a, S: Limited> Read for Until<'a, S>
where
    &'a S: Read,
{
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.limited()?.read(bytes)
    }
}

impl<'a, S: Limited> Write for Until<'a, S>
where
    &'a S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limited()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_client_is_cut_off_at_the_deadline() {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        let sender = std::thread::spawn(move || {
            // A limit of each wait alone would never expire.
            while (&theirs).write_all(&[1]).is_ok() {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let mut until = Until::new(&ours, Duration::from_millis(50));
        let ended = std::iter::repeat_with(|| until.read(&mut [0])).find_map(Result::err);
        let kind = ended.expect("it ends").kind();
        assert!(matches!(kind, ErrorKind::TimedOut | ErrorKind::WouldBlock));
        drop(ours);
        sender.join().expect("no panic");
    }
}
