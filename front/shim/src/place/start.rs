//! What a process has once: rules, and the volume when the first file needs it.
//!
//! But for the streams of the C library, which are prepared at the start, nothing happens
//! before a program opens a file, or uses one that it was started with.

use super::rules::Rules;
use super::sys;
use super::table;
use super::volume::Volume;
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
    let name = path.to_string_lossy().into_owned();
    let text = sys::contents(&path, 1 << 20).ok();
    let text = text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let program = sys::link(c"/proc/self/exe").unwrap_or_default();
    match Rules::read(&name, text.as_deref(), &program) {
        Ok(rules) => drop(RULES_READ.set(rules)),
        Err(why) => {
            sys::say(&format!("rules {why}; nothing is placed"));
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

/// The rules.
pub(super) fn rules() -> Option<&'static Rules> {
    RULES_READ.get()
}

/// Whether a rule may name a file at a path.
pub(super) fn may_name(path: &[u8]) -> bool {
    rules().is_some_and(|rules| rules.may_name(path))
}

/// Whether a path may be that of a placed file.
pub(super) fn may_be_placed(path: &[u8]) -> bool {
    state() == State::Zones && (STRAYS.load(Ordering::Relaxed) > 0 || may_name(path))
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
                guard
                    .core
                    .files()
                    .filter(|(path, _)| !may_name(path))
                    .count()
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

/// Lets go of the volume, of which all is durable: who needs it next opens it. A child
/// does, and so does a parent that can, since it may have opened a file for its child.
pub(super) fn let_go() {
    let volume = VOLUME.swap(core::ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: as above.
    if let Some(volume) = unsafe { volume.as_ref() } {
        volume.zones.close_all();
        table::disown(volume.folder);
        sys::close(volume.folder);
    }
    SAID.store(0, Ordering::Relaxed);
}

/// Whether the volume can be let go of: no other thread is in it, and nothing is kept in
/// this process alone.
pub(super) fn may_let_go() -> bool {
    let alone = sys::list(c"/proc/self/task").is_ok_and(|tasks| tasks.len() == 3);
    let unlinked = |volume: &Volume| {
        let guard = volume.inner();
        table::all()
            .iter()
            .any(|(_, open)| guard.core.path(open.id).is_none())
    };
    alone && !super::maps::any() && !opened().is_some_and(unlinked)
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
