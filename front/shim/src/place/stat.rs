//! Lengths and modification times of placed files in the results of `stat` and its variants.

use super::demote::{again, is_too_deep, placed, refused};
use super::fault::Fault;
use super::files::{self, File, Times};
use super::gate::{self, quiet};
use super::marks::{Found, Mark};
use super::reach::said;
use super::start::{self, State};
use super::table::{self, Open};
use crate::preload::next::hooks;
use crate::preload::raw::{self, Text, bytes};
use crate::sys;
use core::ffi::{c_char, c_int, c_uint};
use libc::{stat as Stat, statx as Statx};
use shimmer::BLOCK;
use std::ffi::CStr;

const SECOND: u64 = 1_000_000_000;
const HERE: c_int = libc::AT_FDCWD;

/// A path, and the descriptor of the folder that it starts from.
pub(super) type Place = (c_int, *const c_char);

/// Calls `work` with a form of the path that needs no folder descriptor; `None` if the path is
/// null. Allocates nothing.
///
/// # Safety
/// The path is a string or null.
pub(super) unsafe fn reached<T>(place: Place, work: impl FnOnce(&CStr) -> T) -> Option<T> {
    if place.1.is_null() {
        return None;
    }
    // SAFETY: as for the function.
    let path = unsafe { CStr::from_ptr(place.1) };
    if place.0 == HERE || path.to_bytes().starts_with(b"/") {
        return Some(work(path));
    }
    let mut text = Text::new();
    let folder = u64::try_from(place.0).ok()?;
    text.bytes(b"/proc/self/fd/").number(folder);
    text.bytes(b"/").bytes(path.to_bytes());
    // SAFETY: the text ends with a zero byte, and stays.
    Some(work(unsafe { CStr::from_ptr(text.pointer()) }))
}

/// Attributes by which a file may be recognized as a stand-in.
struct Shape {
    mode: u32,
    size: u64,
    blocks: u64,
    inode: (u64, u64),
}

impl Shape {
    /// Whether the file may be a stand-in though no rule names the path, as behind a symbolic link:
    /// it has fewer blocks than bytes, or at most one.
    fn may_stand(&self) -> bool {
        let holds_little = self.blocks.saturating_mul(512) < self.size.max(BLOCK + 1);
        holds_little && start::state() == State::Zones
    }

