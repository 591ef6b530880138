//! Pipes: what is in them, and what fits.

use super::{Errno, call, close, map, stat, unmap};
use core::ffi::c_int;

/// SPLICE_F_NONBLOCK (linux/splice.h).
pub(crate) const AT_ONCE: u32 = 2;

pub(crate) fn is_pipe(fd: c_int) -> bool {
    stat(fd).is_ok_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFIFO)
}

/// Bytes that a pipe may hold.
pub(crate) fn capacity(pipe: c_int) -> Result<usize, Errno> {
    let args = [pipe as usize, libc::F_GETPIPE_SZ as usize, 0, 0, 0, 0];
    call(libc::SYS_fcntl, args)
}

/// Memory that can be put into pipes: its pages may be there after it is gone.
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
        // EAGAIN, of memory that would have to be locked, would be asked for again and again.
        let start = map(0, len, how, (-1, 0)).map_err(|_| libc::ENOMEM)?;
        Ok(Self { start, len })
    }

    /// All of it.
    pub(crate) fn vector(&self) -> libc::iovec {
        libc::iovec {
            iov_base: self.start as *mut core::ffi::c_void,
            iov_len: self.len,
        }
    }

    /// Puts the first `len` bytes into a pipe, as many as fit; gives how many. They are not
    /// changed any more after this.
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

/// A pipe of nobody else's, with its ends to read from and to write to.
pub(crate) struct Pipe([c_int; 2]);

impl Pipe {
    pub(crate) fn new() -> Result<Self, Errno> {
        let mut ends = [0; 2];
        let how = libc::O_CLOEXEC as usize;
        let args = [ends.as_mut_ptr() as usize, how, 0, 0, 0, 0];
        call(libc::SYS_pipe2, args).map(|_| Self(ends))
    }

    /// Copies into this, which is empty, what is in another one, `len` bytes at most, and as much as
    /// fits; gives how much.
    pub(crate) fn copy(&self, from: c_int, len: usize) -> Result<usize, Errno> {
        let how = AT_ONCE as usize;
        let args = [from as usize, self.0[1] as usize, len, how, 0, 0];
        call(libc::SYS_tee, args)
    }

    /// Moves into this what is in another one.
    pub(crate) fn take(&self, from: c_int, len: usize) -> Result<usize, Errno> {
        let how = AT_ONCE as usize;
        let args = [from as usize, 0, self.0[1] as usize, 0, len, how];
        call(libc::SYS_splice, args)
    }

    /// Reads as much as there is.
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
