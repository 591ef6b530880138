//! Where reads and writes go on that say no offset.
//!
//! Invariants: while no other process can have an opening, its offset is a number here; from
//! then on it is the kernel's, of the file that stands for the placed one, so that it is the
//! same for all who have inherited it, programs without this library included. Who reads
//! takes its part by moving that on before it reads, so no two read the same; who writes
//! moves it on while nobody else can write to the file, and so does who seeks, if one could
//! write by the opening.

use super::fault::Fault;
use crate::sys::{self, Errno};
use core::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most that one call reads, as in the kernel.
const MOST: u64 = 0x7fff_f000;

pub(super) struct Offset {
    own: Mutex<u64>,
    shared: AtomicBool,
}

/// An offset while nobody else in this process moves it.
pub(super) struct Held<'a> {
    own: MutexGuard<'a, u64>,
    /// Whether it is the kernel's.
    pub(super) shared: bool,
}

impl Offset {
    /// That of an opening that is ours alone.
    pub(super) fn new() -> Self {
        Self {
            own: Mutex::new(0),
            shared: AtomicBool::new(false),
        }
    }

    /// That of an opening that others may have.
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

    /// From now on others may have the opening behind `fd`.
    pub(super) fn share(&self, fd: c_int) {
        self.shares(fd, &self.hold());
    }

    /// The same, unless somebody holds it; whether it was done.
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
    /// Where it is.
    pub(super) fn get(&self, fd: c_int) -> Result<u64, Errno> {
        match self.shared {
            true => sys::seek(fd, 0, libc::SEEK_CUR),
            false => Ok(*self.own),
        }
    }

    /// Moves it.
    pub(super) fn set(&mut self, fd: c_int, to: u64) -> Result<(), Errno> {
        if self.shared {
            return sys::seek(fd, to, libc::SEEK_SET).map(drop);
        }
        *self.own = to;
        Ok(())
    }

    /// Reads `len` bytes at most by `work`, which is given where they begin and gives where
    /// they end; gives how many these were.
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
