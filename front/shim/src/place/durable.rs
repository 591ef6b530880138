//! Syncs of placed files.
//!
//! Invariant: a sync call returns success only after the daemon has confirmed it. A call that
//! cannot reach the daemon returns an error, if it has a return value.

use super::demote::{ends_if_cancelled, on, refused};
use super::fault::Fault;
use super::gate::{self, quiet};
use super::start;
use super::stat::keeping_time;
use super::table::Open;
use super::volume::Volume;
use crate::preload::next::hooks;
use crate::preload::raw;
use crate::sys::{self, Errno};
use core::ffi::{c_int, c_uint};
use libc::off64_t;
use std::sync::atomic::Ordering;

/// Syncs a file, and its stand-in the first time. An opening for writing also has the stand-in
/// resized.
//= dissertation 5.4.3
pub(super) fn force(fd: c_int, open: &Open, volume: &'static Volume) -> Result<(), Fault> {
    keeping_time(fd, &open.file, || {
        volume.sync(&open.file, open.writes().then_some(fd))
    })?;
    if !open.forced.load(Ordering::Acquire) {
        sys::force(fd)?;
        open.forced.store(true, Ordering::Release);
    }
    Ok(())
}

pub(super) fn forces(fd: c_int, next: impl FnOnce() -> c_int) -> c_int {
    ends_if_cancelled(fd);
    on(fd, |open, volume| force(fd, open, volume).map(|()| 0), next)
}

/// `sync_file_range`: starting a write-back needs no work here; waiting for one does.
fn writes_back(fd: c_int, flags: c_uint, next: impl FnOnce() -> c_int) -> c_int {
    ends_if_cancelled(fd);
    let wait = flags & libc::SYNC_FILE_RANGE_WAIT_AFTER != 0;
    let back = |open: &Open, volume: &'static Volume| {
        if wait {
            volume.drain(&open.file)?;
        }
        Ok(0)
    };
    on(fd, back, next)
}

/// Syncs all placed files. Refused to a signal handler that interrupted its own thread in here, as
/// the interrupted write could never finish while the handler waits.
pub(super) fn everything() -> Result<(), Errno> {
    if gate::is_inside() {
        return Err(libc::EDEADLK);
    }
    raw::keeping_errno(|| quiet(start::sync)).map_err(|_| libc::EIO)
}

hooks! {
    in flashloom_place:
    fn [fsync](fd: c_int) -> c_int, |next| forces(fd, next);
    fn [fdatasync](fd: c_int) -> c_int, |next| forces(fd, next);
    fn [syncfs](fd: c_int) -> c_int, |next| {
        let all = everything();
        match (next(), all) {
            (0, Err(errno)) => refused(errno),
            (done, _) => done,
        }
    };
    fn [sync]() -> (), |next| {
        let _ = everything();
        next();
    };
    fn [sync_file_range](fd: c_int, at: off64_t, len: off64_t, flags: c_uint) -> c_int, |next| {
        let _ = (at, len);
        writes_back(fd, flags, next)
    };
}
