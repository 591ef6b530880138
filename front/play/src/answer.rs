//! What a call came to.

use rustix::io::Errno;
use workload::files::{self, Call, MsyncHow};

/// A call's answer: bytes for what moves bytes, entries for a read of a
/// directory, an offset for a seek, else 0.
pub(crate) type Answer = Result<u64, Miss>;

/// A call that gave no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// The system refused it.
    Refused(Errno),
    /// There is no safe way to make it.
    NotPlayed,
}

impl From<Errno> for Miss {
    fn from(errno: Errno) -> Self {
        Self::Refused(errno)
    }
}

impl From<nix::errno::Errno> for Miss {
    fn from(errno: nix::errno::Errno) -> Self {
        Self::Refused(Errno::from_raw_os_error(errno as i32))
    }
}

/// The error in the words of workloads.
pub(crate) fn errno(error: Errno) -> files::Errno {
    files::Errno(u16::try_from(error.raw_os_error()).unwrap_or(u16::MAX))
}

/// What is done in place of a call that is not made as it stands.
#[must_use]
pub const fn stand_in(call: &Call) -> Option<&'static str> {
    Some(match call {
        Call::Load { .. } => "loads through a mapping are played as reads",
        Call::Store { .. } => "stores through a mapping are played as writes",
        Call::Msync { how, .. } => match how {
            MsyncHow::Async => return None,
            MsyncHow::Sync => "msync is played as fsync of the whole file",
        },
        Call::RecordLock { .. } => "locks of a process are played as locks of the open file",
        Call::Sync {} => "sync is played as syncfs of the directory's file system",
        _ => return None,
    })
}
