//! The log of a thread: the destination of its records.
//!
//! Invariants: a [`Log`] belongs to one thread, and is accessed only by that thread and its signal
//! handlers. A log whose image is not that of the process was copied by `fork`, and its chunk is
//! not used here. A chunk stays mapped while an interrupted call may have reserved room in it.

use super::raw::{self, Text};
use super::start::{self, State};
use super::watch;
use crate::wire::{Chunk, Head, Info, OP_OFFSET, Op};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Size of a thread's first chunk in bytes. Each next one is larger, up to [`CHUNK_MAX`]. Small
/// enough that a short-lived process costs little, large enough that chunks are rarely opened.
const CHUNK_FIRST: usize = 32 << 10;

/// Size of the largest chunk in bytes.
const CHUNK_MAX: usize = 1 << 20;

/// Index of the next chunk of this process, shared by all threads. A forked child goes on counting,
/// so that chunks of one thread number, of the same or of successive threads, are ordered by index
/// in the spool.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The log of one thread, in private memory, of which a forked child has a copy.
pub(super) struct Log {
    image: u64,
    base: *mut u8,
    len: usize,
    /// Position of the next record, packed by [`cursor`].
    cursor: AtomicU64,
    /// The previous chunk (address and length), which stays mapped.
    before: (*mut u8, usize),
    tid: u32,
    /// Number of chunks that the log has had.
    chunks: u32,
    /// Number of calls in progress: more than one if signal handlers make calls.
    depth: u32,
    lost: u64,
}

/// Packs a position: chunk index (upper 32 bits) and offset. With the index, a position can only be
/// taken in the chunk whose address was read.
fn cursor(index: u32, offset: usize) -> u64 {
    u64::from(index) << 32 | offset as u64
}

/// Contents of a record besides its head.
#[derive(Clone, Copy, Default)]
pub(super) struct More<'a> {
    /// Attributes of up to two files.
    pub(super) infos: [Option<Info>; 2],
    /// First string, mostly a path.
    pub(super) s1: &'a [u8],
    /// Second string, as the operation defines it.
    pub(super) s2: &'a [u8],
}

/// Results of functions, in the form that records hold.
pub(super) trait Answer {
    /// The result, or the negative error number.
    fn answer(&self) -> i64;
}

fn signed(value: i64) -> i64 {
    if value < 0 {
        -i64::from(raw::errno())
    } else {
        value
    }
}

impl Answer for i32 {
    fn answer(&self) -> i64 {
        signed(i64::from(*self))
    }
}

impl Answer for isize {
    fn answer(&self) -> i64 {
        signed(*self as i64)
    }
}

impl Answer for i64 {
    fn answer(&self) -> i64 {
        signed(*self)
    }
}

impl<T> Answer for *mut T {
    fn answer(&self) -> i64 {
        if self.is_null() {
            -i64::from(raw::errno())
        } else {
            0
        }
    }
}

impl Answer for () {
    fn answer(&self) -> i64 {
        0
    }
}

/// A call in progress, or a record being written.
struct Within {
    log: Option<*mut Log>,
    /// Number of calls of this thread that this one interrupted.
    depth: u32,
}

impl Within {
    #[inline]
    fn enter() -> Self {
        let log = mine();
        // SAFETY: the log is this thread's. A signal handler that runs between the two accesses
        // leaves the depth as it found it.
        let depth = log.map_or(0, |log| unsafe {
            let depth = (*log).depth;
            (*log).depth = depth + 1;
            depth
        });
        compiler_fence(Ordering::SeqCst);
        Self { log, depth }
    }

    #[inline]
    fn leave(self) {
        compiler_fence(Ordering::SeqCst);
        if let Some(log) = self.log {
            // SAFETY: as above; a fork has copied the log to the same place.
            unsafe { (*log).depth = self.depth };
        }
    }

