//! What a process has once: rules, and the volume when the first file needs it.
//!
//! Nothing happens before a program opens a file, or uses one that it was started with.

use super::rules::{Rules, Verdict};
use super::sys;
use super::table;
use super::volume::Volume;
use core::ffi::c_int;
use std::ffi::CString;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The variable that names the file of rules.
pub const RULES: &str = "FLASHLOOM_RULES";
/// The variable that names the folder of zones. Without it files get hints.
pub const ZONES: &str = "FLASHLOOM_ZONES";

/// What is done with files that rules name.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum State {
    New,
    Off,
    Hints,
    Zones,
}

static STATE: AtomicU8 = AtomicU8::new(State::New as u8);
static RULES_READ: OnceLock<Rules> = OnceLock::new();
static FOLDER: OnceLock<CString> = OnceLock::new();
static VOLUME: AtomicPtr<Volume> = AtomicPtr::new(core::ptr::null_mut());
static OPENING: Mutex<()> = Mutex::new(());
static SAID: AtomicU8 = AtomicU8::new(0);
/// Placed files whose names no rule names.
static STRAYS: AtomicUsize = AtomicUsize::new(0);

#[inline]
pub(super) fn state() -> State {
    match STATE.load(Ordering::Acquire) {
        0 => start(),
        1 => State::Off,
        2 => State::Hints,
        _ => State::Zones,
    }
}

#[cold]
fn start() -> State {
    let state = look();
    STATE.store(state as u8, Ordering::Release);
    state
}

fn look() -> State {
    let Some(path) = sys::variable(c"FLASHLOOM_RULES") else {
        return State::Off;
    };
    let text = match sys::contents(&path, 1 << 20) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(errno) => {
            sys::say(&format!(
                "rules {path:?} cannot be read: error {errno}; nothing is placed"
            ));
            return State::Off;
        }
    };
    match Rules::parse(&text) {
        Ok(rules) => drop(RULES_READ.set(rules)),
        Err(line) => {
            sys::say(&format!(
                "rules {path:?}, line {line}: not a rule; nothing is placed"
            ));
            return State::Off;
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

/// What the rules say of a file.
pub(super) fn verdict(path: &[u8], flags: c_int, mode: u32) -> Option<Verdict> {
    RULES_READ.get()?.place(path, flags, mode)
}

/// Whether a path may be that of a placed file.
pub(super) fn may_be_placed(path: &[u8]) -> bool {
    state() == State::Zones && (STRAYS.load(Ordering::Relaxed) > 0 || verdict(path, 0, 0).is_some())
}

/// A placed file has got a name that no rule names.
pub(super) fn strayed() {
    STRAYS.fetch_add(1, Ordering::Relaxed);
}

/// The volume, if it was opened.
pub(super) fn opened() -> Option<&'static Volume> {
    let volume = VOLUME.load(Ordering::Acquire);
    // SAFETY: a volume is leaked, so that it is never gone.
    unsafe { volume.as_ref() }
}

/// The volume, opened now if it is not yet; none if that cannot be, which is said once.
pub(super) fn volume() -> Option<&'static Volume> {
    if let Some(volume) = opened() {
        return Some(volume);
    }
    let _one = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(volume) = opened() {
        return Some(volume);
    }
    let folder = FOLDER.get()?;
    match Volume::open(folder) {
        Ok(volume) => {
            let volume: &'static Volume = Box::leak(Box::new(volume));
            let strays = {
                let guard = volume.lock();
                let named = |path: &[u8]| verdict(path, 0, 0).is_some();
                guard.core.files().filter(|(path, _)| !named(path)).count()
            };
            STRAYS.fetch_add(strays, Ordering::Relaxed);
            // The start is durable before a file gets a number, so that no number is
            // given twice.
            if volume.sync_all().is_err() {
                sys::say(&format!("zones in {folder:?} cannot be written"));
                return None;
            }
            VOLUME.store(core::ptr::from_ref(volume).cast_mut(), Ordering::Release);
            Some(volume)
        }
        Err(why) => {
            if SAID.swap(1, Ordering::Relaxed) == 0 {
                sys::say(&format!("zones in {folder:?}: {why}; files are not placed"));
            }
            None
        }
    }
}

/// The process was forked: the volume is its parent's, until that has ended.
pub(super) fn forked() {
    let volume = VOLUME.swap(core::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: as above.
    if let Some(volume) = unsafe { volume.as_ref() } {
        table::disown(volume.folder);
        sys::close(volume.folder);
    }
    SAID.store(0, Ordering::Relaxed);
}

/// Makes all durable before the program ends or becomes another one.
pub(super) fn finish() {
    if let Some(volume) = opened() {
        let _ = volume.sync_all();
    }
}

extern "C" fn destructor() {
    finish();
}

/// Run by the dynamic linker when a program ends.
#[cfg_attr(flashloom_place, used)]
#[cfg_attr(flashloom_place, unsafe(link_section = ".fini_array"))]
pub static DESTRUCTOR: extern "C" fn() = destructor;
