//! Output of a program, in pieces between its calls.
//!
//! Invariant: bytes that were in the pipe when [`Output::take`] was called are in its result or in
//! that of an earlier call.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Bytes that are read from the pipe at a time.
const PIECE: usize = 64 << 10;

/// Receiving end of a program's standard output.
pub struct Output {
    pipe: PipeReader,
    /// Bytes that were read and not taken yet.
    read: Mutex<Vec<u8>>,
}

impl Output {
    /// A pipe whose bytes are collected, so that its writer never waits, until all writers are
    /// closed.
    ///
    /// # Errors
    /// If the system has no pipe or thread.
    pub fn new() -> io::Result<(Arc<Self>, PipeWriter)> {
        let (pipe, writer) = io::pipe()?;
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let output = Arc::new(Self {
            pipe,
            read: Mutex::default(),
        });
        let pumped = Arc::clone(&output);
        Builder::new()
            .name("output".to_owned())
            .spawn(move || pumped.pump())?;
        Ok((output, writer))
    }

    /// The output since the last call, up to this instant.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // An error ends the output, as its end does.
        let _ = self.drain(&mut read);
        std::mem::take(&mut read)
    }

    /// Collects output until its end.
    fn pump(&self) {
        loop {
            let mut ready = [PollFd::new(&self.pipe, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
                Ok(_) => {}
            }
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(self.drain(&mut read), Ok(true)) {
                return;
            }
        }
    }

    /// Reads all that is in the pipe; returns false at its end.
    fn drain(&self, read: &mut Vec<u8>) -> io::Result<bool> {
        let mut piece = vec![0; PIECE];
        loop {
            match (&self.pipe).read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(len) => read.extend_from_slice(&piece[..len]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn written_bytes_are_taken_at_once_and_once() {
        let (output, mut writer) = Output::new().expect("a pipe");
        for round in 0..100_u8 {
            writer.write_all(&[round; 3]).expect("written");
            assert_eq!(output.take(), [round; 3]);
        }
        assert!(output.take().is_empty());
    }

    #[test]
    fn writer_never_waits_for_a_full_pipe() {
        let (output, mut writer) = Output::new().expect("a pipe");
        let all = vec![7; 1 << 20];
        writer.write_all(&all).expect("written");
        drop(writer);
        assert_eq!(output.take().len(), all.len());
    }
}
