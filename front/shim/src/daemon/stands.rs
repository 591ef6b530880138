//! What stands for placed files: how long it is and what is in it; whether it is still there,
//! wherever it is called now.
//!
//! What reads it without the library, or a copy of it, finds a sentence in place of the first
//! bytes, so that no program takes it for the file.
//!
//! Files are found by what their file system calls them for good (`name_to_handle_at`): the
//! zones note that, and the file system it is of. To look for one so takes a right that root
//! has. Who has not, or a file system that gives no such names, or is not where it was, is
//! no reason to drop data: what cannot be told stays.

use crate::place::Mark;
use crate::sys::{self, Errno};
use core::ffi::c_int;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The first bytes of what stands for a file, as far as that is long enough.
pub(super) const TEXT: &[u8] =
    b"flashloom: the bytes of this file are in zones. Programs see them under `flashloom \
shim`, and others by `flashloom shim view`; what was copied otherwise is not the file.\n";

/// Makes what stands for a file as long as that, from another length. Its file system may be
/// full, or let this process write no byte: then it is as long all the same.
pub(super) fn resize(fd: c_int, from: u64, size: u64) {
    if sys::truncate(fd, size).is_err() || from >= TEXT.len() as u64 {
        return;
    }
    // It may be open to be appended to, or past the cache.
    if let Ok(own) = sys::open(&sys::of(fd), libc::O_WRONLY) {
        let len = TEXT.len().min(size as usize);
        let _ = sys::pwrite_all(own, &TEXT[..len], 0);
        sys::close(own);
    }
}

/// What stands for a file by its path, open to be written to, if it has the mark of that.
pub(super) fn at(path: &[u8], own: Mark) -> Option<OwnedFd> {
    let path = CString::new(path).ok()?;
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let fd = sys::open(&path, flags).ok()?;
    // SAFETY: it was just opened, and nobody else has it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let marked = Mark::read(fd.as_raw_fd()) == Ok(Some(own));
    marked.then_some(fd)
}

/// Bytes before the handle: the file system, and the handle's kind.
const HEAD: usize = 12;

/// What an open file is called for good; nothing if its file system has no such name.
pub(super) fn tag(fd: c_int) -> Vec<u8> {
    let system = sys::file_system(fd).ok().filter(|system| *system != 0);
    let handle = sys::handle(fd);
    match (system, handle) {
        (Some(system), Ok((kind, bytes))) => {
            [&system.to_le_bytes()[..], &kind.to_le_bytes(), &bytes].concat()
        }
        _ => Vec::new(),
    }
}

/// A folder above a path that is there.
fn folder_above(path: &[u8]) -> Option<OwnedFd> {
    let mut path = path.strip_prefix(b"/").map(|_| path)?;
    loop {
        let end = path.iter().rposition(|byte| *byte == b'/')?;
        path = &path[..end];
        let name = if path.is_empty() { b"/" } else { path };
        let name = CString::new(name).ok()?;
        if let Ok(fd) = sys::open(&name, libc::O_RDONLY | libc::O_DIRECTORY) {
            // SAFETY: it was just opened, and nobody else has it.
            return Some(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        if path.is_empty() {
            return None;
        }
    }
}

/// Whether a file has a name and a mark; an error if that cannot be told.
fn is_marked(fd: c_int, own: Mark) -> Result<bool, Errno> {
    let named = sys::stat(fd)?.st_nlink > 0;
    Ok(named && Mark::read(fd)? == Some(own))
}

/// Whether the file is gone, or stands for itself, that stood for one with this path, tag and
/// mark; no if that cannot be told.
pub(super) fn is_gone(path: &[u8], tag: &[u8], own: Mark) -> bool {
    let at = CString::new(path).ok().and_then(|path| Mark::at(&path));
    at != Some(own) && look(path, tag, own).unwrap_or(false)
}

fn look(path: &[u8], tag: &[u8], own: Mark) -> Option<bool> {
    let (head, handle) = tag.split_at_checked(HEAD)?;
    let system = u64::from_le_bytes(head[..8].try_into().ok()?);
    let kind = c_int::from_le_bytes(head[8..].try_into().ok()?);
    let folder = folder_above(path)?;
    if sys::file_system(folder.as_raw_fd()).ok()? != system {
        return None;
    }
    let gone = match sys::open_handle(folder.as_raw_fd(), kind, handle) {
        Ok(fd) => {
            let marked = is_marked(fd, own);
            sys::close(fd);
            !marked.ok()?
        }
        Err(libc::ESTALE) => true,
        Err(_) => return None,
    };
    // The name is gone for good before the data are.
    Some(gone && sys::force_all(folder.as_raw_fd()).is_ok())
}
