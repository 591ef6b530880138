//! The file offset of an opening.
//!
//! Invariants: while no other process can share an opening, its offset is a number here. From then
//! on it is the kernel's offset of the stand-in, so that every process that inherits the opening
//! sees the same offset, programs without this library included. A read claims its range by moving
//! the kernel's offset before it reads, so no two reads return the same bytes. A write, and a seek
//! on an opening for writing, moves the offset while no other process can write to the file.

use super::fault::Fault;
use crate::sys::{self, Errno};
use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of bytes that one call reads, as in the kernel.
const MOST: u64 = 0x7fff_f000;

pub(super) struct Offset {
    own: Mutex<u64>,
    shared: AtomicBool,
}

/// The offset, locked against other threads of this process.
pub(super) struct Held<'a> {
    own: MutexGuard<'a, u64>,
    /// Whether the offset is the kernel's.
    pub(super) shared: bool,
}

impl Offset {
    /// The offset 0 of an opening that only this process has.
    pub(super) fn new() -> Self {
        Self {
            own: Mutex::new(0),
            shared: AtomicBool::new(false),
        }
    }

    /// The offset of an opening that other processes may share.
    pub(super) fn inherited() -> Self {
        Self {
            own: Mutex::new(0),
            shared: AtomicBool::new(true),
        }
    }

    pub(super) fn hold(&self) -> Held<'_> {
        let own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        let shared = self.shared.load(Ordering::Relaxed);
        Held { own, shared }
    }

    /// Moves the offset to the kernel, before other processes can share the opening of `fd`.
    pub(super) fn share(&self, fd: c_int) {
        self.shares(fd, &self.hold());
    }

    /// Like [`Offset::share`], but returns `false` if another thread holds the offset.
    pub(super) fn share_if_free(&self, fd: c_int) -> bool {
        let Ok(own) = self.own.try_lock() else {
            return false;
        };
        let shared = self.shared.load(Ordering::Relaxed);
        self.shares(fd, &Held { own, shared });
        true
    }

    fn shares(&self, fd: c_int, held: &Held<'_>) {
        if !held.shared {
            let _ = sys::seek(fd, *held.own, libc::SEEK_SET);
            self.shared.store(true, Ordering::Relaxed);
        }
    }
}

impl Held<'_> {
    /// The present offset in bytes.
    pub(super) fn get(&self, fd: c_int) -> Result<u64, Errno> {
        match self.shared {
            true => sys::seek(fd, 0, libc::SEEK_CUR),
            false => Ok(*self.own),
        }
    }

    /// Sets the offset to `to`.
    pub(super) fn set(&mut self, fd: c_int, to: u64) -> Result<(), Errno> {
        if self.shared {
            return sys::seek(fd, to, libc::SEEK_SET).map(drop);
        }
        *self.own = to;
        Ok(())
    }

    /// Reads at most `len` bytes by `work`, which gets the start offset and returns the end. Moves
    /// the offset to the end and returns the number of bytes read.
    pub(super) fn read(
        &mut self,
        fd: c_int,
        len: u64,
        work: impl FnOnce(u64) -> Result<u64, Fault>,
    ) -> Result<u64, Fault> {
        if !self.shared {
            let end = work(*self.own)?;
            return Ok(end - std::mem::replace(&mut *self.own, end));
        }
        let len = len.min(MOST);
        let most = sys::seek(fd, len, libc::SEEK_CUR)?;
        let start = most - len;
        let read = work(start).map(|end| end - start);
        let left = len.saturating_sub(*read.as_ref().unwrap_or(&0));
        if left > 0 {
            sys::seek(fd, left.wrapping_neg(), libc::SEEK_CUR)?;
        }
        read
    }
}
