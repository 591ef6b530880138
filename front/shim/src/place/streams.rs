//! Streams of the C library over placed files.
//!
//! A stream reads and writes inside the C library, also one that was open before: a shell prints to
//! a stream after it has put a file in the place of descriptor 1. So the entries by which streams
//! make system calls are replaced in the C library's table before the program runs, as in the
//! recording library.

use super::demote::{demote_at, placed, refused};
use super::gate::quiet;
use super::{open, start, table};
use crate::preload::next::{self, Next, hooks};
use crate::preload::raw::{self, bytes};
use crate::preload::stdio::{self, Entry};
use crate::sys;
use core::ffi::{CStr, c_char, c_int, c_void};
use libc::{FILE, off64_t, ssize_t};
use std::sync::atomic::{AtomicBool, Ordering};

static READ: Entry = Entry::new(c"_IO_file_read", || read_entry as *const () as usize);
static WRITE: Entry = Entry::new(c"_IO_file_write", || write_entry as *const () as usize);
static SEEK: Entry = Entry::new(c"_IO_file_seek", || seek_entry as *const () as usize);
static CLOSE: Entry = Entry::new(c"_IO_file_close", || close_entry as *const () as usize);
// A seek from the end reads the length from `stat`.
static STAT: Entry = Entry::new(c"_IO_file_stat", || stat_entry as *const () as usize);

/// Whether the table's entries were replaced.
static SEEN: AtomicBool = AtomicBool::new(false);

/// Byte offset of a stream's file offset: `_offset` in glibc's `struct _IO_FILE`, the same on every
/// 64-bit system (bits/types/struct_FILE.h).
const OFFSET: usize = 144;

/// `_IO_ERR_SEEN`: the error bit in the first word of a stream, `_flags`.
const FAILED: c_int = 0x20;

unsafe extern "C" {
    fn read(fd: c_int, to: *mut c_void, len: usize) -> isize;
    fn write(fd: c_int, from: *const c_void, len: usize) -> isize;
    fn lseek64(fd: c_int, to: off64_t, whence: c_int) -> off64_t;
    fn close(fd: c_int) -> c_int;
    fn fstat64(fd: c_int, into: *mut libc::stat) -> c_int;
}

/// Entry of `.init_array`: the dynamic linker runs it before a program's own code.
#[cfg_attr(flashloom_place, used)]
#[cfg_attr(flashloom_place, unsafe(link_section = ".init_array"))]
pub static CONSTRUCTOR: extern "C" fn() = constructor;

extern "C" fn constructor() {
    raw::keeping_errno(|| {
        let seen = stdio::replace(&[&READ, &WRITE, &SEEK, &CLOSE, &STAT]);
        SEEN.store(seen, Ordering::Release);
        // Some C libraries lack these symbols; the slow search for a missing one is made now.
        for rare in [&VERSION, &ALONE, &LOCK, &UNLOCK] {
            rare.get();
        }
        start::begin();
    });
    next::begin();
}

static VERSION: Next = Next::new(b"gnu_get_libc_version\0");
static ALONE: Next = Next::new(b"__libc_single_threaded\0");
static LOCK: Next = Next::new(b"_IO_list_lock\0");
static UNLOCK: Next = Next::new(b"_IO_list_unlock\0");

/// Guard of the lock on the C library's list of streams, if its functions are found. The C
/// library's fork takes this lock if the process has several threads, and a flush of all streams
/// holds it while writing. So a fork takes it before it waits for threads that write.
pub(super) struct List {
    unlock: Option<unsafe extern "C" fn()>,
}

/// Whether the C library's fork reads `__libc_single_threaded`: glibc 2.35 and later do.
fn forks_by_it() -> bool {
    type Told = unsafe extern "C" fn() -> *const c_char;
    let version = VERSION.get();
    if version.is_null() {
        return false;
    }
    // SAFETY: glibc's function of this name has no arguments and returns a string.
    let told = unsafe { CStr::from_ptr(core::mem::transmute::<*mut c_void, Told>(version)()) };
    let minor = told.to_str().ok().and_then(|told| told.strip_prefix("2."));
    let minor = minor.and_then(|minor| minor.split('.').next()?.parse::<u32>().ok());
    minor.is_some_and(|minor| minor >= 35)
}