    /// Appends a record; if the call was a fork, the child's goes to a new log.
    #[inline]
    fn append(&self, mut head: Head, more: &More<'_>) {
        // SAFETY: a log is never freed while its thread runs.
        let same = |log: &*mut Log| unsafe { (**log).image } == start::image();
        let Some(log) = self.log.filter(same).or_else(mine) else {
            return;
        };
        head.infos = more.infos.iter().flatten().count() as u16;
        head.s1 = more.s1.len() as u16;
        head.s2 = more.s2.len() as u16;
        head.within = self.depth;
        // SAFETY: the log is this thread's; a signal handler of this thread
        // takes places of its own.
        unsafe {
            let place = reserve(log, &head);
            if !place.is_null() {
                write(place, &head, more);
            }
        }
    }
}

/// Calls `next` and appends a record of it. `more` completes the head, which already holds the
/// result.
#[inline]
pub(super) fn timed<'a, R: Answer>(
    mut head: Head,
    next: impl FnOnce() -> R,
    more: impl FnOnce(&mut Head) -> More<'a>,
) -> R {
    let within = Within::enter();
    head.start = raw::now();
    let answer = next();
    head.end = raw::now();
    head.result = answer.answer();
    let more = more(&mut head);
    within.append(head, &more);
    within.leave();
    answer
}

/// Like [`timed`], but records nothing if `fd` is not watched.
#[inline]
pub(super) fn on_fd<R: Answer>(head: Head, next: impl FnOnce() -> R) -> R {
    if watch::watched(head.fd) {
        timed(head, next, |_| More::default())
    } else {
        next()
    }
}

/// Appends a record without a duration.
pub(super) fn note(mut head: Head, more: &More<'_>) {
    (head.start, head.end) = match head.start {
        0 => (raw::now(), raw::now()),
        start => (start, start),
    };
    append(head, more);
}

/// Appends a record; preserves `errno`.
#[inline]
pub(super) fn append(head: Head, more: &More<'_>) {
    let within = Within::enter();
    within.append(head, more);
    within.leave();
}

/// Reserves room for the record of `head` in the log; null if the system grants no chunk.
///
/// # Safety
/// `log` is that of this thread.
#[inline]
unsafe fn reserve(log: *mut Log, head: &Head) -> *mut u8 {
    let size = head.size();
    // SAFETY: as for the function.
    unsafe {
        loop {
            if let Some(place) = take(log, size) {
                return place;
            }
            // A signal handler may have opened a chunk since.
            let opened = || (*log).room() >= size || next_chunk(log, head.within > 0);
            if !start::quiet(opened) {
                (*log).lost += 1;
                return null_mut();
            }
        }
    }
}

