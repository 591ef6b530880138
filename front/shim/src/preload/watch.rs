//! The watch table: tells which descriptors are recorded.
//!
//! Invariant: a descriptor marked as watched has been recorded, by its `open` or as found. A
//! descriptor of unknown state is examined at its next use.

use super::log::{self, More};
use super::raw::{self, Text};
use super::start::{self, State};
use crate::wire::{Head, Info, Op};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Number of descriptors in the table; calls on higher ones are not recorded.
const ROOM: usize = 1 << 16;

const UNKNOWN: u8 = 0;
const WATCHED: u8 = 1;
const LEFT: u8 = 2;

static KINDS: [AtomicU8; ROOM] = [const { AtomicU8::new(UNKNOWN) }; ROOM];

/// Device numbers of `/proc`, `/sys` and `/dev`.
static SYSTEM: [AtomicU64; 3] = [const { AtomicU64::new(u64::MAX) }; 3];

/// Determines the device numbers of the system's own file systems.
pub(super) fn begin() {
    // SAFETY: the paths are strings.
    let device = |path: &core::ffi::CStr| unsafe {
        raw::info_at(libc::AT_FDCWD, path.as_ptr(), 0).map(|info| info.device)
    };
    let root = device(c"/");
    for (slot, path) in SYSTEM.iter().zip([c"/proc", c"/sys", c"/dev"]) {
        let own = device(path).filter(|&it| Some(it) != root);
        slot.store(own.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Whether files with these attributes are recorded.
pub(super) fn interesting(info: &Info) -> bool {
    let kind = info.mode & libc::S_IFMT;
    let system = SYSTEM
        .iter()
        .any(|it| it.load(Ordering::Relaxed) == info.device);
    (kind == libc::S_IFREG || kind == libc::S_IFDIR) && !system
}

/// Whether calls on `path` are recorded; a path that does not tell is.
pub(super) fn interesting_path(path: &[u8]) -> bool {
    let within = |folder: &[u8]| path.starts_with(folder);
    let system = within(b"/proc/") || within(b"/sys/") || within(b"/dev/");
    start::state() != State::Off && (!system || within(b"/dev/shm/"))
}

fn slot(fd: c_int) -> Option<&'static AtomicU8> {
    KINDS.get(usize::try_from(fd).ok()?)
}

/// Whether calls on the open file `fd` are recorded.
#[inline]
pub(super) fn watched(fd: c_int) -> bool {
    let Some(slot) = slot(fd) else { return false };
    match slot.load(Ordering::Relaxed) {
        WATCHED => true,
        LEFT => false,
        _ => start::state() != State::Off && look(fd),
    }
}

/// Sets whether `fd` is watched.
pub(super) fn set(fd: c_int, watched: bool) {
    if let Some(slot) = slot(fd) {
        slot.store(if watched { WATCHED } else { LEFT }, Ordering::Relaxed);
    }
}

/// Forgets `fd`, which is being closed; returns whether it was watched.
pub(super) fn forget(fd: c_int) -> bool {
    slot(fd).is_some_and(|slot| slot.swap(UNKNOWN, Ordering::Relaxed) == WATCHED)
}

/// Forgets the descriptors from `first` to `last`.
pub(super) fn forget_range(first: u32, last: u32) {
    let end = (last as usize).saturating_add(1).min(ROOM);
    let range = KINDS.get(first as usize..end).unwrap_or_default();
    for slot in range {
        slot.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Examines a descriptor whose opening was not seen, and records it as found.
#[cold]
fn look(fd: c_int) -> bool {
    let Some(info) = raw::info_of(fd) else {
        return false;
    };
    let watched = interesting(&info);
    set(fd, watched);
    if watched {
        raw::keeping_errno(|| found(fd, info));
    }
    watched
}

fn found(fd: c_int, info: Info) {
    let mut link = Text::new();
    link.bytes(b"/proc/self/fd/").number(fd as u64);
    let path = Text::link(&mut link);
    let ask = |number, a: usize, b: usize| raw::call(number, [fd as usize, a, b, 0, 0, 0]);
    let offset = ask(libc::SYS_lseek, 0, libc::SEEK_CUR as usize);
    let flags = ask(libc::SYS_fcntl, libc::F_GETFL as usize, 0);
    let head = Head::on(Op::Found, fd)
        .words(offset.max(0) as u64, 0, 0)
        .flags(flags as c_int);
    let more = More {
        infos: [Some(info), None],
        s1: path.as_ref().map_or(&[], Text::get),
        s2: &[],
    };
    log::note(head, &more);
}

/// Examines every open descriptor of the process.
pub(super) fn look_at_all() {
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
    let path = c"/proc/self/fd".as_ptr() as usize;
    let folder = raw::call(
        libc::SYS_openat,
        [libc::AT_FDCWD as usize, path, flags, 0, 0, 0],
    );
    let Ok(folder) = usize::try_from(folder) else {
        return;
    };
    let mut entries = [0_u64; 128];
    loop {
        let place = entries.as_mut_ptr() as usize;
        let room = size_of_val(&entries);
        let read = raw::call(libc::SYS_getdents64, [folder, place, room, 0, 0, 0]);
        let Some(read) = usize::try_from(read).ok().filter(|&n| n > 0) else {
            break;
        };
        // SAFETY: the kernel wrote that many bytes, which is at most the capacity.
        let bytes = unsafe { core::slice::from_raw_parts(entries.as_ptr().cast(), read) };
        each_number(bytes, |fd| {
            if fd as usize != folder {
                watched(fd);
            }
        });
    }
    raw::call(libc::SYS_close, [folder, 0, 0, 0, 0, 0]);
}

/// Calls `each` with the directory entries whose names are numbers.
fn each_number(mut entries: &[u8], mut each: impl FnMut(c_int)) {
    // Layout of an entry: inode, offset, its size, file type, name.
    while let Some(size) = entries.get(16..18) {
        let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
        let Some(name) = entries.get(19..size) else {
            return;
        };
        let digits = name.split(|b| !b.is_ascii_digit()).next().unwrap_or(&[]);
        if !digits.is_empty() {
            let digit = |n: c_int, b: &u8| n.saturating_mul(10).saturating_add((b - b'0').into());
            each(digits.iter().fold(0, digit));
        }
        entries = &entries[size..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_paths_are_not_watched() {
        for path in ["/proc/self/maps", "/sys/x", "/dev/null"] {
            assert!(!interesting_path(path.as_bytes()), "{path}");
        }
        for path in ["", "a", "/process", "/dev/shm/x", "dev/null"] {
            assert!(interesting_path(path.as_bytes()), "{path}");
        }
    }

    #[test]
    fn numeric_names_are_found_among_directory_entries() {
        let mut bytes = Vec::new();
        for name in ["..", "17", "0"] {
            let mut entry = vec![0_u8; 24];
            entry[16] = 24;
            entry[19..19 + name.len()].copy_from_slice(name.as_bytes());
            bytes.extend(entry);
        }
        let mut found = Vec::new();
        each_number(&bytes, |fd| found.push(fd));
        assert_eq!(found, [17, 0]);
    }
}
