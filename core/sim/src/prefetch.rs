//! Prefetch into the processor's cache: the one unsafe line of the code base.
//!
//! A simulated drive looks up one entry of a map of many megabytes for each
//! command, and that cache miss costs as much as the rest of the command: measured,
//! 28 % of a random read. Between a command's arrival and its look-up other
//! tasks run, so the drive prefetches the entry on arrival. Only the run time on
//! the real machine depends on the prefetch.

/// Prefetches the cache line of `items[index]`; does nothing out of bounds and on
/// machines other than x86-64.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is that of a reference, and a prefetch of any
        // address changes no memory and cannot fault.
        unsafe { _mm_prefetch(std::ptr::from_ref(item).cast(), _MM_HINT_T0) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}