/// Takes the next `size` bytes of the chunk; `None` if they do not fit.
///
/// # Safety
/// `log` is that of this thread.
#[inline]
unsafe fn take(log: *mut Log, size: usize) -> Option<*mut u8> {
    // SAFETY: the log is this thread's. A signal handler that runs in between moves the cursor;
    // then the exchange fails and everything is read again. So the place is in the chunk whose base
    // and length were read.
    unsafe {
        loop {
            let at = (*log).cursor.load(Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            let base = (*log).base;
            if (*log).room() < size {
                return None;
            }
            compiler_fence(Ordering::SeqCst);
            let next = at + size as u64;
            let taken =
                (*log)
                    .cursor
                    .compare_exchange_weak(at, next, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(base.add(at as u32 as usize));
            }
        }
    }
}

impl Log {
    /// Number of bytes left in the chunk.
    #[inline]
    fn room(&self) -> usize {
        let used = self.cursor.load(Ordering::Relaxed) as u32 as usize;
        self.len.saturating_sub(used)
    }
}

/// # Safety
/// `place` is aligned to 8 bytes and has room for the record.
#[inline]
unsafe fn write(place: *mut u8, head: &Head, more: &More<'_>) {
    let put = |at: usize, bytes: &[u8]| {
        // SAFETY: the size in the head includes the bytes that are written here.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.add(at), bytes.len()) };
    };
    let mut at = Head::SIZE;
    put(0, &head.bytes(Op::Nothing));
    for info in more.infos.iter().flatten() {
        put(at, &info.bytes());
        at += Info::SIZE;
    }
    put(at, more.s1);
    put(at + more.s1.len(), more.s2);
    // SAFETY: the operation is a 16-bit number at an even address.
    let op = unsafe { AtomicU16::from_ptr(place.add(OP_OFFSET).cast()) };
    op.store(head.op as u16, Ordering::Release);
}

/// The log of this thread; `None` if recording is off.
#[inline]
fn mine() -> Option<*mut Log> {
    if start::state() != State::On {
        return None;
    }
    let log = start::log();
    // SAFETY: the pointer kept for the thread is null or its log, which is freed only when the
    // thread ends.
    if !log.is_null() && unsafe { (*log).image } == start::image() {
        return Some(log);
    }
    raw::keeping_errno(|| start::quiet(|| begin(log)))
}

/// Starts a new log in a forked child, which records its birth.
pub(super) fn wake() {
    mine();
}

/// Creates the log of this thread, or takes over the one that a fork copied.
#[cold]
fn begin(log: *mut Log) -> Option<*mut Log> {
    let started = start::log();
    // SAFETY: as in `mine`. Signals are blocked; a handler may have begun it before.
    if !started.is_null() && unsafe { (*started).image } == start::image() {
        return Some(started);
    }
    // SAFETY: as in `mine`; the log is a copy that the fork has made.
    unsafe { leave_to_parent(log) };
    let born = start::born();
    let log = if log.is_null() { allocate()? } else { log };
    let fresh = Log {
        image: start::image(),
        base: null_mut(),
        len: 0,
        cursor: AtomicU64::new(0),
        tid: raw::id(libc::SYS_gettid),
        before: (null_mut(), 0),
        chunks: 0,
        depth: 0,
        lost: 0,
    };
    // SAFETY: the memory belongs to this thread and has the size of a log.
    unsafe { log.write(fresh) };
    start::keep(log);
    if let Some(head) = born {
        note(head, &More::default());
    }
    Some(log)
}

/// Unmaps the chunks that a forked child has inherited, unless a call that a handler interrupted in
/// the parent goes on in the child: it writes to its reserved room, with the same bytes as its twin
/// in the parent.
///
/// # Safety
/// `log` is null, or the log of this thread and of another image.
unsafe fn leave_to_parent(log: *mut Log) {
    if log.is_null() {
        return;
    }
    // SAFETY: as for the function.
    let inherited = unsafe { &*log };
    if inherited.depth == 0 {
        unmap(inherited.base, inherited.len);
        unmap(inherited.before.0, inherited.before.1);
    }
}

fn allocate() -> Option<*mut Log> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let place = map(size_of::<Log>(), flags, -1)?;
    Some(place.cast())
}

fn map(len: usize, flags: i32, fd: i32) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let args = [0, len, protection as usize, flags as usize, fd as usize, 0];
    let place = raw::call(libc::SYS_mmap, args);
    let place = usize::try_from(place).ok().filter(|&at| at != 0)?;
    Some(without_provenance_mut(place))
}

fn unmap(place: *mut u8, len: usize) {
    if !place.is_null() {
        raw::call(libc::SYS_munmap, [place as usize, len, 0, 0, 0, 0]);
    }
}

