//! Calls on placed files, and the move of a file to the ordinary file system ("demotion") if the
//! zones cannot serve a call.

use super::fault::Fault;
use super::files::{self, File};
use super::gate::{self, Within, quiet};
use super::marks::{Found, Mark};
use super::offset::Offset;
use super::start::{self, State};
use super::stat::ctime;
use super::table::{self, Kind, Open};
use super::volume::Volume;
use crate::preload::next::Refusal;
use crate::preload::raw;
use crate::sys::{self, Errno};
use core::ffi::{CStr, c_int};
use shimmer::FileId;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Held while a file is demoted: one at a time.
static MOVING: Mutex<()> = Mutex::new(());

/// Return type of a hooked call.
pub(super) trait Answer: Refusal {
    fn of(value: i64) -> Self;
}

impl Answer for i32 {
    fn of(value: i64) -> Self {
        value as Self
    }
}

impl Answer for isize {
    fn of(value: i64) -> Self {
        value as Self
    }
}

impl Answer for i64 {
    fn of(value: i64) -> Self {
        value
    }
}

/// Whether a descriptor is not a placed file's. The caller may be an allocator, or a handler that
/// interrupted one, so a descriptor without a mark costs one query of its attribute and no lock or
/// memory.
#[inline]
pub(super) fn is_others(fd: c_int) -> bool {
    table::is_plain(fd) || (table::is_unknown(fd) && has_no_mark(fd))
}

/// The placed file of a descriptor; `None` if it has none.
#[inline]
pub(super) fn placed(fd: c_int) -> Option<Arc<Open>> {
    if is_others(fd) {
        return None;
    }
    let _within = gate::enter();
    match table::kind(fd) {
        Kind::Plain | Kind::Ours => None,
        Kind::Placed(open) => Some(open),
        Kind::Unknown => quiet(|| look(fd)),
    }
}

#[cold]
fn has_no_mark(fd: c_int) -> bool {
    let none = Found::of(fd) == Found::Nothing;
    if none && (!is_open_question(fd) || Found::cannot_be_of(fd)) {
        table::found_plain(fd);
    }
    none
}

/// Whether a file without a mark may still become placed: it is empty, open for reading only, and
/// rules name its path. A writer may place it later, so its descriptor is looked at again each
/// time.
fn is_open_question(fd: c_int) -> bool {
    let reads = |flags: c_int| flags & libc::O_ACCMODE == libc::O_RDONLY;
    let empty = |stat: libc::stat| {
        stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_size == 0 && stat.st_nlink > 0
    };
    sys::stat(fd).is_ok_and(empty)
        && sys::flags(fd).is_ok_and(reads)
        && start::state() == State::Zones
        && is_named(fd)
}

/// Whether rules name the path of an open file, or the path is longer than fits the stack of a
/// handler. Allocates nothing.
fn is_named(fd: c_int) -> bool {
    let mut room = [0; 1024];
    let named = |path: &[u8]| start::rules().is_some_and(|rules| rules.names(path));
    let path = sys::path_within(fd, &mut room);
    path.is_ok_and(|path| path.len() == 1024 || named(path))
}

/// Registers a descriptor whose opening was not seen, if its file has a mark.
#[cold]
fn look(fd: c_int) -> Option<Arc<Open>> {
    let flags = sys::flags(fd).unwrap_or(libc::O_RDWR);
    let mut open = match Found::of(fd) {
        Found::Nothing => return None,
        Found::Own(mark) if home(mark).is_some() => {
            opening(files::of(mark.id), fd, flags, mark.volume)
        }
        Found::Own(mark) => opening(files::stranger(), fd, flags, mark.volume),
        Found::Stranger => {
            let here = start::volume().map_or(0, Volume::number);
            opening(files::stranger(), fd, flags, here)
        }
    };
    open.offset = Offset::inherited();
    let open = Arc::new(open);
    table::place(fd, Arc::clone(&open));
    Some(open)
}

/// The volume of this process, if it is the one that `mark` names.
pub(super) fn home(mark: Mark) -> Option<&'static Volume> {
    start::volume().filter(|volume| volume.number() == mark.volume)
}

/// An opening of a placed file that the volume does not count yet.
pub(super) fn opening(file: Arc<File>, fd: c_int, flags: c_int, zones: u64) -> Open {
    let stat = sys::stat(fd).ok();
    let inode = stat.map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
    if let Some(stat) = stat.filter(|_| file.changed() == 0) {
        file.stood(ctime(&stat), 0);
    }
    Open {
        file,
        offset: Offset::new(),
        flags,
        append: AtomicBool::new(flags & libc::O_APPEND != 0),
        inode,
        zones,
        forced: AtomicBool::new(false),
        volume: AtomicPtr::new(core::ptr::null_mut()),
    }
}

unsafe extern "C" {
    fn pthread_testcancel();
}

/// The cancellation point of calls that POSIX makes one. The thread may end here: it is outside of
/// the gate, and its callers in this library hold nothing that must be dropped.
#[inline]
pub(super) fn ends_if_cancelled(fd: c_int) {
    // For files that are not placed, the C library's call is the cancellation point.
    if !table::is_plain(fd) && !gate::is_inside() {
        // SAFETY: the call has no arguments. If it unwinds, our frames have nothing to drop.
        unsafe { pthread_testcancel() };
    }
}

