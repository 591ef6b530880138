//! Why a call on a placed file was not done.

use crate::sys::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file must go to the ordinary file system.
    Demote,
    /// It is there already.
    Gone,
    /// The daemon is gone; another one may be there.
    Lost,
    /// An error.
    Errno(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