/// Opens the next chunk of the log; returns `false` if the system refuses. The chunk before the
/// current one stays mapped if a call was `interrupted`, which may write there.
///
/// # Safety
/// `log` is that of this thread, and signals are blocked.
#[cold]
unsafe fn next_chunk(log: *mut Log, interrupted: bool) -> bool {
    // SAFETY: signals are blocked, so nothing else accesses the log.
    let log = unsafe { &mut *log };
    // After failures, a chunk is requested at exponentially growing intervals.
    if log.lost > 0 && !log.lost.is_power_of_two() {
        return false;
    }
    let len = (CHUNK_FIRST << (2 * log.chunks.min(3))).min(CHUNK_MAX);
    let index = NEXT.fetch_add(1, Ordering::Relaxed);
    let Some(base) = raw::keeping_errno(|| chunk(log.tid, index, len)) else {
        return false;
    };
    if !interrupted {
        unmap(log.before.0, log.before.1);
    }
    log.before = (log.base, log.len);
    let head = Chunk {
        pid: start::pid(),
        tid: log.tid,
        image: log.image,
        index,
    };
    let head = head.bytes();
    // SAFETY: a chunk is larger than its head.
    unsafe { core::ptr::copy_nonoverlapping(head.as_ptr(), base, head.len()) };
    (log.base, log.len) = (base, len);
    log.chunks += 1;
    log.cursor
        .store(cursor(index, Chunk::SIZE), Ordering::Relaxed);
    if log.lost > 0 {
        let lost = core::mem::take(&mut log.lost);
        note(Head::new(Op::Lost).words(lost, 0, 0), &More::default());
    }
    true
}

/// Creates and maps a file of `len` bytes in the first folder of the spool that has room.
fn chunk(tid: u32, index: u32, len: usize) -> Option<*mut u8> {
    let mut folders = start::spool().split(|&b| b == b':').peekable();
    while let Some(folder) = folders.next() {
        let last = folders.peek().is_none();
        if last || has_room(folder) {
            let made = chunk_in(folder, (tid, index), len);
            if last || made.is_some() {
                return made;
            }
        }
    }
    None
}

/// Whether a folder in memory may take another chunk: half of the file system is left free.
fn has_room(folder: &[u8]) -> bool {
    let mut path = Text::new();
    path.bytes(folder);
    let mut found = MaybeUninit::<libc::statfs>::zeroed();
    let place = found.as_mut_ptr() as usize;
    let args = [path.pointer() as usize, place, 0, 0, 0, 0];
    let done = raw::call(libc::SYS_statfs, args) == 0;
    // SAFETY: all zeros are a valid `statfs`, whether the call wrote it or not.
    let found = unsafe { found.assume_init() };
    done && found.f_bavail > found.f_blocks / 2
}

fn chunk_in(folder: &[u8], (tid, index): (u32, u32), len: usize) -> Option<*mut u8> {
    let mut path = Text::new();
    path.bytes(folder).bytes(b"/");
    path.number(start::pid().into()).bytes(b".");
    path.number(start::image()).bytes(b".").number(tid.into());
    path.bytes(b".").number(index.into());
    let (path, here) = (path.pointer() as usize, libc::AT_FDCWD as usize);
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    let args = [here, path, flags as usize, 0o600, 0, 0];
    let fd = usize::try_from(raw::call(libc::SYS_openat, args)).ok()?;
    let place = extend(fd, len)
        .then(|| map(len, libc::MAP_SHARED | libc::MAP_POPULATE, fd as i32))
        .flatten();
    raw::call(libc::SYS_close, [fd, 0, 0, 0, 0, 0]);
    if place.is_none() {
        raw::call(libc::SYS_unlinkat, [here, path, 0, 0, 0, 0]);
    }
    place
}

/// Allocates the file's space, so that no store into the mapping hits a full disk; only extends it
/// if the file system cannot allocate.
fn extend(fd: usize, len: usize) -> bool {
    raw::call(libc::SYS_fallocate, [fd, 0, 0, len, 0, 0]) == 0
        || (raw::errno() == libc::EOPNOTSUPP
            && raw::call(libc::SYS_ftruncate, [fd, len, 0, 0, 0, 0]) == 0)
}

/// Frees the log of a thread that ends.
///
/// # Safety
/// `log` is null, or was passed to [`start::keep`] by this thread.
pub(super) unsafe fn end(log: *mut Log) {
    if log.is_null() {
        return;
    }
    // SAFETY: the log is read before its memory is freed.
    let log_was = unsafe { log.read() };
    if log_was.image == start::image() {
        unmap(log_was.base, log_was.len);
        unmap(log_was.before.0, log_was.before.1);
    }
    unmap(log.cast(), size_of::<Log>());
}
