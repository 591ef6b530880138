//! Streams of the C library.
//!
//! The C library's streams read and write internally, so a hook of `read` does not see them, and
//! hooks of every function that may flush a buffer are infeasible (some are macros). But each
//! stream makes its system calls through a table of functions, of which four entries matter: read,
//! write, seek, close. These are replaced, in glibc's own tables for files, by ours, which call the
//! originals. Everything else of streams, such as descriptors, buffers and locks, stays as it is;
//! streams made by `fopencookie` would have a `fileno` of -1.
//!
//! The entries are found by their values, which are exported functions. If they are missing, as in
//! other C libraries, nothing is replaced, and a record notes that streams are not seen. The tables
//! are read-only, so they are written through the kernel's view of our memory (`/proc/self/mem`);
//! newer kernels refuse this, in which case the page is made writable for a moment.

use super::next::{Next, hooks};
use super::open::{close_with, open_at, opened, unseen};
use super::raw::{self, bytes};
use super::watch;
use crate::wire::{Head, Op};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use libc::{FILE, off64_t, ssize_t};

/// Number of words searched in a table, some more than its entries.
const ENTRIES: usize = 21;

const TABLES: [&CStr; 2] = [c"_IO_file_jumps", c"_IO_wfile_jumps"];

/// An entry of the table: the function that it holds, and our replacement.
pub(crate) struct Entry {
    name: &'static CStr,
    pub(crate) theirs: AtomicPtr<c_void>,
    ours: fn() -> usize,
}

impl Entry {
    pub(crate) const fn new(name: &'static CStr, ours: fn() -> usize) -> Self {
        Self {
            name,
            theirs: AtomicPtr::new(core::ptr::null_mut()),
            ours,
        }
    }
}

static READ: Entry = Entry::new(c"_IO_file_read", || read_entry as *const () as usize);
static WRITE: Entry = Entry::new(c"_IO_file_write", || write_entry as *const () as usize);
static SEEK: Entry = Entry::new(c"_IO_file_seek", || seek_entry as *const () as usize);
static CLOSE: Entry = Entry::new(c"_IO_file_close", || close_entry as *const () as usize);

fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Replaces the entries of the recording library; notes that streams are not seen if that fails.
pub(super) fn begin() {
    if cfg!(flashloom_preload) && !replace(&[&READ, &WRITE, &SEEK, &CLOSE]) {
        unseen(b"streams of the C library (stdio)");
    }
}

/// Replaces entries in all tables; returns `false` if a table lacks one of them.
pub(crate) fn replace(entries: &[&Entry]) -> bool {
    for entry in entries {
        entry.theirs.store(symbol(entry.name), Ordering::Release);
    }
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
    let path = c"/proc/self/mem".as_ptr() as usize;
    let here = libc::AT_FDCWD as usize;
    let memory = raw::call(libc::SYS_openat, [here, path, flags, 0, 0, 0]);
    let memory = usize::try_from(memory).ok();
    let replaced = TABLES.map(|table| {
        let table = symbol(table).cast::<usize>();
        !table.is_null() && replace_in(memory, table, entries)
    });
    if let Some(memory) = memory {
        raw::call(libc::SYS_close, [memory, 0, 0, 0, 0, 0]);
    }
    replaced == [true; TABLES.len()]
}

/// Replaces the entries of one table, by a single write.
fn replace_in(memory: Option<usize>, table: *const usize, entries: &[&Entry]) -> bool {
    let mut held = [0; ENTRIES];
    // SAFETY: the table has this many entries in every version that has it.
    held.copy_from_slice(unsafe { core::slice::from_raw_parts(table, ENTRIES) });
    let (mut first, mut last) = (ENTRIES, 0);
    for entry in entries {
        let theirs = entry.theirs.load(Ordering::Acquire) as usize;
        let Some(place) = held.iter().position(|&it| it == theirs && it != 0) else {
            return false;
        };
        held[place] = (entry.ours)();
        (first, last) = (first.min(place), last.max(place + 1));
    }
    let bytes = (last - first) * size_of::<usize>();
    let from = held[first..].as_ptr() as usize;
    let to = table as usize + first * size_of::<usize>();
    let write =
        |memory| raw::call(libc::SYS_pwrite64, [memory, from, bytes, to, 0, 0]) == bytes as isize;
    memory.is_some_and(write) || write_by_right(to, &held[first..last])
}

