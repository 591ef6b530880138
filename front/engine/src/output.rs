//! Output buffer of a socket or another file.
//!
//! Invariants: each byte is sent once, in the order put; no piece is empty.

use rustix::io::{Errno, writev};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// Length in bytes from which on a piece takes no more small answers.
const GATHERED: usize = 256 << 10;
/// Longest data in bytes that are copied; longer data become a piece of their own.
const COPIED: usize = 32 << 10;
/// Most pieces that one system call sends.
const PIECES: usize = 16;
/// Capacity of the queue of pieces while it is empty.
const FEW: usize = 4;
/// Largest buffer in bytes that is kept for reuse.
const KEPT: usize = GATHERED + COPIED;

/// A queue of pieces of bytes that wait to be sent.
#[derive(Default)]
pub struct Output {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first piece that are sent.
    sent: usize,
    bytes: u64,
    /// Buffer of a sent piece, for reuse.
    spare: Vec<u8>,
}

impl Output {
    /// Bytes in the queue.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lets `put` append bytes to the queue.
    pub fn put(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        // A long buffer without spare capacity would be copied to grow.
        let is_full = |last: &Vec<u8>| {
            last.len() >= GATHERED || last.len() > COPIED && last.len() == last.capacity()
        };
        if self.pieces.back().is_none_or(is_full) {
            self.pieces.push_back(std::mem::take(&mut self.spare));
        }
        if let Some(last) = self.pieces.back_mut() {
            let before = last.len();
            put(last);
            self.bytes += (last.len() - before) as u64;
        }
    }

    /// Appends `data`, without a copy if it is long.
    pub fn push(&mut self, data: Vec<u8>) {
        if data.len() <= COPIED {
            return self.put(|out| out.extend(data));
        }
        self.bytes += data.len() as u64;
        self.pieces.push_back(data);
    }

    /// Sends as many bytes as `to` takes without blocking.
    ///
    /// # Errors
    /// If `to` fails, for example because the peer has closed it.
    pub fn send(&mut self, to: BorrowedFd<'_>) -> io::Result<()> {
        while self.bytes > 0 {
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut count = 0;
            for (slice, piece) in slices.iter_mut().zip(&self.pieces) {
                let from = if count == 0 { self.sent } else { 0 };
                *slice = IoSlice::new(&piece[from..]);
                count += 1;
            }
            match writev(to, &slices[..count]) {
                Ok(sent) => self.take(sent),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Unsent bytes of the first piece; empty if the queue is.
    #[must_use]
    pub fn first(&self) -> &[u8] {
        self.pieces.front().map_or(&[], |first| &first[self.sent..])
    }

    /// Removes the first `sent` bytes, which the caller has sent.
    pub fn take(&mut self, mut sent: usize) {
        self.bytes -= sent as u64;
        while let Some(first) = self.pieces.front() {
            let left = first.len() - self.sent;
            if sent < left {
                self.sent += sent;
                return;
            }
            sent -= left;
            self.sent = 0;
            let mut done = self.pieces.pop_front().unwrap_or_default();
            if done.capacity() <= KEPT && self.spare.capacity() == 0 {
                done.clear();
                self.spare = done;
            }
        }
    }

    /// Takes the buffer `spare` if the queue is empty and has no buffer of its own.
    pub fn lend(&mut self, spare: &mut Vec<u8>) {
        if self.spare.capacity() == 0 && self.pieces.is_empty() {
            std::mem::swap(&mut self.spare, spare);
        }
    }

    /// Releases buffers if the queue is empty; its buffer moves to `spare` if that has none.
    pub fn rest(&mut self, spare: &mut Vec<u8>) {
        if self.pieces.is_empty() {
            let own = std::mem::take(&mut self.spare);
            if spare.capacity() == 0 {
                *spare = own;
            }
            self.pieces.shrink_to(FEW);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_are_sent_once_and_in_order_to_a_slow_reader() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        ours.set_nonblocking(true).expect("no waiting");
        let (mut output, mut expected) = (Output::default(), Vec::new());
        let (mut got, mut chunk) = (Vec::<u8>::new(), [0; 70_000]);
        for round in 0..200_usize {
            let data = vec![round as u8; round * 997 % (2 * COPIED)];
            output.put(|out| out.extend([1, 2, 3]));
            expected.extend([1, 2, 3]);
            expected.extend(&data);
            output.push(data);
            output.send(ours.as_fd()).expect("taken");
            // Unsent bytes stay queued.
            assert!(output.bytes() <= (expected.len() - got.len()) as u64);
            let len = theirs
                .read(&mut chunk[..9_001])
                .expect("something is there");
            got.extend(&chunk[..len]);
        }
        while output.bytes() > 0 || got.len() < expected.len() {
            let len = theirs.read(&mut chunk).expect("something is there");
            got.extend(&chunk[..len]);
            output.send(ours.as_fd()).expect("taken");
        }
        assert_eq!(got, expected);
        let mut spare = Vec::new();
        output.rest(&mut spare);
        assert_eq!(output.spare.capacity(), 0);
        // The buffer moves back as it is.
        let had = spare.capacity();
        assert!(had > 0 && spare.is_empty());
        output.lend(&mut spare);
        assert_eq!((output.spare.capacity(), spare.capacity()), (had, 0));
    }
}
