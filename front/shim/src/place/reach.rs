//! Strings of a program, checked for readability: a call with an invalid pointer is left to the
//! system, which fails with `EFAULT`.
//!
//! The kernel is asked once whether a page can be read; a page that was readable once is assumed to
//! stay so. A correct program's calls cost next to nothing more.

use crate::preload::raw::{self, bytes};
use core::ffi::c_char;
use core::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;

/// Numbers of pages known to be readable, at the index of their low bits.
static KNOWN: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// The bytes of a path; empty if it is null or not readable.
///
/// # Safety
/// The path is null, leads nowhere, or is a string.
#[inline]
pub(super) unsafe fn said<'a>(path: *const c_char) -> &'a [u8] {
    if is_readable(path.addr()) {
        // SAFETY: as for the function.
        unsafe { bytes(path) }
    } else {
        &[]
    }
}

/// Whether the page of an address can be read.
#[inline]
pub(super) fn is_readable(address: usize) -> bool {
    let page = address / PAGE;
    let place = &KNOWN[page % KNOWN.len()];
    if page == 0 {
        return false;
    }
    place.load(Ordering::Relaxed) == page || ask(address, page, place)
}

#[cold]
fn ask(address: usize, page: usize, place: &AtomicUsize) -> bool {
    // The kernel reads the eight bytes of the signal set before it rejects the invalid operation.
    let (nothing, set) = (usize::MAX >> 1, address & !7);
    let read = raw::keeping_errno(|| {
        raw::call(libc::SYS_rt_sigprocmask, [nothing, set, 0, 8, 0, 0]);
        raw::errno() != libc::EFAULT
    });
    if read {
        place.store(page, Ordering::Relaxed);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_pointer_gives_an_empty_string() {
        // SAFETY: the first pointer is a string, and the others are unreadable.
        unsafe {
            assert_eq!(said(c"a path".as_ptr()), b"a path");
            assert_eq!(said(core::ptr::null()), b"");
            for nowhere in [8, 0xdead_c0de, usize::MAX, usize::MAX / 2 + 77] {
                assert_eq!(said(core::ptr::without_provenance(nowhere)), b"");
            }
        }
    }
}
