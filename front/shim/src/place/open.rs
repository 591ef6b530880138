//! Opening, closing and duplicating descriptors.

use super::demote::{again, is_too_deep, opening, placed, refused};
use super::fault::Fault;
use super::files;
use super::gate::{self, quiet};
use super::marks::{Found, Instead, Mark};
use super::reach::{is_readable, said};
use super::start::{self, State};
use super::stat::{Place, keeping_time};
use super::table::{self, Kind};
use crate::preload::next::hooks;
use crate::preload::raw::{self, bytes};
use crate::sys::{self, Errno};
use core::ffi::{CStr, c_char, c_int, c_long, c_uint};
use libc::{DIR, mmsghdr, mode_t, msghdr, ssize_t, timespec};
use shimmer::Placement;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const HERE: c_int = libc::AT_FDCWD;
const CREATE: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
/// Flag `RESOLVE_IN_ROOT` of linux/openat2.h.
const RESOLVE_IN_ROOT: u64 = 0x10;
/// F_SET_RW_HINT and F_SET_FILE_RW_HINT (linux/fcntl.h).
const HINT: c_int = 1036;
const HINT_OF_FILE: c_int = 1038;
/// Flags of openings that do not access the bytes of a file.
const OTHER: c_int = libc::O_PATH | libc::O_DIRECTORY;

fn writes(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// # Safety
/// `path` is a string or null.
//= dissertation 5.4.1
unsafe fn opens(
    (at, path): Place,
    flags: c_int,
    mode: mode_t,
    next: impl FnOnce() -> c_int,
) -> c_int {
    let state = start::state();
    // SAFETY: as for the function.
    let emptied = unsafe { empties((at, path), flags) };
    let fd = next();
    if fd < 0 {
        return fd;
    }
    // SAFETY: as for the function; the kernel has just read it.
    let said = unsafe { bytes(path) };
    if flags & OTHER != 0 {
        table::plain(fd);
        return fd;
    }
    let hinted = state == State::Hints && writes(flags) && start::may_name(said);
    if hinted && !gate::is_inside() {
        raw::keeping_errno(|| quiet(|| hints(fd, said, flags, mode)));
    }
    if !start::may_be_placed(said) && is_plain_yet(fd, flags) {
        return fd;
    }
    let opened = match gate::is_inside() {
        true => Err(libc::EDEADLK),
        false => raw::keeping_errno(|| quiet(|| opened(fd, (flags, mode), emptied))),
    };
    match opened {
        Ok(()) => fd,
        Err(errno) => {
            sys::close(fd);
            refused(errno)
        }
    }
}

/// `openat2`: opens with the flags, mode and resolution rules in the first three words of `how`.
///
/// # Safety
/// `path` is a string or null; `how` leads nowhere, or to `len` bytes.
pub(super) unsafe fn opens_as(
    (at, path): Place,
    (how, len): (*const [u64; 3], usize),
    next: impl FnOnce() -> c_int,
) -> c_int {
    let whole = size_of::<[u64; 3]>();
    let ends = how.addr().wrapping_add(whole - 1);
    if len < whole || !is_readable(how.addr()) || !is_readable(ends) {
        return next();
    }
    // SAFETY: both ends of the structure were found readable.
    let [flags, mode, resolve] = unsafe { how.read_unaligned() };
    // SAFETY: as for the function.
    let said = unsafe { said(path) };
    // With `RESOLVE_IN_ROOT` an absolute path starts at the folder.
    let begins = said.iter().take_while(|byte| **byte == b'/').count();
    let skipped = if resolve & RESOLVE_IN_ROOT == 0 {
        0
    } else {
        begins
    };
    // SAFETY: the skipped bytes are within the string.
    let path = unsafe { path.add(skipped) };
    // SAFETY: as for the function.
    unsafe { opens((at, path), flags as c_int, mode as mode_t, next) }
}

/// Whether a file whose name the rules do not mention can stay unexamined until the first call on
/// its bytes, which checks for a mark set under other rules. So opening it costs nothing. An
/// opening that truncates the file is checked at once.
pub(super) fn is_plain_yet(fd: c_int, flags: c_int) -> bool {
    table::disown(fd);
    let cuts = writes(flags) && flags & libc::O_TRUNC != 0;
    !(cuts || table::is_beyond(fd)) || Found::of(fd) == Found::Nothing
}

/// Sets the write hint that the rules give a file, if any, on its open descriptor.
fn hints(fd: c_int, path: &[u8], flags: c_int, mode: mode_t) {
    let (Some(rules), Ok(stat)) = (start::rules(), sys::stat(fd)) else {
        return;
    };
    if let Some(directive) = rules.opened(stat.st_ino, path, flags, mode) {
        // File systems without hints refuse the call; the file is then used without one.
        let _ = sys::hint(fd, rules.hint(directive));
    }
    rules.closed(stat.st_ino);
}

/// Whether an opening will empty a file that holds bytes. Such a file stays an ordinary one: other
/// processes may have it open as that.
///
/// # Safety
/// The path is null, leads nowhere, or is a string.
pub(super) unsafe fn empties(place: Place, flags: c_int) -> bool {
    // SAFETY: as for the function.
    if flags & libc::O_TRUNC == 0 || !start::may_be_placed(unsafe { said(place.1) }) {
        return false;
    }
    // SAFETY: the string was just read.
    let path = unsafe { CStr::from_ptr(place.1) };
    sys::stat_at(place.0, path, 0).is_ok_and(|stat| stat.st_size > 0)
}

/// Handles the opening of a file that may be placed, or that may become placed if it was empty
/// before.
pub(super) fn opened(
    fd: c_int,
    (flags, mode): (c_int, mode_t),
    emptied: bool,
) -> Result<(), Errno> {
    table::plain(fd);
    let stat = sys::stat(fd)?;
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Ok(());
    }
    let done = match Found::of(fd) {
        Found::Own(mark) => again(|| existing(fd, flags, mark)),
        Found::Stranger => {
            let path = sys::path_of(fd).unwrap_or_default();
            let path = String::from_utf8_lossy(&path);
            sys::say(&format!(
                "{path}: a copy of a placed file, made without its bytes"
            ));
            return Err(libc::EIO);
        }
        Found::Nothing if emptied || stat.st_size > 0 || stat.st_nlink != 1 => Ok(()),
        Found::Nothing if writes(flags) || flags & libc::O_CREAT != 0 => {
            match fresh(fd, flags, mode) {
                Some(mark) => again(|| existing(fd, flags, mark)),
                None => Ok(()),
            }
        }
        // A process that opens it for writing later may place it.
        Found::Nothing => {
            table::disown(fd);
            Ok(())
        }
    };
    done.map_err(|fault| match fault {
        Fault::Errno(errno) => errno,
        Fault::Gone | Fault::Demote | Fault::Lost => libc::EIO,
    })
}