impl List {
    pub(super) fn locked() -> Self {
        let alone = ALONE.get().cast::<c_char>();
        let (lock, unlock) = (LOCK.get(), UNLOCK.get());
        let missing = [alone.cast(), lock, unlock].iter().any(|it| it.is_null());
        // SAFETY: glibc defines this variable of one byte, at a fixed address.
        if missing || !forks_by_it() || unsafe { alone.read_volatile() } != 0 {
            return Self { unlock: None };
        }
        type Work = unsafe extern "C" fn();
        // SAFETY: glibc's functions of these names have no arguments and no result, and the lock is
        // recursive.
        unsafe {
            core::mem::transmute::<*mut c_void, Work>(lock)();
            let unlock = core::mem::transmute::<*mut c_void, Work>(unlock);
            Self {
                unlock: Some(unlock),
            }
        }
    }

    /// Drops the guard in a child, in which the C library has reset the lock.
    pub(super) fn forget(mut self) {
        self.unlock = None;
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Some(unlock) = self.unlock {
            // SAFETY: this thread has the lock.
            unsafe { unlock() };
        }
    }
}

/// # Safety
/// The C library calls this as it would call its own.
unsafe extern "C" fn read_entry(stream: *mut FILE, to: *mut c_void, len: ssize_t) -> ssize_t {
    type Theirs = unsafe extern "C" fn(*mut FILE, *mut c_void, ssize_t) -> ssize_t;
    // SAFETY: as for the function.
    unsafe {
        let fd = stdio::descriptor(stream);
        if placed(fd).is_some() {
            return read(fd, to, len as usize);
        }
        let theirs = READ.theirs.load(Ordering::Acquire);
        core::mem::transmute::<*mut c_void, Theirs>(theirs)(stream, to, len)
    }
}

/// # Safety
/// As for [`read_entry`].
unsafe extern "C" fn write_entry(stream: *mut FILE, from: *const c_void, len: ssize_t) -> ssize_t {
    type Theirs = unsafe extern "C" fn(*mut FILE, *const c_void, ssize_t) -> ssize_t;
    // SAFETY: as for the function.
    unsafe {
        let fd = stdio::descriptor(stream);
        if placed(fd).is_none() {
            let theirs = WRITE.theirs.load(Ordering::Acquire);
            return core::mem::transmute::<*mut c_void, Theirs>(theirs)(stream, from, len);
        }
        let mut done = 0;
        while done < len {
            let written = write(fd, from.byte_offset(done), (len - done) as usize);
            if written <= 0 {
                // The caller takes the result for a byte count and detects errors by this bit.
                *stream.cast::<c_int>() |= FAILED;
                break;
            }
            done += written;
        }
        let offset = stream.byte_add(OFFSET).cast::<off64_t>();
        if *offset >= 0 {
            *offset += done as off64_t;
        }
        done
    }
}

/// # Safety
/// As for [`read_entry`].
unsafe extern "C" fn seek_entry(stream: *mut FILE, to: off64_t, whence: c_int) -> off64_t {
    // SAFETY: as for the function. The C library's own function does the same.
    unsafe { lseek64(stdio::descriptor(stream), to, whence) }
}

/// # Safety
/// As for [`read_entry`].
unsafe extern "C" fn close_entry(stream: *mut FILE) -> c_int {
    // SAFETY: as for the function. The C library's own function does the same.
    unsafe { close(stdio::descriptor(stream)) }
}

/// # Safety
/// As for [`read_entry`].
unsafe extern "C" fn stat_entry(stream: *mut FILE, into: *mut libc::stat) -> c_int {
    // SAFETY: as for the function. The C library's own function does the same.
    unsafe { fstat64(stdio::descriptor(stream), into) }
}

