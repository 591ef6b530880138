//! Processes: what is in memory is made durable before it goes.

#![allow(non_snake_case, reason = "the C library has such names")]

use super::start;
use super::table;
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::preload::start::quiet;
use core::ffi::{c_char, c_int};
use libc::pid_t;

type Strings = *const *const c_char;

/// Brings everything to the zones, so that nothing is in the memory of this process alone.
fn saves() {
    if start::opened().is_some() {
        raw::keeping_errno(|| quiet(start::finish));
    }
}

/// Forks: the volume goes to whoever uses it next, or stays with a parent of which other
/// threads may be in it.
fn forks(next: impl FnOnce() -> pid_t) -> pid_t {
    if start::opened().is_none() {
        return next();
    }
    saves();
    let goes = raw::keeping_errno(|| quiet(start::may_let_go));
    let child = table::unchanged(next);
    if child == 0 || (goes && child > 0) {
        raw::keeping_errno(|| quiet(start::let_go));
    }
    child
}

hooks! {
    in flashloom_place:
    fn [fork]() -> pid_t, |next| forks(next);
    // A function cannot stand in front of `vfork` and return twice on one stack, and what
    // the child opens here must not be the parent's: `fork` keeps every promise of it.
    fn [vfork]() -> pid_t, |_next|
        // SAFETY: it takes nothing.
        unsafe { fork() };
    fn [_exit _Exit](status: c_int) -> (), |next| {
        let _ = status;
        saves();
        next();
    };
    fn [execve](program: *const c_char, arguments: Strings, environment: Strings) -> c_int,
        |next| {
            let _ = (program, arguments, environment);
            saves();
            next()
        };
    fn [execv execvp](program: *const c_char, arguments: Strings) -> c_int, |next| {
        let _ = (program, arguments);
        saves();
        next()
    };
    fn [execvpe](program: *const c_char, arguments: Strings, environment: Strings) -> c_int,
        |next| {
            let _ = (program, arguments, environment);
            saves();
            next()
        };
    fn [fexecve](fd: c_int, arguments: Strings, environment: Strings) -> c_int, |next| {
        let _ = (fd, arguments, environment);
        saves();
        next()
    };
}