/// Handles the opening of a placed file.
fn existing(fd: c_int, flags: c_int, mark: Mark) -> Result<(), Fault> {
    if table::is_beyond(fd) {
        return Err(Fault::Errno(libc::EMFILE));
    }
    let volume = start::volume().ok_or(Fault::Errno(libc::EIO))?;
    if volume.number() != mark.volume {
        start::complain(table::ELSEWHERE);
        return Err(Fault::Errno(libc::EIO));
    }
    let open = Arc::new(opening(files::of(mark.id), fd, flags, mark.volume));
    let known = open.volume();
    let (mark, open) = match known {
        Ok(_) => (mark, open),
        // Another process has just demoted the file.
        Err(Fault::Gone) if Mark::of(fd).is_none() => return Ok(()),
        // The file was never synced, and the daemon or the machine died: it is empty.
        Err(Fault::Gone) => {
            let Some(mark) = renewed(fd, mark)? else {
                return Ok(());
            };
            let open = Arc::new(opening(files::of(mark.id), fd, flags, mark.volume));
            open.volume()?;
            (mark, open)
        }
        Err(fault) => return Err(fault),
    };
    if flags & libc::O_TRUNC != 0 && writes(flags) {
        volume.truncate(mark.id, 0)?;
    }
    table::place(fd, open);
    Ok(())
}

/// Assigns a new number to a file whose number the log does not know. All processes that find it in
/// this state get the same number; `None` if one of them has demoted the file by now.
fn renewed(fd: c_int, old: Mark) -> Result<Option<Mark>, Fault> {
    let volume = start::volume().ok_or(Fault::Errno(libc::EIO))?;
    let id = volume.renew(old.id, &sys::path_of(fd)?, fd)?;
    let mark = Mark { id, ..old };
    match mark.set(fd, Instead::Of) {
        Err(libc::ENODATA) => return Ok(None),
        set => set?,
    }
    let file = sys::open(&sys::of(fd), libc::O_WRONLY)?;
    let stands = volume.stand(&files::of(id), file);
    sys::close(file);
    stands.map(|()| Some(mark))
}

