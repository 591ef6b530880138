//! System calls as the placing library makes them: past every hook, with the error as a
//! value.

use crate::preload::raw;
use core::ffi::{CStr, c_int, c_long};
use std::ffi::CString;

/// A number of an error, as in `errno`.
pub(super) type Errno = c_int;

fn call(number: c_long, args: [usize; 6]) -> Result<usize, Errno> {
    let before = raw::errno();
    let answer = raw::call(number, args);
    let outcome = usize::try_from(answer).map_err(|_| raw::errno());
    raw::set_errno(before);
    outcome
}

pub(super) fn open(path: &CStr, flags: c_int) -> Result<c_int, Errno> {
    let flags = (flags | libc::O_CLOEXEC) as usize;
    let here = libc::AT_FDCWD as usize;
    call(
        libc::SYS_openat,
        [here, path.as_ptr() as usize, flags, 0, 0, 0],
    )
    .map(|fd| fd as c_int)
}

pub(super) fn close(fd: c_int) {
    let _ = call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
}

/// The same file under a number that programs do not come upon soon.
pub(super) fn moved_up(fd: c_int) -> c_int {
    let args = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, 700, 0, 0, 0];
    match call(libc::SYS_fcntl, args) {
        Ok(high) => {
            close(fd);
            high as c_int
        }
        Err(_) => fd,
    }
}

pub(super) fn pread(fd: c_int, to: &mut [u8], at: u64) -> Result<usize, Errno> {
    let place = to.as_mut_ptr() as usize;
    call(
        libc::SYS_pread64,
        [fd as usize, place, to.len(), at as usize, 0, 0],
    )
}

/// Reads until `to` is full.
pub(super) fn pread_all(fd: c_int, mut to: &mut [u8], mut at: u64) -> Result<(), Errno> {
    while !to.is_empty() {
        let read = pread(fd, to, at)?;
        if read == 0 {
            return Err(libc::EIO);
        }
        to = &mut to[read..];
        at += read as u64;
    }
    Ok(())
}

pub(super) fn pwrite_all(fd: c_int, mut from: &[u8], mut at: u64) -> Result<(), Errno> {
    while !from.is_empty() {
        let place = from.as_ptr() as usize;
        let args = [fd as usize, place, from.len(), at as usize, 0, 0];
        let written = call(libc::SYS_pwrite64, args)?;
        if written == 0 {
            return Err(libc::EIO);
        }
        from = &from[written..];
        at += written as u64;
    }
    Ok(())
}

