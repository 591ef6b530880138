//! Ways around the calls that are answered here: they are said not to be there, once
//! aloud, where files are placed. System calls by number go to the calls they are.

use super::demote::{placed, refused};
use super::start::{self, State};
use crate::preload::next::hooks;
use crate::sys;
use core::ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

unsafe extern "C" {
    fn fallocate(fd: c_int, mode: c_int, off: i64, len: i64) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn ftruncate(fd: c_int, len: i64) -> c_int;
    fn read(fd: c_int, to: *mut c_void, len: usize) -> isize;
    fn write(fd: c_int, from: *const c_void, len: usize) -> isize;
    fn pread(fd: c_int, to: *mut c_void, len: usize, off: i64) -> isize;
    fn pwrite(fd: c_int, from: *const c_void, len: usize, off: i64) -> isize;
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn lseek(fd: c_int, to: i64, whence: c_int) -> i64;
    fn readv(fd: c_int, to: *const libc::iovec, n: c_int) -> isize;
    fn writev(fd: c_int, data: *const libc::iovec, n: c_int) -> isize;
    fn sync_file_range(fd: c_int, off: i64, len: i64, flags: c_uint) -> c_int;
}

static SAID: AtomicBool = AtomicBool::new(false);

/// Refuses what would pass by, where files are placed.
fn refuses<R>(what: &str, refusal: R, next: impl FnOnce() -> R) -> R {
    if start::state() != State::Zones {
        return next();
    }
    if !SAID.swap(true, Ordering::Relaxed) {
        sys::say(&format!(
            "{what} is not seen by a preload library: it is refused"
        ));
    }
    refused::<()>(libc::ENOSYS);
    refusal
}

/// # Safety
/// The arguments are those of the call.
unsafe fn by_number(number: c_long, args: [usize; 6], next: impl FnOnce() -> c_long) -> c_long {
    let [a, b, c, d, _, _] = args;
    let fd = a as c_int;
    // SAFETY: as for the function; the names are those of our own hooks.
    let answer = unsafe {
        match number {
            libc::SYS_read => read(fd, b as *mut c_void, c),
            libc::SYS_write => write(fd, b as *const c_void, c),
            libc::SYS_pread64 => pread(fd, b as *mut c_void, c, d as i64),
            libc::SYS_pwrite64 => pwrite(fd, b as *const c_void, c, d as i64),
            libc::SYS_lseek => lseek(fd, b as i64, c as c_int) as isize,
            libc::SYS_readv => readv(fd, b as *const libc::iovec, c as c_int),
            libc::SYS_writev => writev(fd, b as *const libc::iovec, c as c_int),
            libc::SYS_fallocate => fallocate(fd, b as c_int, c as i64, d as i64) as isize,
            libc::SYS_ftruncate => ftruncate(fd, b as i64) as isize,
            libc::SYS_sync_file_range => {
                sync_file_range(fd, b as i64, c as i64, d as c_uint) as isize
            }
            libc::SYS_fsync => fsync(fd) as isize,
            libc::SYS_fdatasync => fdatasync(fd) as isize,
            libc::SYS_close => close(fd) as isize,
            libc::SYS_ioctl => ioctl(fd, b as c_ulong, c) as isize,
            libc::SYS_openat => openat(fd, b as *const c_char, c as c_int, d as c_uint) as isize,
            libc::SYS_io_uring_setup => return refuses("io_uring", -1, next),
            libc::SYS_io_setup => return refuses("libaio", -1, next),
            _ => return next(),
        }
    };
    answer as c_long
}

/// A request of the C library's asynchronous kind, which begins with its descriptor.
///
/// # Safety
/// The block is null or one.
unsafe fn block(block: *const c_int, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    if !block.is_null() && placed(unsafe { *block }).is_some() {
        return refuses("aio", -1, next);
    }
    next()
}

/// FICLONE and FICLONERANGE (linux/fs.h): bytes of one file become another one's, without
/// being read. Those of a placed file are not in the file that stands for it.
const CLONE: c_ulong = 0x4004_9409;
const CLONE_RANGE: c_ulong = 0x4020_940d;

/// A request of a driver.
///
/// # Safety
/// As for `ioctl`.
unsafe fn controls(
    fd: c_int,
    request: c_ulong,
    argument: usize,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let source = match request {
        CLONE => argument as c_int,
        // The first of its eight bytes each is the descriptor.
        // SAFETY: as for the function; what leads nowhere is the system's to refuse.
        CLONE_RANGE if argument != 0 => unsafe { *(argument as *const i64) as c_int },
        _ => return next(),
    };
    if placed(fd).is_some() || placed(source).is_some() {
        // Whoever copies does it by reading and writing then.
        return refused(libc::EOPNOTSUPP);
    }
    next()
}

hooks! {
    in flashloom_place:
    fn [ioctl](fd: c_int, request: c_ulong, argument: usize) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { controls(fd, request, argument, next) };
    fn [syscall](
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize
    ) -> c_long, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { by_number(number, [a, b, c, d, e, f], next) };
    fn [io_uring_queue_init](entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int, |next| {
        let _ = (entries, ring, flags);
        refuses("io_uring", -libc::ENOSYS, next)
    };
    fn [io_uring_queue_init_params](
        entries: c_uint, ring: *mut c_void, with: *mut c_void
    ) -> c_int, |next| {
        let _ = (entries, ring, with);
        refuses("io_uring", -libc::ENOSYS, next)
    };
    fn [io_setup](events: c_int, context: *mut c_void) -> c_int, |next| {
        let _ = (events, context);
        refuses("libaio", -libc::ENOSYS, next)
    };
    fn [io_queue_init](events: c_int, context: *mut c_void) -> c_int, |next| {
        let _ = (events, context);
        refuses("libaio", -libc::ENOSYS, next)
    };
    fn [aio_read aio_write aio_read64 aio_write64](request: *mut c_void) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { block(request.cast(), next) };
}
