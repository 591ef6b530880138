//! Lengths, and times of writing, that `stat` by any name says.

use super::demote::{again, home, placed};
use super::fault::Fault;
use super::files::{self, File};
use super::gate::quiet;
use super::marks::Found;
use super::start::{self, State};
use super::table;
use crate::preload::next::hooks;
use crate::preload::raw::{self, bytes};
use crate::sys;
use core::ffi::{c_char, c_int, c_uint};
use libc::{stat as Stat, statx as Statx};
use shimmer::FileId;
use std::ffi::{CStr, CString};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const HERE: c_int = libc::AT_FDCWD;

/// A path, and the folder that it starts from.
pub(super) type Place = (c_int, *const c_char);

/// A path that leads to the same from anywhere in this process.
///
/// # Safety
/// The path is a string or null.
pub(super) unsafe fn reach(place: Place) -> Option<CString> {
    if place.1.is_null() {
        return None;
    }
    // SAFETY: as for the function.
    let path = unsafe { CStr::from_ptr(place.1) };
    if place.0 == HERE || path.to_bytes().starts_with(b"/") {
        return Some(path.to_owned());
    }
    let folder = format!("/proc/self/fd/{}/", place.0);
    CString::new([folder.as_bytes(), path.to_bytes()].concat()).ok()
}

/// The placed file that is at a path, or stands there by inode.
///
/// # Safety
/// As for [`reach`].
unsafe fn found(place: Place, inode: (u64, u64), kind: u32) -> Option<FileId> {
    if kind & libc::S_IFMT != libc::S_IFREG {
        return None;
    }
    let open = table::all()
        .into_iter()
        .find(|(_, open)| open.inode == inode);
    if let Some((_, open)) = open {
        return Some(open.file.id);
    }
    // SAFETY: as for the function.
    let path = unsafe { reach(place)? };
    Found::behind(&path)
        .own()
        .filter(|mark| home(*mark).is_some())
        .map(|mark| mark.id)
}

/// Whether a file may stand for a placed one, though no rule names the path: a link may lead
/// to it. It has fewer blocks than bytes, or neither yet.
fn may_stand(mode: u32, size: u64, blocks: u64) -> bool {
    let holds_nothing = size == 0 || blocks.saturating_mul(512) < size;
    holds_nothing && mode & libc::S_IFMT == libc::S_IFREG && start::state() == State::Zones
}

/// A file, and how long it is.
type Sized = (Arc<File>, u64);

fn length(id: FileId) -> Option<Sized> {
    let file = files::of(id);
    let size = || start::volume().ok_or(Fault::Errno(libc::EIO))?.size(&file);
    let size = again(size).ok()?;
    Some((file, size))
}

/// Puts the length of the placed file at a path into what the system said.
///
/// # Safety
/// The path is a string or null; the answer was written if the call answered 0.
unsafe fn asks(place: Place, into: *mut Stat, next: impl FnOnce() -> c_int) -> c_int {
    let done = next();
    if done != 0 || into.is_null() {
        return done;
    }
    // SAFETY: the call has written it.
    let stat = unsafe { &mut *into };
    let links = || may_stand(stat.st_mode, stat.st_size as u64, stat.st_blocks as u64);
    // SAFETY: as for the function.
    if !start::may_be_placed(unsafe { bytes(place.1) }) && !links() {
        return done;
    }
    let look = || {
        // SAFETY: as for the function.
        unsafe { found(place, (stat.st_dev, stat.st_ino), stat.st_mode).and_then(length) }
    };
    if let Some(sized) = raw::keeping_errno(|| quiet(look)) {
        put(stat, &sized);
    }
    done
}

/// A time in ns.
const fn ns(seconds: i64, ns: i64) -> u64 {
    seconds as u64 * SECOND + ns as u64
}

/// When a file was changed in any way.
pub(super) const fn ctime(stat: &Stat) -> u64 {
    ns(stat.st_ctime, stat.st_ctime_nsec)
}

fn put(stat: &mut Stat, (file, size): &Sized) {
    stat.st_size = *size as i64;
    stat.st_blocks = size.div_ceil(4096) as i64 * 8;
    if let Some(time) = file.changed_after(ctime(stat)) {
        let (seconds, ns) = ((time / SECOND) as i64, (time % SECOND) as i64);
        (stat.st_mtime, stat.st_mtime_nsec) = (seconds, ns);
        (stat.st_ctime, stat.st_ctime_nsec) = (seconds, ns);
    }
}

/// As above.
fn put_more(stat: &mut Statx, (file, size): &Sized) {
    (stat.stx_size, stat.stx_blocks) = (*size, size.div_ceil(4096) * 8);
    let ctime = ns(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec.into());
    if let Some(time) = file.changed_after(ctime) {
        for stamp in [&mut stat.stx_mtime, &mut stat.stx_ctime] {
            stamp.tv_sec = (time / SECOND) as i64;
            stamp.tv_nsec = (time % SECOND) as u32;
        }
    }
}