/// Writes words to read-only memory by making it writable for the moment.
fn write_by_right(to: usize, words: &[usize]) -> bool {
    // SAFETY: the call takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = to & !(page - 1);
    let len = to + size_of_val(words) - start;
    let allow =
        |rights: c_int| raw::call(libc::SYS_mprotect, [start, len, rights as usize, 0, 0, 0]) == 0;
    if !allow(libc::PROT_READ | libc::PROT_WRITE) {
        return false;
    }
    for (place, word) in (to..).step_by(size_of::<usize>()).zip(words) {
        // SAFETY: the caller guarantees that these words exist; they are writable now. A concurrent
        // reader finds the old or the new word.
        let place = unsafe { AtomicUsize::from_ptr(place as *mut usize) };
        place.store(*word, Ordering::Release);
    }
    allow(libc::PROT_READ)
}

static FILENO: Next = Next::new(b"fileno\0");

/// The descriptor of a stream, or -1.
///
/// # Safety
/// The stream is null or open.
pub(crate) unsafe fn descriptor(stream: *mut FILE) -> c_int {
    let found = FILENO.get();
    if stream.is_null() || found.is_null() {
        return -1;
    }
    type Fileno = unsafe extern "C" fn(*mut FILE) -> c_int;
    // SAFETY: this is the type of `fileno`, and the stream is open.
    raw::keeping_errno(|| unsafe { core::mem::transmute::<*mut c_void, Fileno>(found)(stream) })
}

unsafe extern "C" fn read_entry(stream: *mut FILE, to: *mut c_void, len: ssize_t) -> ssize_t {
    type Theirs = unsafe extern "C" fn(*mut FILE, *mut c_void, ssize_t) -> ssize_t;
    // SAFETY: the C library calls this as it would call its own.
    unsafe {
        let theirs =
            core::mem::transmute::<*mut c_void, Theirs>(READ.theirs.load(Ordering::Acquire));
        let head = Head::on(Op::Read, descriptor(stream)).words(len as u64, 0, 0);
        super::log::on_fd(head, || theirs(stream, to, len))
    }
}

unsafe extern "C" fn write_entry(stream: *mut FILE, from: *const c_void, len: ssize_t) -> ssize_t {
    type Theirs = unsafe extern "C" fn(*mut FILE, *const c_void, ssize_t) -> ssize_t;
    // SAFETY: the C library calls this as it would call its own.
    unsafe {
        let theirs =
            core::mem::transmute::<*mut c_void, Theirs>(WRITE.theirs.load(Ordering::Acquire));
        let head = Head::on(Op::Write, descriptor(stream)).words(len as u64, 0, 0);
        super::log::on_fd(head, || theirs(stream, from, len))
    }
}

unsafe extern "C" fn seek_entry(stream: *mut FILE, to: off64_t, whence: c_int) -> off64_t {
    type Theirs = unsafe extern "C" fn(*mut FILE, off64_t, c_int) -> off64_t;
    // SAFETY: the C library calls this as it would call its own.
    unsafe {
        let theirs =
            core::mem::transmute::<*mut c_void, Theirs>(SEEK.theirs.load(Ordering::Acquire));
        let head = Head::on(Op::Seek, descriptor(stream)).words(to as u64, whence as u64, 0);
        super::log::on_fd(head, || theirs(stream, to, whence))
    }
}

unsafe extern "C" fn close_entry(stream: *mut FILE) -> c_int {
    type Theirs = unsafe extern "C" fn(*mut FILE) -> c_int;
    // SAFETY: the C library calls this as it would call its own.
    unsafe {
        let theirs =
            core::mem::transmute::<*mut c_void, Theirs>(CLOSE.theirs.load(Ordering::Acquire));
        close_with(descriptor(stream), || theirs(stream))
    }
}

