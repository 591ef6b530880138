//! State of the process: rules, read before its own code runs, and the volume, opened when the
//! first file needs it.

use super::demote::again;
use super::fault::Fault;
use super::rules::Rules;
use super::volume::Volume;
use super::{gate, image, maps, table};
use crate::sys;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Environment variable with the path of the rules.
pub const RULES: &str = "FLASHLOOM_RULES";
/// Environment variable with the folder of zones. Without it files get hints only.
pub const ZONES: &str = "FLASHLOOM_ZONES";

/// Treatment of files that rules name.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    /// Not initialized: hooks do nothing yet.
    New,
    /// Files get hints. Files that were placed earlier cannot be reached.
    Hints,
    Zones,
}

static STATE: AtomicU8 = AtomicU8::new(State::New as u8);
static RULES_READ: OnceLock<Rules> = OnceLock::new();
static FOLDER: OnceLock<CString> = OnceLock::new();
static VOLUME: AtomicPtr<Volume> = AtomicPtr::new(core::ptr::null_mut());
static OPENING: Mutex<()> = Mutex::new(());
static SAID: AtomicU8 = AtomicU8::new(0);
static COMPLAINED: AtomicBool = AtomicBool::new(false);

/// Number of attempts to reach a daemon, [`PAUSE`] ms apart: the parent of the program starts
/// another daemon if one has died.
const TRIES: u32 = 200;
const PAUSE: u32 = 25;

#[inline]
pub(super) fn state() -> State {
    match STATE.load(Ordering::Acquire) {
        0 => State::New,
        1 => State::Hints,
        _ => State::Zones,
    }
}

/// Reads the rules. Runs while the program has one thread and no signal handlers.
pub(super) fn begin() {
    let state = gate::quiet(look);
    STATE.store(state as u8, Ordering::Release);
}

/// Without rules no new file is placed; placed files stay so in any case.
fn look() -> State {
    if let Some(path) = sys::variable(c"FLASHLOOM_RULES") {
        let program = sys::link(c"/proc/self/exe").unwrap_or_default();
        match Rules::load(&path, &path.to_string_lossy(), &program) {
            Ok(rules) => drop(RULES_READ.set(rules)),
            Err(why) => sys::say(&format!("rules {why}; no file is placed anew")),
        }
    }
    match sys::variable(c"FLASHLOOM_ZONES") {
        Some(folder) => {
            let _ = FOLDER.set(folder);
            State::Zones
        }
        None => State::Hints,
    }
}

/// The rules of this process; `None` if none could be read.
pub(super) fn rules() -> Option<&'static Rules> {
    RULES_READ.get()
}

/// Whether a rule may name a file at `path`.
#[inline]
pub(super) fn may_name(path: &[u8]) -> bool {
    rules().is_some_and(|rules| rules.may_name(path))
}

/// Whether the file at `path` may be a placed one.
#[inline]
pub(super) fn may_be_placed(path: &[u8]) -> bool {
    state() == State::Zones && may_name(path)
}

/// The volume, if it was opened.
pub(super) fn opened() -> Option<&'static Volume> {
    let volume = VOLUME.load(Ordering::Acquire);
    // SAFETY: volumes are leaked, so the reference stays valid.
    unsafe { volume.as_ref() }
}

/// The volume; opened if it is not yet, and anew if its daemon has died. `None` if this fails,
/// which is reported once.
pub(super) fn volume() -> Option<&'static Volume> {
    match opened() {
        Some(volume) if !volume.link.is_lost() => Some(volume),
        _ => open(),
    }
}

#[cold]
fn open() -> Option<&'static Volume> {
    let unseen = image::is_unseen();
    let volume = connect()?;
    // The parent may close its files next, so they must be open here before that.
    let all = if unseen { table::all() } else { Vec::new() };
    for (_, open) in all {
        let _ = open.volume();
    }
    Some(volume)
}

fn connect() -> Option<&'static Volume> {
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if image::is_unseen() {
        become_own();
    }
    if let Some(volume) = opened().filter(|volume| !volume.link.is_lost()) {
        return Some(volume);
    }
    if state() != State::Zones {
        if SAID.swap(1, Ordering::Relaxed) == 0 {
            sys::say("a file is placed in zones, and none are given: it cannot be reached");
        }
        return None;
    }
    let folder = FOLDER.get()?;
    image::begin();
    // After a failed attempt, later ones do not wait again.
    let tries = if SAID.load(Ordering::Relaxed) == 0 {
        TRIES
    } else {
        1
    };
    for time in 0..tries {
        if time > 0 {
            // `sleep` is a cancellation point of the C library; this wait is not.
            sys::wait(&AtomicU32::new(0), 0, PAUSE);
        }
        match Volume::open(folder) {
            Ok(volume) => {
                let volume: &'static Volume = Box::leak(Box::new(volume));
                VOLUME.store(core::ptr::from_ref(volume).cast_mut(), Ordering::Release);
                SAID.store(0, Ordering::Relaxed);
                return Some(volume);
            }
            Err(libc::ECONNREFUSED | libc::EPIPE | libc::ECONNRESET) => {}
            Err(errno) => return refused(folder, &format!("error {errno}")),
        }
    }
    refused(folder, "no daemon has them")
}

fn refused(folder: &CStr, why: &str) -> Option<&'static Volume> {
    if SAID.swap(1, Ordering::Relaxed) == 0 {
        sys::say(&format!("zones in {folder:?}: {why}; files are not placed"));
    }
    None
}

/// Prints the daemon's reason of an error, once per process.
pub(super) fn complain(why: &[u8]) {
    if !why.is_empty() && !COMPLAINED.swap(true, Ordering::Relaxed) {
        sys::say(&String::from_utf8_lossy(why));
    }
}

/// Separates a child, whose fork was not seen, from its parent: this thread is its only one, and
/// its volume is not its own.
fn become_own() {
    let parent = VOLUME.load(Ordering::Acquire);
    gate::is_alone();
    inherit(None);
    table::begins_anew(parent);
    maps::inherited(parent, None);
}

/// Gives a child its own volume, in which its parent's files are open, and closes the parent's
/// sockets, by which the child could be taken for its parent.
pub(super) fn inherit(heir: Option<Volume>) {
    let parent = VOLUME.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if let Some(heir) = heir {
        let volume: &'static mut Volume = Box::leak(Box::new(heir));
        VOLUME.store(core::ptr::from_mut(volume), Ordering::Release);
    }
    // SAFETY: volumes are leaked, so the reference stays valid.
    if let Some(parent) = unsafe { parent.as_ref() } {
        parent.link.close();
    }
    image::see();
}

/// Syncs the placed files of all processes; this process need not have one open. Fails if the
/// daemon does; a process without a connection succeeds after a message.
pub(super) fn sync() -> Result<(), Fault> {
    if state() != State::Zones {
        return Ok(());
    }
    again(|| volume().map_or(Ok(()), Volume::sync_all))
}
