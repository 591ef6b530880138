//! Doing something with a placed file, and moving it away where that is not possible.

use super::fault::Fault;
use super::files;
use super::gate::{self, Within, quiet};
use super::marks::Mark;
use super::offset::Offset;
use super::start;
use super::table::{self, Kind, Open};
use super::volume::Volume;
use crate::preload::next::Refusal;
use crate::preload::raw;
use crate::sys;
use core::ffi::{CStr, c_int};
use shimmer::FileId;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Files move one at a time.
static MOVING: Mutex<()> = Mutex::new(());

/// What a call answers with.
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

/// The placed file behind a descriptor.
#[inline]
pub(super) fn placed(fd: c_int) -> Option<Arc<Open>> {
    // A handler of a signal may have come upon the allocator, and upon nothing here yet: so
    // what has no mark is found to have none without more than asking for it.
    if table::is_plain(fd) || (table::is_unknown(fd) && has_no_mark(fd)) {
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
    let none = Mark::of(fd).is_none();
    if none {
        table::found_plain(fd);
    }
    none
}

/// Looks at a descriptor that nobody was seen to open, and that has a mark.
#[cold]
fn look(fd: c_int) -> Option<Arc<Open>> {
    let mark = Mark::of(fd)?;
    let flags = sys::flags(fd).unwrap_or(libc::O_RDWR);
    let mut open = opening(mark, fd, flags);
    open.offset = Offset::inherited();
    let open = Arc::new(open);
    table::place(fd, Arc::clone(&open));
    Some(open)
}

/// An opening of a placed file that the volume does not know of yet.
pub(super) fn opening(mark: Mark, fd: c_int, flags: c_int) -> Open {
    let inode = sys::stat(fd).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino));
    Open {
        file: files::of(mark.id),
        offset: Offset::new(),
        flags,
        append: AtomicBool::new(flags & libc::O_APPEND != 0),
        inode,
        zones: mark.volume,
        forced: AtomicBool::new(false),
        volume: AtomicPtr::new(core::ptr::null_mut()),
    }
}

/// Does `work` if `fd` is a placed file, else `next`, also after the file has moved away.
#[inline]
pub(super) fn on<R: Answer>(
    fd: c_int,
    work: impl Fn(&Open, &'static Volume) -> Result<i64, Fault>,
    next: impl FnOnce() -> R,
) -> R {
    if table::is_plain(fd) {
        return next();
    }
    // A handler of a signal that comes upon its own thread in here could wait for itself:
    // it is told so. Blocking signals instead would cost two calls of the system each time;
    // programs whose handlers may jump out of here pay that (see `gate`).
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

/// Whether a descriptor is a placed file's, without a lock.
pub(super) fn is_marked(fd: c_int) -> bool {
    !table::is_plain(fd) && Mark::of(fd).is_some()
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
    let plain = matches!(done, Err(Fault::Gone)) && is_plain(fd, open.file.id);
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

/// Does `work` once more, if the daemon dies meanwhile, and the next one.
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

/// Whether a file that the zones do not know is one of the ordinary file system: another
/// thread, or another process, has moved it there.
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

/// Makes all descriptors of a file plain ones, with the offsets that they had.
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

/// Moves the file behind `fd` to the ordinary file system. All descriptors of it are
/// plain ones then.
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
        // Another process was first.
        Err(Fault::Gone) if Mark::of(fd).is_none() => {}
        moved => moved?,
    }
    make_plain(open.file.id);
    Ok(())
}

/// Moves the file at a path, if it is a placed one, to the ordinary file system.
pub(super) fn demote_at(path: &CStr) -> Result<(), Fault> {
    if !start::may_be_placed(path.to_bytes()) {
        return Ok(());
    }
    demote_marked(path)
}

/// As above, whatever its name is.
pub(super) fn demote_marked(path: &CStr) -> Result<(), Fault> {
    if Mark::at(path).is_none() {
        return Ok(());
    }
    demote_open(sys::open(path, libc::O_RDONLY)?)
}

/// As above, what was opened for it, and is closed after it.
pub(super) fn demote_open(fd: c_int) -> Result<(), Fault> {
    let moved = look(fd)
        .ok_or(Fault::Gone)
        .and_then(|open| demote(fd, &open));
    table::forget(fd);
    table::disown(fd);
    sys::close(fd);
    moved
}

/// Whether writes go to the end.
pub(super) fn appends(open: &Open) -> bool {
    open.append.load(Ordering::Relaxed)
}
