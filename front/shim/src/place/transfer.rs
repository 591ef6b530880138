//! Transfers between two descriptors of which at least one is a placed file: the data go through
//! memory.
//!
//! Invariants: a transfer into a pipe writes as much as fits once any room is there, and does not
//! wait for more. Data leave a pipe only once the file has them, if the pipe has no other reader.
//! No thread waits while it is inside (see `gate`).

use super::data::{at_offset, may_read, read_from, write_here, write_to};
use super::demote::{appends, ends_if_cancelled, is_too_deep, on, placed, refused};
use super::fault::Fault;
use super::table::Open;
use super::volume::{Volume, Where};
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::sys;
use crate::sys::pipes::{self, Pages, Pipe};
use core::cell::Cell;
use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, off_t, off64_t, size_t, ssize_t};
use std::sync::{Mutex, PoisonError};

/// A descriptor, and the offset to transfer from or to; null is the file offset.
type End = (c_int, *mut off_t);

/// Every flag of `splice`, up to SPLICE_F_GIFT.
const SPLICE_FLAGS: c_uint = 15;

unsafe extern "C" {
    fn read(fd: c_int, to: *mut c_void, len: usize) -> isize;
    fn write(fd: c_int, from: *const c_void, len: usize) -> isize;
    fn pread64(fd: c_int, to: *mut c_void, len: usize, at: off64_t) -> isize;
    fn pwrite64(fd: c_int, from: *const c_void, len: usize, at: off64_t) -> isize;
    fn lseek64(fd: c_int, to: off64_t, whence: c_int) -> off64_t;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// The value of `PTHREAD_CANCEL_DISABLE`.
const NOT_CANCELLED: c_int = 1;

/// Whether a transfer waits for the pipe, rather than fail with `EAGAIN`.
fn waits(pipe: c_int, flags: c_uint) -> bool {
    let never = sys::flags(pipe).is_ok_and(|flags| flags & libc::O_NONBLOCK != 0);
    flags & pipes::AT_ONCE == 0 && !never
}

/// The result of a transfer that is not made here: by `next` if no placed file takes part,
/// `EDEADLK` for a handler that interrupted its own thread in here. `None` if it is to be made
/// here.
fn answered(ends: [c_int; 2], next: impl FnOnce() -> ssize_t) -> Option<ssize_t> {
    if ends.into_iter().any(is_too_deep) {
        return Some(refused(libc::EDEADLK));
    }
    let plain = ends.into_iter().all(|fd| placed(fd).is_none());
    plain.then(next)
}

/// Whether `pipe` is an end for writing that should be read (`from`), or the reverse.
fn is_wrong_end(pipe: c_int, from: bool) -> bool {
    let wrong = if from { libc::O_WRONLY } else { libc::O_RDONLY };
    sys::flags(pipe).is_ok_and(|flags| flags & libc::O_ACCMODE == wrong)
}

/// Waits until a pipe is ready, if it may. This is a cancellation point; the thread holds nothing
/// of this library here.
fn ready(pipe: c_int, events: i16, may_wait: bool) -> Result<(), c_int> {
    let mut asked = libc::pollfd {
        fd: pipe,
        events,
        revents: 0,
    };
    let before = raw::errno();
    // SAFETY: `asked` is valid for one entry.
    let done = unsafe { libc::poll(&raw mut asked, 1, if may_wait { -1 } else { 0 }) };
    match done {
        0 => Err(libc::EAGAIN),
        ..0 => Err(raw::errno()),
        _ => {
            raw::set_errno(before);
            Ok(())
        }
    }
}

/// Runs `work` on a placed file once a pipe is ready, and again if another thread has used the pipe
/// up; or runs `next` if the file was demoted. An explicit offset is advanced by the result.
///
/// # Safety
/// The offset is null or valid.
unsafe fn by_pipe(
    (pipe, event, may_wait): (c_int, i16, bool),
    (file, told): End,
    work: impl Fn(&Open, &'static Volume) -> Result<i64, Fault>,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    loop {
        if let Err(errno) = ready(pipe, event, may_wait) {
            return refused(errno);
        }
        let passed = Cell::new(false);
        let done = on(file, &work, || {
            passed.set(true);
            next()
        });
        if passed.get() {
            return done;
        }
        if done < 0 && raw::errno() == libc::EAGAIN && may_wait {
            continue;
        }
        // SAFETY: as for the function.
        if let Some(told) = unsafe { told.as_mut() } {
            *told += done.max(0) as off_t;
        }
        return done;
    }
}

/// Transfers from a placed file into a pipe.
///
/// # Safety
/// The offset is null or valid.
unsafe fn into_pipe(
    (file, told): End,
    (pipe, may_wait): (c_int, bool),
    len: usize,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    // SAFETY: as for the function.
    let at = unsafe { told.as_ref() }.copied();
    let most = pipes::capacity(pipe).map_or(len, |most| most.min(len));
    let work = |open: &Open, volume: &'static Volume| {
        may_read(open)?;
        let put = |from: u64| {
            let pages = Pages::new(most)?;
            // SAFETY: the pages are mapped.
            let end = unsafe { read_from(open, volume, &[pages.vector()], from)? };
            let put = match end - from {
                0 => 0,
                read => pages.put(pipe, read as usize)?,
            };
            Ok(from + put as u64)
        };
        match at {
            Some(at) => at_offset(at).and_then(|at| Ok((put(at)? - at) as i64)),
            None => {
                let mut offset = open.offset.hold();
                Ok(offset.read(file, most as u64, put)? as i64)
            }
        }
    };
    let when = (pipe, libc::POLLOUT, may_wait);
    // SAFETY: as for the function.
    unsafe { by_pipe(when, (file, told), work, next) }
}

