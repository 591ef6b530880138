//! The files that stand for placed ones: an extended attribute says so.
//!
//! They are real files of the ordinary file system, so that names, folders, permissions,
//! renames and removals are what they always were. Their length is that of the placed
//! file when it was last closed or forced.

use crate::sys::{self, Errno};
use core::ffi::{CStr, c_int};
use shimmer::FileId;

const NAME: &CStr = c"user.flashloom.placed";

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

impl Mark {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let (volume, id) = bytes.split_at_checked(8)?;
        Some(Self {
            volume: u64::from_le_bytes(volume.try_into().ok()?),
            id: FileId(u64::from_le_bytes(id.try_into().ok()?)),
        })
    }

    /// That of an open file.
    pub(super) fn of(fd: c_int) -> Option<Self> {
        Self::read(fd).ok()?
    }

    /// As above; an error if it cannot be told whether there is one.
    pub(crate) fn read(fd: c_int) -> Result<Option<Self>, Errno> {
        let mut bytes = [0; 16];
        match sys::attribute(fd, NAME, &mut bytes) {
            Ok(len) => Ok(bytes.get(..len).and_then(Self::decode)),
            Err(libc::ENODATA | libc::EOPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// That of the file at a path, which is not followed.
    pub(crate) fn at(path: &CStr) -> Option<Self> {
        let mut bytes = [0; 16];
        let len = sys::attribute_at(path, NAME, &mut bytes).ok()?;
        Self::decode(bytes.get(..len)?)
    }

    /// That of the file to which a path leads, links included.
    pub(super) fn behind(path: &CStr) -> Option<Self> {
        let mut bytes = [0; 16];
        let len = sys::attribute_behind(path, NAME, &mut bytes).ok()?;
        Self::decode(bytes.get(..len)?)
    }

    /// Marks an open file. Only one of those who try at the same time finds no mark.
    pub(crate) fn set(&self, fd: c_int, instead: Instead) -> Result<(), Errno> {
        let (volume, id) = (self.volume.to_le_bytes(), self.id.0.to_le_bytes());
        sys::set_attribute(fd, NAME, &[volume, id].concat(), instead as c_int)
    }

    pub(crate) fn remove(&self, fd: c_int) -> Result<(), Errno> {
        sys::remove_attribute(fd, NAME)
    }
}
