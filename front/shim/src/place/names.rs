//! Names of placed files: the ordinary file system keeps them, and the volume is notified of
//! changes.

use super::demote::{again, demote_marked, demote_open, home, refused};
use super::fault::Fault;
use super::files;
use super::gate::{self, quiet};
use super::marks::{Found, Mark};
use super::reach::said;
use super::start::{self, State};
use super::stat::{Place, ctime, keeping_time, reached};
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::sys::{self, Errno};
use core::ffi::{c_char, c_int, c_uint};
use libc::off_t;
use std::ffi::{CStr, CString};

const HERE: c_int = libc::AT_FDCWD;
const ITSELF: c_int = libc::AT_SYMLINK_NOFOLLOW;

/// A placed file at a path, as found before a call that changes its name.
struct Named {
    mark: Mark,
    /// Absolute path of the folder that the file is in.
    folder: Vec<u8>,
    /// Whether the file has no other name.
    only: bool,
}

/// Absolute path of the file at a path, links not followed.
fn absolute(path: &CStr) -> Option<Vec<u8>> {
    let fd = sys::open(path, libc::O_PATH | libc::O_NOFOLLOW).ok()?;
    let absolute = sys::path_of(fd).ok();
    sys::close(fd);
    absolute
}

fn folder_of(path: &CStr) -> Option<Vec<u8>> {
    let path = path.to_bytes();
    let end = path.iter().rposition(|byte| *byte == b'/');
    let folder = match end {
        None => &b"."[..],
        Some(0) => b"/",
        Some(end) => &path[..end],
    };
    let fd = sys::open(
        &CString::new(folder).ok()?,
        libc::O_PATH | libc::O_DIRECTORY,
    )
    .ok()?;
    let absolute = sys::path_of(fd).ok();
    sys::close(fd);
    absolute
}

impl Named {
    fn new(path: &CStr, mark: Mark) -> Option<Self> {
        let links = sys::stat_at(HERE, path, ITSELF).map_or(0, |stat| stat.st_nlink);
        let folder = folder_of(path)?;
        Some(Self {
            mark,
            folder,
            only: links == 1,
        })
    }
}

/// The placed file at a path; `None` if it is not placed. Fails with `EDEADLK` in a handler that
/// interrupted its own thread in here, as it could not notify the volume.
///
/// # Safety
/// The path is a string or null.
unsafe fn named(place: Place) -> Result<Option<Named>, Errno> {
    // SAFETY: as for the function.
    if !start::may_be_placed(unsafe { said(place.1) }) {
        return Ok(None);
    }
    let look = |path: &CStr| match Found::at(path).own() {
        None => Ok(None),
        Some(_) if gate::is_inside() => Err(libc::EDEADLK),
        Some(mark) => Ok(quiet(|| Named::new(path, mark))),
    };
    // SAFETY: as for the function.
    raw::keeping_errno(|| unsafe { reached(place, look) }).unwrap_or(Ok(None))
}

fn gone(named: &Named) {
    let Some(volume) = home(named.mark).filter(|_| named.only) else {
        return;
    };
    volume.unlinked(named.mark.id, &named.folder);
    if let Some(rules) = start::rules() {
        rules.gone(named.mark.id.0);
    }
}

/// # Safety
/// The path is a string or null.
unsafe fn removes(place: Place, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    let named = match unsafe { named(place) } {
        Ok(named) => named,
        Err(errno) => return refused(errno),
    };
    let done = next();
    if let Some(named) = named.filter(|_| done == 0) {
        raw::keeping_errno(|| quiet(|| gone(&named)));
    }
    done
}

/// # Safety
/// The paths are strings or null.
unsafe fn renames(from: Place, to: Place, flags: c_uint, next: impl FnOnce() -> c_int) -> c_int {
    if start::state() != State::Zones {
        return next();
    }
    // SAFETY: as for the function.
    let mut found = unsafe { stays_found(from, to) };
    if flags & libc::RENAME_EXCHANGE != 0 {
        // SAFETY: as for the function.
        found = found.and_then(|()| unsafe { stays_found(to, from) });
    }
    // SAFETY: as for the function.
    let both = found.and_then(|()| unsafe { Ok((named(from)?, named(to)?)) });
    let (source, over) = match both {
        Ok(both) => both,
        Err(errno) => return refused(errno),
    };
    let done = next();
    if done != 0 || (source.is_none() && over.is_none()) {
        return done;
    }
    let tell = || {
        let same = source.as_ref().map(|it| it.mark) == over.as_ref().map(|it| it.mark);
        // After an exchange both files exist; the log's paths are only for display and stay stale.
        if same || flags & libc::RENAME_EXCHANGE != 0 {
            return;
        }
        if let Some(over) = over {
            gone(&over);
        }
        // SAFETY: as for the function.
        let path = unsafe { reached(to, absolute) }.flatten();
        if let (Some(source), Some(path)) = (source, path)
            && let Some(volume) = home(source.mark)
        {
            volume.renamed(source.mark.id, &path);
        }
    };
    raw::keeping_errno(|| quiet(tell));
    done
}

