//! Reads, writes, seeks, syncs, allocation, locks and hints.

use super::log::{Answer, More, on_fd, timed};
use super::next::hooks;
use super::{raw, watch};
use crate::wire::{Head, Op};
use core::ffi::{c_int, c_uint, c_void};
use libc::{iovec, off_t, off64_t, size_t, ssize_t};

/// Sum of the lengths of vectors in bytes; 0 if they are invalid.
///
/// # Safety
/// `vectors` points to `count` of them, as for the call itself.
unsafe fn total(vectors: *const iovec, count: c_int) -> u64 {
    let Ok(count) = usize::try_from(count) else {
        return 0;
    };
    if vectors.is_null() || count > 1024 {
        return 0;
    }
    // SAFETY: the caller's caller vouches for the vectors.
    let vectors = unsafe { core::slice::from_raw_parts(vectors, count) };
    let lengths = vectors.iter().map(|vector| vector.iov_len as u64);
    lengths.fold(0, u64::saturating_add)
}

/// Records a read or write at the file offset.
#[inline]
fn moves<R: Answer>(op: Op, fd: c_int, len: u64, next: impl FnOnce() -> R) -> R {
    on_fd(Head::on(op, fd).words(len, 0, 0), next)
}

/// Records a read or write at an explicit offset.
#[inline]
fn at<R: Answer>(op: Op, fd: c_int, len: u64, at: off_t, next: impl FnOnce() -> R) -> R {
    on_fd(Head::on(op, fd).words(len, at as u64, 0), next)
}

/// Records a vectored call at `offset`, or at the file offset if that is -1.
#[inline]
fn either<R: Answer>(
    ops: (Op, Op),
    fd: c_int,
    len: u64,
    offset: off_t,
    next: impl FnOnce() -> R,
) -> R {
    match offset {
        -1 => moves(ops.0, fd, len, next),
        _ => at(ops.1, fd, len, offset, next),
    }
}

