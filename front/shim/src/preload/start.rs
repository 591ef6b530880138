//! What a process has once: the spool, its image, the place of its logs.
//!
//! Invariants: the state goes from new to on or off, once; the image is 0 in a
//! process that was forked and has not noticed yet, and no other image of this
//! pid has the number.

use super::log::{self, Log, More};
use super::raw::{self, Text};
use super::{next, process, stdio, thread, watch};
use crate::wire::{Head, Op};
use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The variable that names the folders of the spool, separated by colons; the
/// first that has room is used.
pub const SPOOL: &str = "FLASHLOOM_SPOOL";

/// The variables that a program needs to be seen.
pub const VARIABLES: [&str; 2] = ["LD_PRELOAD", SPOOL];

/// Whether anything is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nobody has looked yet.
    New,
    /// Yes.
    On,
    /// No.
    Off,
}

static STATE: AtomicU8 = AtomicU8::new(State::New as u8);

/// The image of this process, on a page that a fork wipes.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// The process that this is, or that this was forked from.
static PID: AtomicU32 = AtomicU32::new(0);

/// When the latest fork of this process began.
static FORKED: AtomicU64 = AtomicU64::new(0);

/// By which the C library tells of a thread with a log that it ends.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Keys for which each thread has room from its beginning (`PTHREAD_KEY_2NDLEVEL_SIZE` of glibc).
/// For others the C library allocates.
const KEYS: u32 = 32;

/// The folders of the spool: their length, and its bytes, which are written once,
/// before the state is on.
static SPOOL_LEN: AtomicUsize = AtomicUsize::new(0);
static SPOOL_BYTES: [AtomicU8; libc::PATH_MAX as usize] =
    [const { AtomicU8::new(0) }; libc::PATH_MAX as usize];

#[inline]
pub(super) fn state() -> State {
    match STATE.load(Ordering::Acquire) {
        0 => State::New,
        1 => State::On,
        _ => State::Off,
    }
}

/// The image of this process.
#[inline]
pub(super) fn image() -> u64 {
    let page = PAGE.load(Ordering::Relaxed);
    if page.is_null() {
        return 0;
    }
    // SAFETY: the page is never unmapped.
    unsafe { (*page).load(Ordering::Relaxed) }
}

pub(super) fn pid() -> u32 {
    PID.load(Ordering::Relaxed)
}

/// The folders of the spool.
pub(super) fn spool() -> &'static [u8] {
    let len = SPOOL_LEN.load(Ordering::Acquire);
    // SAFETY: atomic bytes lie as bytes do, and no one writes them any more.
    unsafe { core::slice::from_raw_parts(SPOOL_BYTES.as_ptr().cast(), len) }
}

/// What is kept for this thread.
#[inline]
pub(super) fn log() -> *mut Log {
    thread::own().log.get().cast()
}

/// Keeps `log` for this thread. Without one of the first keys it stays when the thread ends.
pub(super) fn keep(log: *mut Log) {
    thread::own().log.set(log.cast());
    let key = KEY.load(Ordering::Relaxed);
    if key < KEYS {
        // SAFETY: the key exists once a log does.
        unsafe { libc::pthread_setspecific(key, log.cast()) };
    }
}

unsafe extern "C" fn thread_ends(log: *mut c_void) {
    thread::own().log.set(null_mut());
    // SAFETY: the C library hands over what was kept.
    unsafe { log::end(log.cast()) };
}

/// Does `work` while no signal is delivered to this thread.
pub(crate) fn quiet<T>(work: impl FnOnce() -> T) -> T {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let done = work();
    // SAFETY: the mask before was written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    done
}

/// Looks for the spool and starts recording, once in the life of an image.
fn start() {
    let on = find_spool() && make_page() && make_key();
    let state = if on { State::On } else { State::Off };
    if on {
        PID.store(raw::id(libc::SYS_getpid), Ordering::Relaxed);
        name_image();
    }
    STATE.store(state as u8, Ordering::Release);
    if on {
        watch::begin();
        stdio::begin();
        started();
    }
}

fn find_spool() -> bool {
    // SAFETY: the name is a string; the value is copied before anyone changes
    // the environment.
    let value = unsafe { raw::bytes(libc::getenv(c"FLASHLOOM_SPOOL".as_ptr())) };
    for (to, from) in SPOOL_BYTES.iter().zip(value) {
        to.store(*from, Ordering::Relaxed);
    }
    SPOOL_LEN.store(value.len(), Ordering::Release);
    process::remember();
    value.first() == Some(&b'/')
}

fn make_page() -> bool {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let none = usize::MAX;
    let page = raw::call(libc::SYS_mmap, [0, 4096, protection, flags, none, 0]);
    let Ok(page) = usize::try_from(page) else {
        return false;
    };
    let wipe = libc::MADV_WIPEONFORK as usize;
    let wiped = raw::call(libc::SYS_madvise, [page, 4096, wipe, 0, 0, 0]) == 0;
    PAGE.store(page as *mut AtomicU64, Ordering::Relaxed);
    wiped
}

fn make_key() -> bool {
    let mut key = 0;
    // SAFETY: the key is written, and the function takes what it keeps.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0;
    KEY.store(key, Ordering::Relaxed);
    made
}

fn name_image() {
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: the page is never unmapped.
    unsafe { (*page).store(raw::now().max(1), Ordering::Relaxed) };
}

/// Says which program this is, and which descriptors it came with.
fn started() {
    let parent = raw::id(libc::SYS_getppid);
    let mut exe = Text::new();
    exe.bytes(b"/proc/self/exe");
    let (folder, program) = (Text::folder(), Text::link(&mut exe));
    let more = More {
        s1: folder.as_ref().map_or(&[], Text::get),
        s2: program.as_ref().map_or(&[], Text::get),
        ..More::default()
    };
    log::note(Head::new(Op::Start).words(parent.into(), 0, 0), &more);
    watch::look_at_all();
}

/// A fork begins.
pub(super) fn forking() {
    FORKED.store(raw::now(), Ordering::Relaxed);
}

/// What to note if this process was forked and has not noticed yet.
pub(super) fn born() -> Option<Head> {
    if image() != 0 {
        return None;
    }
    let parent = PID.swap(raw::id(libc::SYS_getpid), Ordering::Relaxed);
    name_image();
    let mut head = Head::new(Op::Born).words(parent.into(), 0, 0);
    head.start = FORKED.swap(0, Ordering::Relaxed);
    Some(head)
}

/// The environment of this process.
pub(crate) fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static mut environ: *const *const c_char;
    }
    // SAFETY: the C library defines it.
    unsafe { environ }
}

/// Starts recording before the program's own code runs.
extern "C" fn constructor() {
    raw::keeping_errno(|| quiet(start));
    next::begin();
}

/// Run by the dynamic linker before a program's own code.
#[cfg_attr(flashloom_preload, used)]
#[cfg_attr(flashloom_preload, unsafe(link_section = ".init_array"))]
pub static CONSTRUCTOR: extern "C" fn() = constructor;
