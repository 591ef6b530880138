//! Stand-ins: the files that stand for placed ones in the ordinary file system. This module resizes
//! and fills them, and finds out whether one still exists, under whatever name.
//!
//! A program that reads a stand-in without the library, or copies it, finds a sentence in place of
//! the first bytes, so that it does not take the stand-in for the file.
//!
//! Stand-ins are found by file handle (`name_to_handle_at`), stored in the log together with the
//! file system's ID. To open a handle takes a privilege that root has. If the privilege is missing,
//! or the file system has no handles or is not mounted at its old place, nothing is dropped: a file
//! is kept unless its stand-in is known to be gone.

use crate::place::Mark;
use crate::sys::{self, Errno};
use core::ffi::c_int;
use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// First bytes of a stand-in, cut to the stand-in's length.
pub(super) const TEXT: &[u8] =
    b"flashloom: the bytes of this file are in zones. Programs see them under `flashloom \
shim`, and others by `flashloom shim view`; what was copied otherwise is not the file.\n";

/// Resizes a stand-in from `from` to `size` bytes and fills in [`TEXT`] if it was shorter than
/// that. Errors are ignored: if its file system is full or read-only, the length alone is set where
/// possible.
pub(super) fn resize(fd: c_int, from: u64, size: u64) {
    if sys::truncate(fd, size).is_err() || from >= TEXT.len() as u64 {
        return;
    }
    // `fd` may be open for appending or with `O_DIRECT`, so the text goes through another one.
    if let Ok(own) = sys::open(&sys::of(fd), libc::O_WRONLY) {
        let len = TEXT.len().min(size as usize);
        let _ = sys::pwrite_all(own, &TEXT[..len], 0);
        sys::close(own);
    }
}

/// The stand-in at `path`, open for writing, if it has the mark `own`.
pub(super) fn at(path: &[u8], own: Mark) -> Option<OwnedFd> {
    let path = CString::new(path).ok()?;
    let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let fd = sys::open(&path, flags).ok()?;
    // SAFETY: the descriptor was just opened, and is owned by nothing else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let marked = Mark::read(fd.as_raw_fd()) == Ok(Some(own));
    marked.then_some(fd)
}

/// Bytes of a tag in front of the handle: file system ID (8) and handle type (4).
const HEAD: usize = 12;

/// The tag of an open file: file system ID and handle. Empty if the file system has no handles.
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

/// The nearest existing folder above a path, open for reading.
fn folder_above(path: &[u8]) -> Option<OwnedFd> {
    let mut path = path.strip_prefix(b"/").map(|_| path)?;
    loop {
        let end = path.iter().rposition(|byte| *byte == b'/')?;
        path = &path[..end];
        let name = if path.is_empty() { b"/" } else { path };
        let name = CString::new(name).ok()?;
        if let Ok(fd) = sys::open(&name, libc::O_RDONLY | libc::O_DIRECTORY) {
            // SAFETY: the descriptor was just opened, and is owned by nothing else.
            return Some(unsafe { OwnedFd::from_raw_fd(fd) });
        }
        if path.is_empty() {
            return None;
        }
    }
}

/// Whether a file has a name and the mark `own`; an error if this cannot be determined.
fn is_marked(fd: c_int, own: Mark) -> Result<bool, Errno> {
    let named = sys::stat(fd)?.st_nlink > 0;
    Ok(named && Mark::read(fd)? == Some(own))
}

/// Whether the stand-in with this path, tag and mark is gone or has become an ordinary file;
/// `false` if this cannot be determined.
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
    // The removal of the stand-in is made durable before the file's data are dropped.
    Some(gone && sys::force_all(folder.as_raw_fd()).is_ok())
}
