//! Attributes of files: `stat`, permissions, owners, times and extended attributes.

use super::log::{Answer, More, on_fd, timed};
use super::names::on_path;
use super::next::hooks;
use super::raw::{self, bytes, info_at};
use super::watch::{interesting_path, watched};
use crate::wire::{Head, Op};
use core::ffi::{c_char, c_int, c_uint, c_void};
use libc::{gid_t, mode_t, size_t, ssize_t, stat as Stat, timespec, timeval, uid_t, utimbuf};

const HERE: c_int = libc::AT_FDCWD;
const ITSELF: c_int = libc::AT_SYMLINK_NOFOLLOW;

/// A folder's descriptor, a path from there, and flags that tell whether links are followed.
type Place = (c_int, *const c_char, c_int);

/// Records `stat` by any name; with `AT_EMPTY_PATH` and an empty path it is `fstat`.
///
/// # Safety
/// The path is a string or null; the call fills `into` if it returns 0.
unsafe fn asks(place: Place, into: *const Stat, next: impl FnOnce() -> c_int) -> c_int {
    let (folder, path, flags) = place;
    // SAFETY: as for the function.
    let s1 = unsafe { bytes(path) };
    if flags & libc::AT_EMPTY_PATH != 0 && s1.is_empty() {
        return on_fd(Head::on(Op::Fstat, folder), next);
    }
    if !interesting_path(s1) {
        return next();
    }
    timed(Head::on(Op::Stat, folder).flags(flags), next, |head| {
        let found = (head.result == 0 && !into.is_null()).then(|| {
            // SAFETY: the call filled it.
            raw::info(unsafe { &*into })
        });
        More {
            infos: [found, None],
            s1,
            s2: &[],
        }
    })
}

/// # Safety
/// As for [`asks`].
unsafe fn asks_more(place: Place, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    let s1 = unsafe { bytes(place.1) };
    if place.2 & libc::AT_EMPTY_PATH != 0 && s1.is_empty() {
        return on_fd(Head::on(Op::Fstat, place.0), next);
    }
    // SAFETY: as for the function.
    unsafe { changes(Head::new(Op::Stat), place, next) }
}

/// Records a call on a path that leaves the file in place, so that its attributes can be read
/// afterwards.
///
/// # Safety
/// The path is a string or null.
unsafe fn changes<R: Answer>(mut head: Head, place: Place, next: impl FnOnce() -> R) -> R {
    // SAFETY: as for the function.
    let s1 = unsafe { bytes(place.1) };
    if !interesting_path(s1) {
        return next();
    }
    (head.fd, head.flags) = (place.0, place.2 as u32);
    timed(head, next, |head| {
        let flags = place.2 & ITSELF;
        // SAFETY: as for the function.
        let look = || unsafe { info_at(place.0, place.1, flags) };
        More {
            infos: [(head.result >= 0).then(look).flatten(), None],
            s1,
            s2: &[],
        }
    })
}

/// Records a call on the extended attribute `name` of a path.
///
/// # Safety
/// Both are strings or null.
unsafe fn attribute<R: Answer>(
    mut head: Head,
    place: Place,
    name: *const c_char,
    next: impl FnOnce() -> R,
) -> R {
    // SAFETY: as for the function.
    let (s1, s2) = unsafe { (bytes(place.1), bytes(name)) };
    if !interesting_path(s1) {
        return next();
    }
    (head.fd, head.flags) = (place.0, place.2 as u32);
    timed(head, next, |head| {
        let flags = place.2 & ITSELF;
        // SAFETY: as for the function.
        let look = || unsafe { info_at(place.0, place.1, flags) };
        More {
            infos: [(head.result >= 0).then(look).flatten(), None],
            s1,
            s2,
        }
    })
}

/// Records a call on the extended attribute `name` of an open file.
///
/// # Safety
/// The name is a string or null.
unsafe fn attribute_of<R: Answer>(head: Head, name: *const c_char, next: impl FnOnce() -> R) -> R {
    if !watched(head.fd) {
        return next();
    }
    timed(head, next, |_| More {
        // SAFETY: as for the function.
        s2: unsafe { bytes(name) },
        ..More::default()
    })
}

fn times(fd: c_int, path: *const c_char, flags: c_int, next: impl FnOnce() -> c_int) -> c_int {
    if path.is_null() {
        return on_fd(Head::on(Op::Futimens, fd), next);
    }
    // SAFETY: as the callers below vouch for the path.
    unsafe { changes(Head::new(Op::Utimens), (fd, path, flags), next) }
}

const fn owned(op: Op, user: uid_t, group: gid_t) -> Head {
    Head::new(op).words(user as u64, group as u64, 0)
}

const fn sized(op: Op, len: size_t, how: c_int) -> Head {
    Head::new(op).words(len as u64, how as u64, 0)
}

const fn sized_of(op: Op, fd: c_int, len: size_t, how: c_int) -> Head {
    Head::on(op, fd).words(len as u64, how as u64, 0)
}

