//! Processes: a child has the files of its parent open, over its own connection to the daemon.
//!
//! Offsets are moved to the kernel before another program can share them: before a fork, before any
//! kind of `exec`, and before `posix_spawn`.

use super::demote::refused;
use super::gate::quiet;
use super::start::State;
use super::streams::List;
use super::volume::Volume;
use super::{gate, heap, image, maps, start, table};
use crate::preload::next::{Next, Refusal, hooks};
use crate::preload::raw;
use crate::sys;
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;
use libc::{FILE, pid_t};

/// Forks. The child's connection is made before the fork, so that a file without a name is open in
/// one of the two at any time. Other threads are kept out of the gate meanwhile, so that the
/// connection has the opens of this moment, and no other fork's child takes it.
fn forks(next: impl FnOnce() -> pid_t) -> pid_t {
    if start::state() != State::Zones {
        return next();
    }
    // A handler interrupted a call that holds a lock which the fork needs; it may try again later.
    if gate::is_inside() {
        return refused(libc::EAGAIN);
    }
    if image::is_unseen() {
        raw::keeping_errno(|| quiet(start::volume));
    }
    // No other thread holds a lock that the child will need.
    gate::still(List::locked, |streams| {
        let me = raw::id(libc::SYS_getpid);
        let volume = start::opened();
        let mut heir = raw::keeping_errno(|| quiet(|| volume.and_then(|it| it.heir().ok())));
        table::share_all();
        let child = heap::still(next);
        if gate::is_child(child, me) {
            streams.forget();
            inherits(volume, &mut heir);
        }
        raw::keeping_errno(|| drop(heir));
        child
    })
}

/// Gives a child the connection that was made for it. If the parent has opened another volume
/// since, the child connects on its own.
fn inherits(parent: Option<&'static Volume>, heir: &mut Option<Volume>) {
    let place =
        |of: Option<&Volume>| of.map_or(null_mut(), |it| core::ptr::from_ref(it).cast_mut());
    if parent.is_some() && place(parent) == place(start::opened()) {
        raw::keeping_errno(|| start::inherit(heir.take()));
        table::inherited(place(parent), place(start::opened()));
        maps::inherited(place(parent), start::opened());
    }
}

/// Forgets the state of descriptors 0 to 2 in a child that replaces them (`others`).
fn anew(child: pid_t, others: bool) -> pid_t {
    if child == 0 && others {
        (0..3).for_each(|fd| quiet(|| drop(table::forget(fd))));
    }
    child
}

type Strings = *const *const c_char;

/// Moves the offsets that a new program will share to the kernel: of all descriptors if `all`, else
/// of those that stay open over `exec`. Returns `false` if the caller is a signal handler that
/// interrupted a call which holds one of these offsets.
fn passes_on(all: bool) -> bool {
    if start::state() != State::Zones {
        return true;
    }
    let upon_a_call = gate::is_inside();
    let kept = |fd| all || !sys::closes_on_exec(fd);
    raw::keeping_errno(|| quiet(|| table::passes_on(kept, upon_a_call)))
}

/// Starts another program by `next`; fails with `EAGAIN` if the offsets cannot be passed on.
pub(super) fn begins<R: Refusal>(all: bool, next: impl FnOnce() -> R) -> R {
    match passes_on(all) {
        true => next(),
        false => refused(libc::EAGAIN),
    }
}

/// Variadic functions, and functions that return twice, cannot be written in Rust. These stubs save
/// all argument registers, evaluate `$before`, and jump to the next function of their name with
/// their caller's stack; or to [`refuses`] if `$before` is false.
macro_rules! passing {
    ($(($before:expr) $name:ident $next:ident)*) => {$(
        extern "C" fn $next() -> *mut c_void {
            static NEXT: Next = Next::new(concat!(stringify!($name), "\0").as_bytes());
            if $before { NEXT.get() } else { refuses as *mut c_void }
        }

        #[cfg(target_arch = "x86_64")]
        #[cfg_attr(flashloom_place, unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "call {next}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                next = sym $next,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[cfg_attr(flashloom_place, unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "bl {next}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                next = sym $next,
            )
        }
    )*};
}

/// Jump target in place of a function that is refused: fails with `EAGAIN`.
extern "C" fn refuses() -> c_int {
    refused(libc::EAGAIN)
}

passing! {
    (passes_on(false)) execl next_execl
    (passes_on(false)) execlp next_execlp
    (passes_on(false)) execle next_execle
    (gate::jumps()) setjmp next_setjmp
    (gate::jumps()) _setjmp next_underscore_setjmp
    (gate::jumps()) __sigsetjmp next_sigsetjmp
    (gate::jumps()) getcontext next_getcontext
}

/// Hooks of the stubs above.
pub(super) const PASSING: &[fn() -> super::Hook] = &[
    || ("execl", execl as *const ()),
    || ("execlp", execlp as *const ()),
    || ("execle", execle as *const ()),
    || ("setjmp", setjmp as *const ()),
    || ("_setjmp", _setjmp as *const ()),
    || ("__sigsetjmp", __sigsetjmp as *const ()),
    || ("getcontext", getcontext as *const ()),
];

hooks! {
    in flashloom_place:
    fn [execve](program: *const c_char, arguments: Strings, environment: Strings) -> c_int,
        |next| {
            let _ = (program, arguments, environment);
            begins(false, next)
        };
    fn [execv](program: *const c_char, arguments: Strings) -> c_int, |next| {
        let _ = (program, arguments);
        begins(false, next)
    };
    fn [execvp](program: *const c_char, arguments: Strings) -> c_int, |next| {
        let _ = (program, arguments);
        begins(false, next)
    };
    fn [execvpe](program: *const c_char, arguments: Strings, environment: Strings) -> c_int,
        |next| {
            let _ = (program, arguments, environment);
            begins(false, next)
        };
    fn [execveat](
        at: c_int, program: *const c_char, arguments: Strings, environment: Strings, flags: c_int
    ) -> c_int, |next| {
        let _ = (at, program, arguments, environment, flags);
        begins(false, next)
    };
    fn [fexecve](fd: c_int, arguments: Strings, environment: Strings) -> c_int, |next| {
        let _ = (fd, arguments, environment);
        begins(false, next)
    };
    // File actions may duplicate descriptors that `exec` would close, so all are passed on.
    fn [posix_spawn posix_spawnp](
        pid: *mut pid_t, program: *const c_char, actions: *const c_void, how: *const c_void,
        arguments: Strings, environment: Strings
    ) -> c_int, |next| {
        let _ = (pid, program, actions, how, arguments, environment);
        if passes_on(true) { next() } else { libc::EAGAIN }
    };
    fn [system](command: *const c_char) -> c_int, |next| {
        let _ = command;
        begins(false, next)
    };
    fn [popen](command: *const c_char, mode: *const c_char) -> *mut FILE, |next| {
        let _ = (command, mode);
        begins(false, next)
    };
    fn [fork]() -> pid_t, |next| forks(next);
    // These two functions fork inside the C library.
    fn [forkpty](
        main: *mut c_int, name: *mut c_char, how: *const c_void, size: *const c_void
    ) -> pid_t, |next| {
        let _ = (main, name, how, size);
        anew(forks(next), true)
    };
    fn [daemon](stay: c_int, keep: c_int) -> c_int, |next| {
        let _ = stay;
        anew(forks(next), keep == 0)
    };
}
