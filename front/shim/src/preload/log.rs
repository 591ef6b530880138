//! The log of a thread: where its records go.
//!
//! Invariants: a [`Log`] belongs to one thread, which alone touches it, if need
//! be from its signal handlers; a log whose image is not that of the process
//! was copied by `fork` and its chunk is not mapped here; a chunk stays mapped
//! while a call that a signal interrupted may have a place in it.

use super::raw::{self, Text};
use super::start::{self, State};
use super::watch;
use crate::wire::{Chunk, Head, Info, OP_OFFSET, Op};
use core::mem::MaybeUninit;
use core::ptr::{null_mut, without_provenance_mut};
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// Bytes of a thread's first chunk; each next one is larger, up to
/// [`CHUNK_MAX`]. Small enough that a short-lived process costs little, large
/// enough that opening one is rare.
const CHUNK_FIRST: usize = 32 << 10;

/// Bytes of the largest chunk.
const CHUNK_MAX: usize = 1 << 20;

/// The index of the next chunk of this process. All threads draw from it, and a forked
/// child goes on: a log that follows another one of the same thread, or of a thread
/// that had its number, follows it in the spool as well.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The log of one thread. Its memory is private, so a forked child has a copy.
pub(super) struct Log {
    image: u64,
    base: *mut u8,
    len: usize,
    /// Where the next record begins, as [`cursor`] packs it.
    cursor: AtomicU64,
    /// The chunk before, which stays mapped.
    before: (*mut u8, usize),
    tid: u32,
    /// How many chunks it had.
    chunks: u32,
    /// Calls in progress: more than one where signal handlers make them.
    depth: u32,
    lost: u64,
}

/// The next place of a chunk. The number of the chunk is a part of it, so that
/// a place is taken only in the chunk whose memory was read.
fn cursor(index: u32, offset: usize) -> u64 {
    u64::from(index) << 32 | offset as u64
}

/// What a record carries besides its head.
#[derive(Clone, Copy, Default)]
pub(super) struct More<'a> {
    /// Attributes.
    pub(super) infos: [Option<Info>; 2],
    /// The first string.
    pub(super) s1: &'a [u8],
    /// The second string.
    pub(super) s2: &'a [u8],
}

/// Answers of functions, as records hold them.
pub(super) trait Answer {
    /// The value, or the negative error.
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
    /// Calls of this thread that it interrupted.
    depth: u32,
}

impl Within {
    #[inline]
    fn enter() -> Self {
        let log = mine();
        // SAFETY: the log is this thread's. A handler that comes between the
        // two accesses leaves the depth as it found it.
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

    /// Appends a record, to a new log if the call was a fork.
    #[inline]
    fn append(&self, mut head: Head, more: &More<'_>) {
        // SAFETY: a log that was there is there.
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

/// Calls `next`, and appends what it did: `more` sees the answer as records
/// hold it.
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

/// As [`timed`], if `fd` is of interest.
#[inline]
pub(super) fn on_fd<R: Answer>(head: Head, next: impl FnOnce() -> R) -> R {
    if watch::watched(head.fd) {
        timed(head, next, |_| More::default())
    } else {
        next()
    }
}

/// Appends a record that took no time.
pub(super) fn note(mut head: Head, more: &More<'_>) {
    (head.start, head.end) = match head.start {
        0 => (raw::now(), raw::now()),
        start => (start, start),
    };
    append(head, more);
}

/// Appends a record. `errno` is kept.
#[inline]
pub(super) fn append(head: Head, more: &More<'_>) {
    let within = Within::enter();
    within.append(head, more);
    within.leave();
}

/// Room for the record of `head` in the log; null if there is none.
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
            // A handler may have opened a chunk since.
            let opened = || (*log).room() >= size || next_chunk(log, head.within > 0);
            if !start::quiet(opened) {
                (*log).lost += 1;
                return null_mut();
            }
        }
    }
}

/// Takes the next `size` bytes of the chunk; `None` if it is full.
///
/// # Safety
/// `log` is that of this thread.
#[inline]
unsafe fn take(log: *mut Log, size: usize) -> Option<*mut u8> {
    // SAFETY: the log is this thread's. A handler that comes in between moves
    // the cursor, and what was read before is read again; so a place is in the
    // chunk whose base and length were read.
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
    /// Bytes that are left in the chunk.
    #[inline]
    fn room(&self) -> usize {
        let used = self.cursor.load(Ordering::Relaxed) as u32 as usize;
        self.len.saturating_sub(used)
    }
}

/// # Safety
/// `place` has room for the record, and is a multiple of 8.
#[inline]
unsafe fn write(place: *mut u8, head: &Head, more: &More<'_>) {
    let put = |at: usize, bytes: &[u8]| {
        // SAFETY: the size of the head counts what is put here.
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
    // SAFETY: the operation is a 16-bit number at an even place.
    let op = unsafe { AtomicU16::from_ptr(place.add(OP_OFFSET).cast()) };
    op.store(head.op as u16, Ordering::Release);
}

/// The log of this thread; `None` where nothing is recorded.
#[inline]
fn mine() -> Option<*mut Log> {
    if start::state() != State::On {
        return None;
    }
    let log = start::log();
    // SAFETY: what is kept for the thread is null or its log, which is freed
    // only when the thread ends.
    if !log.is_null() && unsafe { (*log).image } == start::image() {
        return Some(log);
    }
    raw::keeping_errno(|| start::quiet(|| begin(log)))
}

/// Makes sure that this process has noticed what it is.
pub(super) fn wake() {
    mine();
}

/// Makes the log of this thread, or takes over the one that a fork copied.
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
    // SAFETY: it is this thread's memory, of the right size.
    unsafe { log.write(fresh) };
    start::keep(log);
    if let Some(head) = born {
        note(head, &More::default());
    }
    Some(log)
}

/// Unmaps what a forked child has inherited, unless a call that its handler interrupted
/// in the parent goes on here: that one writes what its twin writes, at the same place.
///
/// # Safety
/// `log` is null or that of this thread, of another image.
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

/// Opens the next chunk of the log. `false` if the system refuses. What was mapped
/// before stays so if a call was `interrupted`, which may write there.
///
/// # Safety
/// `log` is that of this thread, and signals are blocked.
#[cold]
unsafe fn next_chunk(log: *mut Log, interrupted: bool) -> bool {
    // SAFETY: signals are blocked, so this is the only one who has it.
    let log = unsafe { &mut *log };
    // Who was refused asks more and more seldom.
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

/// A new file of `len` bytes in the first folder of the spool that has room,
/// mapped and closed again.
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

/// Whether a folder may hold more: those before the last are in memory, and
/// half of what the system grants them is left alone.
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

/// Allocates, so that no store into the mapping meets a full disk; where that
/// is not possible, extends.
fn extend(fd: usize, len: usize) -> bool {
    raw::call(libc::SYS_fallocate, [fd, 0, 0, len, 0, 0]) == 0
        || (raw::errno() == libc::EOPNOTSUPP
            && raw::call(libc::SYS_ftruncate, [fd, len, 0, 0, 0, 0]) == 0)
}

/// Gives back the log of a thread that ends.
///
/// # Safety
/// `log` is what [`start::keep`] was given by this thread, or null.
pub(super) unsafe fn end(log: *mut Log) {
    if log.is_null() {
        return;
    }
    // SAFETY: the log is read before its memory goes.
    let log_was = unsafe { log.read() };
    if log_was.image == start::image() {
        unmap(log_was.base, log_was.len);
        unmap(log_was.before.0, log_was.before.1);
    }
    unmap(log.cast(), size_of::<Log>());
}
