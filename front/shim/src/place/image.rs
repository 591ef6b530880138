//! Detection of forks that the library did not see: by the C library internally, by `_Fork`, or by
//! a system call.
//!
//! Invariant: a word on a page that the kernel wipes on fork is 0 exactly in a process that has not
//! yet noticed its fork. Resources inherited from the parent (sockets, the ring) are not used in
//! such a process until they are replaced.

use crate::sys;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The page with the word that a fork wipes; null before a volume was opened.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
const LEN: usize = 4096;

fn word() -> Option<&'static AtomicU32> {
    // SAFETY: the page is never unmapped, and is large enough.
    unsafe { PAGE.load(Ordering::Acquire).as_ref() }
}

/// Whether this process was forked unnoticed.
#[inline]
pub(super) fn is_unseen() -> bool {
    word().is_some_and(|word| word.load(Ordering::Relaxed) == 0)
}

/// Marks this process as noticed.
pub(super) fn see() {
    if let Some(word) = word() {
        word.store(1, Ordering::Relaxed);
    }
}

/// Starts the detection of forks, if the kernel supports it (since Linux 4.14). Must not run twice
/// at the same time.
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
    // SAFETY: the page was just mapped, and is not shared yet. Its value 1 marks this process as
    // noticed.
    unsafe { (*word).store(1, Ordering::Relaxed) };
    PAGE.store(word, Ordering::Release);
}
