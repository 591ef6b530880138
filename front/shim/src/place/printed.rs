//! Printing to a descriptor: since glibc 2.37 the C library writes `dprintf` output by itself, past
//! the table of streams and every hook.
//!
//! Invariants: the output is formatted to one string and written like by `write`. No thread is
//! cancelled inside, as the frames of variadic callers could not be unwound.

use super::data::put;
use super::demote::{asked, refused};
use crate::preload::next::{Next, hooks};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

unsafe extern "C" {
    fn vasprintf(into: *mut *mut c_char, format: *const c_char, rest: *mut c_void) -> c_int;
    fn __vasprintf_chk(
        into: *mut *mut c_char,
        flag: c_int,
        format: *const c_char,
        rest: *mut c_void,
    ) -> c_int;
}

/// Formats a string by `string` and writes it to `fd`, if that is a placed file.
///
/// # Safety
/// `string` stores memory of the allocator and returns the length, or a negative number.
unsafe fn prints(
    fd: c_int,
    string: impl FnOnce(*mut *mut c_char) -> c_int,
    next: impl FnOnce() -> c_int,
) -> c_int {
    match asked(fd) {
        Ok(None) => return next(),
        Ok(Some(_)) => {}
        Err(errno) => return refused(errno),
    }
    let mut text = null_mut();
    let len = string(&raw mut text);
    let Ok(all) = usize::try_from(len) else {
        return -1;
    };
    let mut done = 0;
    while done < all {
        // SAFETY: the text has `all` bytes.
        let rest = unsafe { core::slice::from_raw_parts(text.add(done).cast(), all - done) };
        match put(fd, rest) {
            ..=0 => break,
            written => done += written as usize,
        }
    }
    // SAFETY: as for the function.
    unsafe { libc::free(text.cast()) };
    if done == all { len } else { -1 }
}

/// Variadic functions cannot be written in Rust. These stubs save the argument registers. If `fd`
/// is not a placed file's they jump to the next function of their name; else they build a `va_list`
/// of the variadic arguments and call the function that takes one.
macro_rules! open_ended {
    ($($name:ident ($next:ident, $print:ident): $named:literal named, $x86:literal, $arm:literal;)*) => {$(
        extern "C" fn $next(fd: c_int) -> *mut c_void {
            static NEXT: Next = Next::new(concat!(stringify!($name), "\0").as_bytes());
            if matches!(asked(fd), Ok(None)) { NEXT.get() } else { null_mut() }
        }

        #[cfg(target_arch = "x86_64")]
        #[cfg_attr(flashloom_place, unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "sub rsp, 216",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 200], rax",
                "test al, al",
                "je 2f",
                "movaps [rsp + 48], xmm0",
                "movaps [rsp + 64], xmm1",
                "movaps [rsp + 80], xmm2",
                "movaps [rsp + 96], xmm3",
                "movaps [rsp + 112], xmm4",
                "movaps [rsp + 128], xmm5",
                "movaps [rsp + 144], xmm6",
                "movaps [rsp + 160], xmm7",
                "2:",
                "call {next}",
                "test rax, rax",
                "jne 3f",
                "mov dword ptr [rsp + 176], {named}",
                "mov dword ptr [rsp + 180], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 184], rax",
                "mov [rsp + 192], rsp",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                concat!("lea ", $x86, ", [rsp + 176]"),
                "call {print}",
                "add rsp, 216",
                "ret",
                "3:",
                "mov r11, rax",
                "mov rax, [rsp + 200]",
                "test al, al",
                "je 4f",
                "movaps xmm0, [rsp + 48]",
                "movaps xmm1, [rsp + 64]",
                "movaps xmm2, [rsp + 80]",
                "movaps xmm3, [rsp + 96]",
                "movaps xmm4, [rsp + 112]",
                "movaps xmm5, [rsp + 128]",
                "movaps xmm6, [rsp + 144]",
                "movaps xmm7, [rsp + 160]",
                "4:",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "add rsp, 216",
                "jmp r11",
                next = sym $next,
                print = sym $print,
                named = const 8 * $named,
            )
        }

        #[cfg(target_arch = "aarch64")]
        #[cfg_attr(flashloom_place, unsafe(no_mangle))]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-240]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "stp q0, q1, [sp, #80]",
                "stp q2, q3, [sp, #112]",
                "stp q4, q5, [sp, #144]",
                "stp q6, q7, [sp, #176]",
                "bl {next}",
                "cbnz x0, 2f",
                "add x9, sp, #240",
                "str x9, [sp, #208]",
                "add x9, sp, #80",
                "str x9, [sp, #216]",
                "add x9, sp, #208",
                "str x9, [sp, #224]",
                "mov w9, #{named}",
                "str w9, [sp, #232]",
                "mov w9, #-128",
                "str w9, [sp, #236]",
                "ldp x0, x1, [sp, #16]",
                "ldr x2, [sp, #32]",
                concat!("add ", $arm, ", sp, #208"),
                "bl {print}",
                "ldp x29, x30, [sp], #240",
                "ret",
                "2:",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp q0, q1, [sp, #80]",
                "ldp q2, q3, [sp, #112]",
                "ldp q4, q5, [sp, #144]",
                "ldp q6, q7, [sp, #176]",
                "ldp x29, x30, [sp], #240",
                "br x16",
                next = sym $next,
                print = sym $print,
                named = const 8 * $named - 64,
            )
        }
    )*};
}

open_ended! {
    dprintf (next_dprintf, vdprintf): 2 named, "rdx", "x2";
    __dprintf_chk (next_dprintf_chk, __vdprintf_chk): 3 named, "rcx", "x3";
}

/// Hooks of the variadic functions above.
pub(super) const OPEN_ENDED: &[fn() -> super::Hook] = &[
    || ("dprintf", dprintf as *const ()),
    || ("__dprintf_chk", __dprintf_chk as *const ()),
];

hooks! {
    in flashloom_place:
    // A `va_list` is passed by address on all machines that have hooks.
    fn [vdprintf](fd: c_int, format: *const c_char, rest: *mut c_void) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { prints(fd, |into| vasprintf(into, format, rest), next) };
    fn [__vdprintf_chk](
        fd: c_int, flag: c_int, format: *const c_char, rest: *mut c_void
    ) -> c_int, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { prints(fd, |into| __vasprintf_chk(into, flag, format, rest), next) };
}
