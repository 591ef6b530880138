//! System calls by number (`syscall`): each is dispatched to the hook of the function that makes
//! the same call.
//!
//! Arguments are words in registers. A call that is missing here does not concern bytes, lengths,
//! names or descriptors of files; or the stand-in answers it as the file would (`fadvise64`); or it
//! starts a process in ways that no library survives; or it is newer than the kernels for which
//! this was written.

use super::refuse::refuses;
use super::{durable, open, process};
use crate::preload::next::hooks;
use core::ffi::{c_char, c_int, c_long};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A hook called with its arguments as machine words.
type Words<R> = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> R;

/// A hook of this library, looked up by name once.
struct Ours {
    name: &'static str,
    found: AtomicPtr<()>,
}

impl Ours {
    fn get(&self) -> *mut () {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        let hook = super::hooks().find(|(name, _)| *name == self.name);
        let found = hook.map_or(null_mut(), |(_, hook)| hook.cast_mut());
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Maps system call numbers to hooks. Each line names the hook, the arguments to pass, by index,
/// and the hook's return type.
macro_rules! numbers {
    ($($(#[$when:meta])* $number:ident $name:ident ($($at:literal)*) -> $kind:ty;)*) => {
        /// Makes a system call through its hook; `None` if no hook serves this number.
        ///
        /// # Safety
        /// The arguments are those of the call.
        #[expect(clippy::cast_lossless, reason = "some of the answers are of fewer bits")]
        unsafe fn called(number: c_long, args: [usize; 6]) -> Option<c_long> {
            match number {
                $($(#[$when])* libc::$number => {
                    static OURS: Ours = Ours {
                        name: stringify!($name),
                        found: AtomicPtr::new(null_mut()),
                    };
                    const AT: &[usize] = &[$($at),*];
                    let word = |n: usize| AT.get(n).map_or(0, |at| args[*at]);
                    let found = OURS.get();
                    if found.is_null() {
                        return None;
                    }
                    // SAFETY: as for the function. The hook takes the stated number of words, or
                    // halves of them, in registers, and reads no others.
                    let answer = unsafe {
                        let hook = core::mem::transmute::<*mut (), Words<$kind>>(found);
                        hook(word(0), word(1), word(2), word(3), word(4), word(5))
                    };
                    Some(answer as c_long)
                })*
                _ => None,
            }
        }
    };
}

numbers! {
    SYS_read read (0 1 2) -> isize;
    SYS_write write (0 1 2) -> isize;
    SYS_pread64 pread64 (0 1 2 3) -> isize;
    SYS_pwrite64 pwrite64 (0 1 2 3) -> isize;
    SYS_readv readv (0 1 2) -> isize;
    SYS_writev writev (0 1 2) -> isize;
    SYS_preadv preadv64 (0 1 2 3) -> isize;
    SYS_pwritev pwritev64 (0 1 2 3) -> isize;
    SYS_preadv2 preadv64v2 (0 1 2 3 5) -> isize;
    SYS_pwritev2 pwritev64v2 (0 1 2 3 5) -> isize;
    SYS_lseek lseek64 (0 1 2) -> i64;
    SYS_fsync fsync (0) -> i32;
    SYS_fdatasync fdatasync (0) -> i32;
    SYS_syncfs syncfs (0) -> i32;
    SYS_sync_file_range sync_file_range (0 1 2 3) -> i32;
    SYS_ftruncate ftruncate64 (0 1) -> i32;
    SYS_truncate truncate64 (0 1) -> i32;
    SYS_fallocate fallocate64 (0 1 2 3) -> i32;
    SYS_sendfile sendfile64 (0 1 2 3) -> isize;
    SYS_copy_file_range copy_file_range (0 1 2 3 4 5) -> isize;
    SYS_splice splice (0 1 2 3 4 5) -> isize;
    SYS_mmap mmap64 (0 1 2 3 4 5) -> isize;
    SYS_munmap munmap (0 1) -> i32;
    SYS_ioctl ioctl (0 1 2) -> i32;
    SYS_fcntl fcntl64 (0 1 2) -> i32;
    SYS_openat openat64 (0 1 2 3) -> i32;
    SYS_close close (0) -> i32;
    SYS_close_range close_range (0 1 2) -> i32;
    SYS_dup dup (0) -> i32;
    SYS_dup3 dup3 (0 1 2) -> i32;
    SYS_unlinkat unlinkat (0 1 2) -> i32;
    SYS_linkat linkat (0 1 2 3 4) -> i32;
    SYS_renameat2 renameat2 (0 1 2 3 4) -> i32;
    SYS_fstat fstat64 (0 1) -> i32;
    SYS_newfstatat fstatat64 (0 1 2 3) -> i32;
    SYS_statx statx (0 1 2 3 4) -> i32;
    SYS_getxattr getxattr (0 1 2 3) -> isize;
    SYS_lgetxattr lgetxattr (0 1 2 3) -> isize;
    SYS_fgetxattr fgetxattr (0 1 2 3) -> isize;
    SYS_setxattr setxattr (0 1 2 3 4) -> i32;
    SYS_lsetxattr lsetxattr (0 1 2 3 4) -> i32;
    SYS_fsetxattr fsetxattr (0 1 2 3 4) -> i32;
    SYS_removexattr removexattr (0 1) -> i32;
    SYS_lremovexattr lremovexattr (0 1) -> i32;
    SYS_fremovexattr fremovexattr (0 1) -> i32;
    SYS_listxattr listxattr (0 1 2) -> isize;
    SYS_llistxattr llistxattr (0 1 2) -> isize;
    SYS_flistxattr flistxattr (0 1 2) -> isize;
    SYS_readahead readahead (0 1 2) -> isize;
    SYS_recvmsg recvmsg (0 1 2) -> isize;
    SYS_recvmmsg recvmmsg (0 1 2 3 4) -> i32;
    SYS_execve execve (0 1 2) -> i32;
    SYS_renameat renameat (0 1 2 3) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_open open64 (0 1 2) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_creat creat64 (0 1) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_dup2 dup2 (0 1) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_unlink unlink (0) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_link link (0 1) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_rename rename (0 1) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_stat stat64 (0 1) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_lstat lstat64 (0 1) -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_fork fork () -> i32;
    #[cfg(target_arch = "x86_64")]
    SYS_vfork fork () -> i32;
}

/// # Safety
/// The arguments are those of the call.
unsafe fn by_number(number: c_long, args: [usize; 6], next: impl FnOnce() -> c_long) -> c_long {
    match number {
        libc::SYS_io_uring_setup => refuses("io_uring", -1, next),
        libc::SYS_io_setup => refuses("libaio", -1, next),
        // The C library has no function for `openat2`, and may have none for the others.
        libc::SYS_openat2 => {
            let [at, path, how, len, ..] = args;
            let place = (at as c_int, path as *const c_char);
            let next = || next() as c_int;
            // SAFETY: as for the function.
            unsafe { open::opens_as(place, (how as *const [u64; 3], len), next) }.into()
        }
        libc::SYS_execveat => process::begins(false, next),
        libc::SYS_sync => {
            let _ = durable::everything();
            next()
        }
        // SAFETY: as for the function.
        _ => unsafe { called(number, args) }.unwrap_or_else(next),
    }
}

hooks! {
    in flashloom_place:
    fn [syscall](
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize
    ) -> c_long, |next|
        // SAFETY: as the caller vouches for the call.
        unsafe { by_number(number, [a, b, c, d, e, f], next) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_by_number_goes_through_the_hook_of_its_name() {
        // SAFETY: the arguments are those of the calls.
        unsafe {
            assert_eq!(called(libc::SYS_getpid, [0; 6]), None);
            let text = c"by number".as_ptr() as usize;
            let mut ends = [0; 2];
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            let [from, to] = ends.map(|end| end as usize);
            assert_eq!(called(libc::SYS_write, [to, text, 9, 0, 0, 0]), Some(9));
            assert_eq!(
                called(libc::SYS_dup, [to, 0, 0, 0, 0, 0]).map(|fd| fd > 2),
                Some(true)
            );
            assert_eq!(called(libc::SYS_close, [to, 0, 0, 0, 0, 0]), Some(0));
            assert_eq!(called(libc::SYS_close, [to, 0, 0, 0, 0, 0]), Some(-1));
            assert_eq!(called(libc::SYS_close, [from, 0, 0, 0, 0, 0]), Some(0));
        }
    }
}