hooks! {
    in flashloom_preload:
    fn [stat stat64](path: *const c_char, into: *mut Stat) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((HERE, path, 0), into, next) };
    fn [lstat lstat64](path: *const c_char, into: *mut Stat) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((HERE, path, ITSELF), into, next) };
    fn [fstat fstat64](fd: c_int, into: *mut Stat) -> c_int, |next|
        on_fd(Head::on(Op::Fstat, fd), next);
    fn [fstatat fstatat64](
        at: c_int, path: *const c_char, into: *mut Stat, flags: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((at, path, flags), into, next) };
    fn [__xstat __xstat64](version: c_int, path: *const c_char, into: *mut Stat) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((HERE, path, 0), into, next) };
    fn [__lxstat __lxstat64](version: c_int, path: *const c_char, into: *mut Stat) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { asks((HERE, path, ITSELF), into, next) };
    fn [__fxstat __fxstat64](version: c_int, fd: c_int, into: *mut Stat) -> c_int, |next|
        on_fd(Head::on(Op::Fstat, fd), next);
    fn [__fxstatat __fxstatat64](
        version: c_int, at: c_int, path: *const c_char, into: *mut Stat, flags: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((at, path, flags), into, next) };
    fn [statx](
        at: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut c_void
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks_more((at, path, flags), next) };
    fn [access eaccess euidaccess](path: *const c_char, mode: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(Head::new(Op::Access).words(mode as u64, 0, 0), (HERE, path, 0), next) };
    fn [faccessat](at: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(Head::new(Op::Access).words(mode as u64, 0, 0), (at, path, flags), next) };
    fn [statfs statfs64 statvfs statvfs64](path: *const c_char, into: *mut c_void) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { changes(Head::new(Op::StatFs), (HERE, path, 0), next) };
    fn [fstatfs fstatfs64 fstatvfs fstatvfs64](fd: c_int, into: *mut c_void) -> c_int, |next|
        on_fd(Head::on(Op::FstatFs, fd), next);
    fn [truncate truncate64](path: *const c_char, len: libc::off_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe {
            let before = info_at(HERE, path, 0);
            on_path(Head::new(Op::Truncate).words(len as u64, 0, 0), (HERE, path), before, next)
        };

    fn [chmod](path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(Head::new(Op::Chmod).words(mode.into(), 0, 0), (HERE, path, 0), next) };
    fn [lchmod](path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe {
            changes(Head::new(Op::Chmod).words(mode.into(), 0, 0), (HERE, path, ITSELF), next)
        };
    fn [fchmod](fd: c_int, mode: mode_t) -> c_int, |next|
        on_fd(Head::on(Op::Fchmod, fd).words(mode.into(), 0, 0), next);
    fn [fchmodat](at: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(Head::new(Op::Chmod).words(mode.into(), 0, 0), (at, path, flags), next) };
    fn [chown](path: *const c_char, user: uid_t, group: gid_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(owned(Op::Chown, user, group), (HERE, path, 0), next) };
    fn [lchown](path: *const c_char, user: uid_t, group: gid_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(owned(Op::Chown, user, group), (HERE, path, ITSELF), next) };
    fn [fchown](fd: c_int, user: uid_t, group: gid_t) -> c_int, |next| {
        let mut head = owned(Op::Fchown, user, group);
        head.fd = fd;
        on_fd(head, next)
    };
    fn [fchownat](
        at: c_int, path: *const c_char, user: uid_t, group: gid_t, flags: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(owned(Op::Chown, user, group), (at, path, flags), next) };
    fn [utime](path: *const c_char, to: *const utimbuf) -> c_int, |next|
        times(HERE, path, 0, next);
    fn [utimes](path: *const c_char, to: *const timeval) -> c_int, |next|
        times(HERE, path, 0, next);
    fn [lutimes](path: *const c_char, to: *const timeval) -> c_int, |next|
        times(HERE, path, ITSELF, next);
    fn [futimesat](at: c_int, path: *const c_char, to: *const timeval) -> c_int, |next|
        times(at, path, 0, next);
    fn [utimensat](at: c_int, path: *const c_char, to: *const timespec, flags: c_int) -> c_int,
        |next| times(at, path, flags, next);
    fn [futimens](fd: c_int, to: *const timespec) -> c_int, |next|
        on_fd(Head::on(Op::Futimens, fd), next);
    fn [futimes](fd: c_int, to: *const timeval) -> c_int, |next|
        on_fd(Head::on(Op::Futimens, fd), next);

    fn [getxattr](
        path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute(sized(Op::GetXattr, len, 0), (HERE, path, 0), name, next) };
    fn [lgetxattr](
        path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute(sized(Op::GetXattr, len, 0), (HERE, path, ITSELF), name, next) };
    fn [fgetxattr](fd: c_int, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { attribute_of(sized_of(Op::FgetXattr, fd, len, 0), name, next) };
    fn [setxattr](
        path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, how: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute(sized(Op::SetXattr, len, how), (HERE, path, 0), name, next) };
    fn [lsetxattr](
        path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, how: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute(sized(Op::SetXattr, len, how), (HERE, path, ITSELF), name, next) };
    fn [fsetxattr](
        fd: c_int, name: *const c_char, from: *const c_void, len: size_t, how: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute_of(sized_of(Op::FsetXattr, fd, len, how), name, next) };
    fn [listxattr](path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(sized(Op::ListXattr, len, 0), (HERE, path, 0), next) };
    fn [llistxattr](path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { changes(sized(Op::ListXattr, len, 0), (HERE, path, ITSELF), next) };
    fn [flistxattr](fd: c_int, to: *mut c_char, len: size_t) -> ssize_t, |next|
        on_fd(sized_of(Op::FlistXattr, fd, len, 0), next);
    fn [removexattr](path: *const c_char, name: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute(Head::new(Op::RemoveXattr), (HERE, path, 0), name, next) };
    fn [lremovexattr](path: *const c_char, name: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute(Head::new(Op::RemoveXattr), (HERE, path, ITSELF), name, next) };
    fn [fremovexattr](fd: c_int, name: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { attribute_of(Head::on(Op::FremoveXattr, fd), name, next) };
}