/// Flags of `open` for a mode of `fopen`.
pub(crate) fn flags(mode: &[u8]) -> c_int {
    let has = |letter| mode.contains(&letter);
    let (only, more) = match mode.first() {
        Some(b'w') => (libc::O_WRONLY, libc::O_CREAT | libc::O_TRUNC),
        Some(b'a') => (libc::O_WRONLY, libc::O_CREAT | libc::O_APPEND),
        _ => (libc::O_RDONLY, 0),
    };
    let access = if has(b'+') { libc::O_RDWR } else { only };
    let exclusive = if has(b'x') { libc::O_EXCL } else { 0 };
    access | more | exclusive
}

/// # Safety
/// `path` and `mode` are strings or null.
unsafe fn opens(
    path: *const c_char,
    mode: *const c_char,
    next: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    let mut stream = core::ptr::null_mut();
    let run = || {
        stream = next();
        // SAFETY: the stream is null or was just opened.
        unsafe { descriptor(stream) }
    };
    // SAFETY: as for the function.
    unsafe { open_at(libc::AT_FDCWD, path, flags(bytes(mode)), 0o666, run) };
    stream
}

/// Records `freopen`: a close of the old file, then an open.
///
/// # Safety
/// `path` and `mode` are strings or null; the stream is open.
unsafe fn reopens(
    (path, mode): (*const c_char, *const c_char),
    old: *mut FILE,
    next: impl FnOnce() -> *mut FILE,
) -> *mut FILE {
    // SAFETY: as for the function.
    unsafe {
        let fd = descriptor(old);
        if path.is_null() {
            return next();
        }
        if watch::forget(fd) {
            super::log::note(Head::on(Op::Close, fd), &super::log::More::default());
        }
        opens(path, mode, next)
    }
}

/// # Safety
/// `next` returns null or an open stream.
unsafe fn temporary(next: impl FnOnce() -> *mut FILE) -> *mut FILE {
    let flags = libc::O_RDWR | libc::O_TMPFILE;
    let mut head = Head::on(Op::Open, libc::AT_FDCWD)
        .flags(flags)
        .words(0o600, 0, 0);
    head.start = raw::now();
    let stream = next();
    head.end = raw::now();
    // SAFETY: as for the function.
    opened(unsafe { descriptor(stream) }, head, None, b"/tmp");
    stream
}

hooks! {
    in flashloom_preload:
    fn [fopen fopen64](path: *const c_char, mode: *const c_char) -> *mut FILE, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { opens(path, mode, next) };
    fn [freopen freopen64](path: *const c_char, mode: *const c_char, old: *mut FILE) -> *mut FILE,
        // SAFETY: as the caller vouches for the call.
        |next| unsafe { reopens((path, mode), old, next) };
    fn [tmpfile tmpfile64]() -> *mut FILE, |next|
        // SAFETY: the C library answers with a stream or null.
        unsafe { temporary(next) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_fopen_map_to_flags_of_open() {
        assert_eq!(flags(b"r"), libc::O_RDONLY);
        assert_eq!(flags(b"r+b"), libc::O_RDWR);
        assert_eq!(flags(b"we"), libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC);
        let append = libc::O_RDWR | libc::O_CREAT | libc::O_APPEND;
        assert_eq!(flags(b"a+"), append);
        assert_eq!(flags(b"wx") & libc::O_EXCL, libc::O_EXCL);
    }

    #[test]
    fn words_are_written_to_read_only_memory() {
        let page = [0, 4096, libc::PROT_READ as usize, 0x22, usize::MAX, 0];
        let start = raw::call(libc::SYS_mmap, page) as usize;
        assert!(write_by_right(start + 16, &[7, 8]));
        // SAFETY: the page was just mapped.
        let words = unsafe { core::slice::from_raw_parts(start as *const usize, 5) };
        assert_eq!(words, [0, 0, 7, 8, 0]);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let of = maps
            .lines()
            .find(|line| line.starts_with(&format!("{start:x}-")));
        assert!(of.unwrap().contains(" r--p "), "{of:?}");
    }

    #[test]
    fn tables_of_this_c_library_hold_the_four_entries() {
        for table in TABLES {
            let table = symbol(table).cast::<usize>();
            assert!(!table.is_null());
            for entry in [&READ, &WRITE, &SEEK, &CLOSE] {
                let theirs = symbol(entry.name) as usize;
                // SAFETY: as in `replace_in`.
                let held = unsafe { core::slice::from_raw_parts(table, ENTRIES) };
                assert!(held.contains(&theirs));
            }
        }
    }
}
