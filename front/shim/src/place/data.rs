//! Reads, writes, seeks, and changes of length on placed files.

use super::demote::{Answer, appends, asked, ends_if_cancelled, on, refused};
use super::durable::{force, forces};
use super::fault::Fault;
use super::table::Open;
use super::volume::{Volume, Where};
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::sys;
use core::ffi::{c_int, c_void};
use core::ops::RangeInclusive;
use libc::{iovec, off_t, off64_t, size_t, ssize_t};

/// The memory that a vectored call reads into or writes from, checked as the kernel does.
///
/// # Safety
/// `vectors` points to `count` of them, as for the call itself.
unsafe fn pieces<'a>(vectors: *const iovec, count: c_int) -> Result<&'a [iovec], Fault> {
    let count = usize::try_from(count).map_err(|_| Fault::Errno(libc::EINVAL))?;
    if count > 1024 || (vectors.is_null() && count > 0) {
        return Err(Fault::Errno(libc::EINVAL));
    }
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: as for the function.
    Ok(unsafe { core::slice::from_raw_parts(vectors, count) })
}

/// # Safety
/// As for `read` with this place and length.
unsafe fn into<'a>(to: *mut c_void, len: size_t) -> &'a mut [u8] {
    if len == 0 {
        return &mut [];
    }
    // SAFETY: as for the function.
    unsafe { core::slice::from_raw_parts_mut(to.cast(), len.min(isize::MAX as usize)) }
}

/// # Safety
/// As for `write` with this place and length.
unsafe fn from<'a>(place: *const c_void, len: size_t) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as for the function.
    unsafe { core::slice::from_raw_parts(place.cast(), len.min(isize::MAX as usize)) }
}

pub(super) fn at_offset(offset: off_t) -> Result<u64, Fault> {
    u64::try_from(offset).map_err(|_| Fault::Errno(libc::EINVAL))
}

pub(super) fn may_read(open: &Open) -> Result<(), Fault> {
    if open.reads() {
        Ok(())
    } else {
        Err(Fault::Errno(libc::EBADF))
    }
}

fn may_write(open: &Open) -> Result<(), Fault> {
    if open.writes() {
        Ok(())
    } else {
        Err(Fault::Errno(libc::EBADF))
    }
}

/// Reads into pieces of memory from offset `at` on; returns the offset behind the last byte read.
///
/// # Safety
/// The pieces are memory to write to.
pub(super) unsafe fn read_from(
    open: &Open,
    volume: &'static Volume,
    to: &[iovec],
    at: u64,
) -> Result<u64, Fault> {
    may_read(open)?;
    let mut end = at;
    for piece in to {
        // SAFETY: as for the function.
        let to = unsafe { into(piece.iov_base, piece.iov_len) };
        let read = volume.read(&open.file, end, to)?;
        end += read as u64;
        if read < to.len() {
            break;
        }
    }
    Ok(end)
}

/// Writes pieces at `at`; returns the offset behind the last byte, and the number of bytes written.
/// The write is durable before the return if the file was opened with `O_DSYNC`.
///
/// # Safety
/// The pieces are memory to read from.
pub(super) unsafe fn write_to(
    (fd, open): (c_int, &Open),
    volume: &'static Volume,
    pieces: &[iovec],
    at: Where,
) -> Result<(u64, u64), Fault> {
    may_write(open)?;
    let mut at = at;
    let mut reached = None;
    let mut total = 0;
    for piece in pieces {
        // SAFETY: as for the function.
        let data = unsafe { from(piece.iov_base, piece.iov_len) };
        match volume.write(&open.file, at, data) {
            Ok((end, written)) => {
                at = at.behind(end);
                reached = Some(end);
                total += written as u64;
                if written < data.len() {
                    break;
                }
            }
            Err(_) if total > 0 => break,
            Err(fault) => return Err(fault),
        }
    }
    let end = match (reached, at) {
        (Some(end), _) | (None, Where::At(end)) => end,
        (None, Where::Here(fd)) => sys::seek(fd, 0, libc::SEEK_CUR)?,
        (None, Where::End) => volume.size(&open.file)?,
    };
    // `O_SYNC` contains the bit of `O_DSYNC`. `F_SETFL` changes neither, in any file system.
    if total > 0 && open.flags & libc::O_DSYNC != 0 {
        force(fd, open, volume)?;
    }
    Ok((end, total))
}

