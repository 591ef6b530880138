//! State of each thread, in its own static memory.
//!
//! Thread-local variables of Rust in a shared object are accessed through a function of the dynamic
//! linker, which may allocate: at the first access, or after another library was loaded. This
//! memory is part of each thread from its start (the TLS model "initial exec"), is accessed by two
//! or three instructions, and starts as all zeros. No destructor runs for it.

use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::ffi::c_void;

/// State of a thread that both libraries keep.
#[repr(C)]
pub(crate) struct Thread {
    /// The thread's log in the recording library; null if it has none.
    pub(crate) log: Cell<*mut c_void>,
    /// Nesting depth in the placing library; 0 is outside.
    pub(crate) depth: Cell<u32>,
    /// Number of the thread's counter in the placing library's gate, from 1; 0 if not assigned.
    pub(crate) place: Cell<u32>,
}

const _: () = assert!(size_of::<Thread>() == 16 && align_of::<Thread>() == 8);

global_asm!(
    ".pushsection .tbss.flashloom_thread, \"awT\", %nobits",
    ".p2align 3",
    ".hidden flashloom_thread",
    ".globl flashloom_thread",
    ".type flashloom_thread, %tls_object",
    ".size flashloom_thread, 16",
    "flashloom_thread:",
    ".zero 16",
    ".popsection",
);

/// State of the calling thread; must not be passed to another thread.
#[inline]
pub(crate) fn own<'a>() -> &'a Thread {
    let place: *const Thread;
    // SAFETY: the address is that of this thread's memory. It is computed at each call, as a fiber
    // may continue on another thread.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "mov {0}, qword ptr [rip + flashloom_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) place,
            options(nostack, readonly),
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "mrs {0}, tpidr_el0",
            "adrp {1}, :gottprel:flashloom_thread",
            "ldr {1}, [{1}, :gottprel_lo12:flashloom_thread]",
            "add {0}, {0}, {1}",
            out(reg) place,
            out(reg) _,
            options(nostack, readonly),
        );
        &*place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_separate_memory() {
        let here = core::ptr::from_ref(own()) as usize;
        own().place.set(7);
        let other = std::thread::spawn(|| {
            let before = own().place.replace(8);
            (core::ptr::from_ref(own()) as usize, before)
        });
        let (there, before) = other.join().unwrap();
        assert_eq!((before, own().place.get()), (0, 7));
        assert_ne!(here, there);
        assert_eq!(here, core::ptr::from_ref(own()) as usize);
    }
}
