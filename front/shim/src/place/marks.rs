//! Marks of stand-ins: an extended attribute that marks the file that stands for a placed one.
//!
//! Stand-ins are real files of the ordinary file system, so that names, folders, permissions,
//! renames and removals work as ever. Their length is that of the placed file when it was last
//! closed or synced, or when the last process that had it open ended. They begin with a sentence
//! that states their purpose.
//!
//! Tools copy attributes. So a mark names the file for which it was made, by inode number and birth
//! time, which renames and links preserve and no tool can set. A mark on any other file is a
//! stranger's: the bytes of such a file are unknown. The daemon, which only decides whether data
//! may be dropped, accepts any mark.

use crate::sys::{self, Errno};
use core::ffi::{CStr, c_int};
use shimmer::FileId;

pub(super) const NAME: &CStr = c"user.flashloom.placed";

/// Length of the attribute: volume, file number, inode and birth time, eight bytes each.
const LEN: usize = 32;

/// Content of the attribute: the volume, and the file's number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) volume: u64,
    pub(crate) id: FileId,
}

/// Expected state of the attribute before a mark is set.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Instead {
    /// The file has no mark yet.
    OfNone = libc::XATTR_CREATE,
    /// The file has a mark, which is replaced.
    Of = libc::XATTR_REPLACE,
}

/// State of the attribute of a file whose bytes are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The file has no mark.
    Nothing,
    /// The mark is the file's own: the file is placed.
    Own(Mark),
    /// The mark was made for another file, or is malformed.
    Stranger,
}

/// Inode number and birth time in ns (0 if the file system keeps none), which tell files apart.
type Identity = (u64, u64);

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(8 * at..8 * at + 8)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

/// Whether two identities are of one file. Birth times are compared only if both are known, as a
/// file system may have begun to keep them later.
const fn is_same(one: Identity, other: Identity) -> bool {
    one.0 == other.0 && (one.1 == other.1 || one.1 == 0 || other.1 == 0)
}

impl Found {
    fn new(
        read: Result<usize, Errno>,
        bytes: &[u8; LEN],
        file: impl FnOnce() -> Result<Identity, Errno>,
    ) -> Self {
        match read {
            Ok(LEN) => {}
            // The attribute is longer or shorter than a mark.
            Ok(_) | Err(libc::ERANGE) => return Self::Stranger,
            Err(_) => return Self::Nothing,
        }
        let made_for = word(bytes, 2).zip(word(bytes, 3));
        match (Mark::decode(bytes), made_for, file()) {
            (Some(mark), Some(one), Ok(other)) if is_same(one, other) => Self::Own(mark),
            _ => Self::Stranger,
        }
    }

    /// The mark of an open file.
    pub(super) fn of(fd: c_int) -> Self {
        let mut bytes = [0; LEN];
        let read = sys::attribute(fd, NAME, &mut bytes);
        Self::new(read, &bytes, || sys::identity(fd, c"", libc::AT_EMPTY_PATH))
    }

    /// The mark of the file at a path; symbolic links are not followed.
    pub(super) fn at(path: &CStr) -> Self {
        let mut bytes = [0; LEN];
        let read = sys::attribute_at(path, NAME, &mut bytes);
        Self::new(read, &bytes, || {
            sys::identity(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW)
        })
    }

    /// The mark of the file at a path; symbolic links are followed.
    pub(super) fn behind(path: &CStr) -> Self {
        let mut bytes = [0; LEN];
        let read = sys::attribute_behind(path, NAME, &mut bytes);
        Self::new(read, &bytes, || sys::identity(libc::AT_FDCWD, path, 0))
    }

    /// Whether an open file is on a file system without such attributes.
    pub(super) fn cannot_be_of(fd: c_int) -> bool {
        sys::attribute(fd, NAME, &mut []) == Err(libc::EOPNOTSUPP)
    }

    /// Whether the file at a path, links followed, certainly has no mark.
    pub(super) fn is_none_behind(path: &CStr) -> bool {
        let read = sys::attribute_behind(path, NAME, &mut []);
        matches!(read, Err(libc::ENODATA | libc::EOPNOTSUPP))
    }

    /// The mark, if it is the file's own.
    pub(super) const fn own(self) -> Option<Mark> {
        match self {
            Self::Own(mark) => Some(mark),
            Self::Nothing | Self::Stranger => None,
        }
    }
}

impl Mark {
    fn decode(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            volume: word(bytes, 0)?,
            id: FileId(word(bytes, 1)?),
        })
    }

    /// The mark on an open file, also one that was made for another file.
    pub(super) fn of(fd: c_int) -> Option<Self> {
        Self::read(fd).ok()?
    }

    /// Like [`Mark::of`], but returns an error if it cannot be determined whether there is a mark.
    pub(crate) fn read(fd: c_int) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; LEN];
        match sys::attribute(fd, NAME, &mut bytes) {
            Ok(len) => Ok(bytes.get(..len).and_then(Self::decode)),
            Err(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// The mark on the file at a path, links not followed, also one that was made for another file.
    #[cfg(not(flashloom_place))]
    pub(crate) fn at(path: &CStr) -> Option<Self> {
        let mut bytes = [0; LEN];
        let len = sys::attribute_at(path, NAME, &mut bytes).ok()?;
        Self::decode(bytes.get(..len)?)
    }

    /// Sets the mark on an open file. With [`Instead::OfNone`] only one of several concurrent
    /// attempts succeeds.
    pub(crate) fn set(&self, fd: c_int, instead: Instead) -> Result<(), Errno> {
        let (number, birth) = sys::identity(fd, c"", libc::AT_EMPTY_PATH)?;
        let words = [self.volume, self.id.0, number, birth].map(u64::to_le_bytes);
        sys::set_attribute(fd, NAME, words.as_flattened(), instead as c_int)
    }

    pub(crate) fn remove(&self, fd: c_int) -> Result<(), Errno> {
        sys::remove_attribute(fd, NAME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn identities_with_an_unknown_birth_time_match_by_inode() {
        assert!(is_same((5, 7), (5, 7)) && is_same((5, 0), (5, 7)) && is_same((5, 7), (5, 0)));
        assert!(!is_same((5, 7), (5, 8)) && !is_same((5, 7), (6, 7)) && !is_same((5, 0), (6, 0)));
    }

    #[test]
    fn copied_mark_is_foreign_except_to_the_daemon() {
        let folder = tempfile::TempDir::new().unwrap();
        let [one, other] = ["one", "other"]
            .map(|name| std::fs::File::create_new(folder.path().join(name)).unwrap());
        let (one, other) = (one.as_raw_fd(), other.as_raw_fd());
        let id = FileId(9);
        let mark = Mark { volume: 3, id };
        assert_eq!(Found::of(one), Found::Nothing);
        mark.set(one, Instead::OfNone).unwrap();
        assert_eq!(Found::of(one), Found::Own(mark));
        let mut bytes = [0; LEN];
        assert_eq!(sys::attribute(one, NAME, &mut bytes), Ok(LEN));
        sys::set_attribute(other, NAME, &bytes, libc::XATTR_CREATE).unwrap();
        assert_eq!(
            (Found::of(other), Mark::of(other)),
            (Found::Stranger, Some(mark))
        );
        sys::set_attribute(one, NAME, &bytes[..16], libc::XATTR_REPLACE).unwrap();
        assert_eq!(
            (Found::of(one), Mark::of(one)),
            (Found::Stranger, Some(mark))
        );
    }
}