/// Calls `work` if `fd` is a placed file, else `next`; also `next` once the file was demoted.
#[inline]
pub(super) fn on<R: Answer>(
    fd: c_int,
    work: impl Fn(&Open, &'static Volume) -> Result<i64, Fault>,
    next: impl FnOnce() -> R,
) -> R {
    if is_others(fd) {
        return next();
    }
    // A signal handler that interrupted its own thread in here could wait for itself, so it gets
    // `EDEADLK`. Blocking signals instead would cost two system calls each time; only programs
    // whose handlers may jump out of here pay that (see `gate`).
    if gate::is_inside() {
        return if is_marked(fd) {
            refused(libc::EDEADLK)
        } else {
            next()
        };
    }
    let within = gate::enter();
    match placed(fd) {
        None => {
            drop(within);
            next()
        }
        Some(open) => outcome((fd, within), open, work, next),
    }
}

/// Whether a descriptor is a placed file's, determined without a lock.
pub(super) fn is_marked(fd: c_int) -> bool {
    !table::is_plain(fd) && Mark::of(fd).is_some()
}

/// Whether a handler that interrupted its own thread in here uses a placed file, or a descriptor
/// that cannot be ruled out as one at once.
#[inline]
pub(super) fn is_too_deep(fd: c_int) -> bool {
    gate::is_inside() && (table::is_placed(fd) || is_marked(fd))
}

/// The placed file of a descriptor, for a call that has not passed the gate; `EDEADLK` for a
/// handler that interrupted its own thread in here, as it could wait for itself.
#[inline]
pub(super) fn asked(fd: c_int) -> Result<Option<Arc<Open>>, Errno> {
    if is_too_deep(fd) {
        return Err(libc::EDEADLK);
    }
    Ok(placed(fd))
}

fn outcome<R: Answer>(
    (fd, within): (c_int, Within),
    open: Arc<Open>,
    work: impl Fn(&Open, &'static Volume) -> Result<i64, Fault>,
    next: impl FnOnce() -> R,
) -> R {
    let before = raw::errno();
    let done = again(|| work(&open, open.volume()?));
    let done = match done {
        Err(Fault::Demote) => quiet(|| demote(fd, &open)).and(Err(Fault::Gone)),
        done => done,
    };
    // This takes the table and offsets of other descriptors, so signals are blocked.
    let plain = matches!(done, Err(Fault::Gone)) && quiet(|| is_plain(fd, open.file.id));
    drop(open);
    drop(within);
    match done {
        Ok(value) => {
            raw::set_errno(before);
            R::of(value)
        }
        Err(Fault::Gone) if plain => {
            raw::set_errno(before);
            next()
        }
        Err(Fault::Gone | Fault::Demote | Fault::Lost) => refused(libc::EIO),
        Err(Fault::Errno(errno)) => refused(errno),
    }
}

/// Repeats `work` up to twice if the daemon dies meanwhile.
pub(super) fn again<T>(work: impl Fn() -> Result<T, Fault>) -> Result<T, Fault> {
    let mut done = work();
    for _ in 0..2 {
        if !matches!(done, Err(Fault::Lost)) {
            break;
        }
        done = work();
    }
    done
}

/// Whether a file that the zones do not know is an ordinary one by now, because another thread or
/// process has demoted it.
fn is_plain(fd: c_int, id: FileId) -> bool {
    let _one = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(table::kind(fd), Kind::Plain) {
        return true;
    }
    let moved = sys::stat(fd).is_ok() && Mark::of(fd).is_none();
    if moved {
        make_plain(id);
    }
    moved
}

/// Makes all descriptors of a file plain ones, with their offsets set in the kernel.
fn make_plain(id: FileId) {
    let of_it = |open: &(c_int, Arc<Open>)| open.1.file.id == id;
    for (fd, open) in table::all().into_iter().filter(of_it) {
        open.offset.share(fd);
        table::forget(fd);
        table::plain(fd);
    }
}

pub(super) fn refused<R: Refusal>(errno: c_int) -> R {
    raw::set_errno(errno);
    R::REFUSED
}

/// Demotes the file of `fd` to the ordinary file system and makes all its descriptors plain.
pub(super) fn demote(fd: c_int, open: &Open) -> Result<(), Fault> {
    let _one = MOVING.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(table::kind(fd), Kind::Plain) {
        return Ok(());
    }
    let volume = open.volume()?;
    let mark = Mark {
        volume: volume.number(),
        id: open.file.id,
    };
    let target = sys::open(&sys::of(fd), libc::O_WRONLY)?;
    let moved = volume.demote(&open.file, target, &mark);
    sys::close(target);
    match moved {
        // Another process has demoted the file first.
        Err(Fault::Gone) if Mark::of(fd).is_none() => {}
        moved => moved?,
    }
    make_plain(open.file.id);
    Ok(())
}

/// Demotes the file at a path if it is placed and rules may name its path.
pub(super) fn demote_at(path: &CStr) -> Result<(), Fault> {
    if !start::may_be_placed(path.to_bytes()) {
        return Ok(());
    }
    demote_marked(path)
}

/// Demotes the file at a path if it is placed, whatever its name.
pub(super) fn demote_marked(path: &CStr) -> Result<(), Fault> {
    match Found::at(path) {
        Found::Nothing => return Ok(()),
        Found::Own(_) => {}
        Found::Stranger => return Err(Fault::Errno(libc::EIO)),
    }
    demote_open(sys::open(path, libc::O_RDONLY)?)
}

/// Demotes the file of `fd`, which the caller opened for this; closes `fd`.
pub(super) fn demote_open(fd: c_int) -> Result<(), Fault> {
    let moved = look(fd)
        .ok_or(Fault::Gone)
        .and_then(|open| demote(fd, &open));
    table::forget(fd);
    table::disown(fd);
    sys::close(fd);
    moved
}

/// Whether writes to an opening go to the end of the file.
pub(super) fn appends(open: &Open) -> bool {
    open.append.load(Ordering::Relaxed)
}