/// Copies the data in a pipe, lets `put` write them, and removes as much from the pipe as was
/// written. Another reader of the pipe may get the same data meanwhile; then later data are
/// removed.
fn taken(
    pipe: c_int,
    len: usize,
    put: impl FnOnce(&[u8]) -> Result<i64, Fault>,
) -> Result<i64, Fault> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let own = Pipe::new()?;
    let mut data = vec![0; own.copy(pipe, len)?];
    if data.is_empty() {
        return Ok(0);
    }
    own.read(&mut data)?;
    let written = put(&data)?;
    let mut left = written as usize;
    while left > 0 {
        match own.take(pipe, left) {
            Ok(0) | Err(_) => break,
            Ok(took) => left -= took.min(left),
        }
    }
    Ok(written)
}

/// Transfers from a pipe to a placed file.
///
/// # Safety
/// The offset is null or valid.
unsafe fn out_of_pipe(
    (pipe, may_wait): (c_int, bool),
    (file, told): End,
    len: usize,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    // SAFETY: as for the function.
    let at = unsafe { told.as_ref() }.copied();
    let work = |open: &Open, volume: &'static Volume| {
        if appends(open) {
            return Err(Fault::Errno(libc::EINVAL));
        }
        let at = at.map(at_offset).transpose()?;
        taken(pipe, len, |data| {
            let piece = [iovec {
                iov_base: data.as_ptr().cast_mut().cast(),
                iov_len: data.len(),
            }];
            // SAFETY: the vector covers `data`, which is only read.
            unsafe {
                match at {
                    Some(at) => {
                        let (_, put) = write_to((file, open), volume, &piece, Where::At(at))?;
                        Ok(put as i64)
                    }
                    None => write_here((file, open), volume, &piece, false),
                }
            }
        })
    };
    let when = (pipe, libc::POLLIN, may_wait);
    // SAFETY: as for the function.
    unsafe { by_pipe(when, (file, told), work, next) }
}

