//! Processes: fork, exec and the working directory.

use super::log::{self, More, note, timed};
use super::names::on_path;
use super::next::{Next, hooks};
use super::raw::{self, bytes};
use super::start::{self, State};
use super::{open, watch};
use crate::wire::{Head, Op};
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU8, Ordering};
use libc::pid_t;

type Strings = *const *const c_char;

/// An environment variable as of program start, `NAME=value` with a zero byte, written once before
/// recording starts.
struct Variable {
    name: &'static [u8],
    text: [AtomicU8; Self::ROOM],
}

impl Variable {
    const ROOM: usize = 8192;

    const fn new(name: &'static [u8]) -> Self {
        Self {
            name,
            text: [const { AtomicU8::new(0) }; Self::ROOM],
        }
    }

    fn remember(&self) {
        // SAFETY: the name without its `=` is built as a string; the value is copied at once.
        let value = unsafe {
            let mut name = raw::Text::new();
            name.bytes(&self.name[..self.name.len() - 1]);
            let value = libc::getenv(name.pointer());
            if value.is_null() {
                return;
            }
            core::slice::from_raw_parts(value.cast::<u8>(), libc::strlen(value))
        };
        if self.name.len() + value.len() >= Self::ROOM {
            return;
        }
        for (to, from) in self.text.iter().zip(self.name.iter().chain(value)) {
            to.store(*from, Ordering::Relaxed);
        }
    }

    fn pointer(&self) -> *const c_char {
        self.text.as_ptr().cast()
    }

    /// Whether `text` sets this variable to any value.
    ///
    /// # Safety
    /// `text` is a string.
    unsafe fn is(&self, text: *const c_char) -> bool {
        // SAFETY: as for the function; the comparison ends with the name.
        unsafe { libc::strncmp(text, self.name.as_ptr().cast(), self.name.len()) == 0 }
    }

    /// Whether `text` sets this variable to a value that contains the remembered one.
    ///
    /// # Safety
    /// `text` is a string.
    unsafe fn holds(&self, text: *const c_char) -> bool {
        // SAFETY: as for the function; our own text ends with a zero byte.
        unsafe {
            let value = self.pointer().add(self.name.len());
            self.is(text) && !libc::strstr(text, value).is_null()
        }
    }
}

static PRELOAD: Variable = Variable::new(b"LD_PRELOAD=");
static SPOOL: Variable = Variable::new(b"FLASHLOOM_SPOOL=");

/// Remembers the variables by which a program is recorded.
pub(super) fn remember() {
    PRELOAD.remember();
    SPOOL.remember();
}

/// An environment with the variables by which a program is recorded, in memory that is unmapped
/// unless the program starts.
struct Environment {
    strings: Strings,
    memory: (*mut c_void, usize),
}

impl Environment {
    /// `strings`, with the missing variables added.
    ///
    /// # Safety
    /// `strings` is an environment or null.
    unsafe fn new(strings: Strings) -> Self {
        let plain = Self {
            strings,
            memory: (core::ptr::null_mut(), 0),
        };
        if start::state() != State::On {
            return plain;
        }
        // SAFETY: as for the function.
        unsafe {
            let all = list(strings);
            let holds = |variable: &Variable| all.iter().any(|&text| variable.holds(text));
            if holds(&PRELOAD) && holds(&SPOOL) {
                return plain;
            }
            Self::completed(all).unwrap_or(plain)
        }
    }

    /// # Safety
    /// The elements of `all` are strings.
    unsafe fn completed(all: &[*const c_char]) -> Option<Self> {
        let bytes = (all.len() + 3) * size_of::<*const c_char>();
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let place = raw::call(libc::SYS_mmap, [0, bytes, protection, flags, usize::MAX, 0]);
        let place = usize::try_from(place).ok()? as *mut *const c_char;
        // SAFETY: the memory has room for the strings, two more, and the end.
        let out = unsafe { core::slice::from_raw_parts_mut(place, all.len() + 3) };
        out[0] = PRELOAD.pointer();
        out[1] = SPOOL.pointer();
        // SAFETY: as for the function.
        let ours = |text: *const c_char| unsafe { PRELOAD.is(text) || SPOOL.is(text) };
        let theirs = all.iter().copied().filter(|&text| !ours(text));
        for (to, from) in out[2..].iter_mut().zip(theirs) {
            *to = from;
        }
        Some(Self {
            strings: place.cast_const(),
            memory: (place.cast(), bytes),
        })
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        if !self.memory.0.is_null() {
            let args = [self.memory.0 as usize, self.memory.1, 0, 0, 0, 0];
            raw::keeping_errno(|| raw::call(libc::SYS_munmap, args));
        }
    }
}

/// The strings of an environment, without the terminating null.
///
/// # Safety
/// `strings` is an environment or null.
unsafe fn list<'a>(strings: Strings) -> &'a [*const c_char] {
    if strings.is_null() {
        return &[];
    }
    let mut len = 0;
    // SAFETY: a null pointer terminates the list of strings.
    unsafe {
        while !(*strings.add(len)).is_null() {
            len += 1;
        }
        core::slice::from_raw_parts(strings, len)
    }
}

fn noted(program: &[u8]) {
    let more = More {
        s1: program,
        ..More::default()
    };
    raw::keeping_errno(|| note(Head::new(Op::Exec), &more));
}

