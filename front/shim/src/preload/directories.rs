//! Directory streams, and other functions that access paths inside the C library.
//!
//! The C library reads many entries at once and returns them one by one. One record stands for all
//! entries returned since the last record. It is written at the end of the directory, at a rewind,
//! and when the stream is closed.

use super::log::{More, note};
use super::next::{Next, hooks};
use super::open::{close_with, open_at};
use super::raw;
use super::watch::watched;
use crate::wire::{Head, Op};
use core::ffi::{c_char, c_int};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{DIR, dirent};

/// Entries returned since the last record, by descriptor of the directory.
static COUNTS: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];

static DIRFD: Next = Next::new(b"dirfd\0");

/// The descriptor of a directory stream, or -1.
///
/// # Safety
/// The stream is null or open.
unsafe fn descriptor(stream: *mut DIR) -> c_int {
    let found = DIRFD.get();
    if stream.is_null() || found.is_null() {
        return -1;
    }
    type Dirfd = unsafe extern "C" fn(*mut DIR) -> c_int;
    // SAFETY: this is the type of `dirfd`, and the stream is open.
    unsafe { core::mem::transmute::<*mut core::ffi::c_void, Dirfd>(found)(stream) }
}

fn count(fd: c_int) -> Option<&'static AtomicU32> {
    COUNTS.get(usize::try_from(fd).ok()?)
}

/// Records the entries that were returned since the last record.
fn flush(fd: c_int) {
    let read = count(fd).map_or(0, |count| count.swap(0, Ordering::Relaxed));
    if read > 0 && watched(fd) {
        let mut head = Head::on(Op::Readdir, fd).words(read.into(), 0, 0);
        head.result = read.into();
        raw::keeping_errno(|| note(head, &More::default()));
    }
}

/// # Safety
/// The stream is open.
unsafe fn reads<T>(stream: *mut DIR, next: impl FnOnce() -> *mut T) -> *mut T {
    let entry = next();
    // SAFETY: as for the function.
    let fd = unsafe { descriptor(stream) };
    match count(fd) {
        Some(count) if !entry.is_null() => {
            count.fetch_add(1, Ordering::Relaxed);
        }
        _ => flush(fd),
    }
    entry
}

/// # Safety
/// The path is a string or null.
unsafe fn opens(path: *const c_char, next: impl FnOnce() -> *mut DIR) -> *mut DIR {
    let mut stream = core::ptr::null_mut();
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let run = || {
        stream = next();
        // SAFETY: the stream is null or was just opened.
        unsafe { descriptor(stream) }
    };
    // SAFETY: as for the function.
    unsafe { open_at(libc::AT_FDCWD, path, flags, 0, run) };
    stream
}

/// # Safety
/// The stream is open.
unsafe fn closes(stream: *mut DIR, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    let fd = unsafe { descriptor(stream) };
    flush(fd);
    close_with(fd, next)
}

/// # Safety
/// The stream is open.
unsafe fn rewinds(stream: *mut DIR, next: impl FnOnce()) {
    // SAFETY: as for the function.
    let fd = unsafe { descriptor(stream) };
    flush(fd);
    super::log::on_fd(Head::on(Op::Rewind, fd), next);
}

/// Records `realpath` as one `stat` of the file, although it looks at every part of the path.
///
/// # Safety
/// The path is a string or null.
unsafe fn resolves(path: *const c_char, next: impl FnOnce() -> *mut c_char) -> *mut c_char {
    // SAFETY: as for the function.
    unsafe {
        let info = raw::info_at(libc::AT_FDCWD, path, 0);
        let place = (libc::AT_FDCWD, path);
        super::names::on_path(Head::new(Op::Stat), place, info, next)
    }
}

hooks! {
    in flashloom_preload:
    fn [opendir](path: *const c_char) -> *mut DIR, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { opens(path, next) };
    fn [readdir readdir64](stream: *mut DIR) -> *mut dirent, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { reads(stream, next) };
    fn [rewinddir](stream: *mut DIR) -> (), |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { rewinds(stream, next) };
    fn [closedir](stream: *mut DIR) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { closes(stream, next) };
    fn [realpath](path: *const c_char, to: *mut c_char) -> *mut c_char, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { resolves(path, next) };
    fn [__realpath_chk](path: *const c_char, to: *mut c_char, room: usize) -> *mut c_char, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { resolves(path, next) };
}
