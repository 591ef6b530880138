//! Calls about an open file or a path.
//!
//! Invariant: for calls that follow a link at the end of a path, the path is first resolved to a
//! descriptor beneath the directory, and the system call is made on that descriptor.

use crate::answer::Answer;
use crate::player::Player;
use crate::translate;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{self, Access, AtFlags, CWD, Gid, OFlags, Timespec, Timestamps, UTIME_NOW, Uid};
use rustix::io::Result;
use std::sync::Arc;
use workload::files::{Mode, Target, XattrHow};

/// Largest value of an extended attribute on Linux in bytes (`XATTR_SIZE_MAX`).
const XATTR_MOST: u64 = 64 << 10;

/// Target of a call, resolved to a descriptor.
pub(crate) enum Found {
    Open(Arc<crate::open::OpenFile>),
    Path(OwnedFd),
}

impl AsFd for Found {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Open(file) => file.fd.as_fd(),
            Self::Path(fd) => fd.as_fd(),
        }
    }
}

impl Found {
    /// Path in `/proc` for calls that take no descriptor; valid while `self` exists.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.as_fd().as_raw_fd())
    }
}

impl Player<'_> {
    pub(crate) fn found(&self, of: Target) -> Result<Found> {
        let path = self.strings.first();
        Ok(match of {
            Target::Open(fd) => Found::Open(self.open.get(fd)?),
            Target::Path(_) => Found::Path(self.place.find(path, true)?),
            Target::Link(_) => Found::Path(self.place.find(path, false)?),
        })
    }

    /// The string argument after a target.
    fn behind(&self, of: Target) -> &[u8] {
        self.strings.after(!matches!(of, Target::Open(_)))
    }

    pub(crate) fn truncate(&self, of: Target, len: u64) -> Answer {
        let file = match of {
            Target::Open(_) => self.found(of)?,
            _ => {
                let flags = OFlags::WRONLY | OFlags::NONBLOCK;
                Found::Path(
                    self.place
                        .open(self.strings.first(), flags, fs::Mode::empty())?,
                )
            }
        };
        done(fs::ftruncate(file, len))
    }

    pub(crate) fn stat(&self, of: Target) -> Answer {
        if let Target::Open(fd) = of {
            return done(fs::fstat(&self.open.get(fd)?.fd));
        }
        let (parent, name) = self.place.parent(self.strings.first())?;
        let stat = fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let link = fs::FileType::from_raw_mode(stat.st_mode) == fs::FileType::Symlink;
        if link && matches!(of, Target::Path(_)) {
            return done(fs::fstat(self.found(of)?));
        }
        Ok(0)
    }

    pub(crate) fn access(&self, of: Target, mode: Mode) -> Answer {
        let access = Access::from_bits_truncate(mode.0.into());
        done(fs::accessat(
            CWD,
            self.found(of)?.path(),
            access,
            AtFlags::empty(),
        ))
    }

    pub(crate) fn statfs(&self, of: Target) -> Answer {
        done(fs::fstatfs(self.found(of)?))
    }

    pub(crate) fn chmod(&self, of: Target, mode: Mode) -> Answer {
        let mode = translate::mode(mode);
        match self.found(of)? {
            Found::Open(file) => done(fs::fchmod(&file.fd, mode)),
            found @ Found::Path(_) => done(fs::chmod(found.path(), mode)),
        }
    }

    pub(crate) fn chown(&self, of: Target, uid: u32, gid: u32) -> Answer {
        let uid = (uid != u32::MAX).then(|| Uid::from_raw(uid));
        let gid = (gid != u32::MAX).then(|| Gid::from_raw(gid));
        done(fs::chownat(
            self.found(of)?,
            "",
            uid,
            gid,
            AtFlags::EMPTY_PATH,
        ))
    }

    pub(crate) fn utimens(&self, of: Target) -> Answer {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        match self.found(of)? {
            Found::Open(file) => done(fs::futimens(&file.fd, &times)),
            Found::Path(fd) => done(fs::utimensat(fd, "", &times, AtFlags::EMPTY_PATH)),
        }
    }

    pub(crate) fn link(&self, of: Target) -> Answer {
        let (parent, name) = self.place.parent(self.behind(of))?;
        if let Target::Link(_) = of {
            let (from, old) = self.place.parent(self.strings.first())?;
            return done(fs::linkat(from, old, parent, name, AtFlags::empty()));
        }
        let found = self.found(of)?;
        let follow = AtFlags::SYMLINK_FOLLOW;
        done(fs::linkat(CWD, found.path(), parent, name, follow))
    }

    pub(crate) fn getxattr(&mut self, of: Target, len: u64) -> Answer {
        let found = self.found(of)?;
        let (path, name) = (
            found.path(),
            self.strings.after(!matches!(of, Target::Open(_))),
        );
        if len == 0 {
            return count(fs::getxattr_query(path, name));
        }
        count(fs::getxattr(
            path,
            name,
            self.data.room(len.min(XATTR_MOST)),
        ))
    }

    pub(crate) fn setxattr(&mut self, of: Target, len: u64, how: XattrHow) -> Answer {
        let found = self.found(of)?;
        let pattern = self.pattern(u32::MAX, 0);
        let name = self.strings.after(!matches!(of, Target::Open(_)));
        // A value one byte above the limit fails with the same error as any longer one.
        let value = self.data.filled(pattern, len.min(XATTR_MOST + 1));
        done(fs::setxattr(
            found.path(),
            name,
            value,
            translate::xattr(how),
        ))
    }

    pub(crate) fn listxattr(&mut self, of: Target, len: u64) -> Answer {
        let found = self.found(of)?;
        if len == 0 {
            return count(fs::listxattr_query(found.path()));
        }
        count(fs::listxattr(
            found.path(),
            self.data.room(len.min(XATTR_MOST)),
        ))
    }

    pub(crate) fn removexattr(&self, of: Target) -> Answer {
        let found = self.found(of)?;
        done(fs::removexattr(found.path(), self.behind(of)))
    }
}

/// Result of a call without a value.
pub(crate) fn done<T>(result: Result<T>) -> Answer {
    Ok(result.map(|_| 0)?)
}

/// Result of a call that returns a number.
pub(crate) fn count(result: Result<usize>) -> Answer {
    Ok(result.map(|n| n as u64)?)
}