/// `read` and `readv`: reads at the file offset.
///
/// # Safety
/// As for the call.
unsafe fn reads(fd: c_int, to: &[iovec], next: impl FnOnce() -> ssize_t) -> ssize_t {
    ends_if_cancelled(fd);
    on(
        fd,
        |open, volume| {
            let len = to.iter().map(|piece| piece.iov_len as u64);
            let len = len.fold(0, u64::saturating_add);
            // SAFETY: as for the function.
            let read = |at| unsafe { read_from(open, volume, to, at) };
            open.offset.hold().read(fd, len, read).map(|it| it as i64)
        },
        next,
    )
}

/// `write` and `writev`: writes at the file offset.
///
/// # Safety
/// As for the call.
unsafe fn writes(fd: c_int, pieces: &[iovec], next: impl FnOnce() -> ssize_t) -> ssize_t {
    // SAFETY: as for the function.
    unsafe { writes_as(fd, pieces, false, next) }
}

/// Like [`writes`], but writes to the end if `append`, whatever the file's flags.
///
/// # Safety
/// As for the call.
unsafe fn writes_as(
    fd: c_int,
    pieces: &[iovec],
    append: bool,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    ends_if_cancelled(fd);
    // SAFETY: as for the function.
    let write = |open: &Open, volume| unsafe { write_here((fd, open), volume, pieces, append) };
    on(fd, write, next)
}

/// Writes pieces at the file offset, or to the end if the file appends or `append` is set; returns
/// the number of bytes written.
///
/// # Safety
/// The pieces are memory to read from.
pub(super) unsafe fn write_here(
    (fd, open): (c_int, &Open),
    volume: &'static Volume,
    pieces: &[iovec],
    append: bool,
) -> Result<i64, Fault> {
    let mut offset = open.offset.hold();
    let to_end = append || appends(open);
    let at = match (to_end, offset.shared) {
        (true, _) => Where::End,
        (false, true) => Where::Here(fd),
        (false, false) => Where::At(offset.get(fd)?),
    };
    // SAFETY: as for the function.
    let (end, written) = unsafe { write_to((fd, open), volume, pieces, at)? };
    // A write of no bytes leaves the offset in place, even when appending.
    if written > 0 && (!offset.shared || to_end) {
        offset.set(fd, end)?;
    }
    Ok(written as i64)
}

/// Writes data at the file offset, without a cancellation point.
pub(super) fn put(fd: c_int, data: &[u8]) -> ssize_t {
    let piece = one(data.as_ptr().cast_mut().cast(), data.len());
    // SAFETY: the vector covers `data`, which is only read.
    let write = |open: &Open, volume| unsafe { write_here((fd, open), volume, &piece, false) };
    on(fd, write, || {
        let args = [fd as usize, data.as_ptr() as usize, data.len(), 0, 0, 0];
        raw::call(libc::SYS_write, args)
    })
}

/// `pread` and its variants: reads at an explicit offset.
///
/// # Safety
/// As for the call.
unsafe fn preads(fd: c_int, to: &[iovec], at: off_t, next: impl FnOnce() -> ssize_t) -> ssize_t {
    ends_if_cancelled(fd);
    on(
        fd,
        |open, volume| {
            let at = at_offset(at)?;
            // SAFETY: as for the function.
            let end = unsafe { read_from(open, volume, to, at)? };
            Ok((end - at) as i64)
        },
        next,
    )
}

/// `pwrite` and its variants: writes at an explicit offset, or to the end if appending.
///
/// # Safety
/// As for the call.
unsafe fn pwrites(
    fd: c_int,
    pieces: &[iovec],
    (at, append): (off_t, bool),
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    ends_if_cancelled(fd);
    on(
        fd,
        |open, volume| {
            let at = match (at_offset(at)?, append || appends(open)) {
                (_, true) => Where::End,
                (at, false) => Where::At(at),
            };
            // SAFETY: as for the function.
            let (_, written) = unsafe { write_to((fd, open), volume, pieces, at)? };
            Ok(written as i64)
        },
        next,
    )
}

/// A vector of one piece of memory.
fn one(base: *mut c_void, len: size_t) -> [iovec; 1] {
    [iovec {
        iov_base: base,
        iov_len: len,
    }]
}

