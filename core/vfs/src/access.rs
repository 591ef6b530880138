//! Permission checks: the rules of POSIX and of Linux, as functions of attributes.

use crate::errno::{Errno, Result};
use crate::types::{Access, Attr, FileKind};

/// Permission to read, as in a mode.
pub(crate) const READ: u16 = 4;
/// Permission to write, or to change names of a directory.
pub(crate) const WRITE: u16 = 2;
/// Permission to execute, or to search a directory.
pub(crate) const EXEC: u16 = 1;

/// Set-user-id bit of a mode.
pub(crate) const SUID: u16 = 0o4_000;
/// Set-group-id bit of a mode.
pub(crate) const SGID: u16 = 0o2_000;
/// Sticky bit: only the owners of a file or of its directory remove the name.
pub(crate) const STICKY: u16 = 0o1_000;
/// Permission of the group to execute.
pub(crate) const GROUP_EXEC: u16 = 0o010;

impl Access {
    /// Credentials of user 0, which pass all permission checks.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Whether these are the credentials of user 0.
    #[inline]
    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Whether `gid` is the primary or a supplementary group.
    #[must_use]
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// Whether these credentials are the owner's, or those of user 0.
    #[must_use]
    pub const fn owns(&self, attr: &Attr) -> bool {
        self.uid == 0 || self.uid == attr.uid
    }

    /// Checks that `attr` grants all of `need`: 4 to read, 2 to write, 1 to execute or search.
    ///
    /// # Errors
    /// `EACCES` if a permission is missing.
    pub fn check(&self, attr: &Attr, need: u16) -> Result<()> {
        if self.is_root() {
            let runs = attr.kind == FileKind::Directory || attr.mode & 0o111 != 0;
            return ensure(need & EXEC == 0 || runs, Errno::EACCES);
        }
        let granted = match () {
            () if self.uid == attr.uid => attr.mode >> 6,
            () if self.in_group(attr.gid) => attr.mode >> 3,
            () => attr.mode,
        };
        ensure(granted & need == need, Errno::EACCES)
    }

    /// Checks that a name may be added to the directory, which must not be removed.
    pub(crate) fn may_add(&self, dir: &Attr) -> Result<()> {
        ensure(dir.nlink > 0, Errno::ENOENT)?;
        self.check(dir, WRITE | EXEC)
    }

    /// Checks that the name of `victim` may be removed from the directory.
    pub(crate) fn may_remove(&self, dir: &Attr, victim: &Attr) -> Result<()> {
        self.check(dir, WRITE | EXEC)?;
        let sticky = dir.mode & STICKY != 0;
        let allowed = !sticky || self.owns(dir) || self.owns(victim);
        ensure(allowed, Errno::EPERM)
    }

    /// Bits of `mode` that this user may set on a file of group `gid`.
    pub(crate) fn settable(&self, mode: u16, gid: u32) -> u16 {
        if self.is_root() || self.in_group(gid) {
            return mode & 0o7_777;
        }
        mode & 0o7_777 & !SGID
    }
}

/// `Ok` if `condition` holds, else `errno`.
pub(crate) fn ensure(condition: bool, errno: Errno) -> Result<()> {
    if condition { Ok(()) } else { Err(errno) }
}

/// The mode after a change of contents or owner: set-id bits are cleared.
pub(crate) const fn stripped(mode: u16) -> u16 {
    let mode = mode & !SUID;
    if mode & GROUP_EXEC != 0 {
        return mode & !SGID;
    }
    mode
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Timestamp;

    fn attr(kind: FileKind, mode: u16) -> Attr {
        let never = Timestamp::default();
        Attr {
            kind,
            mode,
            nlink: 1,
            uid: 1,
            gid: 2,
            rdev: 0,
            size: 0,
            sectors: 0,
            atime: never,
            mtime: never,
            ctime: never,
            btime: never,
            generation: 0,
        }
    }

    fn user(uid: u32, gid: u32) -> Access {
        let groups = Vec::new();
        Access { uid, gid, groups }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = attr(FileKind::Regular, 0o047);
        assert!(user(1, 2).check(&file, READ).is_err());
        assert!(user(9, 2).check(&file, READ).is_ok());
        assert!(user(9, 2).check(&file, WRITE).is_err());
        assert!(user(9, 9).check(&file, READ | WRITE | EXEC).is_ok());
    }

    #[test]
    fn root_passes_every_check_but_execution_without_x_bits() {
        let root = Access::root();
        assert!(
            root.check(&attr(FileKind::Regular, 0), READ | WRITE)
                .is_ok()
        );
        assert!(root.check(&attr(FileKind::Regular, 0o666), EXEC).is_err());
        assert!(root.check(&attr(FileKind::Directory, 0), EXEC).is_ok());
    }

    #[test]
    fn names_in_a_sticky_directory_are_removed_by_owners_only() {
        let dir = attr(FileKind::Directory, 0o1_777);
        let mut victim = attr(FileKind::Regular, 0o644);
        victim.uid = 5;
        assert_eq!(user(9, 9).may_remove(&dir, &victim), Err(Errno::EPERM));
        assert!(user(5, 9).may_remove(&dir, &victim).is_ok());
        assert!(user(1, 9).may_remove(&dir, &victim).is_ok());
    }
}
