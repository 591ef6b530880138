//! Reasons why a call on a placed file was not served.

use crate::sys::Errno;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The file must be moved to the ordinary file system first.
    Demote,
    /// The file is no longer in the zones: it was moved to the ordinary file system or removed.
    Gone,
    /// The daemon is gone; another one may be running by now.
    Lost,
    /// An error of the system, as in `errno`.
    Errno(Errno),
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}
