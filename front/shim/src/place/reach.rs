//! Strings of a program, which may be none: a call with a pointer that leads nowhere is the
//! system's to refuse, with `EFAULT`.
//!
//! The system is asked whether a page can be read, once for most pages: what was there
//! once is believed to be there, so that the calls of a program in its right mind cost
//! next to nothing more.

use crate::preload::raw::{self, bytes};
use core::ffi::c_char;
use core::sync::atomic::{AtomicUsize, Ordering};

const PAGE: usize = 4096;

/// Pages that can be read, each at its place.
static KNOWN: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// The bytes of a path; none if it is null, or not to be read.
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
    // The system reads the eight bytes of a set of signals before it finds that nothing
    // can be done with it that way.
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
    fn what_can_be_read_is_told_from_what_cannot() {
        // SAFETY: the first is a string; the others lead nowhere.
        unsafe {
            assert_eq!(said(c"a path".as_ptr()), b"a path");
            assert_eq!(said(core::ptr::null()), b"");
            for nowhere in [8, 0xdead_c0de, usize::MAX, usize::MAX / 2 + 77] {
                assert_eq!(said(core::ptr::without_provenance(nowhere)), b"");
            }
        }
    }
}
