//! Names: renames, links, removals, creations and symbolic links.

use super::log::{Answer, More, timed};
use super::next::hooks;
use super::raw::{bytes, info_at};
use super::watch::interesting_path;
use crate::wire::{Head, Info, Op};
use core::ffi::{c_char, c_int, c_uint};
use libc::{dev_t, mode_t, size_t, ssize_t};

const HERE: c_int = libc::AT_FDCWD;
const ITSELF: c_int = libc::AT_SYMLINK_NOFOLLOW;

/// The descriptor of a folder, and a path from there.
type Place = (c_int, *const c_char);

/// Records a call on one path, with the file's attributes if they are known.
///
/// # Safety
/// The path is a string or null.
pub(super) unsafe fn on_path<R: Answer>(
    mut head: Head,
    place: Place,
    info: Option<Info>,
    next: impl FnOnce() -> R,
) -> R {
    // SAFETY: as for the function.
    let path = unsafe { bytes(place.1) };
    if !interesting_path(path) {
        return next();
    }
    head.fd = place.0;
    timed(head, next, |_| More {
        infos: [info, None],
        s1: path,
        s2: &[],
    })
}

/// Like [`on_path`], with the attributes that the file had before the call.
///
/// # Safety
/// The path is a string or null.
unsafe fn removes<R: Answer>(op: Op, place: Place, next: impl FnOnce() -> R) -> R {
    // SAFETY: as for the function.
    unsafe {
        let before = info_at(place.0, place.1, ITSELF);
        on_path(Head::new(op), place, before, next)
    }
}

/// # Safety
/// The paths are strings or null.
unsafe fn renames(from: Place, to: Place, flags: c_uint, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    let infos = unsafe { [info_at(from.0, from.1, ITSELF), info_at(to.0, to.1, ITSELF)] };
    let head = Head::on(Op::Rename, from.0).and(to.0).flags(flags as c_int);
    // SAFETY: as for the function.
    let (s1, s2) = unsafe { (bytes(from.1), bytes(to.1)) };
    // A missing file has an info of all zeros, so that there are always two.
    let infos = infos.map(|info| Some(info.unwrap_or_default()));
    timed(head, next, |_| More { infos, s1, s2 })
}

/// # Safety
/// The paths are strings or null.
unsafe fn links(from: Place, to: Place, flags: c_int, next: impl FnOnce() -> c_int) -> c_int {
    let empty = libc::AT_EMPTY_PATH;
    let follow = if flags & libc::AT_SYMLINK_FOLLOW == 0 {
        ITSELF
    } else {
        0
    };
    // SAFETY: as for the function.
    let info = unsafe { info_at(from.0, from.1, follow | (flags & empty)) };
    let head = Head::on(Op::Link, from.0).and(to.0).flags(flags);
    // SAFETY: as for the function.
    let (s1, s2) = unsafe { (bytes(from.1), bytes(to.1)) };
    timed(head, next, |_| More {
        infos: [info, None],
        s1,
        s2,
    })
}

/// # Safety
/// `target` and the path are strings or null.
unsafe fn symlinks(target: *const c_char, to: Place, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    let (s1, s2) = unsafe { (bytes(to.1), bytes(target)) };
    timed(Head::on(Op::Symlink, to.0), next, |_| More {
        s1,
        s2,
        ..More::default()
    })
}

/// # Safety
/// The path is a string or null, and the result is the number of bytes written to `said`.
unsafe fn reads_link(place: Place, said: *const c_char, next: impl FnOnce() -> ssize_t) -> ssize_t {
    // SAFETY: as for the function.
    let s1 = unsafe { bytes(place.1) };
    if !interesting_path(s1) {
        return next();
    }
    timed(Head::on(Op::Readlink, place.0), next, |head| {
        let length = usize::try_from(head.result).unwrap_or(0);
        // SAFETY: the call wrote that many bytes.
        let s2 = unsafe { core::slice::from_raw_parts(said.cast(), length) };
        let s2 = &s2[..length.min(libc::PATH_MAX as usize)];
        More {
            s1,
            s2,
            ..More::default()
        }
    })
}

