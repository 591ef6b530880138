//! The directory that a workload is played in.

use crate::Failure;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::{Errno, Result};
use std::path::{Path, PathBuf};

/// Entries that the root of an empty file system may hold.
const EMPTY: &[&[u8]] = &[b".", b"..", b"lost+found"];

/// A directory beneath which paths are walked.
#[derive(Debug)]
pub struct Place {
    root: OwnedFd,
    dir: PathBuf,
}

impl Place {
    /// Opens the directory at `dir`.
    ///
    /// # Errors
    /// If there is no directory at `dir`, or it cannot be opened.
    pub fn new(dir: &Path) -> std::result::Result<Self, Failure> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = dir.to_path_buf();
        match openat(CWD, &dir, flags, Mode::empty()) {
            Ok(root) => Ok(Self { root, dir }),
            Err(error) => Err(Failure::Directory { dir, error }),
        }
    }

    /// Whether the directory is empty, apart from a `lost+found` that `mkfs` may have created.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn is_empty(&self) -> std::result::Result<bool, Failure> {
        self.has_nothing().map_err(|error| self.failure(error))
    }

    fn has_nothing(&self) -> Result<bool> {
        for entry in Dir::read_from(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !EMPTY.contains(&name) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Syncs the whole file system of the directory (`syncfs`).
    ///
    /// # Errors
    /// If the system call fails.
    pub fn sync(&self) -> std::result::Result<(), Failure> {
        rustix::fs::syncfs(&self.root).map_err(|error| self.failure(error))
    }

    fn failure(&self, error: Errno) -> Failure {
        let dir = self.dir.clone();
        Failure::Directory { dir, error }
    }

    /// Descriptor of the directory.
    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens `path` beneath the directory; an empty path is the directory itself.
    ///
    /// # Errors
    /// `EXDEV` if the path leads out of the directory, otherwise the error of the system.
    pub(crate) fn open(&self, path: &[u8], flags: OFlags, mode: Mode) -> Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, path, flags | OFlags::CLOEXEC, mode, beneath)
    }

    /// Opens `path` with `O_PATH`; `follow` says whether a symbolic link at its end is followed.
    pub(crate) fn find(&self, path: &[u8], follow: bool) -> Result<OwnedFd> {
        let nofollow = if follow {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        self.open(path, OFlags::PATH | nofollow, Mode::empty())
    }

    /// Parent directory of `path`, and the name in it, for calls that do not follow a link at
    /// the end. The name of the root is `.`.
    ///
    /// # Errors
    /// `EXDEV` if the name is `..` or the parent is outside the directory.
    pub(crate) fn parent<'a>(&'a self, path: &'a [u8]) -> Result<(Parent<'a>, &'a [u8])> {
        let cut = path.iter().rposition(|&byte| byte == b'/');
        let (parent, name) = match cut {
            None => (Parent::Root(self.root.as_fd()), path),
            Some(cut) => {
                let dir = self.open(
                    &path[..cut],
                    OFlags::PATH | OFlags::DIRECTORY,
                    Mode::empty(),
                )?;
                (Parent::Below(dir), &path[cut + 1..])
            }
        };
        match name {
            b".." => Err(Errno::XDEV),
            b"" => Ok((parent, b".")),
            _ => Ok((parent, name)),
        }
    }
}

/// Parent directory of a path.
pub(crate) enum Parent<'a> {
    /// The directory of the workload.
    Root(BorrowedFd<'a>),
    /// A directory beneath it.
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Root(fd) => *fd,
            Self::Below(fd) => fd.as_fd(),
        }
    }
}