/// Does `work`, which may give another length to what stands for a file. It was written then
/// when the file was, or when the program says since.
pub(super) fn keeping_time<T>(fd: c_int, file: &File, work: impl FnOnce() -> T) -> T {
    let changed = file.changed();
    let before = (changed > 0).then(|| sys::stat(fd));
    let done = work();
    if let Some(Ok(before)) = before
        && let Ok(mut after) = sys::stat(fd)
    {
        let said = ns(before.st_mtime, before.st_mtime_nsec);
        let time = file.changed_after(ctime(&before)).unwrap_or(said);
        if time != ns(after.st_mtime, after.st_mtime_nsec) {
            // Who does not own it may not: then it was written now.
            let _ = sys::set_modified(fd, time);
            after = sys::stat(fd).unwrap_or(after);
        }
        file.stood(ctime(&after), changed);
    }
    done
}

fn size_of(fd: c_int) -> Option<Sized> {
    let open = placed(fd)?;
    let size = || again(|| open.volume()?.size(&open.file)).ok();
    let size = raw::keeping_errno(|| quiet(size))?;
    Some((Arc::clone(&open.file), size))
}

/// # Safety
/// The answer was written if the call answered 0.
unsafe fn asks_open(fd: c_int, into: *mut Stat, next: impl FnOnce() -> c_int) -> c_int {
    let done = next();
    if done == 0
        && !into.is_null()
        && let Some(sized) = size_of(fd)
    {
        // SAFETY: as for the function.
        put(unsafe { &mut *into }, &sized);
    }
    done
}

/// `stat` from a folder; an empty path makes it one of a descriptor.
///
/// # Safety
/// As for [`asks`].
unsafe fn asks_at(
    place: Place,
    flags: c_int,
    into: *mut Stat,
    next: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: as for the function.
    unsafe {
        if flags & libc::AT_EMPTY_PATH != 0 && bytes(place.1).is_empty() {
            asks_open(place.0, into, next)
        } else {
            asks(place, into, next)
        }
    }
}

/// # Safety
/// As for [`asks`].
unsafe fn asks_more(
    place: Place,
    flags: c_int,
    into: *mut Statx,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let done = next();
    if done != 0 || into.is_null() {
        return done;
    }
    // SAFETY: as for the function.
    let said = unsafe { bytes(place.1) };
    // SAFETY: the call has written it.
    let stat = unsafe { &mut *into };
    let sized = if flags & libc::AT_EMPTY_PATH != 0 && said.is_empty() {
        size_of(place.0)
    } else if start::may_be_placed(said)
        || may_stand(stat.stx_mode.into(), stat.stx_size, stat.stx_blocks)
    {
        let device = libc::makedev(stat.stx_dev_major, stat.stx_dev_minor);
        let inode = (device, stat.stx_ino);
        // SAFETY: as for the function.
        let look = || unsafe { found(place, inode, stat.stx_mode.into()).and_then(length) };
        raw::keeping_errno(|| quiet(look))
    } else {
        None
    };
    if let Some(sized) = sized {
        put_more(stat, &sized);
    }
    done
}

hooks! {
    in flashloom_place:
    fn [stat stat64](path: *const c_char, into: *mut Stat) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((HERE, path), into, next) };
    fn [lstat lstat64](path: *const c_char, into: *mut Stat) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((HERE, path), into, next) };
    fn [fstat fstat64](fd: c_int, into: *mut Stat) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks_open(fd, into, next) };
    fn [fstatat fstatat64](
        at: c_int, path: *const c_char, into: *mut Stat, flags: c_int
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { asks_at((at, path), flags, into, next) };
    fn [__xstat __xstat64](version: c_int, path: *const c_char, into: *mut Stat) -> c_int, |next| {
        let _ = version;
        // SAFETY: as the caller vouches for the call.
        unsafe { asks((HERE, path), into, next) }
    };
    fn [__lxstat __lxstat64](version: c_int, path: *const c_char, into: *mut Stat) -> c_int,
        |next| {
            let _ = version;
            // SAFETY: as the caller vouches for the call.
            unsafe { asks((HERE, path), into, next) }
        };
    fn [__fxstat __fxstat64](version: c_int, fd: c_int, into: *mut Stat) -> c_int, |next| {
        let _ = version;
        // SAFETY: as the caller vouches for the call.
        unsafe { asks_open(fd, into, next) }
    };
    fn [__fxstatat __fxstatat64](
        version: c_int, at: c_int, path: *const c_char, into: *mut Stat, flags: c_int
    ) -> c_int, |next| {
        let _ = version;
        // SAFETY: as the caller vouches for the call.
        unsafe { asks_at((at, path), flags, into, next) }
    };
    fn [statx](
        at: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut Statx
    ) -> c_int, |next| {
        let _ = mask;
        // SAFETY: as the caller vouches for the call.
        unsafe { asks_more((at, path), flags, into, next) }
    };
}
