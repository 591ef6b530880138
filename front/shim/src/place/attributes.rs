//! Extended attributes: the mark of a placed file is hidden from programs.
//!
//! A program that copies a file with its attributes would copy the mark, which is not valid for the
//! copy. So the mark is not listed; reading or removing it fails with `ENODATA`, and setting it
//! with `EOPNOTSUPP`, as for a name that the file system reserves.

use super::demote::refused;
use super::marks;
use super::reach::said;
use super::start::{self, State};
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::sys::Errno;
use core::ffi::{c_char, c_int, c_void};
use libc::{size_t, ssize_t};

/// Maximum length of a file's list of attribute names in bytes (`XATTR_LIST_MAX` of
/// linux/limits.h).
const LIST_MAX: usize = 1 << 16;

/// Whether `name` is that of the mark, in a process whose files are placed.
///
/// # Safety
/// The name is null, leads nowhere, or is a string.
unsafe fn is_mark(name: *const c_char) -> bool {
    // SAFETY: as for the function.
    start::state() == State::Zones && unsafe { said(name) } == marks::NAME.to_bytes()
}

/// Calls `next`, or fails with `errno` if the attribute is the mark.
///
/// # Safety
/// As for [`is_mark`].
unsafe fn hidden<R: crate::preload::next::Refusal>(
    name: *const c_char,
    errno: Errno,
    next: impl FnOnce() -> R,
) -> R {
    // SAFETY: as for the function.
    if unsafe { is_mark(name) } {
        refused(errno)
    } else {
        next()
    }
}

/// Removes the mark from a list of zero-terminated names; returns the list's new length.
fn without_mark(names: &mut [u8]) -> usize {
    let mark = marks::NAME.to_bytes_with_nul();
    let mut at = 0;
    while let Some(len) = names[at..].iter().position(|byte| *byte == 0) {
        let end = at + len + 1;
        if names[at..end] == *mark {
            names.copy_within(end.., at);
            return names.len() - mark.len();
        }
        at = end;
    }
    names.len()
}

/// Lists attribute names without the mark's. `number` is the system call that lists them, and `of`
/// its first argument: a path or a descriptor.
///
/// # Safety
/// As for the call.
unsafe fn lists(
    (number, of): (libc::c_long, usize),
    (to, len): (*mut c_char, size_t),
    next: impl FnOnce() -> ssize_t,
) -> ssize_t {
    if start::state() != State::Zones {
        return next();
    }
    let mut room = Vec::new();
    let list = |to: *mut u8, len: usize| raw::call(number, [of, to as usize, len, 0, 0, 0]);
    // Most files have no attributes; their list is left to the system.
    let all = raw::keeping_errno(|| {
        if list(core::ptr::null_mut(), 0) > 0 {
            room.resize(LIST_MAX, 0);
            list(room.as_mut_ptr(), room.len())
        } else {
            0
        }
    });
    let Some(names) = usize::try_from(all)
        .ok()
        .and_then(|all| room.get_mut(..all))
    else {
        return next();
    };
    let left = without_mark(names);
    if left == names.len() {
        return next();
    }
    if len == 0 {
        return left as ssize_t;
    }
    if left > len {
        return refused(libc::ERANGE);
    }
    // SAFETY: the caller has room for `len` bytes there.
    unsafe {
        to.cast::<u8>()
            .copy_from_nonoverlapping(names.as_ptr(), left);
    };
    left as ssize_t
}

hooks! {
    in flashloom_place:
    fn [getxattr lgetxattr](
        path: *const c_char, name: *const c_char, to: *mut c_void, len: size_t
    ) -> ssize_t, |next| {
        let _ = (path, to, len);
        // SAFETY: as the caller vouches for the call.
        unsafe { hidden(name, libc::ENODATA, next) }
    };
    fn [fgetxattr](fd: c_int, name: *const c_char, to: *mut c_void, len: size_t) -> ssize_t,
        |next| {
            let _ = (fd, to, len);
            // SAFETY: as the caller vouches for the call.
            unsafe { hidden(name, libc::ENODATA, next) }
        };
    fn [setxattr lsetxattr](
        path: *const c_char, name: *const c_char, from: *const c_void, len: size_t, how: c_int
    ) -> c_int, |next| {
        let _ = (path, from, len, how);
        // SAFETY: as the caller vouches for the call.
        unsafe { hidden(name, libc::EOPNOTSUPP, next) }
    };
    fn [fsetxattr](
        fd: c_int, name: *const c_char, from: *const c_void, len: size_t, how: c_int
    ) -> c_int, |next| {
        let _ = (fd, from, len, how);
        // SAFETY: as the caller vouches for the call.
        unsafe { hidden(name, libc::EOPNOTSUPP, next) }
    };
    fn [removexattr lremovexattr](path: *const c_char, name: *const c_char) -> c_int, |next| {
        let _ = path;
        // SAFETY: as the caller vouches for the call.
        unsafe { hidden(name, libc::ENODATA, next) }
    };
    fn [fremovexattr](fd: c_int, name: *const c_char) -> c_int, |next| {
        let _ = fd;
        // SAFETY: as the caller vouches for the call.
        unsafe { hidden(name, libc::ENODATA, next) }
    };
    fn [listxattr](path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { lists((libc::SYS_listxattr, path as usize), (to, len), next) };
    fn [llistxattr](path: *const c_char, to: *mut c_char, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { lists((libc::SYS_llistxattr, path as usize), (to, len), next) };
    fn [flistxattr](fd: c_int, to: *mut c_char, len: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { lists((libc::SYS_flistxattr, fd as usize), (to, len), next) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mark_is_removed_from_the_list_of_names() {
        for (names, left) in [
            (&b""[..], &b""[..]),
            (
                b"user.a\0user.flashloom.place\0",
                b"user.a\0user.flashloom.place\0",
            ),
            (b"user.flashloom.placed\0", b""),
            (
                b"user.a\0user.flashloom.placed\0user.b\0",
                b"user.a\0user.b\0",
            ),
            (b"user.flashloom.placed\0user.b\0", b"user.b\0"),
        ] {
            let mut names = names.to_vec();
            let len = without_mark(&mut names);
            assert_eq!(&names[..len], left);
        }
    }
}
