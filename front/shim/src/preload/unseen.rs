//! System calls by number, and interfaces that are noted but not recorded.

use super::next::hooks;
use super::open::unseen;
use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

unsafe extern "C" {
    fn fallocate(fd: c_int, mode: c_int, off: i64, len: i64) -> c_int;
    fn fdatasync(fd: c_int) -> c_int;
    fn fsync(fd: c_int) -> c_int;
    fn syncfs(fd: c_int) -> c_int;
    fn readahead(fd: c_int, off: i64, len: usize) -> isize;
    fn sync_file_range(fd: c_int, off: i64, len: i64, flags: c_uint) -> c_int;
    fn read(fd: c_int, to: *mut c_void, len: usize) -> isize;
    fn write(fd: c_int, from: *const c_void, len: usize) -> isize;
    fn pread(fd: c_int, to: *mut c_void, len: usize, off: i64) -> isize;
    fn pwrite(fd: c_int, from: *const c_void, len: usize, off: i64) -> isize;
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn close(fd: c_int) -> c_int;
    fn renameat2(
        at: c_int,
        from: *const c_char,
        to_at: c_int,
        to: *const c_char,
        flags: c_uint,
    ) -> c_int;
    fn copy_file_range(
        from: c_int,
        at: *mut i64,
        to: c_int,
        to_at: *mut i64,
        len: usize,
        flags: c_uint,
    ) -> isize;
}

/// Makes a system call by number through the hooked function of its name; calls without one are
/// left to `next`.
///
/// # Safety
/// The arguments are those of the call.
unsafe fn by_name(number: c_long, args: [usize; 6], next: impl FnOnce() -> c_long) -> c_long {
    let [a, b, c, d, e, f] = args;
    let (fd, pair) = (a as c_int, (c as i64, d as i64));
    // SAFETY: as for the function.
    let answer = unsafe {
        match number {
            libc::SYS_read => read(fd, b as *mut c_void, c),
            libc::SYS_write => write(fd, b as *const c_void, c),
            libc::SYS_pread64 => pread(fd, b as *mut c_void, c, pair.1),
            libc::SYS_pwrite64 => pwrite(fd, b as *const c_void, c, pair.1),
            libc::SYS_readahead => readahead(fd, b as i64, c),
            libc::SYS_copy_file_range => {
                let (at, to_at) = (b as *mut i64, d as *mut i64);
                copy_file_range(fd, at, c as c_int, to_at, e, f as c_uint)
            }
            libc::SYS_fallocate => fallocate(fd, b as c_int, pair.0, pair.1) as isize,
            libc::SYS_sync_file_range => {
                sync_file_range(fd, b as i64, c as i64, d as c_uint) as isize
            }
            libc::SYS_fsync => fsync(fd) as isize,
            libc::SYS_fdatasync => fdatasync(fd) as isize,
            libc::SYS_syncfs => syncfs(fd) as isize,
            libc::SYS_close => close(fd) as isize,
            libc::SYS_openat => openat(fd, b as *const c_char, c as c_int, d as c_uint) as isize,
            libc::SYS_renameat2 => renameat2(
                fd,
                b as *const c_char,
                c as c_int,
                d as *const c_char,
                e as c_uint,
            ) as isize,
            _ => return other(number, next),
        }
    };
    answer as c_long
}

fn other(number: c_long, next: impl FnOnce() -> c_long) -> c_long {
    match number {
        libc::SYS_io_uring_setup => unseen(b"io_uring"),
        libc::SYS_io_setup => unseen(b"asynchronous requests (io_submit)"),
        _ => {}
    }
    next()
}

fn noting(what: &'static [u8], next: impl FnOnce() -> c_int) -> c_int {
    unseen(what);
    next()
}

const RING: &[u8] = b"io_uring";
const LIBAIO: &[u8] = b"asynchronous requests (io_submit)";
const AIO: &[u8] = b"asynchronous requests (aio)";

hooks! {
    in flashloom_preload:
    fn [syscall](
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize
    ) -> c_long, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { by_name(number, [a, b, c, d, e, f], next) };
    fn [io_uring_queue_init](entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int, |next|
        noting(RING, next);
    fn [io_uring_queue_init_params](
        entries: c_uint, ring: *mut c_void, with: *mut c_void
    ) -> c_int, |next| noting(RING, next);
    fn [io_setup](events: c_int, context: *mut c_void) -> c_int, |next| noting(LIBAIO, next);
    fn [io_queue_init](events: c_int, context: *mut c_void) -> c_int, |next| noting(LIBAIO, next);
    fn [aio_read aio_write aio_read64 aio_write64](block: *mut c_void) -> c_int, |next|
        noting(AIO, next);
    fn [lio_listio lio_listio64](
        mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void
    ) -> c_int, |next| noting(AIO, next);
}