/// Places an empty file, if a rule names it and the zones accept it. Returns the mark if another
/// process has placed it first.
fn fresh(fd: c_int, flags: c_int, mode: mode_t) -> Option<Mark> {
    let (rules, path) = (start::rules()?, sys::path_of(fd).ok()?);
    if !rules.names(&path) || table::is_beyond(fd) {
        return None;
    }
    let volume = start::volume()?;
    let id = match volume.create(&path, Placement::default(), fd) {
        Ok(id) => id,
        Err(fault) => {
            sys::say(&format!("a file is not placed: {fault:?}"));
            return None;
        }
    };
    let directive = rules.opened(id.0, &path, flags, mode);
    let mark = Mark {
        volume: volume.number(),
        id,
    };
    let open = opening(files::of(mark.id), fd, flags, mark.volume);
    open.volume
        .store(core::ptr::from_ref(volume).cast_mut(), Ordering::Release);
    let Some(directive) = directive else {
        // No rule accepts its flags or permissions: the new file goes away with the opening.
        volume.unlinked(id, b"");
        return None;
    };
    let _ = volume.belongs(id, rules.placement(directive, volume.link.open_zones));
    if let Err(errno) = mark.set(fd, Instead::OfNone) {
        volume.unlinked(id, b"");
        let first = Mark::of(fd).filter(|_| errno == libc::EEXIST);
        match first {
            Some(mark) => volume.renamed(mark.id, &path),
            None => sys::say(&format!(
                "a file is not placed: its file system takes no attribute, error {errno}"
            )),
        }
        return first;
    }
    table::place(fd, Arc::new(open));
    None
}

/// Passes a write hint of the program to the rules, which may change a file's placement.
fn told(fd: c_int, argument: c_long) {
    let (Some(open), Some(rules)) = (placed(fd), start::rules()) else {
        return;
    };
    // SAFETY: `argument` points to the hint. The kernel has read eight bytes; programs that pass
    // four mean these four, and nothing need follow them.
    let hint = unsafe { (argument as *const u32).read_unaligned() };
    let tell = || {
        if let Some(directive) = rules.hinted(open.file.id.0, hint.into())
            && let Ok(volume) = open.volume()
        {
            let placement = rules.placement(directive, volume.link.open_zones);
            let _ = volume.belongs(open.file.id, placement);
        }
    };
    raw::keeping_errno(|| quiet(tell));
}

/// Resizes the stand-in of a file that was open for writing to the file's length.
pub(super) fn lengthen(fd: c_int, open: &table::Open) {
    if let Some(volume) = start::opened().filter(|_| open.writes()) {
        let _ = keeping_time(fd, &open.file, || volume.stand(&open.file, fd));
    }
}

fn closes(fd: c_int, next: impl FnOnce() -> c_int) -> c_int {
    if is_too_deep(fd) {
        return refused(libc::EDEADLK);
    }
    match table::kind(fd) {
        Kind::Ours => return refused(libc::EBADF),
        Kind::Unknown => return next(),
        Kind::Plain => table::disown(fd),
        Kind::Placed(open) => quiet(|| {
            lengthen(fd, &open);
            table::forget(fd);
            drop(open);
        }),
    }
    next()
}

/// Closes the placed files in a range of descriptors; spares the descriptors of this library.
fn closes_range(
    first: c_uint,
    last: c_uint,
    mut close: impl FnMut(c_uint, c_uint) -> c_int,
) -> c_int {
    if gate::is_inside() {
        return refused(libc::EDEADLK);
    }
    for (fd, _) in quiet(table::all) {
        if (first..=last).contains(&(fd as c_uint)) {
            closes(fd, || 0);
        }
    }
    table::forget_plain(first, last);
    let mut from = first;
    for ours in table::ours_within(first, last) {
        let ours = ours as c_uint;
        if from < ours && close(from, ours - 1) != 0 {
            return -1;
        }
        from = ours + 1;
    }
    if from > last { 0 } else { close(from, last) }
}

fn close_span(first: c_uint, last: c_uint) -> c_int {
    raw::call(
        libc::SYS_close_range,
        [first as usize, last as usize, 0, 0, 0, 0],
    ) as c_int
}

/// Duplicates a descriptor, by `dup` and its variants.
fn copies(from: c_int, to: Option<c_int>, next: impl FnOnce() -> c_int) -> c_int {
    if is_too_deep(from) || to.is_some_and(is_too_deep) {
        return refused(libc::EDEADLK);
    }
    let open = placed(from);
    let over = to.filter(|to| *to != from).map(|to| (to, table::kind(to)));
    if matches!(over, Some((_, Kind::Ours))) {
        return refused(libc::EBADF);
    }
    if let Some((to, Kind::Placed(over))) = &over {
        quiet(|| lengthen(*to, over));
    }
    let copy = next();
    // The file at `to` was closed only if the copy succeeded. A placed copy replaces it in the
    // table in one step, so that other threads find either the old file or the new one.
    if let Some((to, Kind::Placed(_))) = over.filter(|_| copy >= 0 && open.is_none()) {
        quiet(|| drop(table::forget(to)));
    }
    if copy >= 0 && Some(copy) != to.filter(|to| *to == from) {
        match open {
            Some(open) => quiet(|| table::place(copy, open)),
            None => table::as_another(copy, from),
        }
    }
    copy
}