/// Demotes a placed file that is about to get a name that no rule names, by which it would not be
/// found. If the demotion fails, the call fails and the file keeps its name.
///
/// # Safety
/// The paths are strings or null.
unsafe fn stays_found(from: Place, to: Place) -> Result<(), Errno> {
    // SAFETY: as for the function.
    let (known, unknown) = unsafe { (said(from.1), said(to.1)) };
    if !start::may_be_placed(known) || start::may_be_placed(unknown) {
        return Ok(());
    }
    let moved = |path: &CStr| match Found::at(path) {
        Found::Nothing => Ok(()),
        _ if gate::is_inside() => Err(Fault::Errno(libc::EDEADLK)),
        _ => quiet(|| again(|| demote_marked(path))),
    };
    // SAFETY: as for the function.
    match raw::keeping_errno(|| unsafe { reached(from, moved) }).unwrap_or(Ok(())) {
        // Another thread or process has demoted the file first.
        Ok(()) | Err(Fault::Gone) => Ok(()),
        Err(Fault::Errno(errno)) => Err(errno),
        Err(Fault::Demote | Fault::Lost) => Err(libc::EIO),
    }
}

/// `link`: adds a name, after [`stays_found`] has made sure that the file is found by it.
///
/// # Safety
/// The paths are strings or null.
unsafe fn links(from: Place, to: Place, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    match unsafe { stays_found(from, to) } {
        Ok(()) => next(),
        Err(errno) => refused(errno),
    }
}

/// Sets the length of the placed file at a path; resizes its stand-in, open as `fd`, and sets its
/// times.
fn cut((path, fd): (&CStr, c_int), mark: Mark, len: u64) -> Result<(), Fault> {
    let volume = home(mark).ok_or(Fault::Errno(libc::EIO))?;
    let file = files::of(mark.id);
    match volume.truncate(mark.id, len) {
        Err(Fault::Demote) => {
            demote_open(sys::open(path, libc::O_WRONLY)?)?;
            return Err(Fault::Demote);
        }
        done => done?,
    }
    // The change comes after any time that a program may have set on the stand-in.
    if let Ok(stat) = sys::stat(fd) {
        file.stood(ctime(&stat), file.changed());
    }
    file.changes();
    // The file is cut, whether or not its stand-in could be resized.
    let _ = keeping_time(fd, &file, || volume.stand(&file, fd));
    Ok(())
}

/// `truncate`: sets the length of a file by path.
///
/// # Safety
/// The path is a string or null.
unsafe fn cuts(path: *const c_char, len: off_t, next: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: as for the function.
    if unsafe { said(path).is_empty() } {
        return next();
    }
    // SAFETY: the string was just read.
    let path = unsafe { CStr::from_ptr(path) };
    // The call follows symbolic links, and needs write permission.
    let mark = match raw::keeping_errno(|| Found::behind(path)) {
        Found::Own(mark) => mark,
        Found::Nothing => return next(),
        Found::Stranger => return refused(libc::EIO),
    };
    if gate::is_inside() {
        return refused(libc::EDEADLK);
    }
    // Without a descriptor only the stand-in could be cut.
    let fd = match raw::keeping_errno(|| sys::open(path, libc::O_WRONLY)) {
        Ok(fd) => fd,
        Err(errno) => return refused(errno),
    };
    let done = u64::try_from(len).map_or(Err(Fault::Errno(libc::EINVAL)), |len| {
        raw::keeping_errno(|| quiet(|| again(|| cut((path, fd), mark, len))))
    });
    sys::close(fd);
    match done {
        Ok(()) => 0,
        Err(Fault::Demote) => next(),
        Err(Fault::Errno(errno)) => refused(errno),
        Err(Fault::Gone | Fault::Lost) => refused(libc::EIO),
    }
}

/// Whether `unlinkat` removes a file, not a folder.
fn of_files(flags: c_int) -> bool {
    flags & libc::AT_REMOVEDIR == 0
}

hooks! {
    in flashloom_place:
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
    fn [link](from: *const c_char, to: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { links((HERE, from), (HERE, to), next) };
    fn [linkat](
        at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int
    ) -> c_int, |next| {
        let _ = flags;
        // SAFETY: as the caller vouches for the call.
        unsafe { links((at, from), (to_at, to), next) }
    };
    fn [unlink](path: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { removes((HERE, path), next) };
    fn [remove](path: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { removes((HERE, path), next) };
    fn [unlinkat](at: c_int, path: *const c_char, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        if of_files(flags) { unsafe { removes((at, path), next) } } else { next() };
    fn [truncate truncate64](path: *const c_char, len: off_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { cuts(path, len, next) };
}