hooks! {
    in flashloom_preload:
    fn [read](fd: c_int, to: *mut c_void, len: size_t) -> ssize_t, |next|
        moves(Op::Read, fd, len as u64, next);
    fn [__read_chk](fd: c_int, to: *mut c_void, len: size_t, room: size_t) -> ssize_t, |next|
        moves(Op::Read, fd, len as u64, next);
    fn [write](fd: c_int, from: *const c_void, len: size_t) -> ssize_t, |next|
        moves(Op::Write, fd, len as u64, next);
    fn [pread pread64](fd: c_int, to: *mut c_void, len: size_t, off: off_t) -> ssize_t, |next|
        at(Op::Pread, fd, len as u64, off, next);
    fn [__pread_chk __pread64_chk](
        fd: c_int, to: *mut c_void, len: size_t, off: off_t, room: size_t
    ) -> ssize_t, |next|
        at(Op::Pread, fd, len as u64, off, next);
    fn [pwrite pwrite64](fd: c_int, from: *const c_void, len: size_t, off: off_t) -> ssize_t,
        |next| at(Op::Pwrite, fd, len as u64, off, next);
    fn [readv](fd: c_int, to: *const iovec, n: c_int) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        moves(Op::Read, fd, unsafe { total(to, n) }, next);
    fn [writev](fd: c_int, from: *const iovec, n: c_int) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        moves(Op::Write, fd, unsafe { total(from, n) }, next);
    fn [preadv preadv64](fd: c_int, to: *const iovec, n: c_int, off: off_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        at(Op::Pread, fd, unsafe { total(to, n) }, off, next);
    fn [pwritev pwritev64](fd: c_int, from: *const iovec, n: c_int, off: off_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| at(Op::Pwrite, fd, unsafe { total(from, n) }, off, next);
    fn [preadv2 preadv64v2](
        fd: c_int, to: *const iovec, n: c_int, off: off_t, flags: c_int
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        either((Op::Read, Op::Pread), fd, unsafe { total(to, n) }, off, next);
    fn [pwritev2 pwritev64v2](
        fd: c_int, from: *const iovec, n: c_int, off: off_t, flags: c_int
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        either((Op::Write, Op::Pwrite), fd, unsafe { total(from, n) }, off, next);
    fn [lseek lseek64](fd: c_int, off: off_t, whence: c_int) -> off_t, |next|
        on_fd(Head::on(Op::Seek, fd).words(off as u64, whence as u64, 0), next);

    fn [fsync](fd: c_int) -> c_int, |next| on_fd(Head::on(Op::Fsync, fd), next);
    fn [fdatasync](fd: c_int) -> c_int, |next| on_fd(Head::on(Op::Fdatasync, fd), next);
    fn [syncfs](fd: c_int) -> c_int, |next| on_fd(Head::on(Op::SyncFs, fd), next);
    fn [sync]() -> (), |next| timed(Head::new(Op::Sync), next, |_| More::default());
    fn [sync_file_range](fd: c_int, off: off64_t, len: off64_t, flags: c_uint) -> c_int, |next|
        on_fd(
            Head::on(Op::SyncRange, fd).words(off as u64, len as u64, 0).flags(flags as c_int),
            next,
        );

    fn [ftruncate ftruncate64](fd: c_int, len: off_t) -> c_int, |next|
        on_fd(Head::on(Op::Ftruncate, fd).words(len as u64, 0, 0), next);
    fn [fallocate fallocate64](fd: c_int, mode: c_int, off: off_t, len: off_t) -> c_int, |next|
        on_fd(
            Head::on(Op::Fallocate, fd).words(off as u64, len as u64, 0).flags(mode),
            next,
        );
    fn [posix_fallocate posix_fallocate64](fd: c_int, off: off_t, len: off_t) -> c_int, |next|
        direct(Head::on(Op::Fallocate, fd).words(off as u64, len as u64, 0), next);
    fn [posix_fadvise posix_fadvise64](
        fd: c_int, off: off_t, len: off_t, advice: c_int
    ) -> c_int, |next|
        direct(Head::on(Op::Advise, fd).words(off as u64, len as u64, advice as u64), next);
    fn [readahead](fd: c_int, off: off64_t, len: size_t) -> ssize_t, |next|
        on_fd(
            Head::on(Op::Advise, fd).words(
                off as u64,
                len as u64,
                libc::POSIX_FADV_WILLNEED as u64,
            ),
            next,
        );
    fn [flock](fd: c_int, operation: c_int) -> c_int, |next|
        on_fd(Head::on(Op::Flock, fd).flags(operation), next);
    fn [lockf lockf64](fd: c_int, operation: c_int, len: off_t) -> c_int, |next|
        on_fd(lockf_head(fd, operation, len), next);

    fn [sendfile sendfile64](out: c_int, from: c_int, off: *mut off_t, len: size_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { transfer((from, off), (out, core::ptr::null_mut()), len, next) };
    fn [copy_file_range](
        from: c_int, at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint
    ) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { transfer((from, at), (to, to_at), len, next) };
    fn [splice](
        from: c_int, at: *mut off64_t, to: c_int, to_at: *mut off64_t, len: size_t, flags: c_uint
    ) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { transfer((from, at), (to, to_at), len, next) };
}

/// Like `on_fd`, for functions that return the error number.
fn direct(head: Head, next: impl FnOnce() -> c_int) -> c_int {
    struct Direct(c_int);
    impl Answer for Direct {
        fn answer(&self) -> i64 {
            -i64::from(self.0)
        }
    }
    on_fd(head, || Direct(next())).0
}

/// The record of `lockf`, which locks from the file offset.
fn lockf_head(fd: c_int, operation: c_int, len: off_t) -> Head {
    let kind = match operation {
        libc::F_ULOCK => libc::F_UNLCK,
        _ => libc::F_WRLCK,
    };
    let offset = raw::keeping_errno(|| {
        let here = [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0];
        raw::call(libc::SYS_lseek, here).max(0)
    });
    let wait = c_int::from(operation == libc::F_LOCK);
    let words = (offset as u64, len.unsigned_abs(), kind as u64);
    Head::on(Op::RecordLock, fd)
        .words(words.0, words.1, words.2)
        .flags(wait)
}

/// The start of a transfer: an explicit offset, or all ones for the file offset.
///
/// # Safety
/// The pointer is null or valid.
unsafe fn offset(pointer: *const off_t) -> u64 {
    if pointer.is_null() {
        return u64::MAX;
    }
    // SAFETY: the pointer is valid, as it is not null.
    unsafe { *pointer as u64 }
}

/// Records a transfer between two descriptors: a copy if both are watched, else a read or write of
/// the one that is.
///
/// # Safety
/// The offsets are null or valid.
unsafe fn transfer(
    from: (c_int, *mut off_t),
    to: (c_int, *mut off_t),
    len: size_t,
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    // SAFETY: as for the function.
    let (from_at, to_at) = unsafe { (offset(from.1), offset(to.1)) };
    let len = len as u64;
    let one = |ops: (Op, Op), fd, at| match at {
        u64::MAX => Head::on(ops.0, fd).words(len, 0, 0),
        at => Head::on(ops.1, fd).words(len, at, 0),
    };
    let head = match (watch::watched(from.0), watch::watched(to.0)) {
        (true, true) => Head::on(Op::CopyRange, from.0)
            .words(len, from_at, to_at)
            .and(to.0),
        (true, false) => one((Op::Read, Op::Pread), from.0, from_at),
        (false, true) => one((Op::Write, Op::Pwrite), to.0, to_at),
        (false, false) => return next(),
    };
    timed(head, next, |_| More::default())
}
