//! Creation and modification times of files.

use super::{Errno, call};
use core::ffi::{CStr, c_int};

const SECOND: u64 = 1_000_000_000;

/// Inode number and birth time in ns (0 if the file system keeps none): they tell a file from
/// others, and from earlier ones with the same inode number.
pub(crate) fn identity(at: c_int, path: &CStr, flags: c_int) -> Result<(u64, u64), Errno> {
    let mut about = core::mem::MaybeUninit::<libc::statx>::zeroed();
    let place = about.as_mut_ptr() as usize;
    let (flags, mask) = (flags as usize, libc::STATX_INO | libc::STATX_BTIME);
    let path = path.as_ptr() as usize;
    let args = [at as usize, path, flags, mask as usize, place, 0];
    call(libc::SYS_statx, args)?;
    // SAFETY: all zeros are a valid answer, and the call has written it.
    let about = unsafe { about.assume_init() };
    let born = about.stx_btime;
    let ns = born.tv_sec as u64 * SECOND + u64::from(born.tv_nsec);
    let kept = about.stx_mask & libc::STATX_BTIME != 0;
    Ok((about.stx_ino, if kept { ns } else { 0 }))
}

/// The time of day in ns, at the resolution of file systems' time stamps (some ms). Makes no system
/// call.
#[inline]
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists, and the call writes to the local `time`.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Sets the modification time of an open file, in ns.
pub(crate) fn set_modified(fd: c_int, time: u64) -> Result<(), Errno> {
    let times = [
        libc::timespec {
            tv_sec: 0,
            tv_nsec: libc::UTIME_OMIT,
        },
        libc::timespec {
            tv_sec: (time / SECOND) as i64,
            tv_nsec: (time % SECOND) as i64,
        },
    ];
    let args = [fd as usize, 0, times.as_ptr() as usize, 0, 0, 0];
    call(libc::SYS_utimensat, args).map(drop)
}
