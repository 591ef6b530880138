//! Results of played calls.

use rustix::io::Errno;
use workload::files::{self, Call, MsyncHow};

/// Result of a call: bytes moved, directory entries read, the offset of a seek, or 0.
pub(crate) type Answer = Result<u64, Miss>;

/// Reason why a call has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Miss {
    /// The system call failed.
    Refused(Errno),
    /// The call was skipped: there is no safe way to make it.
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

/// Converts an error to that of workloads.
pub(crate) fn errno(error: Errno) -> files::Errno {
    files::Errno(u16::try_from(error.raw_os_error()).unwrap_or(u16::MAX))
}

/// Substitute for a call that cannot be made as recorded.
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
