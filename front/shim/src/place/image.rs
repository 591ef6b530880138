//! Whether this process was forked and nobody saw it: by the C library within itself, by
//! `_Fork`, or by a system call.
//!
//! Invariant: a word on a page that a fork wipes is 0 in a process that has not noticed yet,
//! and not otherwise; so what the process has from its parent (its sockets, its ring) is not
//! used in it before that is replaced.

use crate::sys;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Of one word that the kernel wipes; null before a volume was opened.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
const LEN: usize = 4096;

fn word() -> Option<&'static AtomicU32> {
    // SAFETY: the page is never unmapped, and as large.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// Whether nobody saw this process begin.
#[inline]
pub(super) fn is_unseen() -> bool {
    word().is_some_and(|word| word.load(Ordering::Relaxed) == 0)
}

/// It is seen now.
pub(super) fn see() {
    if let Some(word) = word() {
        word.store(1, Ordering::Relaxed);
    }
}

/// Has forks noticed from now on, where the kernel can (since Linux 4.14). One at a time
/// does so.
pub(super) fn begin() {
    if word().is_some() {
        return;
    }
    let how = (
        libc::PROT_READ | libc::PROT_WRITE,
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
    );
    let Ok(page) = sys::map(0, LEN, how, (-1, 0)) else {
        return;
    };
    if sys::wiped_on_fork(page, LEN).is_err() {
        sys::unmap(page, LEN);
        return;
    }
    let word = page as *mut AtomicU32;
    // SAFETY: the page was just made, and nobody else has it. What others find says that this
    // process is seen.
    unsafe { (*word).store(1, Ordering::Relaxed) };
    PAGE.store(word, Ordering::Release);
}