/// # Safety
/// The path is a string or null.
unsafe fn makes(op: Op, place: Place, mode: mode_t, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    unsafe { on_path(Head::new(op).words(mode.into(), 0, 0), place, None, next) }
}

/// # Safety
/// The template is a string, into which the call writes the name.
unsafe fn makes_temporary(
    template: *mut c_char,
    next: impl FnOnce() -> *mut c_char,
) -> *mut c_char {
    let head = Head::on(Op::Mkdir, HERE).words(0o700, 0, 0);
    timed(head, next, |_| More {
        // SAFETY: as for the function.
        s1: unsafe { bytes(template) },
        ..More::default()
    })
}

const PIPE: mode_t = libc::S_IFIFO;

hooks! {
    in flashloom_preload:
    fn [rename](from: *const c_char, to: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { renames((HERE, from), (HERE, to), 0, next) };
    fn [renameat](at: c_int, from: *const c_char, to_at: c_int, to: *const c_char) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { renames((at, from), (to_at, to), 0, next) };
    fn [renameat2](
        at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { renames((at, from), (to_at, to), flags, next) };
    fn [unlink](path: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { removes(Op::Unlink, (HERE, path), next) };
    fn [unlinkat](at: c_int, path: *const c_char, flags: c_int) -> c_int, |next| {
        let folder = flags & libc::AT_REMOVEDIR != 0;
        let op = if folder { Op::Rmdir } else { Op::Unlink };
        // SAFETY: as the caller vouches for the call.
        unsafe { removes(op, (at, path), next) }
    };
    fn [rmdir](path: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { removes(Op::Rmdir, (HERE, path), next) };
    fn [remove](path: *const c_char) -> c_int, |next| {
        // SAFETY: as the caller vouches for the call.
        let info = unsafe { info_at(HERE, path, ITSELF) };
        let folder = info.is_some_and(|info| info.mode & libc::S_IFMT == libc::S_IFDIR);
        let op = if folder { Op::Rmdir } else { Op::Unlink };
        // SAFETY: as the caller vouches for the call.
        unsafe { removes(op, (HERE, path), next) }
    };
    fn [mkdir](path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mkdir, (HERE, path), mode, next) };
    fn [mkdirat](at: c_int, path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mkdir, (at, path), mode, next) };
    fn [mkdtemp](template: *mut c_char) -> *mut c_char, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes_temporary(template, next) };
    fn [mknod](path: *const c_char, mode: mode_t, device: dev_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mknod, (HERE, path), mode, next) };
    fn [mknodat](at: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mknod, (at, path), mode, next) };
    fn [__xmknod](
        version: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mknod, (HERE, path), mode, next) };
    fn [__xmknodat](
        version: c_int, at: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mknod, (at, path), mode, next) };
    fn [mkfifo](path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mknod, (HERE, path), mode | PIPE, next) };
    fn [mkfifoat](at: c_int, path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { makes(Op::Mknod, (at, path), mode | PIPE, next) };
    fn [link](from: *const c_char, to: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { links((HERE, from), (HERE, to), 0, next) };
    fn [linkat](
        at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { links((at, from), (to_at, to), flags, next) };
    fn [symlink](target: *const c_char, to: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { symlinks(target, (HERE, to), next) };
    fn [symlinkat](target: *const c_char, at: c_int, to: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { symlinks(target, (at, to), next) };
    fn [readlink](path: *const c_char, said: *mut c_char, room: size_t) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { reads_link((HERE, path), said, next) };
    fn [readlinkat](at: c_int, path: *const c_char, said: *mut c_char, room: size_t) -> ssize_t,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { reads_link((at, path), said, next) };
    fn [__readlink_chk](
        path: *const c_char, said: *mut c_char, room: size_t, size: size_t
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { reads_link((HERE, path), said, next) };
    fn [__readlinkat_chk](
        at: c_int, path: *const c_char, said: *mut c_char, room: size_t, size: size_t
    ) -> ssize_t, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { reads_link((at, path), said, next) };
}
