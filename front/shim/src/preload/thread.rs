//! What is kept for each thread, in its own static memory.
//!
//! Rust's thread-local variables of a shared object are reached by a function of the dynamic
//! linker, which may allocate: the first time, or after another library was loaded. This memory
//! is part of each thread from its beginning (the model "initial exec"), is reached by two
//! instructions, and is all zeros at first. Nothing runs for it when a thread ends.

use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::ffi::c_void;

/// What is known of a thread.
#[repr(C)]
pub(crate) struct Thread {
    /// Where its records go; null if it has none.
    pub(crate) log: Cell<*mut c_void>,
    /// How deep it is within the placing library.
    pub(crate) depth: Cell<u32>,
    /// Where it is counted there, from 1 on; 0 if nowhere yet.
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

/// That of the thread that asks, which is not handed to another one.
#[inline]
pub(crate) fn own<'a>() -> &'a Thread {
    let place: *const Thread;
    // SAFETY: the address is that of this thread's memory. It is made anew each time, as a
    // fiber may go on in another thread.
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
    fn each_thread_has_memory_of_its_own() {
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