/// Calls `work` with the checked vectors of a placed file, or fails as the system would; calls
/// `next` for other files.
///
/// # Safety
/// As for the call.
unsafe fn vectors<R: Answer>(
    fd: c_int,
    (vectors, count): (*const iovec, c_int),
    work: impl FnOnce(&[iovec]) -> R,
    next: impl FnOnce() -> R,
) -> R {
    match asked(fd) {
        Ok(Some(_)) => {}
        Ok(None) => return next(),
        Err(errno) => return refused(errno),
    }
    // SAFETY: as for the function.
    match unsafe { pieces(vectors, count) } {
        Ok(pieces) => work(pieces),
        Err(_) => refused(libc::EINVAL),
    }
}

fn seeks(fd: c_int, to: off_t, whence: c_int, next: impl FnOnce() -> off_t) -> off_t {
    on(
        fd,
        |open, volume| {
            let mut offset = open.offset.hold();
            let simple = [libc::SEEK_SET, libc::SEEK_CUR, libc::SEEK_END].contains(&whence);
            if offset.shared && open.writes() && simple {
                return Ok(volume.seek(&open.file, fd, (to, whence))? as i64);
            }
            let size = volume.size(&open.file)? as i64;
            let new = match whence {
                libc::SEEK_SET => Some(to),
                libc::SEEK_CUR if offset.shared => {
                    return Ok(sys::seek(fd, to as u64, whence)? as i64);
                }
                libc::SEEK_CUR => (offset.get(fd)? as i64).checked_add(to),
                libc::SEEK_END => size.checked_add(to),
                // The only hole is the one behind the end.
                libc::SEEK_DATA | libc::SEEK_HOLE if to < 0 || to >= size => {
                    return Err(Fault::Errno(libc::ENXIO));
                }
                libc::SEEK_DATA => Some(to),
                libc::SEEK_HOLE => Some(size),
                _ => None,
            };
            let new = new
                .filter(|new| *new >= 0)
                .ok_or(Fault::Errno(libc::EINVAL))?;
            offset.set(fd, new as u64)?;
            Ok(new)
        },
        next,
    )
}

fn truncates(fd: c_int, len: off_t, next: impl FnOnce() -> c_int) -> c_int {
    let cut = |open: &Open, volume: &'static Volume| {
        if !open.writes() {
            return Err(Fault::Errno(libc::EINVAL));
        }
        volume.truncate(open.file.id, at_offset(len)?)?;
        open.file.changes();
        Ok(0)
    };
    on(fd, cut, next)
}

/// `fallocate` does nothing and succeeds: a file that is only appended to gains nothing from space
/// reserved elsewhere. Its length stays what was written.
//= dissertation 5.4.3
fn allocates(
    fd: c_int,
    mode: c_int,
    (at, len): (off_t, off_t),
    next: impl FnOnce() -> c_int,
) -> c_int {
    let ask = |open: &Open, _: &'static Volume| {
        may_write(open)?;
        match mode {
            _ if at < 0 || len <= 0 => Err(Fault::Errno(libc::EINVAL)),
            _ if at.checked_add(len).is_none() => Err(Fault::Errno(libc::EFBIG)),
            0 | libc::FALLOC_FL_KEEP_SIZE => Ok(0),
            _ => Err(Fault::Errno(libc::EOPNOTSUPP)),
        }
    };
    on(fd, ask, next)
}

/// `posix_fallocate`: like [`allocates`], but returns the error number.
fn posix_allocates(fd: c_int, at: off_t, len: off_t, next: impl FnOnce() -> c_int) -> c_int {
    match asked(fd) {
        Ok(Some(_)) => {}
        Ok(None) => return next(),
        Err(errno) => return errno,
    }
    let before = raw::errno();
    let mut answer = None;
    let done = allocates(fd, 0, (at, len), || *answer.insert(next()));
    let errno = raw::errno();
    raw::set_errno(before);
    answer.unwrap_or(if done == 0 { 0 } else { errno })
}

/// Flags of `preadv2` and `pwritev2` that placed files support. `RWF_NOWAIT` is not supported.
const WAYS: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;
/// Valid advice of `posix_fadvise`.
const ADVICE: RangeInclusive<c_int> = libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE;

/// The error of flags that a placed file does not support, or of a call that may not be made here;
/// `None` if the call may proceed.
fn unsupported_flags(fd: c_int, flags: c_int) -> Option<c_int> {
    match asked(fd) {
        Ok(Some(_)) if flags & !WAYS != 0 => Some(libc::EOPNOTSUPP),
        Ok(_) => None,
        Err(errno) => Some(errno),
    }
}

