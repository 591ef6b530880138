//! State of the process: the spool, its image number, and the key of its threads' logs.
//!
//! Invariants: the state goes from new to on or off, once. The image number is 0 in a process that
//! was forked and has not noticed it, and unique among images of the same process ID.

use super::log::{self, Log, More};
use super::raw::{self, Text};
use super::{next, process, stdio, thread, watch};
use crate::wire::{Head, Op};
use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// Environment variable with the folders of the spool, separated by colons; the first one that has
/// room is used.
pub const SPOOL: &str = "FLASHLOOM_SPOOL";

/// Environment variables by which a program is recorded.
pub const VARIABLES: [&str; 2] = ["LD_PRELOAD", SPOOL];

/// Whether calls are recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The constructor has not run yet.
    New,
    /// Calls are recorded to the spool.
    On,
    /// Calls are not recorded: there is no spool, or the system refused.
    Off,
}

static STATE: AtomicU8 = AtomicU8::new(State::New as u8);

/// Image number of this process, on a page that a fork wipes.
static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());

/// Process ID of this process, or of its parent until the fork is noticed.
static PID: AtomicU32 = AtomicU32::new(0);

/// Start of the latest fork, in ns of the monotonic clock; the child takes it for the record of its
/// birth.
static FORKED: AtomicU64 = AtomicU64::new(0);

/// Key by which the C library reports the end of a thread that has a log.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Number of keys for which each thread has static room (`PTHREAD_KEY_2NDLEVEL_SIZE` of glibc). For
/// higher keys the C library allocates.
const KEYS: u32 = 32;

/// The spool's folders: length and bytes, written once before the state is on.
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

/// Image number of this process; 0 if it has not noticed its fork, or recording is off.
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

/// The spool's folders, separated by colons.
pub(super) fn spool() -> &'static [u8] {
    let len = SPOOL_LEN.load(Ordering::Acquire);
    // SAFETY: atomic bytes have the layout of bytes, and they are not written any more.
    unsafe { core::slice::from_raw_parts(SPOOL_BYTES.as_ptr().cast(), len) }
}

/// The log of this thread; null if it has none.
#[inline]
pub(super) fn log() -> *mut Log {
    thread::own().log.get().cast()
}

/// Sets the log of this thread. If the key is beyond [`KEYS`], the log leaks when the thread ends.
pub(super) fn keep(log: *mut Log) {
    thread::own().log.set(log.cast());
    let key = KEY.load(Ordering::Relaxed);
    if key < KEYS {
        // SAFETY: a thread has a log only after the key was created.
        unsafe { libc::pthread_setspecific(key, log.cast()) };
    }
}

unsafe extern "C" fn thread_ends(log: *mut c_void) {
    thread::own().log.set(null_mut());
    // SAFETY: the C library passes the value that was set.
    unsafe { log::end(log.cast()) };
}

/// Runs `work` with all signals of this thread blocked.
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

/// Looks for the spool and starts recording; runs once per image.
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
    // SAFETY: the call writes the local key, and `thread_ends` takes the value that is kept under
    // it.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0;
    KEY.store(key, Ordering::Relaxed);
    made
}

fn name_image() {
    let page = PAGE.load(Ordering::Relaxed);
    // SAFETY: the page is never unmapped.
    unsafe { (*page).store(raw::now().max(1), Ordering::Relaxed) };
}

/// Records the start of this program, and the descriptors that it came with.
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

/// Notes the start of a fork.
pub(super) fn forking() {
    FORKED.store(raw::now(), Ordering::Relaxed);
}

/// The record of this process's birth, if it was forked and has not noticed that yet.
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

/// Entry of `.init_array`: the dynamic linker runs it before a program's own code.
#[cfg_attr(flashloom_preload, used)]
#[cfg_attr(flashloom_preload, unsafe(link_section = ".init_array"))]
pub static CONSTRUCTOR: extern "C" fn() = constructor;
