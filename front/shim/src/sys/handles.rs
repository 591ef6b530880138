//! File handles: identifiers of files that file systems keep across renames.

use super::{Errno, call};
use core::ffi::c_int;

/// ID of the file system that an open file is on.
pub(crate) fn file_system(fd: c_int) -> Result<u64, Errno> {
    let mut about = core::mem::MaybeUninit::<libc::statfs>::zeroed();
    let place = about.as_mut_ptr() as usize;
    call(libc::SYS_fstatfs, [fd as usize, place, 0, 0, 0, 0])?;
    // SAFETY: all zeros are a valid answer, and the call has written it.
    let id = unsafe { about.assume_init() }.f_fsid;
    // SAFETY: an `fsid_t` is two words of 32 bits.
    Ok(unsafe { core::mem::transmute::<libc::fsid_t, u64>(id) })
}

/// `struct file_handle`: the number of bytes, their type, and the bytes.
#[repr(C, align(8))]
struct Handle {
    bytes: u32,
    kind: c_int,
    handle: [u8; Self::MOST],
}

impl Handle {
    /// Maximum size in bytes: `MAX_HANDLE_SZ` of linux/exportfs.h.
    const MOST: usize = 128;
}

/// The handle of an open file: its type and bytes.
pub(crate) fn handle(fd: c_int) -> Result<(c_int, Vec<u8>), Errno> {
    let mut handle = Handle {
        bytes: Handle::MOST as u32,
        kind: 0,
        handle: [0; Handle::MOST],
    };
    let mut mount = 0_i32;
    let args = [
        fd as usize,
        c"".as_ptr() as usize,
        &raw mut handle as usize,
        &raw mut mount as usize,
        libc::AT_EMPTY_PATH as usize,
        0,
    ];
    call(libc::SYS_name_to_handle_at, args)?;
    let len = (handle.bytes as usize).min(Handle::MOST);
    Ok((handle.kind, handle.handle[..len].to_vec()))
}

/// Opens the file of a handle for reading; `fd` is any open file of the same file system.
pub(crate) fn open_handle(fd: c_int, kind: c_int, bytes: &[u8]) -> Result<c_int, Errno> {
    let mut handle = Handle {
        bytes: bytes.len() as u32,
        kind,
        handle: [0; Handle::MOST],
    };
    let place = handle.handle.get_mut(..bytes.len());
    place.ok_or(libc::EINVAL)?.copy_from_slice(bytes);
    let flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC) as usize;
    let args = [fd as usize, &raw const handle as usize, flags, 0, 0, 0];
    call(libc::SYS_open_by_handle_at, args).map(|fd| fd as c_int)
}

/// Syncs the whole file system of an open file.
pub(crate) fn force_all(fd: c_int) -> Result<(), Errno> {
    call(libc::SYS_syncfs, [fd as usize, 0, 0, 0, 0, 0]).map(drop)
}
