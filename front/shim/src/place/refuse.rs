//! Interfaces that bypass the hooks: they are refused where files are placed, with one message.

use super::demote::{asked, refused};
use super::start::{self, State};
use crate::preload::next::hooks;
use crate::sys;
use core::ffi::{c_int, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

static SAID: AtomicBool = AtomicBool::new(false);

/// Refuses the interface `what` in a process whose files are placed.
pub(super) fn refuses<R>(what: &str, refusal: R, next: impl FnOnce() -> R) -> R {
    if start::state() != State::Zones {
        return next();
    }
    refuses_aloud(what, refusal)
}

fn refuses_aloud<R>(what: &str, refusal: R) -> R {
    if !SAID.swap(true, Ordering::Relaxed) {
        sys::say(&format!(
            "{what} is not seen by a preload library: it is refused"
        ));
    }
    refused::<()>(libc::ENOSYS);
    refusal
}

/// Whether a descriptor is, or may be, a placed file's, determined without waiting.
fn is_placed(fd: c_int) -> bool {
    !matches!(asked(fd), Ok(None))
}

/// Handles a request of POSIX asynchronous I/O, which begins with its descriptor.
///
/// # Safety
/// `block` is null, or points to a request.
unsafe fn block(block: *const c_int, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    if !block.is_null() && is_placed(unsafe { *block }) {
        return refuses_aloud("aio", -1);
    }
    next()
}

/// Handles a list of requests of POSIX asynchronous I/O.
///
/// # Safety
/// The list has `count` entries, each null or a pointer to a request.
unsafe fn blocks(list: *const *const c_int, count: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: as for the function.
    let is_one = |at| unsafe {
        let block = *list.add(at);
        !block.is_null() && is_placed(*block)
    };
    if !list.is_null() && (0..count).any(is_one) {
        return refuses_aloud("aio", -1);
    }
    next()
}

/// FICLONE and FICLONERANGE (linux/fs.h) make files share bytes without reading them. The bytes of
/// a placed file are not in its stand-in.
const CLONE: c_ulong = 0x4004_9409;
const CLONE_RANGE: c_ulong = 0x4020_940d;

/// `ioctl`: refuses to clone from or to a placed file.
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
        // SAFETY: as for the function; the kernel refuses invalid pointers.
        CLONE_RANGE if argument != 0 => unsafe { *(argument as *const i64) as c_int },
        _ => return next(),
    };
    if is_placed(fd) || is_placed(source) {
        // The caller then copies by reading and writing.
        return refused(libc::EOPNOTSUPP);
    }
    next()
}

hooks! {
    in flashloom_place:
    fn [ioctl](fd: c_int, request: c_ulong, argument: usize) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { controls(fd, request, argument, next) };
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
    fn [aio_fsync aio_fsync64](operation: c_int, request: *mut c_void) -> c_int, |next| {
        let _ = operation;
        // SAFETY: as the caller vouches for the call.
        unsafe { block(request.cast(), next) }
    };
    fn [lio_listio lio_listio64](
        mode: c_int, list: *const *const c_int, count: c_int, event: *mut c_void
    ) -> c_int, |next| {
        let _ = (mode, event);
        // SAFETY: as the caller vouches for the call.
        unsafe { blocks(list, count, next) }
    };
    fn [aio_read aio_write aio_read64 aio_write64](request: *mut c_void) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { block(request.cast(), next) };
}