    fn is_regular(&self) -> bool {
        self.mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// Change times and length in bytes of a placed file.
type Sized = (Times, u64);

/// Times and length of the file at a path; `None` if it is not placed, for which nothing is
/// allocated, as a handler may have interrupted the allocator.
///
/// # Safety
/// As for [`reached`].
unsafe fn sized(place: Place, shape: &Shape) -> Result<Option<Sized>, Fault> {
    // SAFETY: as for the function.
    let may_be = || start::may_be_placed(unsafe { bytes(place.1) });
    if !shape.is_regular() || !(may_be() || shape.may_stand()) {
        return Ok(None);
    }
    let look = |path: &CStr| {
        if Found::is_none_behind(path) {
            Ok(None)
        } else if gate::is_inside() {
            upon(path, shape.inode)
        } else {
            quiet(|| length(path, shape.inode))
        }
    };
    // SAFETY: as for the function.
    raw::keeping_errno(|| unsafe { reached(place, look) }).unwrap_or(Ok(None))
}

/// Times and length of the placed file at a path, found by inode if it is open. `None` for a file
/// in other zones or a stranger's copy: the system's values hold.
fn length(path: &CStr, inode: (u64, u64)) -> Result<Option<Sized>, Fault> {
    let size = |file: &File| {
        let size = || start::volume().ok_or(Fault::Errno(libc::EIO))?.size(file);
        again(size).map(|size| Some((file.times(), size)))
    };
    if let Some(id) = table::of_inode(inode) {
        return size(&files::of(id));
    }
    let Some(mark) = Found::behind(path).own() else {
        return Ok(None);
    };
    let volume = start::volume().ok_or(Fault::Errno(libc::EIO))?;
    if volume.number() != mark.volume {
        return Ok(None);
    }
    size(&files::of(mark.id))
}

/// Like [`length`], for a handler that interrupted its own thread in here.
fn upon(path: &CStr, inode: (u64, u64)) -> Result<Option<Sized>, Fault> {
    match at_once(|_, open| open.inode == inode) {
        None if Found::behind(path).own().is_some() => Err(Fault::Errno(libc::EDEADLK)),
        sized => Ok(sized),
    }
}

/// Times and length of an open placed file that only this process writes, without waiting; `None`
/// if a thread holds the table for writing.
fn at_once(is_it: impl Fn(c_int, &Open) -> bool) -> Option<Sized> {
    let volume = start::opened().filter(|volume| !volume.link.is_lost())?;
    table::at_once(|fd, open| {
        let file = (is_it(fd, open) && !open.file.is_lost()).then_some(&open.file)?;
        Some((file.times(), volume.size_at_once(file)?))
    })
}

fn fails(fault: Fault) -> c_int {
    refused(match fault {
        Fault::Errno(errno) => errno,
        Fault::Gone | Fault::Demote | Fault::Lost => libc::EIO,
    })
}

/// `stat` by path: replaces the length and times in the system's result by those of the placed
/// file.
///
/// # Safety
/// The path is a string or null; the result was written if the call returns 0.
unsafe fn asks(place: Place, into: *mut Stat, next: impl Fn() -> c_int) -> c_int {
    let done = next();
    if done != 0 || into.is_null() {
        return done;
    }
    // SAFETY: the call has written it.
    let stat = unsafe { &mut *into };
    let shape = Shape {
        mode: stat.st_mode,
        size: stat.st_size as u64,
        blocks: stat.st_blocks as u64,
        inode: (stat.st_dev, stat.st_ino),
    };
    // SAFETY: as for the function.
    match unsafe { sized(place, &shape) } {
        Ok(None) => {}
        Ok(Some(sized)) => put(stat, sized),
        // The file was demoted meanwhile.
        Err(Fault::Gone) => return next(),
        Err(fault) => return fails(fault),
    }
    done
}

/// A time stamp as ns since the epoch.
const fn ns(seconds: i64, ns: i64) -> u64 {
    seconds as u64 * SECOND + ns as u64
}

/// Time of the last change of a file or its attributes, in ns.
pub(super) const fn ctime(stat: &Stat) -> u64 {
    ns(stat.st_ctime, stat.st_ctime_nsec)
}

fn put(stat: &mut Stat, (times, size): Sized) {
    stat.st_size = size as i64;
    stat.st_blocks = size.div_ceil(4096) as i64 * 8;
    if let Some(time) = times.after(ctime(stat)) {
        let (seconds, ns) = ((time / SECOND) as i64, (time % SECOND) as i64);
        (stat.st_mtime, stat.st_mtime_nsec) = (seconds, ns);
        (stat.st_ctime, stat.st_ctime_nsec) = (seconds, ns);
    }
}

/// Like [`put`], for `statx`.
fn put_more(stat: &mut Statx, (times, size): Sized) {
    (stat.stx_size, stat.stx_blocks) = (size, size.div_ceil(4096) * 8);
    let ctime = ns(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec.into());
    if let Some(time) = times.after(ctime) {
        for stamp in [&mut stat.stx_mtime, &mut stat.stx_ctime] {
            stamp.tv_sec = (time / SECOND) as i64;
            stamp.tv_nsec = (time % SECOND) as u32;
        }
    }
}

/// Runs `work`, which may resize a stand-in, and then restores its modification time: that of the
/// file's last write, or the one that the program has set since.
pub(super) fn keeping_time<T>(fd: c_int, file: &File, work: impl FnOnce() -> T) -> T {
    let changed = file.changed();
    let before = (changed > 0).then(|| sys::stat(fd));
    let done = work();
    if let Some(Ok(before)) = before
        && let Ok(mut after) = sys::stat(fd)
    {
        let said = ns(before.st_mtime, before.st_mtime_nsec);
        let time = file.times().after(ctime(&before)).unwrap_or(said);
        if time != ns(after.st_mtime, after.st_mtime_nsec) {
            // Only the owner may set times; else the time of the resize stays.
            let _ = sys::set_modified(fd, time);
            after = sys::stat(fd).unwrap_or(after);
        }
        file.stood(ctime(&after), changed);
    }
    done
}

fn size_of(fd: c_int) -> Result<Option<Sized>, Fault> {
    if is_too_deep(fd) {
        let sized = at_once(|at, _| at == fd);
        return sized.map(Some).ok_or(Fault::Errno(libc::EDEADLK));
    }
    let Some(open) = placed(fd) else {
        return Ok(None);
    };
    let size = || again(|| open.volume()?.size(&open.file));
    match raw::keeping_errno(|| quiet(size)) {
        Ok(size) => Ok(Some((open.file.times(), size))),
        // The file was demoted meanwhile.
        Err(Fault::Gone) if Mark::of(fd).is_none() => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// # Safety
/// The result was written if the call returns 0.
unsafe fn asks_open(fd: c_int, into: *mut Stat, next: impl FnOnce() -> c_int) -> c_int {
    // If the file is demoted in between, the system's length is right afterwards.
    let sized = match size_of(fd) {
        Ok(sized) => sized,
        Err(fault) => return fails(fault),
    };
    let done = next();
    if done == 0
        && !into.is_null()
        && let Some(sized) = sized
    {
        // SAFETY: as for the function.
        put(unsafe { &mut *into }, sized);
    }
    done
}

/// `fstatat`; with `AT_EMPTY_PATH` and an empty path it is `fstat`.
///
/// # Safety
/// As for [`asks`].
unsafe fn asks_at(place: Place, flags: c_int, into: *mut Stat, next: impl Fn() -> c_int) -> c_int {
    // SAFETY: as for the function.
    unsafe {
        if flags & libc::AT_EMPTY_PATH != 0 && said(place.1).is_empty() {
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
    next: impl Fn() -> c_int,
) -> c_int {
    // SAFETY: as for the function.
    let of_open = flags & libc::AT_EMPTY_PATH != 0 && unsafe { said(place.1) }.is_empty();
    let before = if of_open { size_of(place.0) } else { Ok(None) };
    if let Err(fault) = before {
        return fails(fault);
    }
    let done = next();
    if done != 0 || into.is_null() {
        return done;
    }
    // SAFETY: the call has written it.
    let stat = unsafe { &mut *into };
    let shape = Shape {
        mode: stat.stx_mode.into(),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        inode: (
            libc::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            stat.stx_ino,
        ),
    };
    let sized = match of_open {
        true => before,
        // SAFETY: as for the function.
        false => unsafe { sized(place, &shape) },
    };
    match sized {
        Ok(None) => {}
        Ok(Some(sized)) => put_more(stat, sized),
        // The file was demoted meanwhile.
        Err(Fault::Gone) => return next(),
        Err(fault) => return fails(fault),
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