/// `fopen`: opens a stream over a path, whose file may be placed or may become so.
///
/// # Safety
/// `path` and `mode` are strings or null.
unsafe fn opens(
    (path, mode): (*const c_char, *const c_char),
    next: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    // SAFETY: as for the function.
    let (said, how) = unsafe { (bytes(path), stdio::flags(bytes(mode))) };
    let (named, seen) = (start::may_be_placed(said), SEEN.load(Ordering::Acquire));
    if named && !seen {
        // SAFETY: `path` is not empty, so it is a string.
        let moved = quiet(|| demote_at(unsafe { CStr::from_ptr(path) }));
        return if moved.is_ok() {
            next()
        } else {
            refused(libc::EIO)
        };
    }
    // SAFETY: as for the function.
    let emptied = unsafe { open::empties((libc::AT_FDCWD, path), how) };
    let stream = next();
    // SAFETY: the stream is null or was just opened.
    let fd = unsafe { stdio::descriptor(stream) };
    if fd < 0 || (!named && open::is_plain_yet(fd, how) && (seen || placed(fd).is_none())) {
        return stream;
    }
    let opened = match seen {
        true => raw::keeping_errno(|| quiet(|| open::opened(fd, (how, 0o666), emptied))),
        false => Err(libc::EIO),
    };
    match opened {
        Ok(()) => stream,
        Err(errno) => {
            // SAFETY: the stream was just opened, and has no other user.
            unsafe { libc::fclose(stream) };
            refused(errno)
        }
    }
}

/// `freopen`: opens a stream over a path in place of an open stream. The C library closes or
/// replaces the old file internally, so it is flushed and forgotten here.
///
/// # Safety
/// `path` and `mode` are strings or null, and the stream is open.
unsafe fn reopens(
    (path, mode): (*const c_char, *const c_char),
    old: *mut FILE,
    next: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    // SAFETY: as for the function.
    let fd = unsafe { stdio::descriptor(old) };
    let Some(open) = placed(fd) else {
        // SAFETY: as for the function.
        return unsafe { opens((path, mode), next) };
    };
    raw::keeping_errno(|| {
        // SAFETY: as for the function. A failed flush is ignored, as `freopen` does.
        unsafe { libc::fflush(old) };
        quiet(|| open::lengthen(fd, &open));
    });
    let anew = || {
        let stream = next();
        // If the old file was closed, another thread may have its descriptor number by now.
        raw::keeping_errno(|| quiet(|| table::forget_opening(fd, open)));
        stream
    };
    // SAFETY: as for the function.
    unsafe { opens((path, mode), anew) }
}

/// Longer modes are passed on unchanged.
const MODE_MAX: usize = 64;

/// The mode without the flag `m`, which requests reads by a mapping, if the file may be placed.
/// Streams with `m` use tables of their own, and a stand-in has nothing to map. `None` if the mode
/// needs no change.
///
/// # Safety
/// `path` and `mode` are strings or null.
unsafe fn unmapped(path: *const c_char, mode: *const c_char) -> Option<[c_char; MODE_MAX]> {
    // SAFETY: as for the function.
    let (path, mode) = unsafe { (bytes(path), bytes(mode)) };
    let flags = mode.split(|byte| *byte == b',').next().unwrap_or_default();
    if !flags.contains(&b'm') || mode.len() >= MODE_MAX || !start::may_be_placed(path) {
        return None;
    }
    let (kept, rest) = mode.split_at(flags.len());
    let kept = kept.iter().filter(|byte| **byte != b'm').chain(rest);
    let mut room = [0; MODE_MAX];
    for (place, byte) in room.iter_mut().zip(kept) {
        *place = byte.cast_signed() as c_char;
    }
    Some(room)
}

/// `fdopen`: refuses a stream over a placed file if streams are not hooked.
fn over(fd: c_int, next: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let unseen = !SEEN.load(Ordering::Acquire);
    if unseen && placed(fd).is_some() {
        sys::say("streams of this C library are not seen: they get no placed file");
        return refused(libc::ENOTSUP);
    }
    next()
}

hooks! {
    in flashloom_place:
    fn [fopen fopen64](path: *const c_char, mode: *const c_char) -> *mut FILE, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe {
            match unmapped(path, mode) {
                Some(mode) => fopen(path, mode.as_ptr()),
                None => opens((path, mode), next),
            }
        };
    fn [freopen freopen64](path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe {
            match unmapped(path, mode) {
                Some(mode) => freopen(path, mode.as_ptr(), old),
                None => reopens((path, mode), old, next),
            }
        };
    fn [fdopen](fd: c_int, mode: *const c_char) -> *mut FILE, |next| {
        let _ = mode;
        over(fd, next)
    };
}