/// Transfers between files, or from a file to a socket.
///
/// # Safety
/// The offsets are null or valid.
unsafe fn copies((source, source_at): End, (target, target_at): End, len: size_t) -> ssize_t {
    if source_at.is_null() && sys::seek(source, 0, libc::SEEK_CUR) == Err(libc::ESPIPE) {
        return refused(libc::EINVAL);
    }
    let mut room = vec![0_u8; len.min(1 << 20)];
    let place = room.as_mut_ptr().cast::<c_void>();
    // SAFETY: the buffer is valid; the offsets are as for the function. The functions are this
    // library's hooks, which behave as the calls do.
    unsafe {
        let got = match source_at.as_mut() {
            Some(at) => pread64(source, place, room.len(), *at),
            None => read(source, place, room.len()),
        };
        if got <= 0 {
            return got;
        }
        let put = match target_at.as_mut() {
            Some(at) => pwrite64(target, place, got as usize, *at),
            None => write(target, place, got as usize),
        };
        let put_or_none = put.max(0);
        match source_at.as_mut() {
            Some(at) => *at += put_or_none as off_t,
            // Moves the offset back, so that the bytes that were not written are read again.
            None if put_or_none < got => {
                let back = (put_or_none - got) as off_t;
                raw::keeping_errno(|| lseek64(source, back, libc::SEEK_CUR));
            }
            None => {}
        }
        if let Some(at) = target_at.as_mut() {
            *at += put_or_none as off_t;
        }
        put
    }
}

/// Like [`copies`], with cancellation disabled, as the buffer would leak.
///
/// # Safety
/// As for [`copies`].
unsafe fn copies_whole(source: End, target: End, len: size_t) -> ssize_t {
    let (mut before, mut now) = (0, 0);
    // SAFETY: the calls write the local states; for the rest as for the function.
    unsafe {
        pthread_setcancelstate(NOT_CANCELLED, &raw mut before);
        let done = copies(source, target, len);
        pthread_setcancelstate(before, &raw mut now);
        done
    }
}

/// # Safety
/// As for the call.
unsafe fn splices(
    (source, target): (End, End),
    len: size_t,
    flags: c_uint,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    let ends = [source.0, target.0];
    if let Some(answer) = answered(ends, &next) {
        return answer;
    }
    ends.into_iter().for_each(ends_if_cancelled);
    if len == 0 {
        return 0;
    }
    let (from, into) = (pipes::is_pipe(source.0), pipes::is_pipe(target.0));
    if flags & !SPLICE_FLAGS != 0 || !(from || into) {
        return refused(libc::EINVAL);
    }
    if (from && !source.1.is_null()) || (into && !target.1.is_null()) {
        return refused(libc::ESPIPE);
    }
    let pipe = if from { source.0 } else { target.0 };
    if is_wrong_end(pipe, from) {
        return refused(libc::EBADF);
    }
    let when = (pipe, waits(pipe, flags));
    // SAFETY: as for the function.
    unsafe {
        match from {
            true => out_of_pipe(when, target, len, next),
            false => into_pipe(source, when, len, next),
        }
    }
}

/// # Safety
/// As for the call.
unsafe fn sends(
    (out, source): (c_int, c_int),
    at: *mut off_t,
    len: size_t,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    if let Some(answer) = answered([source, out], &next) {
        return answer;
    }
    let is_pipe = pipes::is_pipe(out);
    if is_pipe && is_wrong_end(out, false) {
        return refused(libc::EBADF);
    }
    // SAFETY: as for the function.
    unsafe {
        match len > 0 && is_pipe {
            true => into_pipe((source, at), (out, waits(out, 0)), len, next),
            false => copies_whole((source, at), (out, core::ptr::null_mut()), len),
        }
    }
}

/// # Safety
/// As for the call.
unsafe fn copies_range(
    (source, target): (End, End),
    len: size_t,
    flags: c_uint,
    next: impl Fn() -> ssize_t,
) -> ssize_t {
    let ends = [source.0, target.0];
    if let Some(answer) = answered(ends, &next) {
        return answer;
    }
    ends.into_iter().for_each(ends_if_cancelled);
    if flags != 0 || pipes::is_pipe(source.0) || pipes::is_pipe(target.0) {
        return refused(libc::EINVAL);
    }
    // SAFETY: as for the function.
    unsafe { copies_whole(source, target, len) }
}

hooks! {
    in flashloom_place:
    fn [sendfile sendfile64](out: c_int, source: c_int, at: *mut off_t, len: size_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { sends((out, source), at, len, next) };
    fn [copy_file_range](
        source: c_int, at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { copies_range(((source, at), (to, to_at)), len, flags, next) };
    fn [splice](
        source: c_int, at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { splices(((source, at), (to, to_at)), len, flags, next) };
}
