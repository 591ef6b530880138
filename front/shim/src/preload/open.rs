//! Opening, closing and duplicating descriptors.

use super::log::{More, note, on_fd, timed};
use super::next::hooks;
use super::raw::{bytes, info_at, info_of, keeping_errno};
use super::watch;
use crate::wire::{Head, Info, Op};
use core::ffi::{c_char, c_int, c_long, c_uint};
use libc::mode_t;

/// Whether an `open` with these flags uses its mode.
const fn makes(flags: c_int) -> bool {
    flags & libc::O_CREAT != 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE
}

/// Records an `open` by a path. The file's attributes are read before a call that may create or
/// truncate it, as they are lost afterwards.
///
/// # Safety
/// `path` is a string or null.
pub(super) unsafe fn open_at(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
    next: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as for the function.
    let said = unsafe { bytes(path) };
    if !watch::interesting_path(said) {
        return opened_outside(next());
    }
    let unsure = flags & (libc::O_CREAT | libc::O_TRUNC) != 0 && flags & libc::O_EXCL == 0;
    // SAFETY: as for the function.
    let before = unsure
        .then(|| unsafe { info_at(folder, path, 0) })
        .flatten();
    let mode = if makes(flags) { mode } else { 0 };
    let head = Head::on(Op::Open, folder)
        .flags(flags)
        .words(mode.into(), 0, 0);
    let mut head = head;
    head.start = super::raw::now();
    let fd = next();
    head.end = super::raw::now();
    opened(fd, head, before, said);
    fd
}

/// Marks a new descriptor as not watched; passes `fd` on.
fn opened_outside(fd: c_int) -> c_int {
    if fd >= 0 {
        watch::set(fd, false);
    }
    fd
}

/// Records the result of an `open`, unless the file is not of interest.
pub(super) fn opened(fd: c_int, mut head: Head, before: Option<Info>, path: &[u8]) {
    head.result = match fd {
        0.. => i64::from(fd),
        _ => -i64::from(super::raw::errno()),
    };
    let after = if fd >= 0 { info_of(fd) } else { None };
    if fd >= 0 {
        let watched = after.is_some_and(|info| watch::interesting(&info));
        watch::set(fd, watched);
        if !watched {
            return;
        }
    }
    head.b = before.is_some().into();
    // A truncated file had another size before; all other attributes hold.
    let info = match (before, after) {
        (Some(before), Some(after)) => Some(Info {
            size: before.size,
            ..after
        }),
        (before, after) => after.or(before),
    };
    let more = More {
        infos: [info, None],
        s1: path,
        s2: &[],
    };
    keeping_errno(|| super::log::append(head, &more));
}

/// Records a close. The descriptor is forgotten first, as another thread may get its number before
/// the call returns.
pub(super) fn close_with<R: super::log::Answer>(fd: c_int, next: impl FnOnce() -> R) -> R {
    if watch::forget(fd) {
        timed(Head::on(Op::Close, fd), next, |_| More::default())
    } else {
        next()
    }
}

/// Records the duplication of a descriptor.
fn copy(from: c_int, to: Option<c_int>, next: impl FnOnce() -> c_int) -> c_int {
    let watched = watch::watched(from);
    let replaced = to.is_some_and(|to| to != from && watch::watched(to));
    if !watched && !replaced {
        let copy = next();
        return opened_outside(copy);
    }
    let head = Head::on(Op::Dup, from).and(to.unwrap_or(-1));
    let copy = timed(head, next, |head| {
        head.a = watched.into();
        More::default()
    });
    if copy >= 0 {
        watch::set(copy, watched);
    }
    copy
}

/// # Safety
/// `argument` is of the type that the command takes.
pub(super) unsafe fn control(
    fd: c_int,
    command: c_int,
    argument: c_long,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let setting = |op| Head::on(op, fd);
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copy(fd, None, next),
        libc::F_SETLK | libc::F_SETLKW | libc::F_OFD_SETLK | libc::F_OFD_SETLKW => {
            // SAFETY: the argument of these commands is a lock.
            on_fd(
                unsafe { lock(fd, command, argument as *const libc::flock) },
                next,
            )
        }
        libc::F_SETFL => on_fd(setting(Op::SetFlags).flags(argument as c_int), next),
        // F_SET_RW_HINT and F_SET_FILE_RW_HINT take a pointer to the hint.
        1036 | 1038 if argument != 0 => {
            // SAFETY: `argument` points to the hint. The kernel reads eight bytes; programs that
            // pass four mean these four, and nothing need follow them.
            let hint = unsafe { (argument as *const u32).read_unaligned() };
            on_fd(setting(Op::Hint).words(hint.into(), 0, 0), next)
        }
        _ => next(),
    }
}

