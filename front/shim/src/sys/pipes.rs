//! Pipes: their capacity, and transfers into and out of them.

use super::{Errno, call, close, map, stat, unmap};
use core::ffi::c_int;

/// Flag SPLICE_F_NONBLOCK of linux/splice.h.
pub(crate) const AT_ONCE: u32 = 2;

pub(crate) fn is_pipe(fd: c_int) -> bool {
    stat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Capacity of a pipe in bytes.
pub(crate) fn capacity(pipe: c_int) -> Result<usize, Errno> {
    let args = [pipe as usize, libc::F_GETPIPE_SZ as usize, 0, 0, 0, 0];
    call(libc::SYS_fcntl, args)
}

/// Memory whose pages can be put into pipes, which keep them after it is unmapped.
pub(crate) struct Pages {
    start: usize,
    len: usize,
}

impl Pages {
    pub(crate) fn new(len: usize) -> Result<Self, Errno> {
        let how = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // `EAGAIN`, which a lock limit causes, would make the caller retry for ever.
        let start = map(0, len, how, (-1, 0)).map_err(|_| libc::ENOMEM)?;
        Ok(Self { start, len })
    }

    /// The whole memory as a vector.
    pub(crate) fn vector(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.start as *mut core::ffi::c_void,
            iov_len: self.len,
        }
    }

    /// Puts the first `len` bytes into a pipe, as many as fit; returns their number. The memory
    /// must not be changed afterwards.
    pub(crate) fn put(&self, pipe: c_int, len: usize) -> Result<usize, Errno> {
        let part = libc::iovec {
            iov_len: len.min(self.len),
            ..self.vector()
        };
        let (place, how) = (&raw const part as usize, AT_ONCE as usize);
        call(libc::SYS_vmsplice, [pipe as usize, place, 1, how, 0, 0])
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        unmap(self.start, self.len);
    }
}

/// A private pipe: its ends to read from and to write to.
pub(crate) struct Pipe([c_int; 2]);

impl Pipe {
    pub(crate) fn new() -> Result<Self, Errno> {
        let mut ends = [0; 2];
        let how = libc::O_CLOEXEC as usize;
        let args = [ends.as_mut_ptr() as usize, how, 0, 0, 0, 0];
        call(libc::SYS_pipe2, args).map(|_| Self(ends))
    }

    /// Copies at most `len` bytes from another pipe into this one, which must be empty, without
    /// removing them; returns the number that fit.
    pub(crate) fn copy(&self, from: c_int, len: usize) -> Result<usize, Errno> {
        let how = AT_ONCE as usize;
        let args = [from as usize, self.0[1] as usize, len, how, 0, 0];
        call(libc::SYS_tee, args)
    }

    /// Moves at most `len` bytes from another pipe into this one; returns their number.
    pub(crate) fn take(&self, from: c_int, len: usize) -> Result<usize, Errno> {
        let how = AT_ONCE as usize;
        let args = [from as usize, 0, self.0[1] as usize, 0, len, how];
        call(libc::SYS_splice, args)
    }

    /// Reads until `to` is full; `EIO` if the pipe ends before.
    pub(crate) fn read(&self, to: &mut [u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < to.len() {
            let rest = &mut to[done..];
            let place = rest.as_mut_ptr() as usize;
            let args = [self.0[0] as usize, place, rest.len(), 0, 0, 0];
            match call(libc::SYS_read, args)? {
                0 => return Err(libc::EIO),
                read => done += read,
            }
        }
        Ok(())
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.0.into_iter().for_each(close);
    }
}
