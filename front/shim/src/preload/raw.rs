//! System calls that bypass every hook; `errno`; the clock.

use crate::wire::Info;
use core::arch::asm;
use core::ffi::{c_char, c_int, c_long};
use core::mem::MaybeUninit;

/// The lowest return value of the kernel that is an error.
const ERRORS: isize = -4095;

/// Makes a system call; returns -1 and sets `errno` on failure. It does not use the C library's
/// `syscall`, which another loaded library may hook.
pub(crate) fn call(number: c_long, args: [usize; 6]) -> isize {
    // SAFETY: the kernel preserves all other registers and the stack. The callers below are
    // responsible for the arguments.
    let answer = unsafe { enter(number, args) };
    if (ERRORS..0).contains(&answer) {
        set_errno(-answer as c_int);
        return -1;
    }
    answer
}

#[cfg(target_arch = "x86_64")]
unsafe fn enter(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let answer;
    // SAFETY: as the caller vouches for the call.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    answer
}

#[cfg(target_arch = "aarch64")]
unsafe fn enter(number: c_long, [a, b, c, d, e, f]: [usize; 6]) -> isize {
    let answer;
    // SAFETY: as the caller vouches for the call.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") a as isize => answer,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack)
        );
    }
    answer
}

/// Error number of this thread's last failed call.
pub(crate) fn errno() -> c_int {
    // SAFETY: the pointer is to the thread's own variable.
    unsafe { *libc::__errno_location() }
}

/// Sets `errno` of this thread.
pub(crate) fn set_errno(value: c_int) {
    // SAFETY: the pointer is to the thread's own variable.
    unsafe { *libc::__errno_location() = value }
}

/// Runs `work` and restores `errno` afterwards.
pub(crate) fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let done = work();
    set_errno(before);
    done
}

/// The monotonic clock in ns, common to all processes.
#[inline]
pub(crate) fn now() -> u64 {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the clock exists, so the time is written.
    let time = unsafe {
        libc::clock_gettime(libc::CLOCK_MONOTONIC, time.as_mut_ptr());
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Attributes of the file at `path` from the folder `fd`; preserves `errno`.
///
/// # Safety
/// `path` is a string or null.
pub(crate) unsafe fn info_at(fd: c_int, path: *const c_char, flags: c_int) -> Option<Info> {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    let args = [
        fd as usize,
        path as usize,
        stat.as_mut_ptr() as usize,
        flags as usize,
        0,
        0,
    ];
    let found = keeping_errno(|| call(libc::SYS_newfstatat, args) == 0);
    // SAFETY: all zeros are a valid `stat`, whether the call wrote it or not.
    let stat = unsafe { stat.assume_init() };
    found.then(|| info(&stat))
}

/// Converts the system's attributes to those of a record.
pub(crate) fn info(stat: &libc::stat) -> Info {
    Info {
        mode: stat.st_mode,
        links: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        size: stat.st_size as u64,
        inode: stat.st_ino,
        device: stat.st_dev,
    }
}

/// Attributes of the open file `fd`; preserves `errno`.
pub(crate) fn info_of(fd: c_int) -> Option<Info> {
    // SAFETY: the path is an empty string.
    unsafe { info_at(fd, c"".as_ptr(), libc::AT_EMPTY_PATH) }
}

/// Makes a system call without arguments that cannot fail, such as `getpid`.
pub(crate) fn id(number: c_long) -> u32 {
    call(number, [0; 6]) as u32
}

/// A text built without allocation; a path of the maximum length fits.
pub(crate) struct Text {
    bytes: [u8; Self::ROOM],
    len: usize,
}

impl Text {
    const ROOM: usize = 4096 + 64;

    /// A text without any bytes.
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; Self::ROOM],
            len: 0,
        }
    }

    /// Appends bytes; drops those that do not fit.
    pub(crate) fn bytes(&mut self, part: &[u8]) -> &mut Self {
        let room = Self::ROOM - 1 - self.len;
        let part = &part[..part.len().min(room)];
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        self
    }

    /// Appends a number in decimal.
    pub(crate) fn number(&mut self, mut number: u64) -> &mut Self {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.bytes(&digits[at..])
    }

    /// The bytes of the text, without a zero byte.
    pub(crate) fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The text as a C string.
    pub(crate) fn pointer(&mut self) -> *const c_char {
        self.bytes[self.len] = 0;
        self.bytes.as_ptr().cast()
    }

    /// Reads the symbolic link at `path`; `None` if this fails.
    pub(crate) fn link(path: &mut Self) -> Option<Self> {
        let mut said = Self::new();
        let args = [
            libc::AT_FDCWD as usize,
            path.pointer() as usize,
            said.bytes.as_mut_ptr() as usize,
            Self::ROOM - 1,
            0,
            0,
        ];
        said.len = usize::try_from(call(libc::SYS_readlinkat, args)).ok()?;
        Some(said)
    }

    /// The working directory; `None` if it cannot be read.
    pub(crate) fn folder() -> Option<Self> {
        let mut said = Self::new();
        let args = [said.bytes.as_mut_ptr() as usize, Self::ROOM, 0, 0, 0, 0];
        let length = usize::try_from(call(libc::SYS_getcwd, args)).ok()?;
        said.len = length.saturating_sub(1);
        Some(said)
    }
}

/// The bytes of a C string, without the zero byte, cut at `PATH_MAX`.
///
/// # Safety
/// `text` is a string that outlives the use, or null.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: `text` is a string, and the slice ends at its zero byte or before.
    unsafe {
        let length = libc::strnlen(text, libc::PATH_MAX as usize);
        core::slice::from_raw_parts(text.cast(), length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_at_its_capacity() {
        let mut text = Text::new();
        text.bytes(b"/a/").number(0).bytes(b".").number(u64::MAX);
        assert_eq!(text.get(), b"/a/0.18446744073709551615");
        let long = [b'x'; 2 * Text::ROOM];
        assert_eq!(Text::new().bytes(&long).get().len(), Text::ROOM - 1);
    }

    #[test]
    fn working_directory_equals_its_proc_link() {
        let folder = Text::folder().unwrap();
        let mut link = Text::new();
        let said = Text::link(link.bytes(b"/proc/self/cwd")).unwrap();
        assert_eq!(folder.get(), said.get());
    }

    #[test]
    fn failed_stat_preserves_errno() {
        set_errno(77);
        assert!(info_of(-1).is_none());
        assert_eq!(errno(), 77);
    }
}