/// # Safety
/// `lock` is null or valid.
unsafe fn lock(fd: c_int, command: c_int, lock: *const libc::flock) -> Head {
    let head = Head::on(Op::RecordLock, fd);
    if lock.is_null() {
        return head;
    }
    // SAFETY: the pointer is valid, as it is not null.
    let lock = unsafe { &*lock };
    let waits = matches!(command, libc::F_SETLKW | libc::F_OFD_SETLKW);
    let (start, len) = (lock.l_start as u64, lock.l_len as u64);
    head.words(start, len, lock.l_type as u64)
        .flags(waits.into())
        .and(lock.l_whence.into())
}

/// Records the close of a range of descriptors.
fn close_range_with<R: super::log::Answer>(
    first: c_uint,
    last: c_uint,
    next: impl FnOnce() -> R,
) -> R {
    watch::forget_range(first, last);
    let head = Head::new(Op::CloseRange).words(first.into(), last.into(), 0);
    timed(head, next, |_| More::default())
}

/// Records the creation of a temporary file, whose name is known after the call.
///
/// # Safety
/// `template` is a string.
unsafe fn temporary(template: *const c_char, flags: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let flags = flags | libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;
    let mut head = Head::on(Op::Open, libc::AT_FDCWD)
        .flags(flags)
        .words(0o600, 0, 0);
    head.start = super::raw::now();
    let fd = next();
    head.end = super::raw::now();
    // SAFETY: as for the function.
    opened(fd, head, None, unsafe { bytes(template) });
    fd
}

const HERE: c_int = libc::AT_FDCWD;
const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

hooks! {
    in flashloom_preload:
    fn [open open64](path: *const c_char, flags: c_int, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { open_at(HERE, path, flags, mode, next) };
    fn [__open_2 __open64_2](path: *const c_char, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { open_at(HERE, path, flags, 0, next) };
    fn [openat openat64](at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { open_at(at, path, flags, mode, next) };
    fn [__openat_2 __openat64_2](at: c_int, path: *const c_char, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { open_at(at, path, flags, 0, next) };
    fn [creat creat64](path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { open_at(HERE, path, CREATE, mode, next) };
    fn [mkstemp mkstemp64](template: *mut c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { temporary(template, 0, next) };
    fn [mkostemp mkostemp64](template: *mut c_char, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { temporary(template, flags, next) };
    fn [mkstemps mkstemps64](template: *mut c_char, suffix: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { temporary(template, 0, next) };
    fn [mkostemps mkostemps64](template: *mut c_char, suffix: c_int, flags: c_int) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { temporary(template, flags, next) };

    fn [close](fd: c_int) -> c_int, |next| close_with(fd, next);
    fn [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int, |next|
        match flags {
            // Bit 2 only marks the range to be closed by `exec`.
            f if f & 4 != 0 => next(),
            _ => close_range_with(first, last, next),
        };
    fn [closefrom](first: c_int) -> (), |next|
        close_range_with(first.max(0) as c_uint, c_uint::MAX, next);
    fn [dup](from: c_int) -> c_int, |next| copy(from, None, next);
    fn [dup2](from: c_int, to: c_int) -> c_int, |next| copy(from, Some(to), next);
    fn [dup3](from: c_int, to: c_int, flags: c_int) -> c_int, |next| copy(from, Some(to), next);
    fn [fcntl fcntl64](fd: c_int, command: c_int, argument: c_long) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { control(fd, command, argument, next) };
}

/// Records the use of an interface that the library cannot see through.
pub(super) fn unseen(what: &'static [u8]) {
    let more = More {
        s1: what,
        ..More::default()
    };
    keeping_errno(|| note(Head::new(Op::Unseen), &more));
}
