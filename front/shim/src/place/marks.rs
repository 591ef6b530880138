//! The files that stand for placed ones: an extended attribute says so.
//!
//! They are real files of the ordinary file system, so that names, folders, permissions,
//! renames and removals are what they always were. Their length is that of the placed file when
//! it was last closed or forced, or when the last process ended that had it open. They begin with
//! a sentence that says what they are.
//!
//! Tools copy attributes. So a mark says for which file it was made, by the number and the
//! birth that a file system gives it, which renames and links leave as they are and no tool
//! can set: a mark on any other file is a stranger's, of whose bytes nothing is known. The
//! daemon, which only asks whether data may go, takes any mark for one.

use crate::sys::{self, Errno};
use core::ffi::{CStr, c_int};
use shimmer::FileId;

pub(super) const NAME: &CStr = c"user.flashloom.placed";

/// Volume, number in it, number and birth of the file: eight bytes each.
const LEN: usize = 32;

/// What the attribute says: the volume, and the number of the file in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) volume: u64,
    pub(crate) id: FileId,
}

/// What must have been there before a mark is set.
#[derive(Clone, Copy)]
#[repr(i32)]
pub(crate) enum Instead {
    /// No mark.
    OfNone = libc::XATTR_CREATE,
    /// Another one.
    Of = libc::XATTR_REPLACE,
}

/// What the attribute says to who wants the bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// There is none.
    Nothing,
    /// The file is placed.
    Own(Mark),
    /// It is not for this file.
    Stranger,
}

/// What tells a file from others: its number and its birth, which is 0 if nobody keeps it.
type Identity = (u64, u64);

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let eight = bytes.get(8 * at..8 * at + 8)?;
    Some(u64::from_le_bytes(eight.try_into().ok()?))
}

/// Whether two are of one file. A file system that keeps births now may not have before.
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
            // It is longer or shorter than any of ours.
            Ok(_) | Err(libc::ERANGE) => return Self::Stranger,
            Err(_) => return Self::Nothing,
        }
        let made_for = word(bytes, 2).zip(word(bytes, 3));
        match (Mark::decode(bytes), made_for, file()) {
            (Some(mark), Some(one), Ok(other)) if is_same(one, other) => Self::Own(mark),
            _ => Self::Stranger,
        }
    }

    /// That of an open file.
    pub(super) fn of(fd: c_int) -> Self {
        let mut bytes = [0; LEN];
        let read = sys::attribute(fd, NAME, &mut bytes);
        Self::new(read, &bytes, || sys::identity(fd, c"", libc::AT_EMPTY_PATH))
    }

    /// That of the file at a path, which is not followed.
    pub(super) fn at(path: &CStr) -> Self {
        let mut bytes = [0; LEN];
        let read = sys::attribute_at(path, NAME, &mut bytes);
        Self::new(read, &bytes, || {
            sys::identity(libc::AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW)
        })
    }

    /// That of the file to which a path leads, links included.
    pub(super) fn behind(path: &CStr) -> Self {
        let mut bytes = [0; LEN];
        let read = sys::attribute_behind(path, NAME, &mut bytes);
        Self::new(read, &bytes, || sys::identity(libc::AT_FDCWD, path, 0))
    }

    /// Whether an open file is of a file system that keeps no such attributes.
    pub(super) fn cannot_be_of(fd: c_int) -> bool {
        sys::attribute(fd, NAME, &mut []) == Err(libc::EOPNOTSUPP)
    }

    /// Whether there surely is none behind a path.
    pub(super) fn is_none_behind(path: &CStr) -> bool {
        let read = sys::attribute_behind(path, NAME, &mut []);
        matches!(read, Err(libc::ENODATA | libc::EOPNOTSUPP))
    }

    /// The mark of a placed file.
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

    /// That on an open file, be it a stranger's.
    pub(super) fn of(fd: c_int) -> Option<Self> {
        Self::read(fd).ok()?
    }

    /// As above; an error if it cannot be told whether there is one.
    pub(crate) fn read(fd: c_int) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; LEN];
        match sys::attribute(fd, NAME, &mut bytes) {
            Ok(len) => Ok(bytes.get(..len).and_then(Self::decode)),
            Err(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// That on the file at a path, which is not followed, be it a stranger's.
    #[cfg(not(flashloom_place))]
    pub(crate) fn at(path: &CStr) -> Option<Self> {
        let mut bytes = [0; LEN];
        let len = sys::attribute_at(path, NAME, &mut bytes).ok()?;
        Self::decode(bytes.get(..len)?)
    }

    /// Marks an open file. Only one of those who try at the same time finds no mark.
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
    fn a_mark_is_of_one_file_whatever_its_birth() {
        assert!(is_same((5, 7), (5, 7)) && is_same((5, 0), (5, 7)) && is_same((5, 7), (5, 0)));
        assert!(!is_same((5, 7), (5, 8)) && !is_same((5, 7), (6, 7)) && !is_same((5, 0), (6, 0)));
    }

    #[test]
    fn a_mark_on_another_file_is_a_stranger_to_all_but_the_daemon() {
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