pub(super) fn truncate(fd: c_int, size: u64) -> Result<(), Errno> {
    call(
        libc::SYS_ftruncate,
        [fd as usize, size as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

pub(super) fn force(fd: c_int) -> Result<(), Errno> {
    call(libc::SYS_fsync, [fd as usize, 0, 0, 0, 0, 0]).map(drop)
}

pub(super) fn seek(fd: c_int, to: u64, whence: c_int) -> Result<u64, Errno> {
    let args = [fd as usize, to as usize, whence as usize, 0, 0, 0];
    call(libc::SYS_lseek, args).map(|at| at as u64)
}

/// The flags with which a file is open.
pub(super) fn flags(fd: c_int) -> Result<c_int, Errno> {
    let args = [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0];
    call(libc::SYS_fcntl, args).map(|flags| flags as c_int)
}

pub(super) fn hint(fd: c_int, hint: u64) -> Result<(), Errno> {
    // F_SET_RW_HINT takes a pointer to eight bytes.
    let args = [fd as usize, 1036, &raw const hint as usize, 0, 0, 0];
    call(libc::SYS_fcntl, args).map(drop)
}

/// Attributes of an open file.
pub(super) fn stat(fd: c_int) -> Result<libc::stat, Errno> {
    stat_at(fd, c"", libc::AT_EMPTY_PATH)
}

pub(super) fn stat_at(at: c_int, path: &CStr, flags: c_int) -> Result<libc::stat, Errno> {
    let mut stat = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let place = stat.as_mut_ptr() as usize;
    let args = [
        at as usize,
        path.as_ptr() as usize,
        place,
        flags as usize,
        0,
        0,
    ];
    call(libc::SYS_newfstatat, args)?;
    // SAFETY: all zeros are a valid `stat`, and the call has written it.
    Ok(unsafe { stat.assume_init() })
}

/// The path of an open file.
pub(super) fn path_of(fd: c_int) -> Result<Vec<u8>, Errno> {
    link(&of(fd))
}

/// Where a symbolic link leads.
pub(super) fn link(link: &CStr) -> Result<Vec<u8>, Errno> {
    let mut path = vec![0; libc::PATH_MAX as usize];
    let place = path.as_mut_ptr() as usize;
    let here = libc::AT_FDCWD as usize;
    let args = [here, link.as_ptr() as usize, place, path.len(), 0, 0];
    let len = call(libc::SYS_readlinkat, args)?;
    path.truncate(len);
    Ok(path)
}

/// A path that leads to an open file.
pub(super) fn of(fd: c_int) -> CString {
    CString::new(format!("/proc/self/fd/{fd}")).expect("it has no zero byte")
}

pub(super) fn attribute(fd: c_int, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
    let (name, place) = (name.as_ptr() as usize, to.as_mut_ptr() as usize);
    call(
        libc::SYS_fgetxattr,
        [fd as usize, name, place, to.len(), 0, 0],
    )
}

pub(super) fn attribute_at(path: &CStr, name: &CStr, to: &mut [u8]) -> Result<usize, Errno> {
    let (path, name) = (path.as_ptr() as usize, name.as_ptr() as usize);
    call(
        libc::SYS_lgetxattr,
        [path, name, to.as_mut_ptr() as usize, to.len(), 0, 0],
    )
}

pub(super) fn set_attribute(fd: c_int, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    let (name, place) = (name.as_ptr() as usize, value.as_ptr() as usize);
    call(
        libc::SYS_fsetxattr,
        [fd as usize, name, place, value.len(), 0, 0],
    )
    .map(drop)
}

pub(super) fn remove_attribute(fd: c_int, name: &CStr) -> Result<(), Errno> {
    call(
        libc::SYS_fremovexattr,
        [fd as usize, name.as_ptr() as usize, 0, 0, 0, 0],
    )
    .map(drop)
}

/// Takes the lock of a folder for this process, if nobody has it.
pub(super) fn lock(fd: c_int) -> Result<(), Errno> {
    let how = (libc::LOCK_EX | libc::LOCK_NB) as usize;
    call(libc::SYS_flock, [fd as usize, how, 0, 0, 0, 0]).map(drop)
}

/// Maps memory; `at` is where, or 0.
pub(super) fn map(
    at: usize,
    len: usize,
    (protection, flags): (c_int, c_int),
    (fd, offset): (c_int, u64),
) -> Result<usize, Errno> {
    let how = (protection as usize, flags as usize);
    call(
        libc::SYS_mmap,
        [at, len, how.0, how.1, fd as usize, offset as usize],
    )
}

pub(super) fn unmap(at: usize, len: usize) {
    let _ = call(libc::SYS_munmap, [at, len, 0, 0, 0, 0]);
}

/// Names in a folder.
pub(super) fn list(folder: &CStr) -> Result<Vec<Vec<u8>>, Errno> {
    let fd = open(folder, libc::O_RDONLY | libc::O_DIRECTORY)?;
    let mut names = Vec::new();
    let mut room = vec![0_u8; 1 << 15];
    loop {
        let place = room.as_mut_ptr() as usize;
        let read = call(
            libc::SYS_getdents64,
            [fd as usize, place, room.len(), 0, 0, 0],
        );
        let Some(read) = read.ok().filter(|&read| read > 0) else {
            break;
        };
        let mut entries = &room[..read];
        // An entry: number, offset, its size, its kind, its name.
        while let Some(size) = entries.get(16..18) {
            let size = usize::from(u16::from_ne_bytes([size[0], size[1]]));
            let Some(name) = entries.get(19..size) else {
                break;
            };
            let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
            names.push(name.to_vec());
            entries = &entries[size..];
        }
    }
    close(fd);
    Ok(names)
}

/// Says something where the one who runs the program sees it.
pub(super) fn say(text: &str) {
    let line = format!("flashloom: {text}\n");
    let _ = call(
        libc::SYS_write,
        [2, line.as_ptr() as usize, line.len(), 0, 0, 0],
    );
}

/// A variable of the environment.
pub(super) fn variable(name: &CStr) -> Option<CString> {
    // SAFETY: the name is a string; the value is copied before anyone changes the
    // environment.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_owned())
    }
}

/// The bytes of a small file.
pub(super) fn contents(path: &CStr, most: usize) -> Result<Vec<u8>, Errno> {
    let fd = open(path, libc::O_RDONLY)?;
    let mut bytes = vec![0; most];
    let mut len = 0;
    while len < most {
        match pread(fd, &mut bytes[len..], len as u64) {
            Ok(0) | Err(_) => break,
            Ok(read) => len += read,
        }
    }
    close(fd);
    bytes.truncate(len);
    Ok(bytes)
}