/// Records and executes another program by the function `name`, which takes an environment.
///
/// # Safety
/// As for the function of that name.
unsafe fn exec(
    name: &Next,
    program: *const c_char,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    type Exec = unsafe extern "C" fn(*const c_char, Strings, Strings) -> c_int;
    // SAFETY: as for the function; both have this type.
    unsafe {
        noted(bytes(program));
        let environment = Environment::new(environment);
        let found = core::mem::transmute::<*mut c_void, Exec>(name.get());
        found(program, arguments, environment.strings)
    }
}

static EXECVE: Next = Next::new(b"execve\0");
static EXECVPE: Next = Next::new(b"execvpe\0");
static FEXECVE: Next = Next::new(b"fexecve\0");
static SPAWN: Next = Next::new(b"posix_spawn\0");
static SPAWNP: Next = Next::new(b"posix_spawnp\0");

/// Spawns another program by the function `name`, and records it.
///
/// # Safety
/// As for `posix_spawn`.
unsafe fn spawn(
    name: &Next,
    (pid, program): (*mut pid_t, *const c_char),
    how: (*const c_void, *const c_void),
    (arguments, environment): (Strings, Strings),
) -> c_int {
    type Spawn = unsafe extern "C" fn(
        *mut pid_t,
        *const c_char,
        *const c_void,
        *const c_void,
        Strings,
        Strings,
    ) -> c_int;
    // SAFETY: as for the function; the pid is read only if it was written.
    unsafe {
        let environment = Environment::new(environment);
        let found = core::mem::transmute::<*mut c_void, Spawn>(name.get());
        let mut child = 0;
        let answer = found(
            &raw mut child,
            program,
            how.0,
            how.1,
            arguments,
            environment.strings,
        );
        if answer == 0 {
            if !pid.is_null() {
                *pid = child;
            }
            let head = Head::new(Op::Exec).words(child as u64, 0, 0);
            let s1 = bytes(program);
            note(
                head,
                &More {
                    s1,
                    ..More::default()
                },
            );
        }
        answer
    }
}

/// Forks; the child starts a log of its own at once.
fn forks(next: impl FnOnce() -> pid_t) -> pid_t {
    if start::state() == State::On {
        start::forking();
    }
    let child = next();
    if child == 0 {
        raw::keeping_errno(log::wake);
    }
    child
}

fn changes_root() {
    open::unseen(b"chroot");
}

hooks! {
    in flashloom_preload:
    fn [fork]() -> pid_t, |next| forks(next);
    fn [execve](program: *const c_char, arguments: Strings, environment: Strings) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |_next| unsafe { exec(&EXECVE, program, arguments, environment) };
    fn [execv](program: *const c_char, arguments: Strings) -> c_int, |_next|
        // SAFETY: as the caller vouches for the call.
        unsafe { exec(&EXECVE, program, arguments, start::environment()) };
    fn [execvp](program: *const c_char, arguments: Strings) -> c_int, |_next|
        // SAFETY: as the caller vouches for the call.
        unsafe { exec(&EXECVPE, program, arguments, start::environment()) };
    fn [execvpe](program: *const c_char, arguments: Strings, environment: Strings) -> c_int,
        // SAFETY: as the caller vouches for the call.
        |_next| unsafe { exec(&EXECVPE, program, arguments, environment) };
    fn [fexecve](fd: c_int, arguments: Strings, environment: Strings) -> c_int, |_next| {
        type Fexecve = unsafe extern "C" fn(c_int, Strings, Strings) -> c_int;
        // SAFETY: as the caller vouches for the call.
        unsafe {
            let environment = Environment::new(environment);
            let found = core::mem::transmute::<*mut c_void, Fexecve>(FEXECVE.get());
            found(fd, arguments, environment.strings)
        }
    };
    fn [posix_spawn](
        pid: *mut pid_t, program: *const c_char, actions: *const c_void, how: *const c_void,
        arguments: Strings, environment: Strings
    ) -> c_int, |_next|
        // SAFETY: as the caller vouches for the call.
        unsafe { spawn(&SPAWN, (pid, program), (actions, how), (arguments, environment)) };
    fn [posix_spawnp](
        pid: *mut pid_t, program: *const c_char, actions: *const c_void, how: *const c_void,
        arguments: Strings, environment: Strings
    ) -> c_int, |_next|
        // SAFETY: as the caller vouches for the call.
        unsafe { spawn(&SPAWNP, (pid, program), (actions, how), (arguments, environment)) };

    fn [chdir](path: *const c_char) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { on_path(Head::new(Op::Chdir), (libc::AT_FDCWD, path), None, next) };
    fn [fchdir](fd: c_int) -> c_int, |next| {
        watch::watched(fd);
        timed(Head::on(Op::Fchdir, fd), next, |_| More::default())
    };
    fn [chroot](path: *const c_char) -> c_int, |next| {
        changes_root();
        next()
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::null;

    #[test]
    fn environment_is_a_list_of_strings() {
        let strings = [c"A=1".as_ptr(), c"LD_PRELOAD=x".as_ptr(), null()];
        // SAFETY: these are strings, and a null pointer ends them.
        unsafe {
            assert_eq!(list(strings.as_ptr()).len(), 2);
            assert!(PRELOAD.is(strings[1]) && !PRELOAD.is(strings[0]));
            let all = list(strings.as_ptr());
            let completed = Environment::completed(all).unwrap();
            // Our variables come first, then those of the program without the replaced ones.
            assert!(list(completed.strings).contains(&strings[0]));
            assert!(!list(completed.strings).contains(&strings[1]));
        }
    }
}