fn controls(fd: c_int, command: c_int, argument: c_long, next: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_SETFL | HINT | HINT_OF_FILE if is_too_deep(fd) => refused(libc::EDEADLK),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copies(fd, None, next),
        libc::F_SETFL => {
            let done = next();
            if let Some(open) = placed(fd).filter(|_| done == 0) {
                let append = argument as c_int & libc::O_APPEND != 0;
                open.append.store(append, Ordering::Relaxed);
            }
            done
        }
        HINT | HINT_OF_FILE => {
            let done = next();
            // The kernel may not support hints; the rules use them all the same.
            if argument != 0 && start::state() == State::Zones {
                told(fd, argument);
            }
            done
        }
        _ => next(),
    }
}

/// Forgets the state of descriptors that arrived with a message: their numbers may have had other
/// files before, closed in ways that no hook saw.
///
/// # Safety
/// The message was just received.
unsafe fn came(message: *const msghdr) {
    // SAFETY: as for the function. The control data of the message are as the kernel wrote them.
    unsafe {
        let mut beside = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = beside.as_ref() {
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(beside);
                let len = head.cmsg_len.saturating_sub(data.addr() - beside.addr());
                let fds = data.cast::<c_int>();
                for at in 0..len / size_of::<c_int>() {
                    let fd = fds.add(at).read_unaligned() as c_uint;
                    table::forget_plain(fd, fd);
                }
            }
            beside = libc::CMSG_NXTHDR(message, beside);
        }
    }
}

hooks! {
    in flashloom_place:
    fn [open open64](path: *const c_char, flags: c_int, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { opens((HERE, path), flags, mode, next) };
    fn [__open_2 __open64_2](path: *const c_char, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { opens((HERE, path), flags, 0, next) };
    fn [openat openat64](at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { opens((at, path), flags, mode, next) };
    fn [__openat_2 __openat64_2](at: c_int, path: *const c_char, flags: c_int) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { opens((at, path), flags, 0, next) };
    fn [creat creat64](path: *const c_char, mode: mode_t) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { opens((HERE, path), CREATE, mode, next) };

    fn [close](fd: c_int) -> c_int, |next| closes(fd, next);
    fn [close_range](first: c_uint, last: c_uint, flags: c_int) -> c_int, |next|
        match start::opened().is_some() || table::has_any() {
            // Bit 2 only marks the range to be closed by `exec`.
            true if flags & 4 == 0 => closes_range(first, last, close_span),
            _ => {
                table::forget_plain(first, last);
                next()
            }
        };
    fn [closefrom](first: c_int) -> (), |next| {
        let first = first.max(0) as c_uint;
        if start::opened().is_some() || table::has_any() {
            closes_range(first, c_uint::MAX, close_span);
        } else {
            table::forget_plain(first, c_uint::MAX);
            next();
        }
    };
    fn [closedir](folder: *mut DIR) -> c_int, |next| {
        if !folder.is_null() {
            // SAFETY: as the caller vouches for the call.
            let fd = unsafe { libc::dirfd(folder) } as c_uint;
            table::forget_plain(fd, fd);
        }
        next()
    };
    fn [recvmsg](socket: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, |next| {
        let _ = (socket, flags);
        let got = next();
        if got >= 0 {
            // SAFETY: as the caller vouches for the call, which has succeeded with this message.
            unsafe { came(message) };
        }
        got
    };
    fn [recvmmsg](
        socket: c_int, messages: *mut mmsghdr, n: c_uint, flags: c_int, wait: *mut timespec
    ) -> c_int, |next| {
        let _ = (socket, n, flags, wait);
        let got = next();
        for at in 0..usize::try_from(got).unwrap_or(0) {
            // SAFETY: as the caller vouches for the call, which has filled this number of messages.
            unsafe { came(&raw const (*messages.add(at)).msg_hdr) };
        }
        got
    };
    fn [dup](from: c_int) -> c_int, |next| copies(from, None, next);
    fn [dup2](from: c_int, to: c_int) -> c_int, |next| copies(from, Some(to), next);
    fn [dup3](from: c_int, to: c_int, flags: c_int) -> c_int, |next| {
        let _ = flags;
        copies(from, Some(to), next)
    };
    fn [fcntl fcntl64](fd: c_int, command: c_int, argument: c_long) -> c_int, |next|
        controls(fd, command, argument, next);
}
