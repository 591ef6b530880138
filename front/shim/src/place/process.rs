//! Processes: a child has what its parent has open, by a way to the daemon of its own.

use super::{files, start, table};
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::preload::start::quiet;
use core::ptr::null_mut;
use libc::pid_t;

/// Forks. The child's way is made before, so that a file which has no name any more is
/// open in one of both at any time.
fn forks(next: impl FnOnce() -> pid_t) -> pid_t {
    let Some(volume) = start::opened() else {
        return next();
    };
    let mut heir = raw::keeping_errno(|| quiet(|| volume.heir().ok()));
    let parent = core::ptr::from_ref(volume).cast_mut();
    // No other thread is within a lock that the child will need.
    let child = table::unchanged(|| {
        let child = files::still(|| volume.link.still(next));
        if child != 0 {
            return (child, None);
        }
        raw::keeping_errno(|| start::inherit(heir.take()));
        let own = start::opened().map_or(null_mut(), |it| core::ptr::from_ref(it).cast_mut());
        (child, Some([parent, own]))
    });
    raw::keeping_errno(|| drop(heir));
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
}