hooks! {
    in flashloom_place:
    fn [read](fd: c_int, to: *mut c_void, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { reads(fd, &one(to, len), next) };
    fn [__read_chk](fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t, |next| {
        let _ = room;
        // SAFETY: as the caller vouches for the call.
        unsafe { reads(fd, &one(to, len), next) }
    };
    fn [write](fd: c_int, data: *const c_void, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { writes(fd, &one(data.cast_mut(), len), next) };
    fn [pread pread64](fd: c_int, to: *mut c_void, len: size_t, at: off_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { preads(fd, &one(to, len), at, next) };
    fn [__pread_chk __pread64_chk](
        fd: c_int, to: *mut c_void, len: size_t, at: off_t, room: size_t
    ) -> ssize_t, |next| {
        let _ = room;
        // SAFETY: as the caller vouches for the call.
        unsafe { preads(fd, &one(to, len), at, next) }
    };
    fn [pwrite pwrite64](fd: c_int, data: *const c_void, len: size_t, at: off_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { pwrites(fd, &one(data.cast_mut(), len), (at, false), next) };
    fn [readv](fd: c_int, to: *const iovec, n: c_int) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { vectors(fd, (to, n), |to| reads(fd, to, next), next) };
    fn [writev](fd: c_int, data: *const iovec, n: c_int) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { vectors(fd, (data, n), |data| writes(fd, data, next), next) };
    fn [preadv preadv64](fd: c_int, to: *const iovec, n: c_int, at: off_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { vectors(fd, (to, n), |to| preads(fd, to, at, next), next) };
    fn [pwritev pwritev64](fd: c_int, data: *const iovec, n: c_int, at: off_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { vectors(fd, (data, n), |data| pwrites(fd, data, (at, false), next), next) };
    fn [preadv2 preadv64v2](
        fd: c_int, to: *const iovec, n: c_int, at: off_t, flags: c_int
    ) -> ssize_t, |next| {
        if let Some(errno) = unsupported_flags(fd, flags) {
            return refused(errno);
        }
        // SAFETY: as the caller vouches for the call.
        unsafe {
            vectors(fd, (to, n), |to| match at {
                -1 => reads(fd, to, next),
                _ => preads(fd, to, at, next),
            }, next)
        }
    };
    fn [pwritev2 pwritev64v2](
        fd: c_int, data: *const iovec, n: c_int, at: off_t, flags: c_int
    ) -> ssize_t, |next| {
        if let Some(errno) = unsupported_flags(fd, flags) {
            return refused(errno);
        }
        let append = flags & libc::RWF_APPEND != 0;
        // SAFETY: as the caller vouches for the call.
        let done = unsafe {
            vectors(fd, (data, n), |data| match at {
                -1 => writes_as(fd, data, append, next),
                _ => pwrites(fd, data, (at, append), next),
            }, next)
        };
        let durable = flags & (libc::RWF_DSYNC | libc::RWF_SYNC) != 0;
        if done > 0 && durable && matches!(asked(fd), Ok(Some(_))) && forces(fd, || 0) != 0 {
            return -1;
        }
        done
    };
    fn [lseek lseek64](fd: c_int, to: off_t, whence: c_int) -> off_t, |next|
        seeks(fd, to, whence, next);

    fn [ftruncate ftruncate64](fd: c_int, len: off_t) -> c_int, |next| truncates(fd, len, next);
    fn [fallocate fallocate64](fd: c_int, mode: c_int, at: off_t, len: off_t) -> c_int, |next|
        allocates(fd, mode, (at, len), next);
    fn [posix_fallocate posix_fallocate64](fd: c_int, at: off_t, len: off_t) -> c_int, |next|
        posix_allocates(fd, at, len, next);
    fn [posix_fadvise posix_fadvise64](
        fd: c_int, at: off_t, len: off_t, advice: c_int
    ) -> c_int, |next| {
        let _ = at;
        match asked(fd) {
            Ok(Some(_)) if len < 0 || !ADVICE.contains(&advice) => libc::EINVAL,
            Ok(Some(_)) => 0,
            Ok(None) => next(),
            Err(errno) => errno,
        }
    };
    fn [readahead](fd: c_int, at: off64_t, len: size_t) -> ssize_t, |next| {
        let _ = (at, len);
        on(fd, |open, _| may_read(open).map(|()| 0), next)
    };
}
