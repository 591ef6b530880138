//! The one unsafe line of the house: asking the processor to fetch ahead.
//!
//! A simulated drive looks up one entry of a map of many megabytes for each
//! command, and that miss costs as much as the rest of the command: measured,
//! 28 % of a random read. Between a command's arrival and its look-up other
//! tasks run, so the entry is asked for on arrival. Nothing but time depends on
//! it.

/// Asks for the cache line of `items[index]`, if there is one.
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
